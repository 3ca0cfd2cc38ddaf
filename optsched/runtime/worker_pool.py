"""A pool of worker processes that isolates tasks, so that one that hangs or dies affects no other.

Each worker has its own pipe. Messages that it sent before it died are kept, the caller decides what
remains of its task, and a new worker resumes it. (The executors of the standard library give up all
tasks when one process dies, and cannot tell which task killed it.)

>>> def work(task, tell):
...     tell(Deadline(10.0))
...     tell(task * 2)
>>> run_tasks([1, 2], work, lambda task, message: None, lambda task, loss: None, jobs=0)
True
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from multiprocessing import connection, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Generic, TypeVar

from optsched.errors import UsageError
from optsched.runtime import kernel
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import on_interrupt, take_interrupt
from optsched.runtime.limits import Limits

GRACE = 30.0
"""Seconds that a task may exceed its deadline before its process is killed; solvers check the clock
only between pieces of work.
"""
GRACE_AFTER_INTERRUPT = 3.0
"""Seconds that workers have to send their results after an interrupt."""
_DIE_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of Linux: the signal that a process gets when its parent thread ends."""

_Task = TypeVar("_Task")
Tell = Callable[[Any], None]
Work = Callable[[_Task, Tell], object]
"""Function that does a task and sends messages; its return value is the last message, unless it is
None.
"""
Take = Callable[[], _Task | None]
"""Function that returns the next task, or None if there is none for now; running tasks may lead to
more.
"""


