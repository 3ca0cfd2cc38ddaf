"""A fleet under random kills.

Graphs, generated or those of the files and folders that are named, are tuned with a limit on work,
so that the table depends on nothing else. Now and then a worker or the driver is killed with
SIGKILL, or the driver is interrupted; a driver that is gone is started again. In the end the table
has to be that of a run that nobody disturbed, the store has to be sound and to have every plan of
it, and the driver's memory must not have grown with the time it ran. A fleet that is done before
the time is over begins once more with an empty store.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from optsched.cli.folders import graph_files
from optsched.formats import read_graph, write_graph
from optsched.store import PlanStore, verify
from tests.support.families.wiring import random_wiring
from tests.support.fleets import SETTINGS, Driver, undisturbed
from tests.support.generators import random_graph


@dataclass
class Soak:
    """A fault of a fleet, and the time that it took."""

    kills: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    starts: int = 0
    memory: list[int] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """Return it for a table."""
        early = self.memory[: max(1, len(self.memory) // 4)]
        return {
            **self.kills,
            "rounds": self.rounds,
            "starts": self.starts,
            "memory early": max(early, default=0),
            "memory in the end": self.memory[-1] if self.memory else 0,
            "slowest recovery": round(max(self.recoveries, default=0.0), 2),
            "seconds": round(self.seconds),
        }


def make_graphs(folder: Path, count: int, seed: int) -> list[str]:
    """Write random graphs of every kind; one in fifty is hard."""
    rng = np.random.default_rng(seed)
    paths = []
    for number in range(count):
        hard = number % 50 == 49
        graph = (
            random_wiring(70, number, unit=False)
            if hard
            else random_graph(rng, int(rng.integers(4, 14)), name=f"random{number}")
        )
        paths.append(str(folder / f"{number}.json"))
        write_graph(graph, paths[-1])
    return paths


def soak(start: Callable[[], Driver], end: float, rng: random.Random, done: Soak) -> Any:
    """Tune with random kills until then, and undisturbed to the end; return the record."""
    started, done.rounds = time.monotonic(), done.rounds + 1
    while True:
        driver = _wait_for_start(start, done)
        while driver.process.poll() is None and time.monotonic() < end:
            time.sleep(rng.uniform(0.2, 4.0))
            done.memory += _resident(driver.process.pid)
            if not _disturb(driver, rng, done):
                break
        if time.monotonic() >= end or driver.process.returncode == 0:
            break
        driver.process.communicate()
    if driver.process.poll() is None:
        found = driver.finish(seconds=3_600)
    else:
        found = _wait_for_start(start, done).finish(seconds=3_600)
    done.seconds += time.monotonic() - started
    return found


def _wait_for_start(start: Callable[[], Driver], done: Soak) -> Driver:
    """Start a driver, and measure how long it takes to its first result."""
    began, done.starts = time.monotonic(), done.starts + 1
    driver = start()
    while driver.process.poll() is None and len(driver.events()) < 2:
        time.sleep(0.02)
    done.recoveries.append(time.monotonic() - began)
    return driver


def _disturb(driver: Driver, rng: random.Random, done: Soak) -> bool:
    """Do something bad; return whether the driver should still be there."""
    what = rng.choices(("worker", "driver", "interrupt"), (8, 2, 1))[0]
    done.kills[what] += 1
    with suppress(ProcessLookupError):
        if what == "worker":
            workers = driver.workers()
            if workers:
                os.kill(rng.choice(workers), signal.SIGKILL)
        elif what == "driver":
            driver.process.kill()
        else:
            driver.interrupt()
    if what == "interrupt":
        driver.process.communicate()
    return what == "worker"


def _resident(pid: int) -> list[int]:
    """Bytes of memory of a process, if it is there."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return []
    return [pages * os.sysconf("SC_PAGE_SIZE")]


def differences(found: Any, expected: Any, paths: list[str], store: Path) -> list[str]:
    """Return what is not as in the undisturbed run, in the table or in the store."""
    wrong = verify(PlanStore(store)) + [
        f"{one['path']}: {one} instead of {other}"
        for one, other in zip(found["rows"], expected.rows(), strict=True)
        if one != other
    ]
    for path, row in zip(paths, expected.rows(), strict=True):
        if row["slab"] is None:
            continue
        known = PlanStore(store).get(read_graph(path))
        if known is None or (known.slab, known.bound) != (row["slab"], row["slab_bound"]):
            wrong.append(f"{path}: the store has {known}")
    return wrong


def _driver(paths: list[str], store: Path, jobs: int, work: int) -> Driver:
    store.with_suffix(".log").unlink(missing_ok=True)
    # Who is killed every other second is not counted as a failure.
    options = {"--jobs": jobs, "--work": work, "--losses": 1_000_000}
    return Driver(paths, store, *(str(word) for pair in options.items() for word in pair))


def main(
    count: int = 2_000,
    seed: int = 0,
    *,
    paths: tuple[str, ...] = (),
    work: int = SETTINGS.work,
    minutes: float = 20.0,
    jobs: int = 2,
) -> int:
    """Soak files and folders, or `count` generated graphs; return 1 if anything was lost."""
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory())
        folder = Path(name)
        named = [path for path, _ in graph_files(paths)]
        chosen = named or make_graphs(folder, count, seed)
        settings = replace(SETTINGS, work=work)
        beside = stack.enter_context(ProcessPoolExecutor(1))
        undone = beside.submit(undisturbed, chosen, folder / "undisturbed.store", settings)
        rng, done, wrong = random.Random(seed), Soak(), list[str]()
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            store = folder / f"{done.rounds}.store"
            found = soak(partial(_driver, chosen, store, jobs, work), end, rng, done)
            print(f"disturbed:   {found['totals']}\n{done.record()}", flush=True)
            expected = undone.result()
            print(f"undisturbed: {expected.totals()}, {expected.seconds:.0f} s", flush=True)
            wrong += differences(found, expected, chosen, store)
        print("\n".join(wrong) or "the table is the same, and every plan of it is in the store")
        return int(bool(wrong))
