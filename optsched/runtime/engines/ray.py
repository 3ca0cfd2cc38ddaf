"""Engine on the workers of a Ray cluster, or of a local one started for the run.

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
"""Environment variable of Ray. If it is 0, Ray runs on a single machine and listens on 127.0.0.1 on
every system; otherwise, on Linux, it replaces that address by the external one, even if 127.0.0.1
is requested explicitly.
"""
LOOK_SECONDS = 1.0
"""Seconds between two checks of the number of cores."""


class RayEngine(FutureEngine):
    """Engine on the workers of a Ray cluster; each task uses one core.

    Parameters
    ----------
    jobs
        Number of processes to start if no cluster is given.
    address
        Address of the head node.
    """

    name = "ray"

    def __init__(self, jobs: int, address: str | None) -> None:
        # Ray reports use to its makers unless told not to; a value set by the user stays.
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
            # Without an address Ray would join a cluster of another program on this machine.
            start = here if address is None else {}
            ray.init(address=address or "local", log_to_driver=False, **start)
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"no Ray cluster at {address}: {error}") from None
        # Ray must not retry: this engine counts the losses of each task and resubmits it itself.
        self.task = ray.remote(num_cpus=1, max_retries=0)(collect)
        self.pause = Clock.of(Limits(0.0))
        self.slots()

    def submit(self, work: Work[_Task], task: _Task) -> Future[Collected]:
        """Start a task on any free core."""
        future: Future[Collected] = self.task.remote(work, task).future()
        return future

    def slots(self) -> int:
        """Return the number of slots, checking from time to time for new cores."""
        if self.pause.expired():
            self.jobs = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
            self.pause = Clock.of(Limits(LOOK_SECONDS))
        return super().slots()

    def run(self, *given: Any, **more: Any) -> bool:
        """Run tasks as other engines do, with Ray's output about workers sent to standard error."""
        # Standard output belongs to the result, which may be JSON that another program reads.
        with redirect_stdout(sys.stderr):
            return super().run(*given, **more)

    def close(self) -> None:
        """Leave the cluster, and stop it if it was started by this engine."""
        with redirect_stdout(sys.stderr):
            self.ray.shutdown()
