"""Both relaxations of undecided choices against all splits that agree with what is decided."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from optsched.check.fused import leaf_graph
from optsched.errors import GraphError
from optsched.model.allowances import relaxation, with_allowances
from optsched.model.builder import GraphBuilder
from optsched.model.fused import FusedGraph
from optsched.model.fusion import finest_split, inner_buffers, merge
from optsched.model.graph import Graph
from optsched.solver.pipeline import solve
from tests.support.brute_fusion import all_splits, least_peak, random_fused, random_stages


def least(graph: Graph) -> int:
    """Return the least peak of an ordinary graph."""
    found = solve(graph, objective="peak", time_limit=20)
    assert found.peak is not None
    assert found.peak == found.peak_bound
    return found.peak


def truth(fused: FusedGraph, stay: frozenset[int], cut: frozenset[int]) -> int | None:
    """Return the least peak over all splits that agree; None if there are none."""
    peaks = []
    for groups in all_splits(fused):
        inside = {b for b in fused.local if any(fused.users[b] <= set(g) for g in groups)}
        if stay <= inside and not cut & inside:
            peak = least_peak(fused, groups)
            peaks += [] if peak is None else [peak]
    return min(peaks, default=None)


@pytest.mark.parametrize("make", [random_fused, random_stages])
def test_no_agreeing_split_is_below_a_bound(
    make: Callable[[np.random.Generator], FusedGraph],
) -> None:
    compared, higher, lower = 0, 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        fused = make(rng)
        kinds = {b: int(rng.integers(0, 6)) for b in sorted(fused.local)}
        stay = frozenset(b for b, kind in kinds.items() if kind == 1)
        cut = frozenset(b for b, kind in kinds.items() if kind == 2)
        split = finest_split(fused, stay)
        agreeing = truth(fused, stay, cut)
        if agreeing is None or cut & inner_buffers(fused, split):
            continue
        bounds = []
        for allowed in (False, True):
            graph, above = relaxation(fused, split, cut, allowed=allowed)
            bounds.append(least(graph) - above)
            # The checker has its own reading of the relaxations.
            read, beside = leaf_graph(fused, stay, cut, allowed=allowed)
            assert (least(read) - beside, beside) == (bounds[-1], above)
        assert max(bounds) <= agreeing
        compared += 1
        higher += bounds[1] > bounds[0]
        lower += bounds[1] < bounds[0]
    # Neither relaxation is always the better one.
    assert compared > 30
    assert higher > 8 if make is random_stages else lower > 0


def test_a_buffer_counts_while_others_run() -> None:
    build = GraphBuilder("between")
    build.op("exp", writes={"t": 8, "u": 1})
    build.op("other", reads=["u"], writes={"x": 4})
    build.op("sum", reads=["t", "x"], writes={"y": 1})
    build.output("y")
    fused = FusedGraph(graph=build.build(), nodes=(), local=frozenset())
    assert least(fused.graph) == 13
    # `exp` and `sum` cannot be fused around `other`, so that nothing is allowed here.
    graph, above = relaxation(fused, ((0,), (1,), (2,)), frozenset(), allowed=True)
    assert (least(graph), above) == (13, 0)


def test_scratch_buffers_have_names_of_their_own() -> None:
    build = GraphBuilder("names")
    build.op("a", writes={"allowance 0": 1})
    build.op("b", reads=["allowance 0"], writes={"y": 1})
    build.output("y")
    graph = with_allowances(build.build(), [0, 5])
    assert [buffer.name for buffer in graph.buffers] == ["allowance 0", "y", "allowance 1"]


def test_bytes_near_the_limit_are_left_out() -> None:
    build = GraphBuilder("large")
    build.op("a", writes={"t": 2**61})
    build.op("b", reads=["t"], writes={"y": 1})
    for i in range(4):
        build.op(f"c{i}", writes={f"z{i}": 1})
    build.output("y", *(f"z{i}" for i in range(4)))
    fused = FusedGraph(graph=build.build(), nodes=((0, 1),), local=frozenset({0}))
    split = finest_split(fused, ())
    with pytest.raises(GraphError, match=r"2\*\*62"):
        with_allowances(merge(fused, split), [2**61, 2**61, 0, 0, 0, 0])
    graph, above = relaxation(fused, split, frozenset(), allowed=True)
    assert (least(graph), above) == (5, 0)
