"""Allocation, users and lifetime of each buffer, as the checker derives them from the ops."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.model.graph import Graph

Spans = dict[int, tuple[int, int]]
"""Half-open live range of every root that counts and is live at some step."""


def maker(graph: Graph, b: int) -> int | None:
    """Return the op that allocates a buffer; None for a graph input."""
    birth = graph.buffers[b].birth
    return graph.producers[b] if birth is None else birth


def touched(graph: Graph) -> list[set[int]]:
    """Return the roots of what each op reads, uses or writes."""
    return [{graph.roots[b] for b in (*op.reads, *op.uses, *op.writes)} for op in graph.ops]


def live_spans(graph: Graph, order: Sequence[int], step: Sequence[int]) -> Spans:
    """Return when each root lives in an order, in which each op has its step."""
    ops, roots, outside = graph.ops, graph.roots, graph.outside
    # A graph without ops has one step, in which kept inputs are live.
    horizon = max(1, len(ops))
    ends = [0] * len(graph.buffers)
    # Ops in order: the last op that touches a root overwrites its entry.
    for end, v in enumerate(order, 1):
        op = ops[v]
        for names in (op.reads, op.uses, op.writes):
            for b in names:
                ends[roots[b]] = end
    spans = {}
    rows = zip(graph.buffers, roots, graph.producers, graph.kept, ends, strict=True)
    for b, (buffer, root, producer, kept, last) in enumerate(rows):
        if root == b and b not in outside:
            # As in :func:`maker`, without a call per buffer.
            born = producer if buffer.birth is None else buffer.birth
            start = 0 if born is None else step[born]
            end = horizon if kept else last
            # Never live: it has no span.
            if end > start:
                spans[b] = (start, end)
    return spans
