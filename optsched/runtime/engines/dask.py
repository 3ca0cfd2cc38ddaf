"""Engine on the workers of a Dask cluster, or of a local one started for the run.

A cluster is started with `dask scheduler --host 127.0.0.1` and `dask worker tcp://127.0.0.1:8786
--nthreads 1 --nworkers 4`, with one worker per core. In a network, use the addresses of the
machines.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import Any, TypeVar

from optsched.errors import MissingDependencyError, UsageError
from optsched.runtime.clock import Clock
from optsched.runtime.engines.engine import Collected, FutureEngine, collect
from optsched.runtime.limits import Limits
from optsched.runtime.worker_pool import Work

_Task = TypeVar("_Task")
LOOK_SECONDS = 1.0
"""Seconds between two checks of the number of workers."""
PATIENCE = 10.0
"""Seconds to wait for a scheduler."""


class DaskEngine(FutureEngine):
    """Engine on the workers of a Dask cluster.

    `jobs`: number of processes to start if no cluster is given. `address`: address of the
    scheduler.
    """

    name = "dask"

    def __init__(self, jobs: int, address: str | None) -> None:
        try:
            import dask
            import distributed
        except ImportError:
            raise MissingDependencyError("distributed", "dask") from None
        self.cluster: Any = None
        if address is None:
            # Dask must not retry: this engine counts the losses of each task itself.
            dask.config.set({"distributed.scheduler.allowed-failures": 0})
            logging.getLogger("distributed").setLevel(logging.ERROR)
            self.cluster = distributed.LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                # The engine does not know how much a task needs; Dask would restart workers on a
                # guess.
                memory_limit=None,
                silence_logs=logging.ERROR,
            )
            address = self.cluster.scheduler_address
        try:
            self.client: Any = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"no Dask scheduler at {address}: {error}") from None
        self.excluded: set[str] = set()
        self.pause = Clock.of(Limits(0.0))
        self._look()

    def submit(self, work: Work[_Task], task: _Task) -> Future[Collected]:
        """Start a task on any worker that is not excluded."""
        # The function also names the worker, which a future of Dask does not.
        future: Future[Collected] = self.executor.submit(collect_on_dask, work, task)
        return future

    def slots(self) -> int:
        """Return the number of slots, checking from time to time for new workers."""
        if self.pause.expired():
            self._look()
        return super().slots()

    def exclude(self) -> bool:
        """Exclude the worker whose message is being handled from further work."""
        self.excluded.add(self.current)
        self._look()
        # False if no worker is left: the caller then ends the run.
        return bool(self.executor_workers or not self.excluded)

    def close(self) -> None:
        """Leave the cluster, and stop it if it was started by this engine."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()

    def _look(self) -> None:
        # Workers come and go, so cores and the choice of workers are asked for each time.
        cores: dict[str, int] = self.client.ncores()
        good = {worker: n for worker, n in cores.items() if worker not in self.excluded}
        self.jobs = max(1, sum(good.values()))
        self.executor_workers = sorted(good)
        # Without an exclusion no list is passed, so that workers that join later get tasks as
        # well.
        chosen = {"workers": self.executor_workers} if self.excluded else {}
        # pure=False: the same task submitted twice is run twice, as after a loss.
        self.executor: Any = self.client.get_executor(pure=False, retries=0, **chosen)
        self.pause = Clock.of(Limits(LOOK_SECONDS))


def collect_on_dask(work: Work[Any], task: Any) -> Collected:
    """Do a task and return its messages with the address of the worker."""
    from distributed import get_worker

    return Collected(get_worker().address, collect(work, task).messages)
