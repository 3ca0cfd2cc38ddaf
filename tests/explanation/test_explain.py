"""Explanations: the bytes add up, and what a smaller buffer brings is so."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optsched.certificate.bounds import with_precedences
from optsched.explanation import Explanation, Reason, explain, explain_op, reasons
from optsched.formats import write_graph
from optsched.model.graph import Graph
from optsched.ordering import OrderOutcome, closure_bound, solve_order
from optsched.ordering.bound.precedences import related
from optsched.ordering.bound.sets import ForcedSet
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import build_problem
from optsched.runtime.limits import Limits, StopReason
from optsched.runtime.text import counted
from tests.ordering.test_inplace import some_graph
from tests.support.brute import least_peak, orders, spans_of
from tests.support.commands import Cli
from tests.support.families.small import chain, diamond
from tests.support.generators import PLAIN, random_graph
from tests.support.ordering_oracle import Oracle


def resized(graph: Graph, buffer: int, size: int) -> Graph:
    smaller = replace(graph.buffers[buffer], size=size)
    return replace(graph, buffers=(*graph.buffers[:buffer], smaller, *graph.buffers[buffer + 1 :]))


def check_live(graph: Graph, found: Explanation) -> None:
    """Buffers reported as live add up to the bound, and each has a holder."""
    saved = sum(graph.buffers[output].size for output, _ in found.shared)
    assert sum(row.size for row in found.buffers) - saved == found.forced >= found.bound
    live = {row.buffer for row in found.buffers}
    assert all({output, source} <= live for output, source in found.shared)
    for row in found.buffers:
        assert row.holders or row.output or row.producer == found.op
        assert row.size == graph.buffers[row.buffer].size > 0


def bound_of(graph: Graph, found: Explanation) -> int:
    """The bound that an explanation is about, of a graph with other sizes."""
    closure = closure_bound(graph).value
    if found.reason != ForcedSet.name:
        return closure
    context = SearchContext(build_problem(graph.arrays))
    found = ForcedSet.find(context, related(context.problem), closure)
    return found.value if found else closure


def test_random_graphs_are_explained_to_the_byte() -> None:
    rng = np.random.default_rng(8)
    for _ in range(60):
        graph = random_graph(rng, ops=int(rng.integers(0, 10)))
        found = explain(graph)
        check_live(graph, found)
        assert found.bound == found.peak == least_peak(graph) >= found.op_bound
        assert found.op_bound == closure_bound(graph).value
        if found.reason in (Reason.OP, Reason.ENDS):
            assert found.bound == found.op_bound
            assert len(found.changes) == min(8, len(found.buffers))
        for change in found.changes if found.reason != ForcedSet.name else ():
            size = graph.buffers[change.buffer].size - change.smaller_by
            least = closure_bound(resized(graph, change.buffer, 0)).value
            assert closure_bound(resized(graph, change.buffer, size)).value == least == change.bound
            if change.smaller_by:
                larger = closure_bound(resized(graph, change.buffer, size + 1)).value
                assert larger == least + 1
            else:
                assert least == found.bound
        text = str(found)
        assert f"{found.bound:,} bytes" in text


def test_in_place_explanations_add_up_and_changes_are_the_smallest() -> None:
    rng = np.random.default_rng(9)
    written = helped = 0
    for _ in range(30):
        graph = some_graph(rng, 9, max_size=6)
        found = explain(graph, changes=3)
        check_live(graph, found)
        assert found.bound == least_peak(graph) == found.peak
        for change in found.changes if found.reason != ForcedSet.name else ():
            size = graph.buffers[change.buffer].size
            bounds = [
                closure_bound(resized(graph, change.buffer, t)).value for t in range(size + 1)
            ]
            assert change.bound == min(bounds)
            largest = max(t for t, bound in enumerate(bounds) if bound == min(bounds))
            assert size - change.smaller_by == largest
            helped += change.smaller_by > 0
        written += len(found.shared)
        text = str(found)
        assert text.count("in place:") == len(found.shared)
    assert written >= 2
    assert helped >= 5


@pytest.mark.parametrize("inplace", [False, True])
def test_what_is_said_to_be_live_in_every_order_is(inplace: bool) -> None:
    """By all orders: an op's own output is live while it runs, written in place or not."""
    shared = absent = 0
    for seed in range(80):
        graph = random_graph(np.random.default_rng([9, seed]), 5)
        found = explain(graph.with_inplace() if inplace else graph, changes=0)
        if found.reason is not Reason.OP or found.op is None:
            continue
        lives = [
            {b for b, (start, end) in spans_of(graph, order).items() if start <= at < end}
            for order in orders(graph)
            for at in (order.index(found.op),)
        ]
        always = set[int].intersection(*lives)
        assert {row.buffer for row in found.buffers if row.forced} == always
        shared += len(found.shared)
        absent += len(found.buffers) - len(always)
    assert absent
    assert bool(shared) is inplace


