"""Graphs for the reference sorters, as plain sets, independent of the flat arrays."""

from __future__ import annotations

from dataclasses import dataclass

from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph


@dataclass
class Model:
    """Ops as ranges of numbers, buffers with bytes and users."""

    graph: Graph
    size: list[int]
    users: list[set[int]]
    used: list[set[int]]
    successors: list[set[int]]
    allocates: list[int]
    dies_unread: list[int]
    live_at_start: int
    kept_bytes: int


def model_of(graph: Graph) -> Model:
    n = len(graph.ops)
    size = [
        0 if graph.buffers[graph.roots[b]].external else x.size for b, x in enumerate(graph.buffers)
    ]
    used: list[set[int]] = []
    for op in graph.ops:
        names = {*op.reads, *op.uses}
        names |= {graph.roots[b] for b in (*names, *op.writes)}
        used.append(names - set(op.writes))
    users = [{v for v in range(n) if b in used[v]} for b in range(len(graph.buffers))]
    allocates, dies = [0] * n, [0] * n
    start = 0
    for b, buffer in enumerate(graph.buffers):
        producer = graph.producers[b]
        if producer is None:
            start += size[b] if users[b] or graph.kept[b] else 0
            continue
        allocates[producer if buffer.birth is None else buffer.birth] += size[b]
        if not users[b] and not graph.kept[b]:
            dies[producer] += size[b]
    return Model(
        graph=graph,
        size=size,
        users=users,
        used=used,
        successors=[{w for w in range(n) if v in graph.predecessors[w]} for v in range(n)],
        allocates=allocates,
        dies_unread=dies,
        live_at_start=start,
        kept_bytes=sum(size[b] for b in range(len(size)) if graph.kept[b]),
    )


def is_parameter(graph: Graph, buffer: int) -> bool:
    return isinstance(graph.buffers[buffer].input, InputPolicy)
