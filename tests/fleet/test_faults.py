"""What breaks in a fleet costs at most the unit in flight: the table in the end is the same.

Each fault is done for real, to processes of a driver of its own (`tests.fleet.drive`).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from optsched.fleet import Fleet
from optsched.formats import read_graph
from optsched.runtime.limits import Objective
from optsched.store import PlanStore, Question
from tests.fleet.fleets import Driver, command_of, make_fleet, searched, undisturbed

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
    for path, row in zip(paths, expected.rows(), strict=True):
        known = PlanStore(store).get(read_graph(path), Question(Objective.SLAB))
        assert known is not None
        assert (known.slab, known.bound) == (row["slab"], row["slab_bound"])


def test_a_killed_worker_costs_its_unit(paths: list[str], expected: Fleet, tmp_path: Path) -> None:
    driver = Driver(paths, tmp_path / "s.store")
    driver.wait_for(searched(1))
    killed = driver.workers()[-1]
    os.kill(killed, signal.SIGKILL)
    found = driver.finish()
    require_same(found, expected, paths, tmp_path / "s.store")
    lost = [event for event in driver.events() if event["event"] == "lost"]
    assert len(lost) == found["lost"] <= 1
    assert all("SIGKILL" in event["reason"] and event["again"] for event in lost)


def test_a_killed_driver_is_gone_on_with(paths: list[str], expected: Fleet, tmp_path: Path) -> None:
    store = tmp_path / "s.store"
    driver = Driver(paths, store)
    driver.wait_for(searched(3))
    workers = driver.workers()
    driver.kill()
    known = len(PlanStore(store).records())
    again = Driver(paths, store)
    found = again.finish()
    require_same(found, expected, paths, store)
    looked_up = [event for event in again.events() if event.get("searched") is False]
    # What had been written was not searched again; the log is of both runs.
    assert len(looked_up) >= known
    assert not any("spawn_main" in command_of(worker) for worker in workers)


def test_two_interrupts_end_it_at_once_and_nothing_is_lost(
    paths: list[str], expected: Fleet, tmp_path: Path
) -> None:
    store = tmp_path / "s.store"
    driver = Driver(paths, store)
    driver.wait_for(searched(2))
    driver.interrupt()
    driver.interrupt()
    driver.process.communicate(timeout=30)
    found = Driver(paths, store).finish()
    require_same(found, expected, paths, store)


def test_one_interrupt_keeps_what_is_running(
    paths: list[str], expected: Fleet, tmp_path: Path
) -> None:
    store = tmp_path / "s.store"
    driver = Driver(paths, store, "--work", "100000000")
    driver.wait_for(searched(5))
    driver.interrupt()
    found = driver.finish(seconds=30)
    assert found["interrupted"]
    known = {record.name: record.slab for record in PlanStore(store).records()}
    assert all(row["slab"] == known[row["graph"]] for row in found["rows"] if row["slab"])


def test_what_runs_out_of_memory_fails_alone_and_is_not_tried_for_ever(
    paths: list[str], expected: Fleet, tmp_path: Path
) -> None:
    large, store = tmp_path / "large.json", tmp_path / "s.store"
    op, buffer = '{"name": "op%d", "reads": [], "writes": ["b%d"]}', '{"name": "b%d", "size": 1}'
    ops = ",".join(op % (number, number) for number in range(400_000))
    buffers = ",".join(buffer % number for number in range(400_000))
    text = '{"format": "optsched-graph/1", "name": "large", "ops": [%s], "buffers": [%s]}'
    large.write_text(text % (ops, buffers))
    driver = Driver([*paths, str(large)], store, "--memory", str(2**29), "--jobs", "1")
    found = driver.finish()
    *others, failed = found["rows"]
    assert others == expected.rows()
    assert (failed["state"], failed["reason"]) == (
        "failed",
        "out of memory (limit 536,870,912 bytes)",
    )
    tried = [event["event"] for event in driver.events() if event.get("path") == str(large)]
    assert tried == ["failed"]
