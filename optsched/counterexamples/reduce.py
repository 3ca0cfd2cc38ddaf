"""What can be taken away from a graph, one part at a time.

A buffer that loses its last reader goes too, unless it is a graph output: nobody needs it. An op
stays, even if it writes nothing any more; taking it away is a step of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from optsched.counterexamples.sizes import simpler_sizes
from optsched.errors import GraphError
from optsched.model.graph import Graph

Part = tuple[str, ...]
"""Kind and names: ("op", op), ("read", op, buffer), ("control", op, op), ("buffer", buffer)."""


@dataclass(frozen=True, slots=True)
class _Cut:
    ops: Collection[str] = ()
    buffers: Collection[str] = ()
    reads: Collection[tuple[str, str]] = ()
    controls: Collection[tuple[str, str]] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)


def parts(graph: Graph) -> Iterator[Part]:
    """Yield every part of a graph that :func:`without` takes away: ops first, then edges."""
    for op in graph.ops:
        yield ("op", op.name)
    for op in graph.ops:
        for b in dict.fromkeys((*op.reads, *op.uses)):
            yield ("read", op.name, graph.buffers[b].name)
        for u in dict.fromkeys(op.control):
            yield ("control", op.name, graph.ops[u].name)
    for buffer in graph.buffers:
        yield ("buffer", buffer.name)


def without(graph: Graph, part: Part) -> Graph | None:
    """Return the graph without a part; None if it has no such part or can not do without it."""
    kind, *names = part
    if names[0] not in (graph.buffer_ids if kind == "buffer" else graph.op_ids):
        return None
    if kind == "op":
        return without_ops(graph, {names[0]})
    if kind == "buffer":
        return _rebuild(graph, _Cut(buffers={names[0]}))
    op = graph.ops[graph.op_ids[names[0]]]
    if kind == "read":
        b = graph.buffer_ids.get(names[1], -1)
        found = b in op.reads or b in op.uses
        return _rebuild(graph, _Cut(reads={(names[0], names[1])})) if found else None
    found = graph.op_ids.get(names[1], -1) in op.control
    return _rebuild(graph, _Cut(controls={(names[0], names[1])})) if found else None


def without_ops(graph: Graph, names: Collection[str]) -> Graph | None:
    """Return the graph without some ops and all that they write."""
    return _rebuild(graph, _Cut(ops=names))


def with_simpler_sizes(graph: Graph) -> Iterator[Graph]:
    """Yield the graph with simpler sizes, see :mod:`optsched.counterexamples.sizes`."""
    names = [b.name for b in graph.buffers if b.alias_of is None and b.size > 0]
    for sizes in simpler_sizes([graph.buffers[graph.buffer_ids[name]].size for name in names]):
        changed = _rebuild(graph, _Cut(sizes=dict(zip(names, sizes, strict=True))))
        if changed is not None:
            yield changed


def _rebuild(graph: Graph, cut: _Cut) -> Graph | None:
    ops = [v for v, op in enumerate(graph.ops) if op.name not in cut.ops]
    gone = {b for v, op in enumerate(graph.ops) if op.name in cut.ops for b in op.writes}
    gone |= {b for b, buffer in enumerate(graph.buffers) if buffer.name in cut.buffers}
    reads = {
        v: [b for b in op.reads if (op.name, graph.buffers[b].name) not in cut.reads]
        for v, op in enumerate(graph.ops)
    }
    uses = {
        v: [b for b in op.uses if (op.name, graph.buffers[b].name) not in cut.reads]
        for v, op in enumerate(graph.ops)
    }
    _drop_unread(graph, ops, gone, reads, uses)
    kept = [b for b in range(len(graph.buffers)) if b not in gone]
    op_at, buffer_at = _places(ops), _places(kept)

    def kept_pairs(pairs: Iterable[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
        return tuple(
            (op_at[v], buffer_at[output], buffer_at[source])
            for v, output, source in pairs
            if v in op_at and {output, source} <= buffer_at.keys() and source in reads[v]
        )

    try:
        return replace(
            graph,
            ops=tuple(
                replace(
                    graph.ops[v],
                    reads=tuple(buffer_at[b] for b in reads[v] if b in buffer_at),
                    uses=tuple(buffer_at[b] for b in uses[v] if b in buffer_at),
                    writes=tuple(buffer_at[b] for b in graph.ops[v].writes if b in buffer_at),
                    control=tuple(
                        op_at[u]
                        for u in graph.ops[v].control
                        if u in op_at and (graph.ops[v].name, graph.ops[u].name) not in cut.controls
                    ),
                    workspace=buffer_at.get(_or_none(graph.ops[v].workspace)),
                )
                for v in ops
            ),
            buffers=tuple(
                replace(
                    graph.buffers[b],
                    size=cut.sizes.get(graph.buffers[b].name, graph.buffers[b].size),
                    alias_of=buffer_at.get(_or_none(graph.buffers[b].alias_of)),
                    birth=op_at.get(_or_none(graph.buffers[b].birth)),
                )
                for b in kept
            ),
            inplace_candidates=kept_pairs(graph.inplace_candidates),
            inplace=kept_pairs(graph.inplace),
        )
    except GraphError:
        return None


def _drop_unread(
    graph: Graph,
    ops: Collection[int],
    gone: set[int],
    reads: Mapping[int, list[int]],
    uses: Mapping[int, list[int]],
) -> None:
    """Add to `gone` what lost its last reader, and views of what is gone, until nothing changes."""
    once = _readers(graph, range(len(graph.buffers)), range(len(graph.ops)), None, None)
    while True:
        left = [b for b in range(len(graph.buffers)) if b not in gone]
        now = _readers(graph, left, ops, reads, uses)
        more = {
            b
            for b in left
            if (b in once and b not in now and graph.buffers[b].output is None)
            or graph.buffers[b].alias_of in gone
        }
        if not more:
            return
        gone |= more


def _readers(
    graph: Graph,
    buffers: Collection[int],
    ops: Collection[int],
    reads: Mapping[int, list[int]] | None,
    uses: Mapping[int, list[int]] | None,
) -> set[int]:
    """Buffers that some op reads, or that a view shows."""
    found = {
        b
        for v in ops
        for b in (
            *(graph.ops[v].reads if reads is None else reads[v]),
            *(graph.ops[v].uses if uses is None else uses[v]),
        )
    }
    shown = (graph.buffers[b].alias_of for b in buffers)
    return found | {b for b in shown if b is not None}


def _places(ids: list[int]) -> dict[int, int]:
    return {old: new for new, old in enumerate(ids)}


def _or_none(value: int | None) -> int:
    return -1 if value is None else value
