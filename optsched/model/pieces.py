"""Pieces of a tiled tensor: rows that are written by one op and last read by the same ops.

Example: op 1 of a stage reads rows 0 to 4 of a tensor, and then op 2 its rows 3 to 7. The tensor
has two pieces. Rows 0 to 2 are last read by op 1, and rows 3 to 7 by op 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

OUTSIDE = -1
"""Stage of an op outside of all stages."""


@dataclass(slots=True)
class Access:
    """Rows of a place that an op reads or writes."""

    op: int
    first: int
    last: int
    stage: int


@dataclass(slots=True)
class Draft:
    """A place whose pieces are not known yet: rows of a buffer from `first` on."""

    name: str
    buffer: int
    first: int
    rows: int
    size: int
    """Bytes, as the runtime rounds them."""
    reads: list[Access] = field(default_factory=list)
    write: list[Access] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows with one writer, whose last readers are the same."""

    first: int
    last: int
    writer: int | None
    readers: frozenset[int]
    key: frozenset[tuple[int, int]] = frozenset()
    """The last reader of each stage, and all readers outside of stages."""


def cut_pieces(draft: Draft) -> list[Piece]:
    """Cut a place where lives differ: rows with the same writer and last readers stay together.

    The ops of a stage run one after another, so of its readers the last one alone counts. Rows that
    no op reads stay with the neighbor that dies first.
    """
    edges = {draft.first, draft.first + draft.rows}
    edges |= {x for access in (*draft.reads, *draft.write) for x in (access.first, access.last)}
    rows = [_piece(draft, first, last) for first, last in pairwise(sorted(edges))]
    for k, piece in enumerate(rows):
        if not piece.readers:
            near = [x for x in (*rows[:k][-1:], *rows[k + 1 : k + 2]) if x.readers]
            dies = min(near, key=lambda x: max(x.readers), default=piece)
            rows[k] = Piece(piece.first, piece.last, piece.writer, dies.readers, dies.key)
    pieces: list[Piece] = []
    for piece in rows:
        old = pieces[-1] if pieces else None
        if old and (old.writer, old.key) == (piece.writer, piece.key):
            both = old.readers | piece.readers
            pieces[-1] = Piece(old.first, piece.last, piece.writer, both, piece.key)
        else:
            pieces.append(piece)
    return pieces


def _piece(draft: Draft, first: int, last: int) -> Piece:
    """Return rows between two cuts as a piece."""
    readers = [x for x in draft.reads if x.first <= first and last <= x.last]
    writer = next((x.op for x in draft.write if x.first <= first and last <= x.last), None)
    key: dict[int, int] = {}
    for x in readers:
        # Ops outside of stages may run in any order, so each of them counts.
        name = x.stage if x.stage != OUTSIDE else -2 - x.op
        key[name] = max(x.op, key.get(name, -1))
    return Piece(first, last, writer, frozenset(x.op for x in readers), frozenset(key.items()))


def whole_piece(draft: Draft) -> Piece:
    """Return a place as one piece."""
    writer = draft.write[0].op if draft.write else None
    last = draft.first + draft.rows
    return Piece(draft.first, last, writer, frozenset(x.op for x in draft.reads))
