"""Engine on processes of this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from optsched.runtime.engines.engine import OnLoss, TaskEngine
from optsched.runtime.worker_pool import GRACE, Take, Work, WorkerPool

_Task = TypeVar("_Task")


class LocalEngine(TaskEngine):
    """Engine on processes of this machine, each with its own pipe.

    `jobs`: number of processes; with 0 all tasks run in this process and cannot be killed.
    """

    name = "local"

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

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
        """Run tasks as :class:`WorkerPool` does."""
        return WorkerPool(take, work, handle, on_loss, self.jobs, grace, runs).run()
