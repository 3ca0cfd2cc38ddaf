"""Engine on processes of this machine."""

from __future__ import annotations

from typing import TypeVar

from optsched.runtime.engines.engine import TaskEngine
from optsched.runtime.worker_pool import Tasks, WorkerPool

_Task = TypeVar("_Task")


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
