"""What streams wait for: every dependency from one to another needs a sync."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optsched.errors import GraphError
from optsched.model.dependencies import reachable
from optsched.model.elements import Op
from optsched.model.wiring import Wired

MOST_OPS = 20_000
"""A graph on several streams may have as many ops: who precedes whom takes memory by its square."""


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
    if len(ops) > MOST_OPS:
        raise GraphError(f"on several streams a graph has at most {MOST_OPS} ops, not {len(ops)}")
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
