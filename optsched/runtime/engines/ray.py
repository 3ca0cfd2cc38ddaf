"""Workers of a Ray cluster, or of one on this machine that is started for the run.

A cluster is started with `ray start --head --node-ip-address 127.0.0.1`; other machines join it
with `ray start --address HOST:6379`.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future
from contextlib import redirect_stdout
from typing import Any, TypeVar

from optsched.errors import MissingDependencyError, UsageError
from optsched.runtime.clock import Clock
from optsched.runtime.engines.engine import Collected, FutureEngine, collect
from optsched.runtime.limits import Limits
from optsched.runtime.worker_pool import Work

_Task = TypeVar("_Task")
ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Set to 0 Ray is for one machine on every system, and listens on 127.0.0.1; on Linux it takes the
address that others reach in place of that one, even where it is asked for by name."""
LOOK_SECONDS = 1.0
"""Between two looks at how many cores there are."""


class RayEngine(FutureEngine):
    """Workers of a Ray cluster; each task has a core.

    Parameters
    ----------
    jobs
        Processes to start, where no cluster is named.
    address
        Of the head node.
    """

    name = "ray"

    def __init__(self, jobs: int, address: str | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address is None:
            os.environ[ONE_MACHINE] = "0"
        try:
            import ray
        except ImportError:
            raise MissingDependencyError("ray", "ray") from None
        self.ray: Any = ray
        here = {"num_cpus": jobs, "_node_ip_address": "127.0.0.1", "include_dashboard": False}
        try:
            # Without an address Ray would take a cluster that runs here for others, or did.
            start = here if address is None else {}
            ray.init(address=address or "local", log_to_driver=False, **start)
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"no Ray cluster at {address}: {error}") from None
        # A task that takes its process with it is counted here, and tried again from here.
        self.task = ray.remote(num_cpus=1, max_retries=0)(collect)
        self.pause = Clock.of(Limits(0.0))
        self.slots()

    def submit(self, work: Work[_Task], task: _Task) -> Future[Collected]:
        """Begin a task wherever a core is free."""
        future: Future[Collected] = self.task.remote(work, task).future()
        return future

    def slots(self) -> int:
        """Look now and then how many cores there are: more may have come."""
        if self.pause.expired():
            self.jobs = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
            self.pause = Clock.of(Limits(LOOK_SECONDS))
        return super().slots()

    def run(self, *given: Any, **more: Any) -> bool:
        """Do as all do; what Ray prints of its workers is kept from standard output."""
        with redirect_stdout(sys.stderr):
            return super().run(*given, **more)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        with redirect_stdout(sys.stderr):
            self.ray.shutdown()