def some_sets(count: int) -> Iterator[tuple[Graph, Explanation]]:
    """Random graphs whose bound comes from a set of ops."""
    for seed in itertools.count():
        graph = random_graph(np.random.default_rng(seed), ops=9, max_reads=2)
        found = explain(graph)
        if found.reason == ForcedSet.name:
            yield graph, found
            count -= 1
        if not count:
            return


def test_one_of_a_set_forces_the_bound_and_the_others_no_less() -> None:
    """By all downsets: what each candidate forces, who is none, and what is live in every order."""
    optional = 0
    for graph, found in some_sets(5):
        oracle, group = Oracle(graph), found.by
        assert isinstance(group, ForcedSet)
        assert found.bound > found.op_bound
        forced = {}
        for v in group.ops:
            others = sum(1 << u for u in group.ops if u != v)
            sides = {"ended": others} if group.last else {"waiting": others}
            least = oracle.least_during(v, **sides)
            if least is not None:
                forced[v] = least
        assert dict(group.candidates) == forced
        assert group.candidates[0] == (found.op, found.bound)
        assert found.bound == found.forced == min(forced.values())
        others = sum(1 << u for u in group.ops if u != found.op)
        at = [
            done
            for done in oracle.downsets
            if not oracle.before[found.op] & ~done
            and not done >> found.op & 1
            and not (others & ~done if group.last else others & done)
        ]
        for row in found.buffers:
            without = Oracle(resized(graph, row.buffer, 0))
            live = [oracle.live(d, 1 << found.op) > without.live(d, 1 << found.op) for d in at]
            assert all(live) == row.forced
            optional += not row.forced
    assert optional


def test_a_smaller_buffer_lowers_the_bound_of_all_ops_and_sets_to_what_is_said() -> None:
    """Solve the changed graph: no larger size is as good, and no order has less."""
    helped = by_set = 0
    for graph, found in some_sets(8):
        for change in found.changes:
            size = graph.buffers[change.buffer].size - change.smaller_by
            changed = resized(graph, change.buffer, size)
            assert bound_of(changed, found) <= change.bound <= least_peak(changed)
            gone = resized(graph, change.buffer, 0)
            assert bound_of(gone, found) <= change.bound <= least_peak(gone)
            assert (change.bound == found.bound) == (change.smaller_by == 0)
            if change.smaller_by:
                helped += 1
                larger = resized(graph, change.buffer, size + 1)
                assert least_peak(larger) > change.bound
            by_set += change.by_set
    assert helped > 15
    assert by_set > 8


def test_each_precedence_holds_in_every_order_below_the_bound() -> None:
    """By all downsets, each with those before it as edges; then an op or a set does not fit."""
    found = [(g, e) for g, e in some_plain(PRECEDENCES) if e.reason is Reason.PRECEDENCES]
    assert len(found) == len(PRECEDENCES)
    for whole, explanation in found:
        graph = whole
        check_live(graph, explanation)
        assert explanation.bound == explanation.peak > explanation.op_bound
        assert explanation.changes == ()
        for row in explanation.precedences:
            oracle = Oracle(graph)
            other = row.second if row.at == row.first else row.first
            sides = {"ended": 1 << other} if row.at == row.first else {"waiting": 1 << other}
            assert {row.at, other} == {row.first, row.second}
            assert oracle.least_during(row.at, **sides) == row.forced >= explanation.bound
            graph = with_precedences(graph, [(row.first, row.second)])
        if explanation.by is None:
            assert Oracle(graph).least_during(explanation.op) == explanation.forced


