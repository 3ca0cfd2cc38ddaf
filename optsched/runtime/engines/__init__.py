"""Who does tasks: processes of this machine, or a Dask or Ray cluster; to the caller all are alike.

`local` has a pipe to each process, which brings every message at once, ends what hangs, and loses
one task with a process that dies (:mod:`optsched.runtime.worker_pool`). The others are engines of
their own that choose the machine; a task's messages come when it is done.
"""

from __future__ import annotations

import re
import socket
import time

from optsched.errors import UsageError, expect
from optsched.runtime.clock import Clock
from optsched.runtime.engines.engine import TaskEngine
from optsched.runtime.engines.local import LocalEngine
from optsched.runtime.limits import Limits

ENGINES = ("local", "dask", "ray")

PATIENCE = 10.0
"""Seconds to wait for a cluster to answer."""
LOOK_SECONDS = 0.2
"""Between two tries."""
_ADDRESS = re.compile(r"(?:\w+://)?\[?([^\[\]/]+)\]?:(\d{1,5})")

__all__ = ["ENGINES", "LocalEngine", "TaskEngine", "open_engine"]


def open_engine(name: str, jobs: int = 1, address: str | None = None) -> TaskEngine:
    """Return an engine, to be used as a context: what it started ends with it.

    Parameters
    ----------
    name
        One of :data:`ENGINES`.
    jobs
        Processes of this machine, where the engine starts them; for `local` 0 is this process.
    address
        Of a cluster that runs already, to which these are added by others. Without one `dask` and
        `ray` start processes of their own, which listen on this machine only.

    Raises
    ------
    UsageError
        If there is no such engine or cluster.
    MissingDependencyError
        If its package is not installed.
    """
    expect("jobs", jobs, int)
    if jobs < 0:
        raise UsageError(f"jobs must be at least 0, got {jobs}")
    if name not in ENGINES:
        raise UsageError(f"engine {name!r} is none of {', '.join(ENGINES)}")
    if name == "local":
        if address is not None:
            raise UsageError("an address goes with --engine dask or ray: local has none")
        return LocalEngine(jobs)
    if jobs < 1:
        raise UsageError(f"engine {name} needs at least one process, got {jobs}")
    if address is not None and address != "auto":
        _require_listener(address)
    if name == "dask":
        from optsched.runtime.engines.dask import DaskEngine

        return DaskEngine(jobs, address)
    from optsched.runtime.engines.ray import RayEngine

    return RayEngine(jobs, address)


def _require_listener(address: str) -> None:
    """Stop where nobody listens, not even soon: the engines would try for minutes."""
    expect("address", address, str)
    place = _ADDRESS.fullmatch(address)
    if place is None:
        raise UsageError(f"address {address!r} is no HOST:PORT, such as 127.0.0.1:8786")
    clock = Clock.of(Limits(PATIENCE))
    while True:
        try:
            socket.create_connection((place[1], int(place[2])), PATIENCE).close()
        except (OSError, OverflowError) as error:
            if clock.expired():
                raise UsageError(f"nobody answers at {address}: {error}") from None
            # Whoever starts a cluster may start this at the same moment.
            time.sleep(min(LOOK_SECONDS, PATIENCE))
        else:
            return
