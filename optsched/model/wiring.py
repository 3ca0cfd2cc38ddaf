"""Who makes each buffer, whose bytes it is a name of, and whether these stay to the end.

The one place where that is worked out; all that a graph derives from its ops and buffers rests on
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optsched.errors import GraphError
from optsched.model.elements import Buffer, InputPolicy, Op, require_id


@dataclass(frozen=True, slots=True)
class Wiring:
    """Ops and buffers, and what ties them together.

    Parameters
    ----------
    ops, buffers
        As in the graph.
    producers
        By buffer id: the op that writes it, or None for a graph input.
    roots
        By buffer id: the buffer whose bytes it names, itself unless it is a view.
    kept
        By buffer id, of roots: whether the bytes stay live to the end, on the buffer's own account
        or a view's.
    """

    ops: tuple[Op, ...]
    buffers: tuple[Buffer, ...]
    producers: tuple[int | None, ...]
    roots: tuple[int, ...]
    kept: tuple[bool, ...]


def find_wiring(ops: tuple[Op, ...], buffers: tuple[Buffer, ...]) -> Wiring:
    """Work out producers, roots and what is kept.

    Raises
    ------
    GraphError
        If a buffer has two producers, views form a cycle, or an id is none.
    """
    roots = _resolve_aliases(buffers)
    kept = [False] * len(buffers)
    for b, buffer in enumerate(buffers):
        if buffer.output is not None or buffer.input is InputPolicy.KEPT:
            kept[roots[b]] = True
    return Wiring(ops, buffers, _find_producers(ops, buffers), roots, tuple(kept))


def _find_producers(ops: Sequence[Op], buffers: Sequence[Buffer]) -> tuple[int | None, ...]:
    producers: list[int | None] = [None] * len(buffers)
    for v, op in enumerate(ops):
        for b in op.writes:
            require_id(b, len(buffers), f"op {op.name!r} writes buffer")
            other = producers[b]
            if other is not None:
                raise GraphError(
                    f"buffer {buffers[b].name!r} has two producers: "
                    f"{ops[other].name!r} and {op.name!r}"
                )
            producers[b] = v
    return tuple(producers)


def _resolve_aliases(buffers: Sequence[Buffer]) -> tuple[int, ...]:
    roots = [-1] * len(buffers)
    for start in range(len(buffers)):
        path: dict[int, None] = {}
        at = start
        while roots[at] < 0:
            path[at] = None
            parent = buffers[at].alias_of
            if parent is None:
                roots[at] = at
                break
            require_id(parent, len(buffers), f"buffer {buffers[at].name!r} is a view of buffer")
            if parent in path:
                names = " -> ".join(repr(buffers[b].name) for b in [*path, parent])
                raise GraphError(f"views form a cycle: {names}")
            at = parent
        for b in path:
            roots[b] = roots[at]
    return tuple(roots)
