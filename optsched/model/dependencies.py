"""Which ops of a graph must run before which, and whether they can.

An op waits for the producers of what it uses, for the op at which a buffer of its own is born, for
its control edges, and, where it overwrites bytes, for everyone who uses the old contents. Between
streams each such dependency needs a sync: a control edge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from optsched.errors import GraphError
from optsched.model.elements import Op
from optsched.model.wiring import Wired

MOST_STREAM_OPS = 20_000
"""A graph on several streams may have as many ops: who precedes whom takes memory by its square."""


def find_predecessors(graph: Wired) -> tuple[tuple[int, ...], ...]:
    """Return the ops that must run directly before each op, ascending.

    Raises
    ------
    GraphError
        If an op waits for itself, or two buffers overwrite the same contents.
    """
    before: list[set[int]] = [set(op.control) for op in graph.ops]
    for v, op in enumerate(graph.ops):
        if v in before[v]:
            raise GraphError(f"op {op.name!r} has a control edge from itself")
        needed = [*op.reads, *op.uses]
        for b in op.writes:
            buffer = graph.buffers[b]
            if buffer.alias_of is not None:
                needed.append(buffer.alias_of)
            if buffer.birth is not None:
                before[v].add(buffer.birth)
        before[v].update([u for b in needed if (u := graph.producers[b]) is not None])
    _order_mutations(graph, before)
    for v, predecessors in enumerate(before):
        predecessors.discard(v)
    return tuple(tuple(sorted(predecessors)) for predecessors in before)


def _order_mutations(graph: Wired, before: list[set[int]]) -> None:
    """Let every user of the old contents run before the op that overwrites them."""
    if not any(buffer.mutates for buffer in graph.buffers):
        return
    version = [_version(graph, b) for b in range(len(graph.buffers))]
    users: dict[int, set[int]] = {}
    for v, op in enumerate(graph.ops):
        for b in (*op.reads, *op.uses, *(b for b in op.writes if not graph.buffers[b].mutates)):
            users.setdefault(version[b], set()).add(v)
    overwriter: dict[int, int] = {}
    for b, buffer in enumerate(graph.buffers):
        if not buffer.mutates or buffer.alias_of is None:
            continue
        old, writer = version[buffer.alias_of], graph.producers[b]
        if old in overwriter:
            raise GraphError(
                f"buffers {graph.buffers[overwriter[old]].name!r} and {buffer.name!r} both mutate "
                f"{graph.buffers[old].name!r}: let the second mutate the first"
            )
        overwriter[old] = b
        if writer is not None:
            before[writer] |= users.get(old, set()) - {writer}


def _version(graph: Wired, buffer: int) -> int:
    """The mutated view, or the root, whose contents this name shows."""
    parent = graph.buffers[buffer].alias_of
    while parent is not None and not graph.buffers[buffer].mutates:
        buffer, parent = parent, graph.buffers[parent].alias_of
    return buffer


def find_cycle(predecessors: Sequence[Collection[int]]) -> list[int]:
    """Return the ops of one cycle, first one repeated at the end, or an empty list."""
    # In program order, as most graphs are listed, each op is behind all that it needs.
    if all(max(row, default=-1) < v for v, row in enumerate(predecessors)):
        return []
    try:
        TopologicalSorter(dict(enumerate(predecessors))).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def topological_order(predecessors: Sequence[Iterable[int]]) -> list[int]:
    """Return the nodes of a graph without cycles, each one behind its predecessors."""
    return list(TopologicalSorter(dict(enumerate(predecessors))).static_order())


def members(mask: int) -> list[int]:
    """Return the numbers whose bits are set in a mask, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def reachable(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return all that each node reaches through the rows, as masks: its ancestors, for example."""
    masks = [0] * len(rows)
    for v in topological_order(rows):
        for u in rows[v]:
            masks[v] |= masks[u] | 1 << u
    return tuple(masks)


def check_streams(graph: Wired) -> None:
    """Stop at a dependency across streams that no sync covers.

    Raises
    ------
    GraphError
        Naming both ops and their streams; or if there are too many ops for several streams.
    """
    ops, names = graph.ops, {op.stream for op in graph.ops}
    if len(names) < 2:
        return
    for name in names:
        if not isinstance(name, str):
            raise GraphError(f"a stream's name must be a text, got {name!r}")
    if len(ops) > MOST_STREAM_OPS:
        raise GraphError(
            f"on several streams a graph has at most {MOST_STREAM_OPS} ops, not {len(ops)}"
        )
    crossing = [
        (u, v)
        for v, row in enumerate(graph.predecessors)
        for u in row
        if ops[u].stream != ops[v].stream and u not in ops[v].control
    ]
    if not crossing:
        return
    synced = reachable(_synced(ops, graph.predecessors))
    for u, v in crossing:
        if not synced[v] >> u & 1:
            raise GraphError(
                f"op {ops[v].name!r} (stream {ops[v].stream!r}) needs op {ops[u].name!r} "
                f"(stream {ops[u].stream!r}) but waits for no sync: it wants a control edge"
            )


def _synced(ops: Sequence[Op], predecessors: Sequence[Iterable[int]]) -> list[tuple[int, ...]]:
    """Return the predecessors that are kept at run time: those of the stream, and control edges."""
    return [
        tuple(u for u in row if u in op.control or ops[u].stream == op.stream)
        for op, row in zip(ops, predecessors, strict=True)
    ]
