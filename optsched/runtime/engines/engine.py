"""What an engine is, and the loop of those that return futures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from optsched.errors import UsageError
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.limits import Limits
from optsched.runtime.worker_pool import GRACE, GRACE_AFTER_INTERRUPT, Take, Work, WorkerLoss

_Task = TypeVar("_Task")
OnLoss = Callable[[_Task, WorkerLoss], _Task | None]


class TaskEngine(ABC):
    """Does tasks somewhere; a context that ends what it started.

    Attributes
    ----------
    name
        What it is called.
    jobs
        Tasks that it does at a time.
    is_remote
        Whether workers may be on other machines, and see other files.
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
    def run(
        self,
        take: Take[_Task],
        work: Work[_Task],
        handle: Callable[[_Task, Any], None],
        on_loss: OnLoss[_Task],
        *,
        runs: int = 1,
        grace: float = GRACE,
    ) -> bool:
        """Do tasks as a :class:`optsched.runtime.worker_pool.WorkerPool` does."""

    def exclude(self) -> bool:
        """Give no more work to whoever sent the message that is being handled.

        Returns whether there are others. An engine that can not choose says that there are.
        """
        return True

    def close(self) -> None:  # noqa: B027 - most have started nothing
        """End what was started."""


class Collected(NamedTuple):
    """What a task told, and the worker that did it, as its engine calls it."""

    worker: str
    messages: list[Any]


def collect(work: Work[Any], task: Any) -> Collected:
    """Do a task and return its messages: where no pipe leads back to the driver."""
    messages: list[Any] = []
    last = work(task, messages.append)
    if last is not None:
        messages.append(last)
    return Collected("", messages)


class FutureEngine(TaskEngine):
    """An engine that takes a task and returns a future."""

    is_remote = True
    current = ""
    """The worker whose messages are being handled."""

    @abstractmethod
    def submit(self, work: Work[_Task], task: _Task) -> Future[Collected]:
        """Begin a task."""

    def slots(self) -> int:
        """Return how many tasks may be under way: some more than are done at a time."""
        return self.jobs + 1 + self.jobs // 4

    def run(
        self,
        take: Take[_Task],
        work: Work[_Task],
        handle: Callable[[_Task, Any], None],
        on_loss: OnLoss[_Task],
        *,
        runs: int = 1,
        grace: float = GRACE,
    ) -> bool:
        """Keep all slots filled and hand over what comes back, until nothing is left."""
        turn = _Turn(self, work, handle, on_loss)
        try:
            while turn.fill(take):
                turn.listen(0.25)
                take_interrupt()
        except KeyboardInterrupt:
            turn.interrupt()
            return False
        return True


class _Turn:
    """Tasks under way."""

    def __init__(
        self,
        engine: FutureEngine,
        work: Work[Any],
        handle: Callable[[Any, Any], None],
        on_loss: OnLoss[Any],
    ) -> None:
        self.engine, self.work, self.handle, self.on_loss = engine, work, handle, on_loss
        self.running: dict[Future[Collected], tuple[Any, Clock]] = {}
        self.left: deque[Any] = deque()

    def fill(self, take: Take[Any]) -> bool:
        """Begin tasks while there is room; return whether any is under way."""
        while len(self.running) < self.engine.slots():
            task = self.left.popleft() if self.left else take()
            if task is None:
                break
            future = self.engine.submit(self.work, task)
            self.running[future] = task, Clock.of(Limits())
        return bool(self.running)

    def listen(self, seconds: float) -> None:
        """Hand over what comes within this time."""
        done, _ = wait(self.running, timeout=seconds, return_when=FIRST_COMPLETED)
        for future in done:
            self._receive(future)

    def interrupt(self) -> None:
        """Begin nothing more, and listen for a short while."""
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
            # What a task is made of is not there: another version, or none.
            raise UsageError(
                f"a worker can not do the work ({error}): install the same version everywhere"
            ) from error
        except (Exception, CancelledError) as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            left = self.on_loss(task, WorkerLoss(False, reason, clock.seconds()))
            if left is not None:
                self.left.append(left)
            return
        self.engine.current = found.worker
        for message in found.messages:
            self.handle(task, message)
