"""Pieces of a tiled tensor: rows that are written by one op and last read by the same ops.

Example: a tensor of 8 rows of which op 1 reads rows 0 to 4 and op 2 rows 3 to 7, one after the
other in a stage, has two pieces. Rows 0 to 2 are last read by op 1, and rows 3 to 7 by op 2.
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
    """Bytes up to the end of the last tensor in it, as the runtime rounds it."""
    reads: list[Access] = field(default_factory=list)
    write: list[Access] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows with one writer, whose last readers are the same."""

    first: int
    last: int
    writer: int | None
    readers: frozenset[int]


def cut_pieces(draft: Draft) -> list[Piece]:
    """Cut a place where lives differ: rows with the same writer and last readers stay together.

    The ops of a stage run one after another, so of its readers the last one alone counts.
    """
    ends = {draft.first, draft.first + draft.rows}
    ends |= {x for access in (*draft.reads, *draft.write) for x in (access.first, access.last)}
    # A band may make wrong rows outside of the tensor, but it reads and keeps rows inside.
    edges = sorted(ends)
    pieces: list[tuple[tuple[object, ...], Piece]] = []
    for first, last in pairwise(edges):
        readers = [x for x in draft.reads if x.first <= first and last <= x.last]
        writer = next((x.op for x in draft.write if x.first <= first and last <= x.last), None)
        by_stage: dict[int, int] = {}
        for x in readers:
            by_stage[x.stage] = max(x.op, by_stage.get(x.stage, -1))
        outside = frozenset(x.op for x in readers if x.stage == OUTSIDE)
        key = (writer, outside, frozenset(by_stage.items()) if by_stage else None)
        piece = Piece(first, last, writer, frozenset(x.op for x in readers))
        old = pieces[-1] if pieces else None
        # Rows that no op reads stay with their neighbors.
        if old and old[0][0] == writer and (old[0] == key or None in (old[0][2], key[2])):
            both = Piece(old[1].first, last, writer, old[1].readers | piece.readers)
            pieces[-1] = (old[0] if key[2] is None else key, both)
        else:
            pieces.append((key, piece))
    return [piece for _, piece in pieces] or [_whole_piece(draft)]


def _whole_piece(draft: Draft) -> Piece:
    """Return the piece of a buffer without rows."""
    writer = draft.write[0].op if draft.write else None
    return Piece(
        draft.first, draft.first + draft.rows, writer, frozenset(x.op for x in draft.reads)
    )
