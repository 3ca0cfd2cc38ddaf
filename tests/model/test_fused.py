"""Fused graphs: what is refused, and what a split makes of the graph."""

from __future__ import annotations

from typing import Any

import pytest

from optsched.check.fused import check_split
from optsched.errors import GraphError
from optsched.model.builder import GraphBuilder
from optsched.model.fused import FusedGraph
from optsched.model.fusion import finest_split, is_acyclic, kernels, merge, traffic, whole_split
from optsched.model.graph import Graph
from optsched.solver.pipeline import solve
from tests.support.brute_fusion import least_peak


def chain(inplace: bool = False) -> Graph:
    """Return `a -> b -> c`; each op may overwrite what it reads."""
    build = GraphBuilder("chain")
    build.input("x", 8)
    for op, read, made in (("a", "x", "p"), ("b", "p", "q"), ("c", "q", "y")):
        build.op(op, reads=[read], writes={made: 8})
        build.inplace(op, made, read)
    build.output("y")
    graph = build.build()
    return graph.with_inplace() if inplace else graph


def fused(**changed: Any) -> FusedGraph:
    made = {"graph": chain(), "nodes": ((0, 1, 2),), "local": frozenset({1, 2})}
    return FusedGraph(**{**made, **changed})


def test_whole_nodes_have_no_local_buffers() -> None:
    graph = merge(fused(graph=chain(inplace=True)), ((0, 1, 2),))
    assert [buffer.name for buffer in graph.buffers] == ["x", "y"]
    # `c` takes the bytes of `x` by way of two buffers that are gone.
    assert graph.inplace == ((0, 1, 0),)


def test_an_absorbed_buffer_gives_its_bytes_to_one_other() -> None:
    build = GraphBuilder("two outputs")
    build.input("x", 8, policy="freed")
    build.input("w", 8, policy="freed")
    build.op("a", reads=["x", "w"], writes={"t": 8})
    build.op("b", reads=["t"], writes={"y": 8, "z": 8})
    for op, output, source in (("a", "t", "x"), ("a", "t", "w"), ("b", "y", "t"), ("b", "z", "t")):
        build.inplace(op, output, source)
    build.output("y", "z")
    graph = build.build().with_inplace()
    one = FusedGraph(graph=graph, nodes=((0, 1),), local=frozenset(), absorbed=((3, 2),))
    merged = merge(one, ((0, 1),))
    names = [buffer.name for buffer in merged.buffers]
    # `t` lies in `y`, which may take the bytes of an input; `z` cannot lie there, too.
    assert [(names[y], names[x]) for _, y, x in merged.inplace] == [("y", "x"), ("y", "w")]
    truth = least_peak(one, ((0, 1),))
    assert truth == check_split(one, [(0, 1)]).peak == solve(merged, objective="peak").peak == 24


def test_a_split_that_waits_in_a_circle_is_joined() -> None:
    # `p` and `q` of the two ends are kept together, so the middle joins them.
    build = GraphBuilder("ends")
    build.op("a", writes={"p": 4, "t": 2})
    build.op("b", reads=["p"], writes={"q": 4})
    build.op("c", reads=["q", "t"], writes={"y": 4})
    build.output("y")
    graph = FusedGraph(graph=build.build(), nodes=((0, 1, 2),), local=frozenset({0, 1, 2}))
    assert not is_acyclic(graph, [(0, 2), (1,)])
    assert finest_split(graph, {graph.graph.buffer_ids["t"]}) == ((0, 1, 2),)
    assert finest_split(graph, {graph.graph.buffer_ids["p"]}) == ((0, 1), (2,))


def test_kernels_read_a_tensor_once() -> None:
    rows = (("x", 8), ("w", 4))
    graph = fused(
        reads=(rows, (("p", 8), ("w", 4)), (("q", 8),)),
        writes=((("p", 8),), (("q", 8),), (("y", 8),)),
    )
    assert traffic(graph, whole_split(graph)) == 8 + 4 + 8
    assert traffic(graph, ((0,), (1,), (2,))) == (8 + 4 + 8) + (8 + 4 + 8) + (8 + 8)
    assert kernels(graph, whole_split(graph)) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"nodes": ((0, 1), (1, 2))}, "list a part twice"),
        ({"nodes": ((0,),)}, "at least two parts"),
        (
            {"nodes": ((0, 2),), "local": frozenset()},
            "wait for each other: '[ab]' -> '[ab]' -> '[ab]'",
        ),
        ({"local": frozenset({0, 1, 2})}, "'x' is local, but an input"),
        ({"nodes": ((0, 1),)}, "'q' is used outside of its fused node"),
        ({"absorbed": ((3, 2),)}, "'y' cannot absorb 'q'"),
        ({"reads": ((),)}, "expected the bytes of each part"),
        ({"blockers": (((0, 2, 0), frozenset({1})),)}, "not an in-place candidate"),
        ({"blockers": (((0, 1, 0), frozenset({0})),)}, "blockers of op 'a'"),
    ],
)
def test_nonsense_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        fused(**changed)
