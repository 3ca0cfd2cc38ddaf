"""Orders of plans near to the joint graph's: same runs, no more bytes, taken only if they fit."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from optsched.check.runs import check_runs
from optsched.errors import PlanError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.plugins.inductor.recompute.answer import answer
from optsched.plugins.inductor.recompute.calibrate import StepMemory
from optsched.plugins.inductor.recompute.hidden_bytes import HiddenBytes
from optsched.plugins.inductor.recompute.models import Tried
from optsched.plugins.inductor.recompute.near_order import near_order
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.prove import Proof
from optsched.solver.recompute.result import RecomputeResult
from tests.support.brute_recompute import training_graph

BUDGET = 1000
NO_BYTES = HiddenBytes({}, {})


NAMES = ("x", "first", "sum first", "second", "sum second", "join")
"""Nodes of the joint graph of :func:`sums`."""


def sums() -> Graph:
    """Return a graph of two sums, each after its operand; `first` may run again for `join`."""
    build = GraphBuilder("sums", cost_unit="units")
    build.op("first", writes={"a": 4}, cost=1)
    build.op("sum first", reads=["a"], writes={"c": 1}, cost=1)
    build.op("second", reads=["a"], writes={"b": 4}, cost=1)
    build.op("sum second", reads=["b"], writes={"d": 1}, cost=1)
    build.op("join", reads=["a", "b", "c", "d"], writes={"e": 1}, cost=1)
    build.output("e")
    return build.build()


def sequences(seed: int) -> tuple[Graph, list[list[int]]]:
    """Return a tiny training graph and valid sequences of it, some with repeats."""
    rng = np.random.default_rng(seed)
    graph, found = training_graph(rng), list[list[int]]()
    for _ in range(20):
        order, left = list[int](), set(range(len(graph.ops)))
        while left:
            ready = [v for v in left if not left & set(graph.predecessors[v])]
            order.append(ready[int(rng.integers(len(ready)))])
            left.remove(order[-1])
            if rng.integers(3) == 0:
                order.append(order[int(rng.integers(len(order)))])
        # Some ops must not run again.
        with suppress(PlanError):
            check_runs(graph, order)
            found.append(order)
    return graph, found


def test_ops_go_back_to_the_order_of_the_graph() -> None:
    graph = sums()
    assert near_order(graph, (0, 2, 3, 1, 4), NAMES) == (0, 1, 2, 3, 4)
    # A repeat runs before its first reader.
    assert near_order(graph, (0, 2, 0, 3, 1, 4), NAMES) == (0, 2, 0, 1, 3, 4)
    # The numbers of ops are not the order of the joint graph, and some ops have no node in it.
    swapped = ("first", "second", "sum second", "sum first", "join")
    assert near_order(graph, (0, 1, 2, 3, 4), swapped) == (0, 2, 3, 1, 4)
    assert near_order(graph, (0, 2, 3, 1, 4), NAMES[2:]) == (0, 1, 2, 3, 4)


def test_no_order_needs_more_bytes_or_other_runs() -> None:
    changed = repeated = 0
    for seed in range(150):
        graph, found = sequences(seed)
        for sequence in found:
            names = [op.name for op in graph.ops]
            near, before = near_order(graph, sequence, names), check_runs(graph, sequence)
            after = check_runs(graph, near)
            assert Counter(near) == Counter(sequence), seed
            assert (after.extra, after.peak <= before.peak) == (before.extra, True), seed
            changed += near != tuple(sequence)
            repeated += bool(before.repeats)
    # Otherwise nothing was tested.
    assert min(changed, repeated) > 200


PLAN, NEAR, FEWER = (0, 2, 0, 3, 1, 4), (0, 2, 0, 1, 3, 4), (0, 2, 3, 1, 4)
"""Sequences of :func:`sums`: a plan, its near order, and a plan with fewer repeats."""


def settled(cost: int, peaks: dict[tuple[int, ...], int], traffic: int = 0) -> tuple[Any, Any, Any]:
    """Return the sequence that is taken where the plan needs 900 bytes, its peak, and the asked."""
    graph, asked = sums(), list[int]()
    peaks = {PLAN: 900, **peaks}

    def planned(sequence: tuple[int, ...]) -> RecomputeResult:
        return RecomputeResult(
            graph, ("join",), BUDGET, sequence, 10, cost, 0, proof=Proof(), total=5
        )

    def plan(budget: int, _: Clock) -> RecomputeResult:
        asked.append(budget)
        return planned(FEWER)

    nodes = [SimpleNamespace(name=name) for name in NAMES]
    step = SimpleNamespace(
        split=lambda _, order: tuple(order),
        runs=lambda _, order: [(NAMES[v], False) for v in order],
        forward=[],
        memory=lambda x: StepMemory(*[peaks.get(x, BUDGET + 1)] * 3, NO_BYTES),
        cut_cost=lambda modules: 0 if modules == PLAN else traffic,
        peak=peaks.get,
        settings=SimpleNamespace(peak=BUDGET, time_limit=60.0),
        graph=graph,
        sizes={},
        joint=SimpleNamespace(graph=SimpleNamespace(nodes=nodes)),
        default="default",
        name="step",
    )
    search: Any = SimpleNamespace(
        step=step,
        budget=BUDGET,
        models=[SimpleNamespace(what="ops", planner=SimpleNamespace(plan=plan))],
        tried=[Tried(step.memory(PLAN), planned(PLAN), PLAN, "ops", 0)],  # type: ignore[arg-type]
        clock=Clock.of(Limits(seconds=3600)),
        torch_split=lambda: None,
    )
    modules, record, *_ = answer(search)
    assert f"fits {BUDGET:,} bytes: {record.after:,}" in record.answer
    return modules, record.after, asked


def test_a_near_order_is_taken_if_it_fits_and_costs_no_more() -> None:
    assert settled(1, {NEAR: BUDGET}) == (NEAR, BUDGET, [])
    assert settled(1, {NEAR: BUDGET + 1}) == (PLAN, 900, [])
    assert settled(1, {NEAR: BUDGET}, traffic=1) == (PLAN, 900, [])


def test_a_repeat_that_costs_is_taken_back_if_the_step_still_fits() -> None:
    assert settled(1, {FEWER: BUDGET}) == (FEWER, BUDGET, [])
    assert settled(1, {FEWER: BUDGET + 1}) == (PLAN, 900, [])
    # Bytes that cuts move cost more than the repeat.
    assert settled(1, {FEWER: BUDGET}, traffic=9) == (PLAN, 900, [])


def test_free_repeats_are_planned_again_for_all_bytes_asked() -> None:
    own = (0, 1, 2, 3, 4)
    # The plan has 10 bytes and is simulated with 100 fewer than asked.
    assert settled(0, {FEWER: 990, own: 980}) == (own, 980, [110])
    assert settled(0, {FEWER: 990, own: BUDGET + 1}) == (FEWER, 990, [110])
    assert settled(0, {FEWER: BUDGET + 1, NEAR: 950}) == (NEAR, 950, [110])
