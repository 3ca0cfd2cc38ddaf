"""The least change of the graph in XLA's comment under which its list scheduler truly loses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from experiments.counterexamples.graphs import XLA_EDGES, XLA_SIZES, one_buffer_per_op
from heuristics import ORDERINGS
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from tests.support.brute import least_peak

Sizes = dict[str, int]
Edges = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Change:
    """Some edits of the drawing, what they cost in bytes and edges, and what they lead to."""

    words: str
    cost: int
    graph: Graph
    list_peak: int
    least_peak: int


def single_edits(
    sizes: Sizes, edges: Edges, most_bytes: int
) -> Iterator[tuple[str, int, Sizes, Edges]]:
    """Every change of one size by up to `most_bytes`, every edge added or taken away."""
    for op, size in sizes.items():
        for changed in range(max(0, size - most_bytes), size + most_bytes + 1):
            if changed != size:
                words = f"size of {op}'s buffer {changed} instead of {size}"
                yield words, abs(changed - size), {**sizes, op: changed}, edges
    for edge in edges:
        rest = tuple(e for e in edges if e != edge)
        yield f"without the edge {edge[0]} -> {edge[1]}", 1, sizes, rest
    reach = _reachable(edges, sizes)
    for u, v in combinations(sizes, 2):
        for tail, head in ((u, v), (v, u)):
            if (tail, head) not in edges and tail not in reach[head]:
                words = f"with an edge {tail} -> {head}"
                yield words, 1, sizes, (*edges, (tail, head))


def _reachable(edges: Edges, ops: Sizes) -> dict[str, set[str]]:
    reach: dict[str, set[str]] = {op: set() for op in ops}
    for _ in ops:
        for u, v in edges:
            reach[u] |= {v} | reach[v]
    return reach


def losing_changes(most_bytes: int = 3) -> list[Change]:
    """Return every losing change of least cost: single edits first, pairs where none loses."""
    one = list(single_edits(XLA_SIZES, XLA_EDGES, most_bytes))
    found = [c for edit in one if (c := _judge(*edit))]
    if not found:
        for words, cost, sizes, edges in one:
            for more, extra, sizes2, edges2 in single_edits(sizes, edges, most_bytes):
                change = _judge(f"{words}, {more}", cost + extra, sizes2, edges2)
                if change:
                    found.append(change)
    least = min((c.cost for c in found), default=0)
    return [c for c in found if c.cost == least]


def _judge(words: str, cost: int, sizes: Sizes, edges: Edges) -> Change | None:
    graph = one_buffer_per_op("xla_comment_changed", sizes, edges)
    listed = peak_memory(graph, ORDERINGS["xla_list"](graph, 0))
    least = least_peak(graph)
    return Change(words, cost, graph, listed, least) if listed > least else None