@dataclass(frozen=True, slots=True)
class Deadline:
    """Message of a worker: its current step may take `seconds`, or any time if None."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class WorkerLoss:
    """Report of a lost worker process."""

    timed_out: bool
    """True if the process was killed because its deadline had passed; False if it died."""
    reason: str
    seconds: float
    """Seconds since its last deadline was set."""


@dataclass(frozen=True)
class _Done:
    """Message of a worker that a task is done, with the last message of the task, if any."""

    last: object


class _Sign(Enum):
    """Signals of a worker about compiling kernels, which does not count as work."""

    COMPILING = auto()
    COMPILED = auto()


def run_tasks(
    tasks: Sequence[_Task],
    work: Work[_Task],
    handle: Callable[[_Task, Any], None],
    on_loss: Callable[[_Task, WorkerLoss], _Task | None],
    *,
    jobs: int = 1,
    grace: float = GRACE,
) -> bool:
    """Run tasks in order, as a :class:`WorkerPool` does; return True if all were done."""
    queue, count = deque(tasks), min(jobs, len(tasks))
    # Few workers with many tasks each may compile early: the time pays off in all of them.
    runs = len(tasks) // max(1, count)

    def take() -> _Task | None:
        return queue.popleft() if queue else None

    return WorkerPool(Tasks(take, work, handle, on_loss, runs, grace), count).run()


class _Worker(Generic[_Task]):
    """A worker process, its pipe, and its current task."""

    def __init__(self, work: Work[_Task], runs: int) -> None:
        # Spawned, not forked: a fork would inherit threads and open connections in any state.
        context = get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(far_end, work, runs), daemon=True
        )
        try:
            with _no_interrupts():
                self.process.start()
        except RuntimeError:
            # A worker imports the script that started it; an unguarded script would start workers
            # again.
            text = "each worker imports the script: start workers below if __name__ == '__main__':"
            raise UsageError(text) from None
        # Only the worker holds its end now, so that its death closes the pipe.
        far_end.close()
        self.task: _Task | None = None
        self.deadline = Deadline(None)
        self.clock = Clock.of(Limits())
        self.compiling: Clock | None = None

    def give(self, task: _Task) -> None:
        """Send a task; if the worker has just died, the next read from its pipe detects it."""
        self.task = task
        # No deadline until the worker itself announces one.
        self.set_deadline(Deadline(None), 0.0)
        with suppress(OSError):
            self.pipe.send(task)

    def set_deadline(self, deadline: Deadline, grace: float) -> None:
        """Start the time of the current step of the worker."""
        seconds = None if deadline.seconds is None else deadline.seconds + grace
        self.deadline, self.clock = deadline, Clock.of(Limits(seconds))
        self.compiling = None

    def compile(self, *, begins: bool) -> None:
        """Stop the time while a kernel is compiled."""
        # Compiling does not count as work, so the deadline moves by as much.
        if self.compiling is not None:
            self.clock.extend(self.compiling.seconds())
        self.compiling = Clock.of(Limits()) if begins else None

    def is_late(self) -> bool:
        """Return True if the current step takes too long."""
        return self.compiling is None and self.clock.expired()

    def end(self, patience: float = 0.0) -> int | None:
        """End the process, by force unless it ends within `patience` seconds; return its code."""
        self.process.join(patience)
        # Also after it has ended: kill does nothing then.
        self.process.kill()
        self.process.join()
        self.pipe.close()
        return self.process.exitcode


@dataclass(frozen=True)
class Tasks(Generic[_Task]):
    """Tasks to run, and the functions that give, do and receive them."""

    take: Take[_Task]
    """Called whenever a task can start; the run ends if it returns None and no task is running."""
    work: Work[_Task]
    """Function that does a task and sends messages; it must be importable by name if processes are
    used.
    """
    handle: Callable[[_Task, Any], None]
    """Called in this process with each message of each task."""
    on_loss: Callable[[_Task, WorkerLoss], _Task | None]
    """Called when the process of a task is lost; returns the rest of the task, or None."""
    runs: int = 1
    """Expected number of tasks per process; the more, the sooner kernels are compiled."""
    grace: float = GRACE
    """Seconds beyond its deadline after which a process is killed."""


@dataclass
class WorkerPool(Generic[_Task]):
    """Pool of processes that run tasks; a task is chosen when a process is free for it."""

    tasks: Tasks[_Task]
    jobs: int
    """Number of processes; with 0 all tasks run in this process and cannot be killed."""
    # Rests of tasks whose process was lost.
    _left: deque[_Task] = field(default_factory=deque, init=False)
    _workers: list[_Worker[_Task]] = field(default_factory=list, init=False)
    _stopping: bool = field(default=False, init=False)

    def run(self) -> bool:
        """Run all tasks and handle all messages; return False after an interrupt."""
        try:
            if self.jobs == 0:
                self._run_here()
            while self._assign():
                self._listen(0.25)
                take_interrupt()
                # Pipes were read just now: a worker that has reported in time is not taken for
                # late.
                for worker in self._busy():
                    if worker.is_late():
                        self._reap(worker, timed_out=True)
        except KeyboardInterrupt:
            self._interrupt()
            return False
        finally:
            self._dismiss()
        return True

    def _run_here(self) -> None:
        tasks = self.tasks
        while (task := tasks.take()) is not None:
            # In this process there is nobody to send to, so a message is handled at once.
            last = tasks.work(task, partial(tasks.handle, task))
            if last is not None:
                tasks.handle(task, last)

    def _busy(self) -> list[_Worker[_Task]]:
        """Return the workers that have a task."""
        return [worker for worker in self._workers if worker.task is not None]

    def _interrupt(self) -> None:
        """Ask the workers for their results, wait for a short time, and drop the other tasks."""
        self._stopping = True
        with suppress(KeyboardInterrupt):
            for worker in self._busy():
                worker.process.terminate()
            clock = Clock.of(Limits(GRACE_AFTER_INTERRUPT))
            while self._busy() and not clock.expired():
                self._listen(0.1)

    def _dismiss(self) -> None:
        """End all processes."""
        with _no_interrupts():
            for worker in self._workers:
                worker.end()
        self._workers.clear()

    def _assign(self) -> bool:
        """Give tasks to free workers; return True if some worker has a task."""
        # Rests of lost tasks come first: they were begun earlier.
        free = [worker for worker in self._workers if worker.task is None]
        while free or len(self._workers) < self.jobs:
            task = self._left.popleft() if self._left else self.tasks.take()
            if task is None:
                break
            # Processes are started only when there is a task for them.
            if not free:
                self._workers.append(_Worker(self.tasks.work, self.tasks.runs))
                free = [self._workers[-1]]
            free.pop().give(task)
        return bool(self._busy())

    def _listen(self, seconds: float) -> None:
        """Handle messages of workers, waiting at most `seconds` for the first one."""
        pipes: dict[Any, _Worker[_Task]] = {worker.pipe: worker for worker in self._busy()}
        for pipe in connection.wait(list(pipes), timeout=seconds):
            self._receive(pipes[pipe])

    def _receive(self, worker: _Worker[_Task]) -> None:
        """Receive one message; further ones are received in later calls."""
        try:
            message = worker.pipe.recv()
        # The pipe was closed, or holds half a message: the worker is dead.
        except (EOFError, OSError):
            self._reap(worker, timed_out=False)
            return
        task = worker.task
        # Removed from the busy ones first, since `handle` may look at the pool.
        if isinstance(message, _Done):
            worker.task, message = None, message.last
        if isinstance(message, _Sign):
            worker.compile(begins=message is _Sign.COMPILING)
        elif message is not None and task is not None:
            if isinstance(message, Deadline):
                worker.set_deadline(message, self.tasks.grace)
            self.tasks.handle(task, message)

    def _reap(self, worker: _Worker[_Task], *, timed_out: bool) -> None:
        """Remove a lost worker, report the loss, and queue the rest of its task."""
        self._workers.remove(worker)
        # A process that died on its own has a code soon; one that hangs is killed at once.
        code = worker.end(patience=0.0 if timed_out else 1.0)
        if worker.task is None or self._stopping:
            # A worker that ends as requested is not a loss.
            return
        reason = _reason(code)
        if timed_out:
            reason = f"not done long after its limit of {worker.deadline.seconds:g} s"
        loss = WorkerLoss(timed_out, reason, worker.clock.seconds())
        left = self.tasks.on_loss(worker.task, loss)
        if left is not None:
            self._left.appendleft(left)


def _reason(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            name = signal.Signals(-code).name
            hint = ", perhaps out of memory" if name == "SIGKILL" else ""
            return f"its process was ended by {name}{hint}"
    return f"its process ended with exit code {code}"


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block Ctrl-C in this context; a process started here never receives it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # The tracker is a process that the standard library starts on demand.
    # If it were started later, by the first worker, it would unblock interrupts.
    resource_tracker.ensure_running()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


class _WorkerChannel:
    """A worker's end of the pipe; interrupts are deferred while a message is being sent."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.sending = self.stopped = False

    def __call__(self, message: object) -> None:
        self.sending = True
        try:
            self.pipe.send(message)
        except OSError:
            # The parent process has gone.
            # Results are of no use to anybody now.
            sys.exit(1)
        finally:
            self.sending = False
        if self.stopped:
            self.stopped = False
            raise KeyboardInterrupt

    def report_compiling(self, begins: bool) -> None:
        """Report that compiling begins or ends, from the main thread only: pipes are not shared."""
        if threading.current_thread() is threading.main_thread():
            self(_Sign.COMPILING if begins else _Sign.COMPILED)

    def stop(self, number: int, frame: FrameType | None) -> None:
        """End the current task as Ctrl-C does: a signal handler."""
        # Half a message would leave the pipe unreadable, so the interrupt waits for its end.
        if self.sending:
            self.stopped = True
        else:
            on_interrupt(number, frame)


def _end_with_parent() -> None:
    """End this process when its parent ends, so that no solver keeps running."""
    parent = parent_process()
    if parent is not None:
        if sys.platform == "linux":
            # The thread below never runs if Python hangs: CPython 3.11 may unwind an exception
            # forever once the memory is full. A signal from the system works in that case too.
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        threading.Thread(target=_wait_for_end, args=(parent,), daemon=True).start()


def _wait_for_end(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _serve(pipe: Connection, work: Work[Any], runs: int) -> None:
    """Main function of a worker: receive tasks and send messages until the pipe is closed.

    `runs` is the expected number of tasks.
    """
    _end_with_parent()
    channel = _WorkerChannel(pipe)
    # Set in each worker, since a spawned process inherits no variables.
    kernel.policy.runs_to_come = max(1, runs)
    kernel.policy.watch_compiling = channel.report_compiling
    # The parent handles Ctrl-C and then notifies its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, channel.stop)
    with suppress(KeyboardInterrupt, EOFError, OSError):
        while True:
            channel(_Done(work(pipe.recv(), channel)))
    # Between two tasks: SIGTERM now ends the process without a trace on the screen.
    if hasattr(signal, "SIGTERM"):
        # All messages are sent, and an exception would not be caught here.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
