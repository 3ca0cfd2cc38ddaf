"""Tasks in processes of their own, so that a method that hangs or dies takes nothing with it.

Each worker has its own pipe: what it told before it died is kept, the method that was running gets
a row that says so, and a new worker goes on with the rest of that graph. (The executors of the
standard library give up all tasks when one process dies, and do not know which one killed it.)
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from optsched.compare.rows import Failed, Measured, Trouble, was_interrupted
from optsched.compare.task import Message, Started, Task, Unreadable, work_on
from optsched.runtime.interrupt import on_interrupt, take_interrupt
from optsched.runtime.limits import Event

GRACE = 30.0
"""Seconds a method may take beyond its limit before its process is ended: solvers look at the clock
between pieces of work, and kernels may have to be compiled first."""
LAST_WORDS = 3.0
"""Seconds that solvers have to hand over their best plan after an interrupt."""
EVENT_PAUSE = 0.1
"""Seconds between two events that a worker passes on."""

Handle = Callable[[Task, Message], None]
Work = Callable[[Task, Callable[[Message], None]], None]


@dataclass(frozen=True, slots=True)
class Idle:
    """A worker's task is done."""


def run_tasks(
    tasks: Sequence[Task],
    handle: Handle,
    *,
    jobs: int = 1,
    grace: float = GRACE,
    work: Work = work_on,
) -> bool:
    """Do tasks and hand over every message; return whether all was done, and not interrupted.

    Parameters
    ----------
    tasks
        What to do, in this order.
    handle
        Called in this process with each message of each task.
    jobs
        Processes at a time; 0 does it all in this one, where nothing can be ended from outside.
    grace
        Seconds beyond its limit after which a method's process is ended.
    work
        What does a task; importable by its name.
    """
    if jobs == 0:
        return _run_here(tasks, handle, work)
    crew = _Crew(tasks, handle, min(jobs, len(tasks)), grace, work)
    try:
        crew.run()
    except KeyboardInterrupt:
        crew.interrupt()
        return False
    finally:
        crew.dismiss()
    return True


def _run_here(tasks: Sequence[Task], handle: Handle, work: Work) -> bool:
    interrupted = False

    for task in tasks:

        def tell(message: Message, task: Task = task) -> None:
            nonlocal interrupted
            interrupted |= was_interrupted(message)
            handle(task, message)

        try:
            work(task, tell)
        except KeyboardInterrupt:
            interrupted = True
        if interrupted:
            return False
    return True


class _Worker:
    """One process, its pipe, and what it is doing."""

    def __init__(self, work: Work) -> None:
        context = get_context("spawn")
        self.pipe, far_end = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(far_end, work), daemon=True
        )
        with _no_interrupts():
            self.process.start()
        far_end.close()
        self.task: Task | None = None
        self.running: Started | None = None
        self.since = 0.0

    def give(self, task: Task) -> None:
        """Hand over a task; a worker that just died is found out about when it is listened to."""
        self.task, self.running = task, None
        with suppress(OSError):
            self.pipe.send(task)

    def overdue(self, grace: float) -> bool:
        """Whether the method that is running has had its time."""
        if self.running is None or self.running.seconds is None:
            return False
        return time.monotonic() - self.since > self.running.seconds + grace

    def note(self, message: Message) -> None:
        """Keep track of what is done and what is running."""
        if self.task is None:
            return
        if isinstance(message, Started):
            self.running, self.since = message, time.monotonic()
        elif isinstance(message, Measured | Failed):
            self.running = None
            self.task = self.task.after(message)

    def end(self, patience: float = 0.0) -> int | None:
        """End the process for good, unless it ends by itself, and return its exit code."""
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        self.pipe.close()
        return self.process.exitcode