PRECEDENCES = (0, 9, 62, 96, 289, 332)
SEARCHED = (115, 126, 253, 258, 299)
"""Seeds of plain graphs that are explained so."""


def some_plain(seeds: Sequence[int]) -> Iterator[tuple[Graph, Explanation]]:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        most, reads = int(rng.choice([2, 4, 16])), int(rng.choice([2, 3]))
        graph = random_graph(rng, ops=14, features=PLAIN, max_size=most, max_reads=reads)
        yield graph, explain(graph)


def test_what_only_search_proves_is_told_from_the_best_order() -> None:
    for graph, found in some_plain(SEARCHED):
        assert found.reason is Reason.SEARCH
        assert found.searched is not None
        assert found.op is not None
        assert found.bound == found.peak == found.forced == Oracle(graph).least_peak()
        assert found.op_bound == max(
            closure_bound(graph).value, *(Oracle(graph).least_during(v) for v in range(14))
        )
        of_one = explain_op(graph)
        assert of_one.bound == of_one.forced == found.op_bound < found.bound
        assert of_one.op == found.op_bound_at
        assert found.searched.states > 0
        check_live(graph, found)
        record = found.to_dict()
        text = str(found)
        assert f"{counted(found.bound - found.op_bound, 'byte')} less" in text
        assert f"examining {found.searched.states:,} states" in text
        assert f"at step {found.searched.step:,}, while op {record['op']} runs" in text


def test_an_interrupted_search_leaves_what_was_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli: Cli
) -> None:
    graph, complete = next(some_plain(SEARCHED))

    def interrupted(*args: Any, **kwargs: Any) -> OrderOutcome:
        outcome = solve_order(*args, **kwargs)
        known = {"bound": bound, "proof": None, "stop_reason": StopReason.INTERRUPTED}
        return replace(outcome, **known)

    monkeypatch.setattr(reasons, "solve_order", interrupted)
    path = tmp_path / "graph.json"
    write_graph(graph, path)
    for bound, reason in ((complete.op_bound, "ends"), (complete.bound - 1, "search")):
        record = cli.json("explain", path, code=130)
        assert (record["bound"], record["reason"], record["interrupted"]) == (bound, reason, True)
        assert "interrupted" in cli("explain", path, code=130)


@pytest.mark.parametrize("stage", ["shrink", "BudgetPrecedences"])
def test_an_interrupt_after_the_search_leaves_what_was_known(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = chain() if stage == "shrink" else next(some_plain(SEARCHED))[0]
    complete = explain(graph)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reasons, stage, interrupted)
    found = explain(graph)
    assert found.interrupted
    assert (found.bound, found.peak, found.op) == (complete.bound, complete.peak, complete.op)
    assert found.untried == (len(complete.changes) if stage == "shrink" else 0)
    text = str(found)
    assert "interrupted" in text
    assert "time limit" not in text


def test_without_time_the_bound_of_one_op_is_explained() -> None:
    graph, complete = next(some_plain(SEARCHED))
    found = explain(graph, limits=Limits(seconds=0.0))
    assert found.bound <= complete.bound <= found.peak
    # Smaller sizes are tried only while there is time, also if one op's bound takes none.
    assert found.untried == min(8, len(found.buffers)) > 0
    assert not found.changes
    text = str(found)
    assert ("is not known" in text) == (found.bound < found.peak)


def test_a_bottleneck_names_op_buffers_and_holders() -> None:
    record = explain(diamond()).to_dict()
    assert json.loads(json.dumps(record)) == record
    at = {row["name"]: row for row in record["buffers"]}
    assert sum(row["size"] for row in record["buffers"]) == record["forced"] >= record["bound"]
    assert record["at"] == "op"
    assert all(row["held_by"] or row["output"] or row["producer"] for row in at.values())


def test_the_command_prints_text_and_json(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "diamond.json"
    write_graph(diamond(), path)
    assert "no order has a peak below" in cli("explain", path)
    record = cli.json("explain", path)
    assert {"bound", "peak", "reason", "op", "forced", "buffers", "changes"} <= set(record)
    assert (
        record["precedences"][0]["else"]["bytes"] >= record["bound"] > record["op_bound"]["bytes"]
    )
