"""Exactness of streams on random small graphs.

Each question is answered by the project and by enumeration (`tests/support/brute_streams.py`):

* relation: do the conflicts and the largest antichain agree?
* slab: with one order left to each stream, is the slab the least, and is that proved?
* widened: with live ranges widened in place of pairs, does every plan and bound hold?
* order: over all orders of the streams, are slab and peak the least, and the bounds valid?
* check: does the checker take a plan exactly if no two conflicting buffers overlap, and do
  executions at random turns find what is wrong with the others?
* levels: is the plan of ops in levels the least of the intervals of levels?

Graphs have one to three streams and all that a graph on streams can have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import numpy as np

from optsched.api import certify
from optsched.check.certificate import check_certificate
from optsched.check.executions import replay_executions
from optsched.check.plan import check_plan
from optsched.check.replay import replay_plan
from optsched.errors import GraphError, PlanError
from optsched.formats.native import graph_document
from optsched.model import stream_relation as relation_module
from optsched.model.antichain import largest_antichain
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.model.plan import Plan
from optsched.model.stream_relation import StreamRelation, stream_relation
from optsched.model.streams import in_levels, in_streams
from optsched.ordering.bound.forced_conflicts import forced_conflict_bound
from optsched.runtime.limits import SIZES, Limits, Objective
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.status import Status
from tests.support import brute_streams as brute
from tests.support.brute import orders
from tests.support.generators import random_graph, with_limits

PLACES = frozenset({"alignment", "pins", "pools"})
LIMITS = Limits(seconds=60.0)


@dataclass
class Row:
    """Results of one question; `special` counts the graphs on which streams make a difference."""

    name: str
    graphs: int = 0
    special: int = 0
    wrong: list[str] = field(default_factory=list)


def hidden_conflicts(found: StreamRelation, ids: IntArray) -> IntArray:
    """Return the hidden conflicts; small graphs never have too many."""
    hidden = found.hidden_conflicts(ids)
    assert hidden is not None
    return hidden


def relation(row: Row, rng: np.random.Generator) -> None:
    """Compare what conflicts on streams with the definition."""
    graph = draw(rng, ops=8, buffers=12)
    order = next(orders(graph))
    found, largest = stream_relation(graph, order), largest_antichain(graph, order)
    ids = np.array([held.id for held in brute.held_by(graph)], np.int64)
    pairs = brute.conflict_pairs(graph, order)
    hidden = {(int(ids[i]), int(ids[j])) for i, j in hidden_conflicts(found, ids)}
    start, end = found.ranges().T
    cover = found.cover_ends()
    meeting = {
        (b, c)
        for b in ids.tolist()
        for c in ids.tolist()
        if b < c and start[b] < end[c] and start[c] < end[b]
    }
    expected = brute.antichain_bytes(graph, order)
    alone = timeline(graph, order).running.max(initial=graph.arrays.initial)
    row.special += expected > alone
    expect(row, graph, meeting | hidden == pairs and not meeting & hidden, "ranges and pairs")
    covered = all(start[b] < cover[c] and start[c] < cover[b] for b, c in pairs)
    expect(row, graph, covered and (end <= cover).all(), "conflicts that no wider range shows")
    sizes = sum(graph.buffers[b].size for b in largest.buffers)
    expect(row, graph, largest.size == expected == sizes, f"antichain {largest}, not {expected}")


def slab(row: Row, rng: np.random.Generator) -> None:
    """Pack the one order that is left to each stream."""
    more = PLACES if rng.random() < 0.5 else frozenset()
    graph = draw(rng, ops=8, buffers=8, more=more, limits=0.3)
    order = next(orders(graph))
    rows = {s: [v for v in order if graph.ops[v].stream == s] for s in graph.streams}
    fixed = in_streams(graph.without_streams(), rows)
    held = [each.id for each in brute.held_by(fixed)]
    # Pairs kept apart without a conflict in time.
    if len(held) > 2 and rng.random() < 0.3:
        a, b = sorted(rng.choice(held, 2, replace=False).tolist())
        fixed = replace(fixed, keep_apart=(*fixed.keep_apart, (a, b)))
    result = solved(row, fixed, brute.least_slab_on_streams(fixed, order), Objective.SLAB)
    if result is not None and result.slab is not None:
        row.special += result.slab > brute.antichain_bytes(fixed, order)


def widened(row: Row, rng: np.random.Generator) -> None:
    """Pack wider live ranges, where conflicts are too many to be named: no bound may rise."""
    graph = draw(rng, ops=8, buffers=8)
    order = next(orders(graph))
    rows = {s: [v for v in order if graph.ops[v].stream == s] for s in graph.streams}
    fixed = in_streams(graph.without_streams(), rows)
    least = brute.least_slab_on_streams(fixed, order) or 0
    # As on a graph of many conflicts: none may be named, so ranges are widened.
    objective, capacity = SIZES[row.graphs % 2], None if row.graphs % 3 else least
    with patch.object(relation_module, "MOST_PAIRS", 0):
        result = solve(fixed, objective=objective, capacity=capacity, limits=Limits(work=2000))
    expect(row, fixed, result.status is not Status.INFEASIBLE, f"no plan within {least} bytes")
    row.special += (result.slab or 0) > least
    expect(row, fixed, result.slab_bound <= least, f"bound {result.slab_bound} above {least}")
    expect(row, fixed, (result.slab or 0) >= least, f"slab {result.slab} below {least}")
    if result.plan is not None:
        replay_executions(fixed, result.plan, runs=3)


def order(row: Row, rng: np.random.Generator) -> None:
    """Choose the orders of the streams."""
    graph = draw(rng, ops=6, buffers=7, more=frozenset({"alignment"}), limits=0.3)
    objective = SIZES[row.graphs % 2]
    least = {
        Objective.SLAB: brute.least_slab_of_orders(graph),
        Objective.PEAK: brute.least_antichain(graph),
    }
    # A plan needs offsets for either objective.
    expected = None if least[Objective.SLAB] is None else least[objective]
    result = solved(row, graph, expected, objective)
    if result is None or result.plan is None:
        return
    expect(row, graph, result.peak_bound <= (least[Objective.PEAK] or 0), "peak bound")
    expect(row, graph, result.slab_bound <= (least[Objective.SLAB] or 0), "slab bound")
    # Certificates take most of the time.
    if row.graphs % 10 == 0:
        written = certify(graph, limits=LIMITS).certificate
        check_certificate(graph, written)
        expect(row, graph, written.bound <= (least[Objective.PEAK] or 0), "certificate")
    forced = forced_conflict_bound(graph)
    sizes = sum(graph.buffers[b].size for b in forced.buffers)
    expect(row, graph, forced.value == sizes <= (least[Objective.PEAK] or 0), "forced conflicts")
    alone = solve(graph.without_streams(), objective=Objective.PEAK, limits=LIMITS)
    row.special += (least[Objective.PEAK] or 0) > (alone.peak or 0)


def check(row: Row, rng: np.random.Generator) -> None:
    """Check and execute a plan that is right, or has one buffer moved."""
    graph = draw(rng, ops=7, buffers=12)
    order = next(orders(graph))
    pairs = brute.conflict_pairs(graph, order)
    offsets = place(graph, pairs)
    # Half the plans are spoiled, and many of these still work by luck.
    if offsets and rng.random() < 0.5:
        offsets[list(offsets)[int(rng.integers(len(offsets)))]] = int(rng.integers(20))
    plan = Plan(tuple(order), tuple(offsets.get(root) for root in graph.roots))
    size = [buffer.size for buffer in graph.buffers]
    valid = all(
        offsets[a] >= offsets[b] + size[b] or offsets[b] >= offsets[a] + size[a] for a, b in pairs
    )
    try:
        checked = check_plan(graph, plan)
        expect(row, graph, valid, "the checker takes a plan that is wrong")
        expect(row, graph, checked.peak == brute.antichain_bytes(graph, order), "checked peak")
    except PlanError as error:
        expect(row, graph, not valid, f"the checker refuses a plan that is right: {error}")
    try:
        # A wrong plan fails only in some executions: 80 find it on graphs of seven ops.
        replay_executions(graph, plan, runs=10 if valid else 80)
        expect(row, graph, valid, "no execution finds what is wrong")
    except PlanError as error:
        expect(row, graph, not valid, f"an execution fails: {error}")
    # Plans that only streams make wrong are the interesting ones.
    row.special += not valid and runs_one_at_a_time(graph, plan)


def levels(row: Row, rng: np.random.Generator) -> None:
    """Pack ops in levels by intervals of levels."""
    graph = random_graph(rng, int(rng.integers(1, 9)), max_size=8, features=brute.FEATURES)
    graph = in_levels(graph, most=int(rng.integers(1, 4)))
    held = brute.held_by(graph)
    # The oracle tries all sequences of buffers: 8! is 40,320.
    if len(held) > 8:
        return
    order = next(orders(graph))
    ids = np.array([each.id for each in held], np.int64)
    hidden = hidden_conflicts(stream_relation(graph, order), ids)
    expect(row, graph, not len(hidden), "levels are not intervals")
    solved(row, graph, brute.least_slab_on_streams(graph, order), Objective.SLAB)
    row.special += graph.on_streams


QUESTIONS: dict[str, Callable[[Row, np.random.Generator], None]] = {
    "relation": relation,
    "slab": slab,
    "widened": widened,
    "order": order,
    "check": check,
    "levels": levels,
}


def draw(
    rng: np.random.Generator,
    ops: int,
    buffers: int,
    more: frozenset[str] = frozenset(),
    *,
    limits: float = 0.0,
) -> Graph:
    """A graph on one to three streams that the oracle can take, with limits now and then."""
    while True:
        streams = int(rng.integers(1, 4))
        graph = brute.random_stream_graph(rng, int(rng.integers(1, ops + 1)), streams, more=more)
        if len(brute.held_by(graph)) <= buffers:
            return with_limits(rng, graph) if rng.random() < limits else graph


def place(graph: Graph, pairs: set[tuple[int, int]]) -> dict[int, int]:
    """Offsets as low as they go, one buffer after another."""
    offsets: dict[int, int] = {}
    for held in brute.held_by(graph):
        others = [b for b in offsets if (b, held.id) in pairs or (held.id, b) in pairs]
        offsets[held.id] = next(
            x
            for x in range(1000)
            if all(
                x >= offsets[b] + graph.buffers[b].size or offsets[b] >= x + held.size
                for b in others
            )
        )
    return offsets


def runs_one_at_a_time(graph: Graph, plan: Plan) -> bool:
    """Return True if a plan that is wrong on streams is right for ops one after another."""
    try:
        replay_plan(graph.without_streams(), plan)
    except PlanError:
        return False
    return True


def solved(row: Row, graph: Graph, least: int | None, objective: Objective) -> Result | None:
    """Solve a graph and expect the least; None where pins leave no packing."""
    try:
        result = solve(graph, objective=objective, limits=LIMITS)
    except GraphError:
        expect(row, graph, least is None, f"refused, but {least} bytes do")
        return None
    if result.plan is None:
        expect(row, graph, least is None, f"no plan, but {least} bytes do")
        return None
    value = result.slab if objective is Objective.SLAB else result.peak
    expect(row, graph, value == least, f"{objective} {value}, not {least}")
    expect(row, graph, result.status is Status.OPTIMAL, "not proved")
    replay_executions(graph, result.plan, runs=3)
    return result


def expect(row: Row, graph: Graph, right: bool, what: str) -> None:
    """Note what is not as it should be."""
    if not right:
        row.wrong.append(f"graph {row.graphs}: {what}: {graph_document(graph)}"[:2000])
        print(row.wrong[-1], file=sys.stderr)


def run(name: str, graphs: int, seed: int) -> Row:
    """Ask one question of a number of graphs."""
    # Each question has numbers of its own, whichever others are asked.
    rng = np.random.default_rng([seed, list(QUESTIONS).index(name)])
    row = Row(name)
    while row.graphs < graphs:
        QUESTIONS[name](row, rng)
        row.graphs += 1
    return row


def main(count: int = 2_000, seed: int = 1, *, questions: tuple[str, ...] = ()) -> int:
    rows = []
    for name in questions or QUESTIONS:
        rows.append(run(name, count, seed))
        row = rows[-1]
        counts = f"{row.graphs} graphs, streams matter on {row.special}"
        print(f"{name:10} {counts}, {len(row.wrong)} wrong", flush=True)
    return 1 if any(row.wrong for row in rows) else 0
