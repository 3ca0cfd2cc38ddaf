"""Answers of CP-SAT against all orders of tiny graphs, and times against a clock."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from experiments.overlap.costs import FOLDER, read_program
from experiments.overlap.model import Effort, least_exposed, least_peak
from experiments.overlap.schedule import Program, exposed_time, shifted
from optsched.model.dependencies import reachable
from optsched.model.elements import Op
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from tests.support.brute import orders
from tests.support.generators import random_graph

QUICK = Effort(seconds=30.0, workers=1)


def random_program(rng: np.random.Generator) -> Program:
    """Return a random graph in which some ops launch transfers and successors wait for them."""
    count = int(rng.integers(5, 8))
    graph = random_graph(rng, count, features={"inputs", "multi", "views", "workspace"})
    waits: dict[int, int] = {}
    for v, before in enumerate(graph.predecessors):
        free = [u for u in before if u not in waits]
        if free and v not in waits.values() and rng.random() < 0.7:
            waits[v] = int(rng.choice(free))
    launches = sorted(set(waits.values()))
    ops = list(graph.ops)
    for u, v in pairwise(launches):
        ops[v] = replace(ops[v], control=tuple(sorted({*ops[v].control, u})))
    durations = tuple(int(x) for x in rng.integers(1, 6, count))
    transfers = {v: int(rng.integers(1, 12)) for v in launches}
    return Program(replace(graph, ops=tuple(ops)), durations, transfers, waits)


def by_the_clock(program: Program, order: Sequence[int]) -> int:
    """Return the number of microseconds in which no op runs, counted one after the other."""
    todo, queue, ended = deque(order), deque[list[int]](), set[int | None]([None])
    idle, rest, running = 0, 0, -1
    while todo or rest or queue:
        if not rest and todo and program.waits.get(todo[0]) in ended:
            running = todo.popleft()
            rest = program.durations[running]
        first = queue[0] if queue else None
        if rest:
            rest -= 1
            if not rest and running in program.transfers:
                queue.append([running, program.transfers[running]])
        else:
            idle += 1
        if first is not None:
            first[1] -= 1
            if not first[1]:
                ended.add(queue.popleft()[0])
    return idle


@pytest.mark.parametrize("seed", range(5))
def test_answers_are_those_of_all_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        program = random_program(rng)
        graph = program.graph
        found = [(peak_memory(graph, x), exposed_time(program, x), x) for x in orders(graph)]
        for peak, exposed, order in (min(found), found[int(rng.integers(len(found)))]):
            assert by_the_clock(program, order) == exposed
            moved = shifted(program, order, peak)
            assert peak_memory(graph, moved) <= peak
            assert exposed_time(program, moved) <= exposed
            answer = least_exposed(program, peak, moved, QUICK)
            least = min(e for p, e, _ in found if p <= peak)
            assert answer.exposed == answer.bound == least
            answer = least_peak(program, exposed, order, QUICK)
            assert answer.peak == answer.bound == min(p for p, e, _ in found if e <= exposed)


def test_a_wait_exposes_what_nothing_hides() -> None:
    graph = Graph("three", tuple(Op(name) for name in ("launch", "multiply", "wait")))
    program = Program(graph, (1, 5, 1), {0: 8}, {2: 0})
    assert exposed_time(program, (0, 1, 2)) == by_the_clock(program, (0, 1, 2)) == 3
    assert exposed_time(program, (1, 0, 2)) == 8


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json.gz")), ids=lambda path: path.name)
def test_captures_are_read(path: Path) -> None:
    program, own = read_program(path)
    assert sorted(own) == list(range(len(program.durations)))
    assert set(program.transfers) == set(program.waits.values())
    assert by_the_clock(program, own) == exposed_time(program, own)
    # Edges that are left out never decide which contents a user of a storage sees.
    before = reachable(program.graph.predecessors)
    for users, writers in storages(program.graph, path):
        for u in writers:
            assert all(before[u] >> v & 1 or before[v] >> u & 1 for v in users - {u})


def storages(graph: Graph, path: Path) -> Iterator[tuple[set[int], set[int]]]:
    """Yield the users and the later writers of each storage that is written more than once."""
    real = json.loads(gzip.decompress(path.read_bytes()))["extra"]["mutation_real_name"]
    users, writers = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for v, op in enumerate(graph.ops):
        for b in (*op.reads, *op.uses, *op.writes):
            name = first = graph.buffers[b].name
            while first in real:
                first = real[first]
            users[first].add(v)
            if name in real and b in op.writes:
                writers[first].add(v)
    return ((users[name], found) for name, found in writers.items())
