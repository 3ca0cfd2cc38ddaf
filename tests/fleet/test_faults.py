"""A fault in a fleet costs at most the unit in flight: the final table is the same.

Each fault is real, in the processes of a driver of its own (`tests.fleet.drive`).
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched.fleet import Fleet, FleetSettings, FleetState, tune
from optsched.formats import read_graph, write_graph
from optsched.store import PlanStore, verify
from tests.store.test_faults import mounted, needs_unshare
from tests.support.fleet_faults import FAULTS
from tests.support.fleets import (
    DRIVE,
    ROOT,
    SETTINGS,
    Driver,
    command_of,
    make_fleet,
    searched,
    undisturbed,
)
from tests.support.generators import random_graph

FILES = 60
OPS, MEMORY = 40_000, 2**25
"""Reading the ops takes three times as many bytes."""
SMALL_DISK = "120k"

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="workers are found in /proc"
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return make_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, paths: list[str]) -> Fleet:
    return undisturbed(paths, tmp_path_factory.mktemp("store") / "plans.store")


def require_same(found: dict[str, Any], expected: Fleet, paths: list[str], store: Path) -> None:
    """The table is that of an undisturbed run, and the store has every plan of it."""
    assert found["rows"] == expected.rows()
    assert not found["interrupted"]
    assert verify(PlanStore(store)) == []
    for path, row in zip(paths, expected.rows(), strict=True):
        known = PlanStore(store).get(read_graph(path))
        assert known is not None
        assert (known.slab, known.bound) == (row["slab"], row["slab_bound"])


@pytest.mark.parametrize(
    ("fault", "jobs"),
    [("worker killed", 2), ("power cut", 1), ("Ctrl-C twice", 2), ("two drivers, one killed", 1)],
)
def test_the_table_is_that_of_a_run_that_nobody_disturbed(
    fault: str, jobs: int, paths: list[str], expected: Fleet, tmp_path: Path
) -> None:
    """A driver that is killed, with nothing lost on its disk: the next test."""
    store = tmp_path / "s.store"
    done = FAULTS[fault](paths, store, "--jobs", str(jobs))
    require_same(done.found, expected, paths, store)
    assert done.found["lost"] <= 1
    if fault == "worker killed":
        lost = [event for event in done.broken.events() if event["event"] == "lost"]
        assert len(lost) == done.found["lost"]
        assert all("SIGKILL" in event["reason"] and event["again"] for event in lost)


def test_a_driver_that_is_killed_leaves_no_worker_and_keeps_what_was_written(
    paths: list[str], expected: Fleet, tmp_path: Path
) -> None:
    store = tmp_path / "s.store"
    driver = Driver(paths, store)
    # The result is written a moment after the line of the log.
    driver.wait_for(lambda _: store.exists() and bool(PlanStore(store).records()))
    workers = driver.workers()
    driver.kill()
    known = {record.name for record in PlanStore(store).records()}
    assert known
    again = Driver(paths, store, name="again")
    require_same(again.finish(), expected, paths, store)
    looked_at = [event for event in again.events() if event.get("searched") is False]
    assert known <= {event["graph"] for event in looked_at if event["slab"]}
    assert not any("spawn_main" in command_of(worker) for worker in workers)


def test_one_interrupt_keeps_what_is_running(
    paths: list[str], expected: Fleet, tmp_path: Path
) -> None:
    store = tmp_path / "s.store"
    driver = Driver(paths, store, "--budget", "100")
    driver.wait_for(searched(5))
    driver.interrupt()
    found = driver.finish()
    assert found["interrupted"]
    known = {record.name: record.slab for record in PlanStore(store).records()}
    assert all(row["slab"] == known[row["graph"]] for row in found["rows"] if row["slab"])


def test_what_runs_out_of_memory_fails_alone_and_is_not_tried_for_ever(
    paths: list[str], tmp_path: Path
) -> None:
    """Here while it is read; while it is searched: `tests/fleet/test_tune.py`."""
    large, store = tmp_path / "large.json", tmp_path / "s.store"
    op, buffer = '{"name": "op%d", "reads": [], "writes": ["b%d"]}', '{"name": "b%d", "size": 1}'
    ops = ",".join(op % (number, number) for number in range(OPS))
    buffers = ",".join(buffer % number for number in range(OPS))
    text = '{"format": "optsched-graph/1", "name": "large", "ops": [%s], "buffers": [%s]}'
    large.write_text(text % (ops, buffers))
    easy = [path for path in paths if "wiring" not in path]
    expected = undisturbed(easy, tmp_path / "undisturbed.store")
    driver = Driver([*easy, str(large)], store, "--memory", str(MEMORY), "--jobs", "1")
    *others, failed = driver.finish()["rows"]
    assert others == expected.rows()
    reason = f"out of memory (limit {MEMORY:,} bytes)"
    assert (failed["state"], failed["reason"]) == ("failed", reason)
    tried = [event["event"] for event in driver.events() if event.get("path") == str(large)]
    assert tried == ["failed"]


def test_a_poisoned_file_among_sixty(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for number in range(FILES):
        graph = random_graph(rng, int(rng.integers(2, 6)), name=f"random{number}")
        write_graph(graph, tmp_path / f"{number:03}.json")
    poisoned = tmp_path / f"{FILES // 2:03}.json"
    poisoned.write_text("[" * 100_000)
    paths = sorted(str(path) for path in tmp_path.glob("*.json"))
    fleet = undisturbed(paths, tmp_path / "s.store", replace(SETTINGS, work=50))
    (bad,) = (graph for graph in fleet.graphs if graph.reason)
    assert (bad.label, bad.state) == (str(poisoned), FleetState.FAILED)
    states = {FleetState.PROVED, FleetState.OPEN}
    assert all(graph.state in states for graph in fleet.graphs if graph is not bad)
    assert verify(PlanStore(tmp_path / "s.store")) == []


def test_a_clock_that_jumps_neither_ends_a_run_nor_keeps_it(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of day is for the log; budgets are counted by a clock that nobody sets."""
    jumps = itertools.cycle([2e9, 1.0, -5.0, 1e18])
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    easy = [path for path in paths if "wiring" not in path]
    settings = FleetSettings(budget=60.0)
    fleet = tune(easy, tmp_path / "s.store", settings=settings, jobs=0, log=tmp_path / "log")
    assert fleet.count(FleetState.PROVED) == len(easy)
    assert 0 < fleet.seconds < 60
    assert verify(PlanStore(tmp_path / "s.store")) == []


