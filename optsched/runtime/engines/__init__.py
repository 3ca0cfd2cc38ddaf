"""Engines that run tasks: processes of this machine, or a Dask cluster, with one interface.

The engine `local` has a pipe to each process. It passes on every message at once, kills processes
that hang, and loses only one task if a process dies (:mod:`optsched.runtime.worker_pool`). Dask
chooses the machine itself; the messages of a task arrive when it is done.
"""

from __future__ import annotations

import re
import socket
import time

from optsched.errors import UsageError, expect
from optsched.runtime.clock import Clock
from optsched.runtime.engines.engine import LocalEngine, TaskEngine
from optsched.runtime.limits import Limits

ENGINES = ("local", "dask")

PATIENCE = 10.0
"""Seconds to wait for a cluster to answer."""
LOOK_SECONDS = 0.2
"""Seconds between two attempts."""
_ADDRESS = re.compile(r"(?:\w+://)?\[?([^\[\]/]+)\]?:(\d{1,5})")

__all__ = ["ENGINES", "LocalEngine", "TaskEngine", "open_engine"]


def open_engine(name: str, jobs: int = 1, address: str | None = None) -> TaskEngine:
    """Return an engine for use as a context; processes it started end with the context.

    Raise `UsageError` if the engine is unknown or the cluster does not answer. Raise
    `MissingDependencyError` if the package of the engine is not installed.

    `name`: one of :data:`ENGINES`. `jobs`: number of processes that the engine starts on this
    machine; with `local` and 0, tasks run in this process. `address`: address of a running cluster.
    Without it, `dask` starts processes of its own, which listen on this machine only.
    """
    expect("jobs", jobs, int)
    if jobs < 0:
        raise UsageError(f"jobs must be at least 0, got {jobs}")
    if name not in ENGINES:
        raise UsageError(f"unknown engine {name!r}, expected one of {', '.join(ENGINES)}")
    if name == "local":
        if address is not None:
            raise UsageError("an address requires --engine dask")
        return LocalEngine(jobs)
    if jobs < 1:
        raise UsageError(f"engine {name} needs at least one process, got {jobs}")
    if address is not None and address != "auto":
        _require_listener(address)
    # Imported late: Dask is an optional dependency.
    from optsched.runtime.engines.dask import DaskEngine

    return DaskEngine(jobs, address)


def _require_listener(address: str) -> None:
    """Raise an error if no process answers at an address in time.

    Dask itself would keep trying for minutes.
    """
    expect("address", address, str)
    place = _ADDRESS.fullmatch(address)
    if place is None:
        raise UsageError(f"expected an address HOST:PORT such as 127.0.0.1:8786, got {address!r}")
    clock = Clock.of(Limits(PATIENCE))
    while True:
        try:
            socket.create_connection((place[1], int(place[2])), PATIENCE).close()
        except (OSError, OverflowError) as error:
            if clock.expired():
                raise UsageError(f"no cluster answers at {address}: {error}") from None
            # The cluster may have been started at the same moment.
            time.sleep(min(LOOK_SECONDS, PATIENCE))
        else:
            return
