"""Interface of task engines, and the engine on processes of this machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self, TypeVar

from optsched.runtime.worker_pool import Tasks, WorkerPool

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
