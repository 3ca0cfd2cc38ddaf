"""Whichever unit ends first, the table is the same: finds are taken in the order of their units."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched.fleet import FleetEffort, FleetSettings, run, tune
from optsched.fleet.turns import Turns
from optsched.runtime.engines import TaskEngine
from optsched.runtime.worker_pool import Tasks
from optsched.store import PlanStore, verify
from tests.support.families.wiring import random_wiring
from tests.support.generators import random_graph

SETTINGS = FleetSettings(work=30, effort=FleetEffort(first_work=10, growth=2))


class Shuffled(TaskEngine):
    """Does tasks in this process, some at a time; they end in any order."""

    def __init__(self, jobs: int, seed: int) -> None:
        self.jobs, self.rng = jobs, random.Random(seed)

    def run(self, tasks: Tasks[Any]) -> bool:
        """Work on all that is taken at once, and hand over one of what is done."""
        done: list[tuple[Any, list[Any]]] = []
        while True:
            while len(done) < self.jobs and (task := tasks.take()) is not None:
                messages: list[Any] = []
                last = tasks.work(task, messages.append)
                done.append((task, [*messages, *([] if last is None else [last])]))
            if not done:
                return True
            task, told = done.pop(self.rng.randrange(len(done)))
            for message in told:
                tasks.handle(task, message)


@pytest.mark.parametrize("seed", range(3))
def test_the_table_depends_on_nothing_but_graphs_and_work(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng, int(rng.integers(3, 8)), name=f"r{i}") for i in range(6)]
    hard = [random_wiring(60, seed + i, unit=False) for i in range(2)]
    # Equal graphs share one record, whichever comes first.
    graphs += [replace(graph, name=f"{graph.name} {i}") for graph in hard for i in range(4)]
    tables = []
    for jobs in (1, 2, 5, 40):
        engine = Shuffled(jobs, seed)
        monkeypatch.setattr(run, "open_engine", lambda *_, engine=engine: engine)
        store = tmp_path / f"{jobs}.store"
        tables.append(tune(graphs, store, settings=SETTINGS).rows())
        assert verify(PlanStore(store)) == []
    assert tables == [tables[0]] * len(tables)
    assert {row["state"] for row in tables[0]} == {"open", "proved"}


def test_what_ends_waits_for_what_was_begun_before_it() -> None:
    rng = random.Random(0)
    for _ in range(200):
        turns, out = Turns[int](), []
        numbers = rng.sample(range(100), 8)
        for number in numbers:
            turns.begin(number)
        for number in rng.sample(numbers, len(numbers)):
            out += turns.end(number, number)
            assert out == numbers[: len(out)]
        assert out == numbers