@needs_unshare
def test_a_store_on_a_read_only_mount_is_refused_at_once(paths: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    store = folder / "s.store"
    undisturbed(paths[:1], store)
    before = store.read_bytes()
    drive = shlex.join([*DRIVE, str(store), "--", *paths])
    done = mounted(
        f"mount --bind {folder} {folder}",
        f"mount -o remount,ro,bind {folder}",
        f"cd {ROOT}",
        drive,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("s.store cannot be written")
    assert os.listdir(folder) == ["s.store"]
    assert store.read_bytes() == before


@needs_unshare
def test_a_disk_that_is_full_ends_a_run_and_a_larger_one_goes_on_with_it(
    paths: list[str], expected: Fleet, tmp_path: Path
) -> None:
    folder, store = tmp_path / "small", tmp_path / "s.store"
    folder.mkdir()
    drive = shlex.join([*DRIVE, f"{folder}/s.store", "--jobs", "1", "--", *paths])
    done = mounted(
        f"mount -t tmpfs -o size={SMALL_DISK} none {folder}",
        f"cd {ROOT}",
        f"! {drive}",
        f"mount -o remount,size=64m {folder}",
        drive,
        f"cp {folder}/s.store {store}",
    )
    assert done.returncode == 0, done.stderr
    assert "disk is full" in done.stderr
    require_same(json.loads(done.stdout), expected, paths, store)
