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
from optsched.plugins.inductor.recompute.near_order import near_order
from optsched.plugins.inductor.recompute.search import Tried
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.brute_recompute import training_graph

BUDGET = 1000


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
    assert near_order(graph, (0, 2, 3, 1, 4)) == (0, 1, 2, 3, 4)
    # A repeat runs before its first reader.
    assert near_order(graph, (0, 2, 0, 3, 1, 4)) == (0, 2, 0, 1, 3, 4)


def test_no_order_needs_more_bytes_or_other_runs() -> None:
    changed = repeated = 0
    for seed in range(150):
        graph, found = sequences(seed)
        for sequence in found:
            near, before = near_order(graph, sequence), check_runs(graph, sequence)
            after = check_runs(graph, near)
            assert Counter(near) == Counter(sequence), seed
            assert (after.extra, after.peak <= before.peak) == (before.extra, True), seed
            changed += near != tuple(sequence)
            repeated += bool(before.repeats)
    # Otherwise nothing was tested.
    assert min(changed, repeated) > 200


@pytest.mark.parametrize(
    ("peak", "traffic", "taken"),
    [(BUDGET, 0, "near"), (BUDGET + 1, 0, "plan"), (BUDGET, 1, "plan")],
)
def test_a_near_order_is_taken_if_it_fits_and_costs_no_more(
    peak: int, traffic: int, taken: str
) -> None:
    graph, hidden = sums(), HiddenBytes({}, {})
    memories = {"plan": StepMemory(900, 900, hidden), "near": StepMemory(peak, peak, hidden)}
    plan = SimpleNamespace(
        sequence=(0, 2, 3, 1, 4), graph=graph, repeats=(), extra=0, bound=0, total=5, peak=10
    )
    step = SimpleNamespace(
        split=lambda _, order: "near" if order == (0, 1, 2, 3, 4) else "other",
        memory=memories.get,
        cut_cost=lambda modules: traffic if modules == "near" else 0,
        peak=lambda modules: memories[modules].peak if modules in memories else None,
        settings=SimpleNamespace(peak=BUDGET),
        graph=graph,
        default="default",
        name="step",
    )
    tried: Any = Tried(memories["plan"], plan, "plan", "ops", 0)  # type: ignore[arg-type]
    search: Any = SimpleNamespace(
        step=step,
        budget=BUDGET,
        models=[SimpleNamespace(what="ops")],
        tried=[tried],
        clock=Clock.of(Limits(seconds=3600)),
        torch_split=lambda: None,
    )
    modules, record = answer(search)
    assert modules == taken  # type: ignore[comparison-overlap]
    assert record.after == memories[taken].peak
