"""Removal of single parts from a graph or from live ranges, and simplification of sizes.

A buffer that loses its last reader is either removed or kept as scratch memory of the op that
writes it; a graph output always stays. An op without remaining writes stays until it is removed
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import gcd

import numpy as np

from optsched.errors import GraphError
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.model.selection import select

Part = tuple[str, ...]
"""Kind and names of a part: ("op", op), ("read", op, buffer), ("control", op, op), ("buffer",
buffer)."""


def parts(graph: Graph) -> Iterator[Part]:
    """Yield every part of a graph that :func:`without` can remove: ops, edges, then buffers."""
    for op in graph.ops:
        yield ("op", op.name)
    for op in graph.ops:
        for b in dict.fromkeys((*op.reads, *op.uses)):
            yield ("read", op.name, graph.buffers[b].name)
        for u in dict.fromkeys(op.control):
            yield ("control", op.name, graph.ops[u].name)
    for buffer in graph.buffers:
        yield ("buffer", buffer.name)


def without(graph: Graph, part: Part) -> Iterator[Graph]:
    """Yield the graph without a part: without buffers that lose their last reader, then with them.

    Nothing is yielded if the graph does not have the part or is invalid without it.
    """
    # The smaller graph first: a shrinking hunt takes the first one that still loses.
    less = _without(graph, part, unread=False)
    if less is not None:
        yield less
    scratch = _without(graph, part, unread=True)
    if scratch is not None and scratch != less:
        yield scratch


def _without(graph: Graph, part: Part, *, unread: bool) -> Graph | None:
    kind, name, *other = part
    if kind == "buffer":
        return _remove(graph, buffer=name, unread=unread) if name in graph.buffer_ids else None
    if name not in graph.op_ids:
        return None
    if kind == "op":
        return _remove(graph, ops={name}, unread=unread)
    op = graph.ops[graph.op_ids[name]]
    ids, left = (graph.buffer_ids, (*op.reads, *op.uses))
    if kind == "control":
        ids, left = graph.op_ids, op.control
    return _remove(graph, edge=part, unread=unread) if ids.get(other[0], -1) in left else None


def without_ops(graph: Graph, names: Collection[str]) -> Graph | None:
    """Return the graph without some ops and the buffers that they write; None if it is invalid."""
    return _remove(graph, ops=names)


def with_simpler_sizes(graph: Graph) -> Iterator[Graph]:
    """Yield the graph with simpler sizes; see :func:`simpler_sizes`."""
    sized = [b for b, x in enumerate(graph.buffers) if x.alias_of is None and x.size > 0]
    for sizes in simpler_sizes([graph.buffers[b].size for b in sized]):
        size = dict(zip(sized, sizes, strict=True))
        buffers = (replace(x, size=size.get(b, x.size)) for b, x in enumerate(graph.buffers))
        # A graph checks itself when it is made: sizes that break one of its rules are left out.
        with suppress(GraphError):
            yield replace(graph, buffers=tuple(buffers))


def _remove(
    graph: Graph,
    *,
    ops: Collection[str] = (),
    buffer: str | None = None,
    edge: Part = (),
    unread: bool = False,
) -> Graph | None:
    """Return the graph without some ops, a buffer, a read or a control edge; None if it is invalid.

    Buffers that lose their last reader stay if `unread` is True.
    """
    names = [x.name for x in graph.buffers]
    op_at = _places(v for v, op in enumerate(graph.ops) if op.name not in ops)
    # Buffers that each remaining op still reads or uses.
    used = {
        v: {
            b
            for b in (*graph.ops[v].reads, *graph.ops[v].uses)
            if ("read", graph.ops[v].name, names[b]) != edge
        }
        for v in op_at
    }
    # A buffer cannot exist without the op that writes it.
    gone = {b for v, op in enumerate(graph.ops) if v not in op_at for b in op.writes}
    if buffer is not None:
        gone.add(graph.buffer_ids[buffer])
    gone = _with_unread(graph, used, gone, unread=unread)
    buffer_at = _places(b for b in range(len(names)) if b not in gone)

    def moved(ids: Iterable[int], among: Collection[int]) -> tuple[int, ...]:
        return tuple(buffer_at[b] for b in ids if b in buffer_at and b in among)

    def moved_pairs(pairs: Iterable[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
        return tuple(
            (op_at[v], buffer_at[output], buffer_at[source])
            for v, output, source in pairs
            if v in op_at and {output, source} <= buffer_at.keys() and source in used[v]
        )

    left = tuple(
        replace(
            op,
            reads=moved(op.reads, used[v]),
            uses=moved(op.uses, used[v]),
            writes=moved(op.writes, op.writes),
            control=tuple(
                op_at[u]
                for u in op.control
                if u in op_at and ("control", op.name, graph.ops[u].name) != edge
            ),
            workspace=None if op.workspace is None else buffer_at.get(op.workspace),
        )
        for v, op in ((v, graph.ops[v]) for v in op_at)
    )
    kept = tuple(
        replace(
            x,
            alias_of=None if x.alias_of is None else buffer_at[x.alias_of],
            # Without the op of its birth a buffer is live from its producer's step, as usual.
            birth=None if x.birth is None else op_at.get(x.birth),
        )
        for x in (graph.buffers[b] for b in buffer_at)
    )
    pairs = (moved_pairs(graph.inplace_candidates), moved_pairs(graph.inplace))
    apart = tuple(
        (buffer_at[a], buffer_at[b]) for a, b in graph.keep_apart if {a, b} <= set(buffer_at)
    )
    groups = [tuple(buffer_at[b] for b in x if b in buffer_at) for x in graph.must_share]
    try:
        return replace(
            graph,
            ops=left,
            buffers=kept,
            inplace_candidates=pairs[0],
            inplace=pairs[1],
            keep_apart=apart,
            must_share=tuple(group for group in groups if len(group) > 1),
        )
    except GraphError:
        return None


def _with_unread(
    graph: Graph, used: Mapping[int, set[int]], gone: set[int], *, unread: bool
) -> set[int]:
    """Add views of removed buffers and, unless `unread`, buffers that lost their last reader."""
    shown = {b: buffer.alias_of for b, buffer in enumerate(graph.buffers)}
    # Buffers that had a reader in the first place. Those without any are scratch, and stay.
    once = {b for op in graph.ops for b in (*op.reads, *op.uses)} | set(shown.values())
    read = set().union(*used.values())
    # A view that goes may have been the last reader of its base: repeat until nothing changes.
    while True:
        left = shown.keys() - gone
        now = read | {shown[b] for b in left}
        more = {
            b
            for b in left
            if (not unread and b in once and b not in now and graph.buffers[b].output is None)
            or shown[b] in gone
        }
        if not more:
            return gone
        gone = gone | more


def _places(ids: Iterable[int]) -> dict[int, int]:
    return {old: new for new, old in enumerate(ids)}


def without_buffers(problem: PackingProblem, names: Collection[str]) -> PackingProblem:
    """Return the packing problem without some buffers."""
    kept = [i for i, name in enumerate(problem.names) if name not in names]
    return select(problem, np.array(kept, np.int64))


def simpler_packings(problem: PackingProblem) -> Iterator[PackingProblem]:
    """Yield the packing without one pair, group or step, or with a shorter range or simpler sizes.

    Ranges and sizes stay unchanged if any buffer has gaps in its live range.
    """
    for k in range(len(problem.keep_apart)):
        yield replace(problem, keep_apart=np.delete(problem.keep_apart, k, axis=0))
    for group in problem.must_share:
        yield replace(problem, must_share=tuple(x for x in problem.must_share if x != group))
    if problem.gaps:
        return
    live = problem.start < problem.end
    for step in np.unique(np.append(problem.start, problem.end)).tolist():
        # Cut one step out of time: everything later moves one step forward.
        start = problem.start - (problem.start >= step)
        end = problem.end - (problem.end >= step)
        if step > 0 and (start < end)[live].all():
            yield replace(problem, start=start, end=end)
    for i in np.flatnonzero(problem.end - problem.start > 1):
        one = np.zeros(len(problem), np.int64)
        one[i] = 1
        yield replace(problem, start=problem.start + one)
        yield replace(problem, end=problem.end - one)
    for sizes in simpler_sizes(problem.size.tolist()):
        yield replace(problem, size=np.array(sizes, np.int64))


def simpler_sizes(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield simpler lists of sizes: fewer distinct sizes, or equally many with fewer bytes.

    Each list results from one change: divide all sizes by their greatest common divisor; reduce all
    sizes of one value to 1, or by a half, a quarter and so on; or give one buffer a size that
    another has. Each change reduces the number of distinct sizes or else the total bytes, so every
    chain of changes ends.
    """
    divisor = gcd(*sizes) if sizes else 1
    if divisor > 1:
        yield [size // divisor for size in sizes]
    count = Counter(sizes)
    for old in sorted(count, reverse=True):
        for new in _smaller(old):
            yield [new if size == old else size for size in sizes]
    for i, old in enumerate(sizes):
        for new in sorted(count):
            if new < old or (new > old and count[old] == 1):
                yield [*sizes[:i], new, *sizes[i + 1 :]]


def _smaller(size: int) -> list[int]:
    """Return smaller sizes: 1, then `size` reduced by a half, a quarter, ..., 1."""
    found = {1: None} if size > 1 else {}
    step = size
    while step > 1:
        step //= 2
        found[size - step] = None
    return list(found)
