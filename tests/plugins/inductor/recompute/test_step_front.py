"""Plans for few saved bytes: a workspace between loss and backward ops limits what is saved."""

from __future__ import annotations

import random
from itertools import product

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[torch]'")

from optsched import Graph, GraphBuilder
from optsched.check.runs import check_runs
from optsched.model.training import find_loss
from optsched.plugins.inductor.recompute.step_front import _held, with_hold
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.solve import Planner


def chain(seed: int) -> tuple[Graph, list[int]]:
    """Return a step of a chain of forward ops, each with its gradient, and its backward ops."""
    draw = random.Random(seed)
    build, count = GraphBuilder("step", cost_unit="ms"), draw.randint(2, 5)
    build.input("x", 8, "excluded")
    build.input("tangents_1", 0, "excluded")
    before = "x"
    for i in range(count):
        build.op(
            f"f{i}", reads=[before], writes={f"b{i}": draw.randint(1, 9)}, cost=draw.randint(1, 9)
        )
        before = f"b{i}"
    build.output(before)
    after = "tangents_1"
    for i in reversed(range(count)):
        read = [after, f"b{i - 1}" if i else "x"]
        build.op(f"g{i}", reads=read, writes={f"d{i}": 1}, cost=1)
        after = f"d{i}"
    build.output(after)
    return build.build(), [*range(count, 2 * count)]


def saved(graph: Graph, sequence: tuple[int, ...]) -> int:
    """Return the bytes live after the loss, of first runs that a later run reads, with the loss."""
    at = sequence.index(len(graph.ops) // 2 - 1)
    total = 0
    for b, buffer in enumerate(graph.buffers):
        maker = graph.producers[b]
        if maker is None or maker >= len(graph.ops) // 2:
            continue
        runs = [i for i, v in enumerate(sequence) if v == maker]
        end = runs[1] if len(runs) > 1 else len(sequence)
        read = any(b in graph.ops[v].reads for v in sequence[at + 1 : end])
        total += buffer.size if read or buffer.output is not None else 0
    return total


@pytest.mark.parametrize("seed", range(25))
def test_plans_save_at_most_what_the_workspace_leaves_at_the_least_cost(seed: int) -> None:
    graph, behind = chain(seed)
    loss = [graph.ops[v].name for v in find_loss(graph)]
    order = (*range(len(graph.ops)),)
    peak = 100 + check_runs(graph, order).peak
    held = with_hold(graph, loss, behind, peak)
    start = _held(held, loss, frozenset(behind), order)
    assert check_runs(held, start).peak == peak + saved(graph, order)
    planner = Planner(held, loss, [start], early=False)
    forward = len(graph.ops) // 2
    for limit in range(saved(graph, order) + 1):
        result = planner.plan(peak + limit, Clock.of(Limits(seconds=20)))
        # By brute force: each forward op but the last is saved, or runs again.
        sizes = [graph.buffers[graph.ops[v].writes[0]].size for v in range(forward)]
        costs = [graph.ops[v].cost for v in range(forward)]
        every = [
            sum(cost for cost, keep in zip(costs, (*kept, True), strict=True) if not keep)
            for kept in product((False, True), repeat=forward - 1)
            if sum(n for n, keep in zip(sizes, (*kept, True), strict=True) if keep) <= limit
        ]
        assert (result.extra, result.bound) == ((min(every), min(every)) if every else (None, None))
        if result.sequence is not None:
            found = tuple(v for v in result.sequence if v < len(graph.ops))
            assert saved(graph, found) <= limit
