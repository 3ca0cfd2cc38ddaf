"""Tasks in processes of their own, so that what hangs or dies takes nothing else with it.

Each worker has its own pipe: what it told before it died is kept, the caller says what is left of
its task, and a new worker goes on with that. (The executors of the standard library give up all
tasks when one process dies, and do not know which task killed it.)

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
"""Seconds that work may take beyond its deadline before its process is ended: solvers look at the
clock between pieces of work."""
GRACE_AFTER_INTERRUPT = 3.0
"""Seconds that workers have to hand over what they found after an interrupt."""
_DIE_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of Linux: the signal a process gets when the thread that began it ends."""

_Task = TypeVar("_Task")
Tell = Callable[[Any], None]
Work = Callable[[_Task, Tell], object]
"""Does a task and tells messages; what it returns is the last one, unless that is None."""
Take = Callable[[], _Task | None]
"""Returns what is to be done next, or None if nothing is for now: what runs may bring more."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A message of a worker: what it does now may take `seconds`, or as long as it likes."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class WorkerLoss:
    """What became of a worker's process."""

    timed_out: bool
    """Whether it was ended since its deadline was over; else it died by itself."""
    reason: str
    seconds: float
    """Since its last deadline began."""


@dataclass(frozen=True)
class _Done:
    """What a worker tells when a task is done: its last message goes with that, if there is one."""

    last: object


class _Sign(Enum):
    """What a worker tells of itself; to compile kernels is no part of its work."""

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
    """Do tasks in this order, as a :class:`WorkerPool` does; return whether all was done."""
    queue, count = deque(tasks), min(jobs, len(tasks))
    runs = len(tasks) // max(1, count)

    def take() -> _Task | None:
        return queue.popleft() if queue else None

    return WorkerPool(take, work, handle, on_loss, count, grace, runs).run()


class _Worker(Generic[_Task]):
    """One process, its pipe, and what it is doing."""

    def __init__(self, work: Work[_Task], runs: int) -> None:
        context = get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(far_end, work, runs), daemon=True
        )
        try:
            with _no_interrupts():
                self.process.start()
        except RuntimeError:
            # A worker imports the script that started it, which must not start workers then.
            text = "the script runs in each worker too: start them below if __name__ == '__main__':"
            raise UsageError(text) from None
        far_end.close()
        self.task: _Task | None = None
        self.deadline = Deadline(None)
        self.clock = Clock.of(Limits())
        self.compiling: Clock | None = None

    def give(self, task: _Task) -> None:
        """Hand over a task; a worker that just died is found out about when it is listened to."""
        self.task = task
        self.set_deadline(Deadline(None), 0.0)
        with suppress(OSError):
            self.pipe.send(task)

    def set_deadline(self, deadline: Deadline, grace: float) -> None:
        """Begin to count the time of what the worker does now."""
        seconds = None if deadline.seconds is None else deadline.seconds + grace
        self.deadline, self.clock = deadline, Clock.of(Limits(seconds))
        self.compiling = None

    def compile(self, *, begins: bool) -> None:
        """Let the time stand still while a kernel is compiled."""
        if self.compiling is not None:
            self.clock.extend(self.compiling.seconds())
        self.compiling = Clock.of(Limits()) if begins else None

    def is_late(self) -> bool:
        """Whether what it does now takes too long."""
        return self.compiling is None and self.clock.expired()

    def end(self, patience: float = 0.0) -> int | None:
        """End the process for good, unless it ends by itself, and return its exit code."""
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        self.pipe.close()
        return self.process.exitcode


