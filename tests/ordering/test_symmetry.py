"""Using identical blocks does not change an answer, with any other rules on."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.arrays import Rows
from optsched.model.elements import Buffer, Op
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.ordering import ALL_RULES, OrderingRules, solve_order
from optsched.ordering import rounds as engine
from optsched.ordering.context import BlockFamily, OutOfTimeError, SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.kernels.orbit import HASH, mixed
from optsched.ordering.problem import build_problem, topological
from optsched.ordering.reduce.contraction import contract
from optsched.ordering.reduce.symmetry import make_keys, order_copies, pick_column
from optsched.ordering.search.feasibility import UNKNOWN, Feasibility, search_all
from optsched.ordering.search.segment import Segment
from optsched.runtime import kernel as kernels
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.ordering.test_blocks import block_graphs
from tests.support.brute import least_peak
from tests.support.clocks import ExpiringClock
from tests.support.families.copies import branches, microbatches
from tests.support.generators import random_order

NAMES = [field.name for field in fields(OrderingRules)]
ENDLESS = 2**62


SOON = replace(EFFORT, first_turn=1)
"""Blocks are looked for in short searches as well."""


def with_blocks(graph: Graph, rules: OrderingRules) -> tuple[SearchContext, list[BlockFamily]]:
    problem = contract(build_problem(graph.arrays), merge=rules.contract).problem
    context = SearchContext(problem, rules, SOON)
    return context, context.families(wanted=True)


def test_a_search_without_bounds_finds_the_least_peak() -> None:
    rng = np.random.default_rng(3)
    runs = in_order = 0
    for graph in block_graphs(90):
        switches = {name: bool(rng.integers(2)) for name in NAMES if name != "symmetry"}
        context, families = with_blocks(graph, OrderingRules(**switches))
        if not families:
            continue
        optimum = least_peak(graph)
        if rng.integers(2):
            weight = rng.integers(0, 9, context.ops)
            context = order_copies(context, families, weight).context
            in_order += 1
        runs += 1
        bounds = [0]
        found = search_all(context, 0, ENDLESS, 10**6, bounds.append)
        assert found.order is not None
        assert context.follow(found.order)[0] == optimum >= max(bounds)
        assert search_all(context, 0, optimum, 10**6, bounds.append).refuted
    assert runs > 60
    assert in_order > 25


def test_a_stretch_of_an_order_is_searched_as_without_blocks() -> None:
    rng = np.random.default_rng(4)
    for graph in block_graphs(120):
        context, families = with_blocks(graph, ALL_RULES)
        if not families or context.ops < 3:
            continue
        order = topological(context.problem)
        if rng.integers(2):
            ordered = order_copies(context, families, rng.integers(0, 9, context.ops))
            context, order = ordered.context, ordered.lead(order)
        first, end = sorted(rng.choice(context.ops + 1, 2, replace=False).tolist())
        peaks = []
        for either in (context, replace(context, rules=replace(ALL_RULES, symmetry=False))):
            low, high = np.zeros((2, context.ops), np.bool_)
            low[order[:first]] = high[order[:end]] = True
            part = Segment(either, low, high, 0, ENDLESS)
            part.run(10**6)
            whole = [*order[:first], *part.moves, *order[end:]]
            peaks.append(int(context.follow(whole)[1][first:end].max()))
        assert peaks[0] == peaks[1]


@pytest.mark.parametrize("workers", [1, 2])
def test_optimum_is_brute_forces_whatever_the_rules(workers: int) -> None:
    rng = np.random.default_rng(workers)
    blocks = 0
    for graph in block_graphs(40):
        optimum = least_peak(graph)
        for states in (1, 16):
            few = int(rng.choice([0, 1_000]))
            effort = replace(SOON, first_states=states, local_ops=few, local_states=0)
            rules = OrderingRules(**{name: bool(rng.random() < 0.6) for name in NAMES})
            outcome = solve_order(
                graph,
                warm_start=random_order(rng, graph),
                rules=replace(rules, symmetry=states == 1 or rules.symmetry),
                limits=Limits(workers=workers),
                effort=effort,
            )
            assert check_order(graph, outcome.order) == outcome.peak == outcome.bound == optimum
            blocks += outcome.statistics.blocks > 0
    assert blocks > 5


def test_compiled_kernels_do_what_the_twins_do(monkeypatch: pytest.MonkeyPatch) -> None:
    effort = replace(SOON, first_states=16)
    graphs = [branches(3, 7, seed) for seed in range(2)] + [microbatches(2, 2, 1)]
    starts = [random_order(np.random.default_rng(0), graph) for graph in graphs]
    twins = [
        solve_order(g, warm_start=o, effort=effort) for g, o in zip(graphs, starts, strict=True)
    ]
    assert sum(twin.statistics.blocks for twin in twins) > 5
    monkeypatch.setattr(kernels.policy, "force", kernels.compiled_form)
    for graph, start, twin in zip(graphs, starts, twins, strict=True):
        assert solve_order(graph, warm_start=start, effort=effort) == twin


@pytest.mark.parametrize("graph", [microbatches(4, 6), branches(6, 20, 1)], ids=["steps", "par"])
def test_far_fewer_states_are_needed(graph: Graph) -> None:
    plain = replace(ALL_RULES, implied=False)
    without = solve_order(graph, rules=replace(plain, symmetry=False))
    found = solve_order(graph, rules=plain)
    assert (found.peak, found.bound) == (without.peak, without.bound)
    assert found.statistics.blocks == (4 if "micro" in graph.name else 6)
    assert found.statistics.stored * 2.5 < without.statistics.stored


@pytest.mark.parametrize("others", [0, 200])
def test_small_blocks_do_not_double_the_work(others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = branches(2, 14, 4)
    ops, buffers = list(graph.ops), list(graph.buffers)
    for i in range(others):
        ops.append(Op(f"v{i}", control=(len(ops) - 1,), writes=(len(buffers),)))
        buffers.append(Buffer(f"w{i}", size=1 + i))
    searched = []

    def fail(context: SearchContext, *_: object) -> Feasibility:
        searched.append(len(context.problem.pred))
        return UNKNOWN

    monkeypatch.setattr(engine, "search_all", fail)
    rules = replace(ALL_RULES, contract=False)
    run = engine.OrderingRounds(
        Graph("g", tuple(ops), tuple(buffers)), Clock.of(Limits()), None, 0, rules, EFFORT, None
    )
    run.reduced = contract(run.full.problem, merge=False)
    run.order_copies()
    run.search(1)
    assert len(searched) == (1 if others else 2)
    assert searched[-1] == len(run.context.problem.pred) + 1


def test_an_order_in_line_has_the_peak_of_the_order_it_was() -> None:
    rng = np.random.default_rng(5)
    for graph in block_graphs(60):
        context, families = with_blocks(graph, replace(ALL_RULES, contract=False))
        ordered = order_copies(context, families, rng.integers(0, 9, context.ops))
        order = random_order(rng, graph)
        lead = ordered.lead(order)
        step = {v: i for i, v in enumerate(lead)}
        before = Rows(ordered.context.problem.pred_ptr, ordered.context.problem.pred)
        assert all(step[u] < step[v] for v in lead for u in before.row(v).tolist())
        assert peak_memory(graph, lead) == peak_memory(graph, order)


def test_clock_is_looked_at_for_each_op_of_a_block() -> None:
    # Half a million edges are followed for each op of blocks that have tens of thousands.
    graph = next(iter(block_graphs(60)))
    context, families = with_blocks(graph, replace(ALL_RULES, contract=False))
    rows = max((family.rows for family in families), key=lambda rows: rows.shape[1])
    assert rows.shape[1] > 1
    late = replace(context, clock=ExpiringClock(0))
    with pytest.raises(OutOfTimeError):
        pick_column(late, rows, np.arange(context.ops))


def test_hashes_are_mixed_one_to_one_and_blocks_told_apart_by_their_goal() -> None:
    numbers = np.random.default_rng(0).integers(0, HASH, 2_000).tolist()
    images = [mixed(value) for value in (*numbers, *range(2_000))]
    assert len(set(images)) == 4_000
    assert all(0 <= image <= HASH for image in images)
    rows = np.array([[0, 1], [2, 3], [4, 5]])
    codes = np.random.default_rng(1).integers(0, 2**63, (2, 7))
    goal = np.array([1, 1, 1, 0, 1, 1, 0], np.bool_)
    keys = make_keys([BlockFamily(rows)], codes, goal)
    assert (keys.salt[:, 0] == keys.salt[:, 2]).all()
    assert (keys.salt[:, 0] != keys.salt[:, 1]).all()
    assert keys.block.tolist() == [0, 0, 1, 1, 2, 2, -1]
    assert (keys.codes[:, [0, 1]] == keys.codes[:, [2, 3]]).all()
    assert (keys.codes[:, 6] == codes[:, 6]).all()
