"""Workers of a Dask cluster, or of one on this machine that is started for the run.

A cluster is started with `dask scheduler --host 127.0.0.1` and, once a core, `dask worker
tcp://127.0.0.1:8786 --nthreads 1 --nworkers 4`; machines of a network take their own addresses.
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
"""Between two looks at how many workers there are."""
PATIENCE = 10.0
"""Seconds to wait for a scheduler."""


class DaskEngine(FutureEngine):
    """Workers of a Dask cluster.

    Parameters
    ----------
    jobs
        Processes to start, where no cluster is named.
    address
        Of the scheduler.
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
            # Who dies with a worker is counted here, unit by unit.
            dask.config.set({"distributed.scheduler.allowed-failures": 0})
            logging.getLogger("distributed").setLevel(logging.ERROR)
            self.cluster = distributed.LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
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
        """Begin a task on any worker that is not excluded."""
        future: Future[Collected] = self.executor.submit(collect_on_dask, work, task)
        return future

    def slots(self) -> int:
        """Look now and then how many workers there are: more may have come."""
        if self.pause.expired():
            self._look()
        return super().slots()

    def exclude(self) -> bool:
        """Give no more work to the worker whose message is being handled."""
        self.excluded.add(self.current)
        self._look()
        return bool(self.executor_workers or not self.excluded)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()

    def _look(self) -> None:
        cores: dict[str, int] = self.client.ncores()
        good = {worker: n for worker, n in cores.items() if worker not in self.excluded}
        self.jobs = max(1, sum(good.values()))
        self.executor_workers = sorted(good)
        chosen = {"workers": self.executor_workers} if self.excluded else {}
        self.executor: Any = self.client.get_executor(pure=False, retries=0, **chosen)
        self.pause = Clock.of(Limits(LOOK_SECONDS))


def collect_on_dask(work: Work[Any], task: Any) -> Collected:
    """Do a task and say which worker did it."""
    from distributed import get_worker

    return Collected(get_worker().address, collect(work, task).messages)
