"""Dependencies between the ops of a graph, and whether they can be satisfied.

An op depends on the producers of the buffers it uses, on the op at which a buffer of its own is
allocated, and on the ops of its control edges. If it overwrites bytes, it also depends on all ops
that use the old contents. Between streams each such dependency must be covered by a sync, which is
a control edge.

Example: op `add` reads `x`, and op `relu` overwrites `x` in place (its output is a view that
mutates `x`). Then `add` must run before `relu`, although it does not produce any buffer that `relu`
reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain

from optsched.errors import GraphError
from optsched.model.elements import Op
from optsched.model.wiring import Wired

MOST_STREAM_OPS = 20_000
"""Maximum number of ops of a graph on several streams: the precedence relation takes memory
quadratic in their number.
"""


def find_predecessors(graph: Wired) -> tuple[tuple[int, ...], ...]:
    """Return the ops that must run directly before each op, ascending.

    Raise `GraphError` if an op has a control edge from itself, or two buffers overwrite the same
    contents.
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
        # Producers come before users; an op may name its own product, which is dropped below.
        before[v].update([u for b in needed if (u := graph.producers[b]) is not None])
    _order_mutations(graph, before)
    for v, predecessors in enumerate(before):
        predecessors.discard(v)
    return tuple(tuple(sorted(predecessors)) for predecessors in before)


def _order_mutations(graph: Wired, before: list[set[int]]) -> None:
    """Add every user of the old contents as a predecessor of the op that overwrites them."""
    if not any(buffer.mutates for buffer in graph.buffers):
        return
    version = [_version(graph, b) for b in range(len(graph.buffers))]
    users: dict[int, set[int]] = {}
    for v, op in enumerate(graph.ops):
        for b in (*op.reads, *op.uses, *(b for b in op.writes if not graph.buffers[b].mutates)):
            # Views of the same contents have one version, so users by any name count.
            users.setdefault(version[b], set()).add(v)
    overwriter: dict[int, int] = {}
    for b, buffer in enumerate(graph.buffers):
        if not buffer.mutates or buffer.alias_of is None:
            continue
        old, writer = version[buffer.alias_of], graph.producers[b]
        # Two ops that overwrite one version would have no order between them.
        if old in overwriter:
            raise GraphError(
                f"buffers {graph.buffers[overwriter[old]].name!r} and {buffer.name!r} both mutate "
                f"{graph.buffers[old].name!r}: let the second mutate the first"
            )
        overwriter[old] = b
        if writer is not None:
            before[writer] |= users.get(old, set()) - {writer}


def _version(graph: Wired, buffer: int) -> int:
    """Return the mutated view or root whose contents a buffer shows."""
    parent = graph.buffers[buffer].alias_of
    while parent is not None and not graph.buffers[buffer].mutates:
        buffer, parent = parent, graph.buffers[parent].alias_of
    return buffer


def find_cycle(predecessors: Sequence[Collection[int]]) -> list[int]:
    """Return the ops of a cycle, with the first one repeated at the end, or an empty list."""
    # Most graphs are listed in program order, where each op comes after all its predecessors.
    if all(max(row, default=-1) < v for v, row in enumerate(predecessors)):
        return []
    try:
        TopologicalSorter(dict(enumerate(predecessors))).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def topological_order(predecessors: Sequence[Collection[int]]) -> list[int]:
    """Return the nodes of an acyclic graph, each one after its predecessors."""
    waiting = [len(row) for row in predecessors]
    successors = followers(predecessors)
    # The order of :mod:`graphlib`, a third as long: nodes are listed as rows first name them.
    named = dict.fromkeys(chain.from_iterable((v, *row) for v, row in enumerate(predecessors)))
    found = [v for v in named if not waiting[v]]
    for v in found:
        for w in successors[v]:
            waiting[w] -= 1
            if not waiting[w]:
                found.append(w)
    return found


def followers(predecessors: Sequence[Iterable[int]]) -> list[list[int]]:
    """Return the nodes that name each node as a predecessor, ascending."""
    found: list[list[int]] = [[] for _ in predecessors]
    for v, row in enumerate(predecessors):
        for u in row:
            found[u].append(v)
    return found


def reached(rows: Sequence[Iterable[int]], starts: Iterable[int]) -> bytearray:
    """Return by node 1 for those that are reached from some nodes through the rows, else 0.

    A start counts only if another node leads to it.
    """
    found, waiting = bytearray(len(rows)), list(starts)
    while waiting:
        for u in rows[waiting.pop()]:
            if not found[u]:
                found[u] = 1
                waiting.append(u)
    return found


def members(mask: int) -> list[int]:
    """Return the positions of the bits that are set in a mask, ascending."""
    found = []
    while mask:
        # The lowest set bit alone.
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def reachable(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the set of nodes that each node reaches through the rows, as bit masks.

    With rows of predecessors these are the ancestors of each node.
    """
    masks = [0] * len(rows)
    for v in topological_order(rows):
        for u in rows[v]:
            masks[v] |= masks[u] | 1 << u
    return tuple(masks)


def check_streams(graph: Wired) -> None:
    """Raise an error if a dependency across streams is not covered by a sync.

    Raise `GraphError` if a dependency is not covered, a stream name is not a string, or a graph on
    several streams has too many ops.
    """
    ops, names = graph.ops, {op.stream for op in graph.ops}
    if len(names) < 2:
        return
    for name in names:
        if not isinstance(name, str):
            raise GraphError(f"stream name must be a string, got {name!r}")
    if len(ops) > MOST_STREAM_OPS:
        raise GraphError(
            f"a graph on several streams must have at most {MOST_STREAM_OPS} ops, got {len(ops)}"
        )
    crossing = [
        (u, v)
        for v, row in enumerate(graph.predecessors)
        for u in row
        if ops[u].stream != ops[v].stream and u not in ops[v].control
    ]
    if not crossing:
        return
    # Only syncs, and the sequence within a stream, hold at run time; other edges are wishes.
    synced = reachable(_synced(ops, graph.predecessors))
    for u, v in crossing:
        if not synced[v] >> u & 1:
            raise GraphError(
                f"op {ops[v].name!r} (stream {ops[v].stream!r}) needs op {ops[u].name!r} "
                f"(stream {ops[u].stream!r}) but does not wait for it: add a control edge"
            )


def _synced(ops: Sequence[Op], predecessors: Sequence[Iterable[int]]) -> list[tuple[int, ...]]:
    """Return the predecessors enforced at run time: those on the same stream, and control edges."""
    return [
        tuple(u for u in row if u in op.control or ops[u].stream == op.stream)
        for op, row in zip(ops, predecessors, strict=True)
    ]
