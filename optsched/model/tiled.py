"""A tiled graph: stages whose ops run in row bands, as data.

A *stage* is a set of row-local ops that makes one tensor Y for other ops; X are its inputs. Y's
rows are cut into bands, and each band runs through all ops of the stage before the next one. A
:class:`TiledGraph` lists the ops and tensors of the program that does so, which a writer maps one
to one to a file, and the ordinary graph in which they are planned. In that graph the rows of X and
Y are *pieces*, buffers with lives of their own: rows of X die when no later band needs them, rows
of Y are there from their band on. The pieces of a tensor lie one after another, in its *place*.

:mod:`optsched.model.tiling` makes a tiled graph of row maps and stages, and
:mod:`optsched.check.tiling` checks one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any

from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.rows import Rows, Tail
from optsched.runtime.keywords import keywords

MOST_JOINED = 10
"""Tensors that one op joins at most: the limit of TFLite Micro."""


@keywords
@dataclass(frozen=True, slots=True)
class Stage:
    """Ops that run in bands."""

    ops: tuple[int, ...]
    """Op ids of the untiled graph in the order in which each band runs them; the last one makes
    Y."""
    bands: int
    """Number of bands; band `k` makes rows `[k * height // bands, (k + 1) * height // bands)`."""
    upwards: bool = False
    """True if the last band runs first, so that X dies from its end."""


@keywords
@dataclass(frozen=True, slots=True)
class Tiling:
    """Disjoint stages; all other ops run as they are."""

    stages: tuple[Stage, ...] = ()


class TiledKind(StrEnum):
    """Kinds of ops of a tiled graph."""

    WHOLE = "whole"
    """An op of the untiled graph, as it is."""
    BAND = "band"
    """An op of the untiled graph on the rows of a band."""
    SLICE = "slice"
    """Takes rows of a tensor: a view that lies inside that tensor, or a copy."""
    JOIN = "join"
    """Puts tensors of neighboring rows one after another; they lie inside the result."""


@keywords
@dataclass(frozen=True, slots=True)
class TiledTensor:
    """A tensor of the tiled program in the slab: rows of a buffer of the untiled graph."""

    name: str
    """Unique name; that of the buffer if it is the whole buffer."""
    buffer: int
    """Id of the buffer in the untiled graph."""
    first: int
    rows: int
    """`first` and `rows`: first row, and number of rows; `(0, 0)` for a buffer that is not tiled. A
    band may compute rows that are wrong, beyond those that are read."""
    place: int
    shift: int
    """`place` and `shift`: number of the place in which it lies, and bytes from the start of the
    place."""
    size: int
    """Bytes, not rounded."""


@keywords
@dataclass(frozen=True, slots=True)
class TiledOp:
    """An op of the tiled program; its id is that of the op in :attr:`TiledGraph.graph`."""

    kind: TiledKind
    op: int | None
    """Id of the op in the untiled graph; None for slices and joins."""
    reads: tuple[tuple[int, int], ...]
    """Pairs of a buffer of the untiled graph and the number of the tensor that stands for it; of a
    join the tensors, in ascending rows. A slice of `reads[0]` begins at the row
    `tensors[writes[0]].first - tensors[reads[0][1]].first` of it."""
    writes: tuple[int, ...]
    """Numbers of the tensors."""
    stage: int = -1
    band: int = -1
    """`stage` and `band`: number of the stage, and of the band by rows; -1 outside of stages."""
    copies: bool = False
    """True for a slice that moves bytes; other slices and joins find their bytes in place."""


@keywords
@dataclass(frozen=True, slots=True)
class Place:
    """Bytes that move as one: a tensor with all tensors that lie inside it."""

    size: int
    """Bytes, rounded."""
    pieces: tuple[tuple[int, int], ...]
    """Pairs of a buffer of the planned graph and its distance from the start of the place."""


@keywords
@dataclass(frozen=True)
class TiledGraph:
    """Stages in bands as an ordinary graph, with what each of its ops and buffers is."""

    source: Rows
    """Row maps of the untiled graph."""
    tiling: Tiling
    """The stages."""
    graph: Graph
    """The graph to plan: one op per entry of `ops`, buffers are pieces, or workspace."""
    ops: tuple[TiledOp, ...]
    """The ops by id."""
    tensors: tuple[TiledTensor, ...]
    """The tensors in the slab, without workspace."""
    places: tuple[Place, ...]
    """The places; each piece belongs to one."""

    def stage_rows(self) -> list[dict[str, Any]]:
        """Return the stages as plain data: names of ops, bands, direction."""
        ops = self.source.graph.ops
        return [
            {"ops": [ops[v].name for v in x.ops], "bands": x.bands, "upwards": x.upwards}
            for x in self.tiling.stages
        ]

    def offsets(self, plan: Plan) -> tuple[int | None, ...]:
        """Return the offset of each tensor in the slab; None for one that lies outside of it."""
        starts = [self._start(plan, place) for place in self.places]
        return tuple(
            None if (at := starts[tensor.place]) is None else at + tensor.shift
            for tensor in self.tensors
        )

    def head(self, plan: Plan) -> int:
        """Return the bytes of the slab as the runtime counts them: up to the last rounded end.

        It exceeds the plan's slab by less than a multiple of the rounding, and only if a view ends
        with the slab.
        """
        rows = zip(self.tensors, self.offsets(plan), strict=True)
        ends = (at + self.source.rounded(x.size) for x, at in rows if at is not None)
        return max(plan.slab(self.graph), *ends, 0)

    def tail(self, tail: Tail) -> int:
        """Return the bytes of the tail of the tiled program."""
        runs = Counter(op.op for op in self.ops if op.op is not None and op.kind is TiledKind.BAND)
        graph = self.source.graph
        arena = sum(buffer.alias_of is None for buffer in graph.buffers)
        arena -= len({op.workspace for op in graph.ops} - {None})
        joined = [len(op.reads) for op in self.ops if op.kind is TiledKind.JOIN]
        slices = sum(op.kind is TiledKind.SLICE for op in self.ops)
        more = {v: count - 1 for v, count in runs.items()}
        return tail.total(more, len(self.tensors) - arena, slices, joined)

    def is_among(self, order: Sequence[int], bands: int) -> bool:
        """Return True if an order runs one stage after another, each of up to `bands` bands."""
        runs = [stage for stage, _ in groupby(self.ops[v].stage for v in order) if stage >= 0]
        return len({*runs}) == len(runs) and all(x.bands <= bands for x in self.tiling.stages)

    def _start(self, plan: Plan, place: Place) -> int | None:
        # A piece that is never live has no offset; then another one of the place may.
        rows = ((plan.offsets[piece], shift) for piece, shift in place.pieces)
        return next((at - shift for at, shift in rows if at is not None), None)


def family(bands: int) -> str:
    """Return in words the tilings that bounds are about, after the word "tilings".

    Stages that read one tensor may need less if their bands take turns, so that a bound on stages
    which run one after another is none on all tilings.
    """
    return f"in rows, stage by stage, into up to {bands} bands"


def joins_of(bands: int) -> list[int]:
    """Return the number of tensors of each op that joins bands, the last one makes the result.

    >>> joins_of(12)
    [10, 2, 2]
    """
    found, left = [], bands
    while left > 1:
        groups = [min(MOST_JOINED, left - i) for i in range(0, left, MOST_JOINED)]
        # A rest of one tensor goes on as it is.
        found += [group for group in groups if group > 1]
        left = len(groups)
    return found