class _Crew:
    """Workers and the tasks that are left."""

    def __init__(
        self, tasks: Sequence[Task], handle: Handle, count: int, grace: float, work: Work
    ) -> None:
        self.queue = deque(tasks)
        self.handle, self.count, self.grace, self.work = handle, count, grace, work
        self.workers: list[_Worker] = []
        self.stopping = False

    def run(self) -> None:
        """Work until nothing is left."""
        while self.queue or self.busy():
            self._assign()
            self._listen(0.25)
            take_interrupt()
            for worker in self.busy():
                if worker.overdue(self.grace):
                    self._bury(worker, Trouble.TIMED_OUT)

    def busy(self) -> list[_Worker]:
        """Workers that have a task."""
        return [worker for worker in self.workers if worker.task is not None]

    def interrupt(self) -> None:
        """Ask for last words, listen for a short while, drop what is left."""
        self.stopping = True
        self.queue.clear()
        with suppress(KeyboardInterrupt):
            for worker in self.busy():
                worker.process.terminate()
            until = time.monotonic() + LAST_WORDS
            while self.busy() and time.monotonic() < until:
                self._listen(0.1)

    def dismiss(self) -> None:
        """End all processes."""
        with _no_interrupts():
            for worker in self.workers:
                worker.end()
        self.workers.clear()

    def _assign(self) -> None:
        free = [worker for worker in self.workers if worker.task is None]
        while self.queue and (free or len(self.workers) < self.count):
            if not free:
                self.workers.append(_Worker(self.work))
                free = [self.workers[-1]]
            free.pop().give(self.queue.popleft())

    def _listen(self, seconds: float) -> None:
        """Handle what workers say within so many seconds, or at once if they say something."""
        pipes: dict[Any, _Worker] = {worker.pipe: worker for worker in self.busy()}
        for pipe in connection.wait(list(pipes), timeout=seconds):
            self._hear(pipes[pipe])

    def _hear(self, worker: _Worker) -> None:
        try:
            while worker.task is not None and worker.pipe.poll():
                message = worker.pipe.recv()
                if isinstance(message, Idle):
                    worker.task = None
                else:
                    task = worker.task
                    worker.note(message)
                    self.handle(task, message)
        except (EOFError, OSError):
            self._bury(worker, Trouble.DIED)

    def _bury(self, worker: _Worker, trouble: Trouble) -> None:
        """Say what became of the method that was running, and queue what is left of the graph."""
        self.workers.remove(worker)
        task, running = worker.task, worker.running
        code = worker.end(patience=1.0 if trouble is Trouble.DIED else 0.0)
        if task is None or self.stopping:
            # What ends because it was told to has not failed.
            return
        reason = _reason(trouble, running, code)
        if running is None and task.methods:
            # It died before any method had its turn: the file itself is too much for it.
            self.handle(
                task, Unreadable(f"{task.path}: {reason} while it read the graph", bad=True)
            )
        elif running is not None:
            method, spent = running.method, time.monotonic() - worker.since
            failed = Failed(method.name, method.kind, trouble, reason, spent)
            self.handle(task, failed)
            task = task.after(failed)
            if task.methods:
                self.queue.appendleft(task)


def _reason(trouble: Trouble, running: Started | None, code: int | None) -> str:
    if trouble is Trouble.TIMED_OUT and running is not None:
        return f"not done long after its limit of {running.seconds:g} s"
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


class _Voice:
    """A worker's end of the pipe; an interrupt waits until a message is out."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.speaking = self.stopped = False
        self.last_event = 0.0

    def __call__(self, message: Message | Idle) -> None:
        now = time.monotonic()
        if isinstance(message, Event):
            if now - self.last_event < EVENT_PAUSE:
                return
            self.last_event = now
        self.speaking = True
        try:
            self.pipe.send(message)
        except OSError:
            # Nobody listens any more.
            sys.exit(1)
        finally:
            self.speaking = False
        if self.stopped:
            self.stopped = False
            raise KeyboardInterrupt

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: end what is running as Ctrl-C does."""
        if self.speaking:
            self.stopped = True
        else:
            on_interrupt(number, frame)


def _end_with_parent() -> None:
    """End this process when its parent is gone, so that no solver runs on for nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _serve(pipe: Connection, work: Work) -> None:
    """Body of a worker: tasks in, messages out, until the pipe is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    voice = _Voice(pipe)
    # A Ctrl-C is for the parent, which then says so.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, voice.stop)
    with suppress(KeyboardInterrupt, EOFError, OSError):
        while True:
            work(pipe.recv(), voice)
            voice(Idle())
    if hasattr(signal, "SIGTERM"):
        # Nothing is left to be said, and nobody would catch it.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
