"""The checker's own account of streams: what it refuses, and what it measures."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from optsched.check import antichain
from optsched.check.antichain import check_antichain, most_in_conflict
from optsched.check.executions import replay_executions
from optsched.check.plan import check_plan
from optsched.check.precedence import Precedence
from optsched.check.replay import replay_plan
from optsched.errors import PlanError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from tests.model.test_streams import loads
from tests.support.brute_streams import conflict_pairs, held_by, random_stream_graph
from tests.support.generators import random_order

ORDER = (0, 2, 1, 3)


def plan_of(graph: Graph, **offsets: int) -> Plan:
    return Plan(ORDER, tuple(offsets[buffer.name] for buffer in graph.buffers))


def test_a_plan_of_one_stream_need_not_do_on_two() -> None:
    graph = loads()
    # `w2` lies where `x` and `w` were: right if `mul` has ended when `load2` starts.
    shared = plan_of(graph, x=0, w=8, w2=0, y=24, z=16)
    check_plan(graph.without_streams(), shared, slab=32)
    replay_plan(graph.without_streams(), shared)
    overlap = "buffers 'x' at [0, 8) and 'w2' at [0, 16) overlap and may be in use at once"
    with pytest.raises(PlanError, match=re.escape(overlap)):
        check_plan(graph, shared)
    with pytest.raises(PlanError, match=r"op 'mul' .* its operand '[wx]' finds 'w2' at byte"):
        replay_executions(graph, shared)


def test_a_plan_that_keeps_apart_what_may_meet() -> None:
    graph = loads()
    plan = plan_of(graph, x=0, w=8, w2=24, y=40, z=0)
    checked = check_plan(graph, plan, peak=48, slab=48)
    assert checked.slab == 48
    seen = replay_executions(graph, plan, runs=5)
    assert (seen.steps, seen.cells) == (20, 4)
    with pytest.raises(PlanError, match="claims a peak of 32 bytes, the replay gives 48"):
        check_plan(graph, plan, peak=32)


def test_an_order_keeps_its_syncs() -> None:
    graph = loads()
    with pytest.raises(PlanError, match="op 'mul' \\(step 0\\) runs before 'load'"):
        check_plan(graph, replace(plan_of(graph, x=0, w=8, w2=24, y=40, z=0), order=(2, 0, 1, 3)))


def test_an_antichain_is_a_bound() -> None:
    graph = loads()
    known = Precedence(graph, ORDER)
    ids = [graph.buffer_ids[name] for name in ("x", "w", "w2", "y")]
    assert check_antichain(graph, known, ids) == 48
    with pytest.raises(PlanError, match="buffers 'x' and 'z' are never in use at once"):
        check_antichain(graph, known, [*ids, graph.buffer_ids["z"]])


def test_a_buffer_before_any_other_is_no_part_of_an_antichain() -> None:
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        graph = random_stream_graph(rng, int(rng.integers(1, 10)), int(rng.integers(1, 4)))
        order = random_order(rng, graph)
        known, conflicts = Precedence(graph, order), conflict_pairs(graph, order)
        held = [row.id for row in held_by(graph)]
        chosen = [b for b in held if rng.random() < 0.4]
        if all(pair in conflicts for pair in combinations(chosen, 2)):
            check_antichain(graph, known, chosen)
        else:
            refused += 1
            with pytest.raises(PlanError, match="are never in use at once"):
                check_antichain(graph, known, chosen)
    assert refused > 50


def test_an_antichain_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    build = GraphBuilder("apart")
    for v in range(2_000):
        build.op(f"op{v}", writes={f"b{v}": 1}, stream=f"s{v % 4}")
        build.output(f"b{v}")
    graph = build.build()
    known, looks = Precedence(graph, range(2_000)), []
    before = Precedence.before
    monkeypatch.setattr(Precedence, "before", lambda *pair: looks.append(1) or before(*pair))
    assert check_antichain(graph, known, range(2_000)) == 2_000
    assert len(looks) <= 4 * 2 * 2_000


def test_no_word_of_the_flow_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = loads()
    known, live = Precedence(graph, ORDER), range(len(graph.buffers))
    solve = antichain._solve
    assert most_in_conflict(graph, known, live) == 48
    arcs, flow, chosen = solve(graph, known, list(live))
    first = next(i for i, amount in enumerate(flow) if amount)
    less = [amount - (i == first) for i, amount in enumerate(flow)]
    for found, said in (
        ((arcs, less, chosen), "loses bytes"),
        ((arcs, [0] * len(flow), chosen), "a flow shows 56 bytes to conflict at most, a set 48"),
        ((arcs, flow, chosen[1:]), "to conflict at most, a set"),
        ((arcs, [-amount for amount in flow], chosen), "runs backwards"),
    ):
        monkeypatch.setattr(antichain, "_solve", lambda *_, found=found: found)
        with pytest.raises(PlanError, match=said):
            most_in_conflict(graph, known, live)