@dataclass
class WorkerPool(Generic[_Task]):
    """Tasks, each chosen when a process is free for it, and the processes that do them."""

    take: Take[_Task]
    """Asked for a task whenever one can begin; all ends when it has none and none is running."""
    work: Work[_Task]
    """Does a task and tells messages; importable by its name where processes are used."""
    handle: Callable[[_Task, Any], None]
    """Called in this process with each message of each task."""
    on_loss: Callable[[_Task, WorkerLoss], _Task | None]
    """Called when a task's process is lost; returns what is left to do of the task, if anything."""
    jobs: int
    """Processes at a time; 0 does it all in this one, where nothing can be ended from outside."""
    grace: float
    """Seconds beyond its deadline after which a process is ended."""
    runs: int
    """How many tasks each process may expect: of many, kernels are compiled sooner."""
    # What is left of tasks whose process was lost.
    _left: deque[_Task] = field(default_factory=deque, init=False)
    _workers: list[_Worker[_Task]] = field(default_factory=list, init=False)
    _stopping: bool = field(default=False, init=False)

    def run(self) -> bool:
        """Do all tasks and hand over every message; whether all was done, and not interrupted."""
        try:
            if self.jobs == 0:
                self._run_here()
            while self._assign():
                self._listen(0.25)
                take_interrupt()
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
        while (task := self.take()) is not None:
            last = self.work(task, partial(self.handle, task))
            if last is not None:
                self.handle(task, last)

    def _busy(self) -> list[_Worker[_Task]]:
        """Workers that have a task."""
        return [worker for worker in self._workers if worker.task is not None]

    def _interrupt(self) -> None:
        """Ask for what was found, listen for a short while, drop what is left."""
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
        """Give tasks to who is free; return whether anybody has one."""
        free = [worker for worker in self._workers if worker.task is None]
        while free or len(self._workers) < self.jobs:
            task = self._left.popleft() if self._left else self.take()
            if task is None:
                break
            if not free:
                self._workers.append(_Worker(self.work, self.runs))
                free = [self._workers[-1]]
            free.pop().give(task)
        return bool(self._busy())

    def _listen(self, seconds: float) -> None:
        """Handle what workers say within this time, or at once if they say something."""
        pipes: dict[Any, _Worker[_Task]] = {worker.pipe: worker for worker in self._busy()}
        for pipe in connection.wait(list(pipes), timeout=seconds):
            self._receive(pipes[pipe])

    def _receive(self, worker: _Worker[_Task]) -> None:
        """Take in one message; who has more to say is listened to again at once."""
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            self._reap(worker, timed_out=False)
            return
        task = worker.task
        if isinstance(message, _Done):
            worker.task, message = None, message.last
        if isinstance(message, _Sign):
            worker.compile(begins=message is _Sign.COMPILING)
        elif message is not None and task is not None:
            if isinstance(message, Deadline):
                worker.set_deadline(message, self.grace)
            self.handle(task, message)

    def _reap(self, worker: _Worker[_Task], *, timed_out: bool) -> None:
        """Take a lost worker out, say what became of it, and queue what is left of its task."""
        self._workers.remove(worker)
        code = worker.end(patience=0.0 if timed_out else 1.0)
        if worker.task is None or self._stopping:
            # What ends because it was told to is no loss.
            return
        reason = _reason(code)
        if timed_out:
            reason = f"not done long after its limit of {worker.deadline.seconds:g} s"
        left = self.on_loss(worker.task, WorkerLoss(timed_out, reason, worker.clock.seconds()))
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
    """Hold Ctrl-C back for a moment; a process started in here never sees it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Started later, by the first process that is, it would let interrupts in again.
    resource_tracker.ensure_running()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


class _WorkerChannel:
    """A worker's end of the pipe; an interrupt waits until a message is out."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.sending = self.stopped = False

    def __call__(self, message: object) -> None:
        self.sending = True
        try:
            self.pipe.send(message)
        except OSError:
            # Nobody listens any more.
            sys.exit(1)
        finally:
            self.sending = False
        if self.stopped:
            self.stopped = False
            raise KeyboardInterrupt

    def tell_compiling(self, begins: bool) -> None:
        """Tell of it from the main thread; a pipe is for one."""
        if threading.current_thread() is threading.main_thread():
            self(_Sign.COMPILING if begins else _Sign.COMPILED)

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: end what is running as Ctrl-C does."""
        if self.sending:
            self.stopped = True
        else:
            on_interrupt(number, frame)


def _end_with_parent() -> None:
    """End this process when its parent is gone, so that no solver runs on for nobody."""
    parent = parent_process()
    if parent is not None:
        if sys.platform == "linux":
            # The thread below never has its turn where Python is stuck: CPython 3.11 may unwind
            # an exception for ever once the memory is full. The system needs no turn.
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        threading.Thread(target=_wait_for_end, args=(parent,), daemon=True).start()


def _wait_for_end(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _serve(pipe: Connection, work: Work[Any], runs: int) -> None:
    """Body of a worker: tasks in, messages out, until the pipe is closed; some `runs` of them."""
    _end_with_parent()
    channel = _WorkerChannel(pipe)
    kernel.runs_to_come = max(1, runs)
    kernel.watch_compiling = channel.tell_compiling
    # A Ctrl-C is for the parent, which then says so.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, channel.stop)
    with suppress(KeyboardInterrupt, EOFError, OSError):
        while True:
            channel(_Done(work(pipe.recv(), channel)))
    if hasattr(signal, "SIGTERM"):
        # Nothing is left to be said, and nobody would catch it.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
