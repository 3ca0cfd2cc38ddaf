"""Interrupts and limits of the search for splits, and of the search for few cuts."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.certificate.fusion import certify_fusion
from optsched.check.fused import check_fusion, check_split
from optsched.model.fused import FusedGraph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, StopReason
from optsched.solver.fusion import branching, oracle, search
from optsched.solver.fusion.front import cheapest_within, find_front
from optsched.solver.fusion.oracle import Oracle
from optsched.solver.fusion.price import why_cut, with_useful_cuts
from optsched.solver.fusion.result import FusionResult, Point
from optsched.solver.fusion.search import search_fusion
from tests.support.brute_fusion import brute_force, random_fused, random_stages
from tests.support.interrupts import interrupt_at, interrupted_at_line


def clock() -> Clock:
    """Return a limit that no graph here reaches."""
    return Clock.of(Limits(seconds=60))


def searched() -> tuple[FusedGraph, FusionResult]:
    """Return a graph whose proof has branches, and which cuts make better."""
    for seed in range(500):
        graph = random_fused(np.random.default_rng(seed))
        found = search_fusion(graph, clock())
        if found.branches and found.solves > 4 and found.saved:
            return graph, found
    raise AssertionError("no such graph")


def test_an_interrupted_search_returns_sound_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, full = searched()
    solve, seen = Oracle.solve, 0
    for call in range(1, 100):
        monkeypatch.setattr(Oracle, "solve", interrupt_at(call, solve))
        try:
            found = search_fusion(graph, clock())
        except KeyboardInterrupt:
            # Nothing was known yet.
            continue
        if found.stop_reason is not StopReason.INTERRUPTED:
            break
        seen += 1
        assert found.bound <= full.best.peak <= found.best.peak <= found.whole.peak
        front = find_front(found, clock())
        # The search for few cuts does not go on after a Ctrl-C.
        assert front.stop_reason is StopReason.INTERRUPTED
        assert front.points[-1].peak == found.best.peak
    assert seen > 2


def test_interrupts_at_any_line_return_sound_bounds() -> None:
    graph, full = searched()
    reached = 0
    for line in range(1, 20_000, 61):
        try:
            with interrupted_at_line(line, search, oracle):
                found = search_fusion(graph, clock())
        except KeyboardInterrupt:
            continue
        assert found.bound <= full.best.peak <= found.best.peak
        if found.stop_reason is not StopReason.INTERRUPTED:
            break
        reached += 1
        # Later lines that are left out belong to the end of a call.
        check_fusion(graph, certify_fusion(found, clock()).certificate)
    assert reached > 10


def test_an_interrupted_front_has_the_best_split(monkeypatch: pytest.MonkeyPatch) -> None:
    _, full = searched()
    monkeypatch.setattr(Oracle, "solve", interrupt_at(1, Oracle.solve))
    monkeypatch.setattr(oracle, "follow", interrupt_at(1, oracle.follow))
    front = find_front(full, clock())
    assert front.stop_reason is StopReason.INTERRUPTED
    assert front.points == (full.whole, with_useful_cuts(full.fused, full.best))


def test_a_front_without_time_has_the_best_split() -> None:
    _, full = searched()
    front = find_front(full, Clock.of(Limits(seconds=0)))
    assert front.points == (full.whole, with_useful_cuts(full.fused, full.best))


def test_the_cheapest_split_within_a_peak_moves_the_fewest_bytes() -> None:
    points = [Point((), peak, 1, traffic) for peak, traffic in ((10, 5), (8, 9), (6, 7), (4, 8))]
    assert [cheapest_within(points, peak) for peak in (10, 8, 5, 3)] == [
        points[0],
        points[2],
        points[3],
        None,
    ]


def test_each_cut_saves_bytes_even_without_time() -> None:
    useless = 0
    for seed in range(40):
        graph = random_stages(np.random.default_rng(seed))
        found = search_fusion(graph, clock())
        rows = found.best.cut_nodes(graph)
        useless += sum(why_cut(graph, found.best, k)[0] <= 0 for k in rows)
        for point in find_front(found, Clock.of(Limits(seconds=0))).points[1:]:
            assert check_split(graph, point.groups).peak == point.peak <= found.best.peak
            assert point.kernels <= found.best.kernels
            assert all(why_cut(graph, point, k)[0] > 0 for k in point.cut_nodes(graph))
    assert useless > 5


def test_a_tree_of_limited_depth_has_a_sound_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    # Readers of certificates refuse deeper trees.
    graph, full = searched()
    monkeypatch.setattr(search, "DEEPEST", 1)
    found = search_fusion(graph, clock())
    assert found.bound <= full.best.peak <= found.best.peak
    assert found.branches <= 1
    written = certify_fusion(found, clock())
    assert written.certificate.bound == found.bound
    assert check_fusion(graph, written.certificate)


def test_each_rule_alone_proves_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [random_stages(np.random.default_rng(seed)) for seed in range(12)]
    truths = [brute_force(graph) for graph in graphs]
    branches = []
    for tried, helps in ((16, None), (1, None), (16, False), (1, False), (16, True)):
        with monkeypatch.context() as patch:
            patch.setattr(branching, "MOST_TRIED", tried)
            if helps is not None:
                patch.setattr(search.Search, "_helps", lambda _, __, helps=helps: helps)
            found = [search_fusion(graph, clock()) for graph in graphs]
        assert [x.best.peak for x in found] == [x.bound for x in found] == truths
        branches.append(sum(x.branches for x in found))
    # The second relaxation makes trees smaller.
    assert branches[0] < branches[2]


def test_the_buffer_whose_decision_says_most_is_branched_on() -> None:
    none, other = frozenset[int](), 0
    for seed in range(60):
        graph = random_stages(np.random.default_rng(seed))
        engine = Oracle(graph, clock())
        peak = engine.solve(search.whole_split(graph)).peak
        relaxed = engine.relaxed(search.finest_split(graph, ()), none, allowed=False)
        found = branching.near_peak(graph, relaxed, none)
        scores = {}
        for b in found:
            sides = ((frozenset({b}), none), (none, frozenset({b})))
            both = [branching.quick_bound(engine, relaxed, *x, peak, False) for x in sides]
            scores[b] = (min(both), max(both))
        chosen = branching.next_buffer(engine, relaxed, none, none, peak)
        if chosen is None:
            assert not found
            continue
        assert len(found) < 2 or scores[chosen] == max(scores.values())
        other += chosen != found[0]
    assert other > 3
