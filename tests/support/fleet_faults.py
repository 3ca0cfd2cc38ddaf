"""Real faults while a fleet is tuned; the run, or one after it, completes its table.

Each fault takes graphs, the store's file and options of the driver, waits until the driver is in
the middle of its work, breaks something, and goes on to the end.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fleets import Driver, searched


@dataclass(frozen=True)
class Recovery:
    """Results of a fleet."""

    found: dict[str, Any]
    """The record of the run that ended."""
    seconds: float
    """From the fault to that."""
    broken: Driver
    ended: Driver
    """`broken` and `ended`: the driver that met the fault, and the one that ended, which may be the
    same."""


Fault = Callable[..., Recovery]


def worker_killed(paths: Sequence[str], store: Path, *options: str) -> Recovery:
    """One worker is killed while it has a unit."""
    driver = Driver(paths, store, *options)
    driver.wait_for(searched(1))
    began = time.monotonic()
    # On a busy machine the driver may have ended by now.
    for worker in driver.workers()[-1:]:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    found = driver.finish()
    return Recovery(found, time.monotonic() - began, driver, driver)


def driver_killed(paths: Sequence[str], store: Path, *options: str) -> Recovery:
    """The driver is killed, and started again."""
    driver = Driver(paths, store, *options)
    driver.wait_for(searched(3))
    began = time.monotonic()
    driver.kill()
    return _gone_on_with(driver, began, paths, store, *options)


def power_cut(paths: Sequence[str], store: Path, *options: str) -> Recovery:
    """The driver is killed, and the second half of what it wrote last never came to the disk."""
    driver = Driver(paths, store, *options)
    driver.wait_for(searched(3))
    began = time.monotonic()
    driver.kill()
    log = Path(f"{store}-wal")
    if log.exists():
        os.truncate(log, log.stat().st_size // 2)
    return _gone_on_with(driver, began, paths, store, *options)


def interrupted_twice(paths: Sequence[str], store: Path, *options: str) -> Recovery:
    """Ctrl-C is pressed twice at once."""
    driver = Driver(paths, store, *options)
    driver.wait_for(searched(2))
    began = time.monotonic()
    driver.interrupt()
    driver.interrupt()
    driver.process.communicate(timeout=300)
    return _gone_on_with(driver, began, paths, store, *options)


def two_drivers(paths: Sequence[str], store: Path, *options: str) -> Recovery:
    """A second driver tunes the same graphs into the same store; the first is killed."""
    driver = Driver(paths, store, *options)
    again = Driver(list(reversed(paths)), store, *options, name="second")
    driver.wait_for(searched(1))
    began = time.monotonic()
    driver.kill()
    found = again.finish()
    found["rows"].reverse()
    return Recovery(found, time.monotonic() - began, driver, again)


FAULTS: dict[str, Fault] = {
    "worker killed": worker_killed,
    "driver killed": driver_killed,
    "power cut": power_cut,
    "Ctrl-C twice": interrupted_twice,
    "two drivers, one killed": two_drivers,
}
"""Faults that need only processes of this machine."""


def _gone_on_with(
    broken: Driver, began: float, paths: Sequence[str], store: Path, *options: str
) -> Recovery:
    again = Driver(paths, store, *options)
    found = again.finish()
    return Recovery(found, time.monotonic() - began, broken, again)
