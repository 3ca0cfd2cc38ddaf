"""The memory observer: what it catches by execution, and that valid plans pass it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heuristics import ORDERINGS, PACKINGS
from heuristics.portfolio import pack_apart
from optsched.check.packing import check_packing
from optsched.check.plan import check_plan
from optsched.check.replay import replay_packing, replay_plan
from optsched.errors import MissingDependencyError, PlanError
from optsched.formats import read_graph, read_packing, read_plan, read_recorded
from optsched.formats.format import CHOSEN
from optsched.model.graph import Graph
from optsched.model.inplace_choice import pair_choices
from optsched.model.packing_problem import Gap, PackingProblem, packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.model.pools import pool_rows
from optsched.runtime.limits import Limits
from optsched.solver.pipeline import solve
from tests.check.test_plan import diamond, good_plan
from tests.support.generators import FEATURES, random_graph, random_order

INSTANCES = Path(__file__).parents[2] / "instances"


def with_offset(plan: Plan, buffer: int, offset: int | None) -> Plan:
    offsets = list(plan.offsets)
    offsets[buffer] = offset
    return replace(plan, offsets=tuple(offsets))


def test_a_valid_plan_is_executed_and_every_read_counted() -> None:
    seen = replay_plan(diamond(), good_plan())
    assert (seen.steps, seen.cells) == (4, 5)
    assert str(seen).startswith(f"replayed: {seen.reads} reads over 4 steps")


@pytest.mark.parametrize(
    ("buffer", "offset", "words"),
    [
        (3, 10, r"op 'right' \(step 2\) releases|op 'join' \(step 3\) reads"),
        (2, 10, r"op 'view' \(step 1\) has written buffer 'a2' and finds .* at byte 10"),
        (3, None, "buffer 'b' of 6 bytes has no offset"),
        (4, 0, r"op 'right' \(step 2\) reads buffer 'x' and finds 'right.workspace' at byte 0"),
    ],
    ids=["overlap", "view of other bytes", "no offset", "workspace over an input"],
)
def test_a_corrupted_plan_is_caught(buffer: int, offset: int | None, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        replay_plan(diamond(), with_offset(good_plan(), buffer, offset))


def random_plans(count: int) -> Iterator[tuple[Graph, Plan]]:
    """Plans whose offsets were drawn, or packed and then half of them disturbed."""
    for seed in range(count):
        rng = np.random.default_rng([5, seed])
        graph = random_graph(rng, 1 + seed % 9, features=FEATURES - {"pins", "alignment"})
        graph = graph.with_inplace() if seed % 2 else graph
        order = random_order(rng, graph)
        taken = next(iter(pair_choices(graph, order)))
        problem, ids = packing_problem(graph, order, taken)
        packing = list(PACKINGS.values())[seed % len(PACKINGS)]
        offsets = pack_apart(problem, pool_rows(graph, ids), packing)
        plan = make_plan(graph, order, offsets, taken)
        moved = [b for b in ids.tolist() if rng.integers(4) == 0] if seed % 3 else []
        for b in moved:
            plan = with_offset(plan, b, int(rng.integers(0, 30)))
        views = [plan.offsets[root] for root in graph.roots]
        yield graph, replace(plan, offsets=tuple(views))


def test_execution_and_the_independent_checker_agree() -> None:
    refused = 0
    for graph, plan in random_plans(600):
        try:
            check_plan(graph, plan)
        except PlanError:
            refused += 1
            with pytest.raises(PlanError):
                replay_plan(graph, plan)
        else:
            replay_plan(graph, plan)
    assert 100 < refused < 500


def test_packings_with_gaps_and_pools() -> None:
    problem = PackingProblem(
        size=[8, 4, 4], start=[0, 1, 1], end=[4, 3, 3], gaps=((Gap(1, 3, (0, 4)),), (), ())
    )
    assert replay_packing(problem, [0, 4, 8]).reads == 5
    with pytest.raises(PlanError, match=r"step 3: buffer 'b0' ends and finds 'b1' at byte 2"):
        replay_packing(problem, [0, 2, 8])
    replay_packing(problem, [0, 0, 8], ["near", "far", "near"])


def test_a_group_is_executed_as_one_buffer() -> None:
    problem = PackingProblem(size=[8, 4, 3], start=[0, 1, 2], end=[2, 4, 3], must_share=[(0, 1)])
    assert replay_packing(problem, [0, 0, 8]).reads == 4
    with pytest.raises(PlanError, match="ends and finds"):
        replay_packing(problem, [0, 0, 4])


def test_random_packings_agree_with_the_checker() -> None:
    refused = 0
    for seed in range(2_000):
        rng = np.random.default_rng([6, seed])
        start = rng.integers(0, 8, 6)
        problem = PackingProblem(
            size=rng.integers(0, 6, 6), start=start, end=start + rng.integers(0, 4, 6)
        )
        offsets = rng.integers(0, 12, 6).tolist()
        try:
            check_packing(problem, offsets)
        except PlanError:
            refused += 1
            with pytest.raises(PlanError):
                replay_packing(problem, offsets)
        else:
            replay_packing(problem, offsets)
    assert 300 < refused < 1_700


GRAPHS = sorted(
    path
    for ending in ("*.json", "*.json.gz", "*.onnx", "*.tflite", "*-module.txt")
    for path in INSTANCES.rglob(ending)
)
ASSIGNMENTS = sorted(INSTANCES.rglob("*-buffer-assignment.txt"))


OPEN_DIMENSIONS = {"encoder.onnx": {"batch": 2}}


def graph_in(path: Path) -> Graph:
    """Read a graph, if the package that its format needs is there."""
    try:
        return read_graph(path, dims=OPEN_DIMENSIONS.get(path.name))
    except MissingDependencyError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.name)
def test_plans_of_every_graph_of_the_repository(path: Path) -> None:
    graph = graph_in(path)
    made = {"program": "linear_scan", "lpmf": "skyline", "recorded": "greedy_by_size"}
    if len(graph.ops) > 300:
        made = {"lpmf": "linear_scan"}
    for model in dict.fromkeys((graph, graph.with_inplace())):
        for ordering, packing in made.items():
            if ordering == "recorded":
                order = (
                    read_recorded(path).get(CHOSEN) if path.name not in OPEN_DIMENSIONS else None
                )
            else:
                order = ORDERINGS[ordering](model, 0)
            if order is None:
                continue
            taken = next(iter(pair_choices(model, order)))
            problem, ids = packing_problem(model, order, taken)
            offsets = pack_apart(problem, pool_rows(model, ids), PACKINGS[packing])
            seen = replay_plan(model, make_plan(model, order, offsets, taken))
            assert seen.reads >= len(problem)


@pytest.mark.parametrize("path", ASSIGNMENTS, ids=lambda path: path.name)
def test_xlas_own_buffer_assignments_can_be_executed(path: Path) -> None:
    module = path.with_name(path.name.replace("buffer-assignment", "module"))
    graph = read_graph(module).with_inplace()
    if any(f" {opcode}(" in module.read_text() for opcode in ("while", "conditional", "call")):
        # A module that calls others is not a single plan.
        with pytest.raises(PlanError, match="calls computations"):
            read_plan(path, graph)
        return
    plan = read_plan(path, graph)
    assert replay_plan(graph, plan).reads


@pytest.mark.parametrize(
    "path",
    [path for path in GRAPHS if path.parent.name in ("small", "counterexamples")],
    ids=lambda path: path.name,
)
def test_our_own_plans_of_the_small_graphs(path: Path) -> None:
    graph = graph_in(path)
    for model in (graph, graph.with_inplace()):
        result = solve(model, limits=Limits(work=20_000))
        assert result.plan is not None
        replay_plan(model, result.plan)


@pytest.mark.parametrize("path", sorted(INSTANCES.rglob("*_packing.csv")), ids=lambda p: p.name)
def test_every_packing_of_every_csv_of_the_repository(path: Path) -> None:
    problem = read_packing(path).problem
    for packing in PACKINGS.values():
        assert replay_packing(problem, packing(problem).tolist()).reads == len(problem)
