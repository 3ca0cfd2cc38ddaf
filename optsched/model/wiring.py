"""Producers and roots of buffers, and the buffers that are kept to the end.

Everything that a graph derives from its ops and buffers is based on these three functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from optsched.errors import GraphError
from optsched.model.elements import Buffer, InputPolicy, Op, require_id


class Wired(Protocol):
    """Protocol of a graph as seen by the functions that derive data from it."""

    @property
    def ops(self) -> tuple[Op, ...]:
        """Ops, by id."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Buffers, by id."""

    @property
    def roots(self) -> tuple[int, ...]:
        """By buffer id: the buffer whose bytes it names."""

    @property
    def kept(self) -> tuple[bool, ...]:
        """By buffer id, for roots: True if the bytes are kept to the end."""

    @property
    def producers(self) -> tuple[int | None, ...]:
        """By buffer id: the op that writes it, or None."""

    @property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """By op id: the ops that must run directly before it; set after the other properties."""


def find_kept(buffers: Sequence[Buffer], roots: Sequence[int]) -> tuple[bool, ...]:
    """Return by buffer id, for roots: True if the bytes are kept to the end.

    The bytes of a root are also kept if one of its views is kept. `roots` is the result of
    :func:`find_roots`.
    """
    kept = [False] * len(buffers)
    always = (InputPolicy.KEPT, InputPolicy.SCRATCH)
    # A view that is an output keeps the bytes of its root.
    for b, buffer in enumerate(buffers):
        if buffer.output is not None or buffer.input in always:
            kept[roots[b]] = True
    return tuple(kept)


def find_producers(ops: Sequence[Op], buffers: Sequence[Buffer]) -> tuple[int | None, ...]:
    """Return by buffer id: the op that writes it, or None for a graph input.

    Raise `GraphError` if a buffer has two producers, or an id is out of range.
    """
    producers: list[int | None] = [None] * len(buffers)
    for v, op in enumerate(ops):
        for b in op.writes:
            if not 0 <= b < len(buffers):
                require_id(b, len(buffers), f"op {op.name!r} writes buffer")
            other = producers[b]
            if other is not None:
                raise GraphError(
                    f"buffer {buffers[b].name!r} has two producers: "
                    f"{ops[other].name!r} and {op.name!r}"
                )
            producers[b] = v
    return tuple(producers)


def find_roots(buffers: Sequence[Buffer]) -> tuple[int, ...]:
    """Return by buffer id: the buffer whose bytes it names, itself unless it is a view.

    Raise `GraphError` if views form a cycle, or an id is out of range.
    """
    roots = [b if buffer.alias_of is None else -1 for b, buffer in enumerate(buffers)]
    for start in range(len(buffers)):
        path: dict[int, None] = {}
        at = start
        # Follow the chain of views to a buffer whose root is known.
        while roots[at] < 0:
            path[at] = None
            parent = buffers[at].alias_of
            assert parent is not None
            require_id(parent, len(buffers), f"buffer {buffers[at].name!r} is a view of buffer")
            if parent in path:
                names = " -> ".join(repr(buffers[b].name) for b in [*path, parent])
                raise GraphError(f"views form a cycle: {names}")
            at = parent
        # All names on the way have the same root, so no chain is walked twice.
        for b in path:
            roots[b] = roots[at]
    return tuple(roots)
