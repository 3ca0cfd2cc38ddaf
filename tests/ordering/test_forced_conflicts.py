"""Buffers that conflict in every order of the streams, a bound on all of them."""

from __future__ import annotations

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.ordering.bound.forced_conflicts import forced_conflict_bound
from tests.support.brute_streams import least_antichain


def apart(sync: bool) -> Graph:
    """Two streams that each fill a buffer and drop it; the second may wait for the first."""
    build = GraphBuilder("apart")
    build.op("fill", writes={"a": 8}, stream="one")
    build.op("drop", reads=["a"], writes={"b": 1}, stream="one")
    build.op("fill2", writes={"c": 6}, stream="two", control=["drop"] if sync else [])
    build.op("drop2", reads=["c"], writes={"d": 1}, stream="two")
    return build.build()


def test_streams_that_never_wait_hold_both() -> None:
    graph = apart(sync=False)
    found = forced_conflict_bound(graph)
    assert [graph.buffers[b].name for b in found.buffers] == ["a", "b", "c", "d"]
    assert found.value == least_antichain(graph) == 16


def test_a_sync_lets_them_share() -> None:
    graph = apart(sync=True)
    assert forced_conflict_bound(graph).value == least_antichain(graph) == 9


def test_ops_of_one_stream_are_never_kept_apart_by_it() -> None:
    graph = apart(sync=False).without_streams()
    assert forced_conflict_bound(graph).value == least_antichain(graph) == 9
