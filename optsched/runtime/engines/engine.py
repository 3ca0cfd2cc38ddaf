"""Interface of task engines, and the main loop of engines that return futures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from optsched.errors import UsageError
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.limits import Limits
from optsched.runtime.worker_pool import GRACE_AFTER_INTERRUPT, Tasks, Work, WorkerLoss, WorkerPool

_Task = TypeVar("_Task")


class TaskEngine(ABC):
    """Engine that runs tasks; a context that ends all processes it started.

    Attributes
    ----------
    name
        Name of the engine.
    jobs
        Number of tasks that run at a time.
    is_remote
        True if workers may be on other machines with other files.
    """

    name = ""
    jobs = 1
    is_remote = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def run(self, tasks: Tasks[_Task]) -> bool:
        """Run tasks as :class:`optsched.runtime.worker_pool.WorkerPool` does."""

    def exclude(self) -> bool:
        """Exclude the worker that sent the current message from further work.

        Return True if there are other workers, or if the engine cannot choose workers.
        """
        return True

    def close(self) -> None:  # noqa: B027 - optional for subclasses
        """End all processes that were started."""


class Collected(NamedTuple):
    """The messages of a task, and the worker that did it, as named by its engine."""

    worker: str
    messages: list[Any]


def collect(work: Work[Any], task: Any) -> Collected:
    """Do a task and return its messages, for engines without a pipe to the driver."""
    messages: list[Any] = []
    last = work(task, messages.append)
    if last is not None:
        messages.append(last)
    return Collected("", messages)


class FutureEngine(TaskEngine):
    """Engine that takes a task and returns a future."""

    is_remote = True
    current = ""
    """Worker whose messages are being handled."""

    @abstractmethod
    def submit(self, work: Work[_Task], task: _Task) -> Future[Collected]:
        """Start a task."""

    def slots(self) -> int:
        """Return the number of tasks to keep submitted, slightly more than run at a time."""
        # A quarter more than can run: a worker that becomes free has its next task at hand, yet
        # few tasks are bound to a slow worker.
        return self.jobs + 1 + self.jobs // 4

    def run(self, tasks: Tasks[_Task]) -> bool:
        """Keep all slots filled and handle results until no task is left."""
        turn = _Turn(self, tasks)
        try:
            while turn.fill():
                turn.listen(0.25)
                take_interrupt()
        except KeyboardInterrupt:
            turn.interrupt()
            return False
        return True


class _Turn:
    """Tasks under way during one run."""

    def __init__(self, engine: FutureEngine, tasks: Tasks[Any]) -> None:
        self.engine, self.tasks = engine, tasks
        self.running: dict[Future[Collected], tuple[Any, Clock]] = {}
        self.left: deque[Any] = deque()

    def fill(self) -> bool:
        """Start tasks while there is room; return True if some task is under way."""
        while len(self.running) < self.engine.slots():
            task = self.left.popleft() if self.left else self.tasks.take()
            if task is None:
                break
            future = self.engine.submit(self.tasks.work, task)
            # Submitted now; the wait until it starts counts as well, which errs on the patient
            # side.
            self.running[future] = task, Clock.of(Limits())
        return bool(self.running)

    def listen(self, seconds: float) -> None:
        """Handle the results that arrive within this time."""
        done, _ = wait(self.running, timeout=seconds, return_when=FIRST_COMPLETED)
        for future in done:
            self._receive(future)

    def interrupt(self) -> None:
        """Cancel tasks that are not running yet, and wait for the others for a short time."""
        # A second Ctrl-C ends the waiting.
        with suppress(KeyboardInterrupt):
            for future in list(self.running):
                if future.cancel():
                    del self.running[future]
            clock = Clock.of(Limits(GRACE_AFTER_INTERRUPT))
            while self.running and not clock.expired():
                self.listen(0.1)

    def _receive(self, future: Future[Collected]) -> None:
        task, clock = self.running.pop(future)
        try:
            found = future.result()
        except (ImportError, AttributeError) as error:
            # A module of the task is missing on the worker, or is another version.
            raise UsageError(
                f"a worker cannot run the task ({error}): install the same version on all machines"
            ) from error
        except (Exception, CancelledError) as error:
            # One line of bounded length, as the text of a cluster's error may be a page.
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            # False: no deadline was exceeded, the task failed or its worker was lost.
            left = self.tasks.on_loss(task, WorkerLoss(False, reason, clock.seconds()))
            if left is not None:
                self.left.append(left)
            return
        # Before the messages are handled: `exclude` is called from within.
        self.engine.current = found.worker
        for message in found.messages:
            self.tasks.handle(task, message)


class LocalEngine(TaskEngine):
    """Engine on processes of this machine, each with its own pipe.

    `jobs`: number of processes; with 0 all tasks run in this process and cannot be killed.
    """

    name = "local"

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def run(self, tasks: Tasks[_Task]) -> bool:
        """Run tasks as :class:`WorkerPool` does."""
        return WorkerPool(tasks, self.jobs).run()
