"""Row maps: which rows of its inputs an op needs for rows of its output.

A reader of any format fills them for the ops of a graph; :mod:`optsched.model.tiling` makes
bands of them. An op is *row-local* if rows `[a, b)` of its output depend on rows
`[floor((a * stride - pad) / up), ceil(((b - 1) * stride - pad + window) / up))` of each input that
has a map, cut to the rows that there are. Inputs without a map are read as a whole by each band:
weights that are computed at run time, or a tensor that is broadcast over the rows. Tensors hold
their rows one after another.

Example: a convolution with 3 rows at stride 2 that pads one row above needs rows 3 to 7 of its
input for rows 2 and 3 of its output.

>>> RowMap(0, window=3, stride=2, pad=1).needs(2, 4)
(3, 8)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from math import gcd, lcm

from optsched.errors import GraphError, UsageError
from optsched.model.graph import Graph
from optsched.model.kernels import bands
from optsched.runtime.bytes import round_up
from optsched.runtime.keywords import keywords


class RowRule(IntEnum):
    """Rule by which a kernel finds the rows that it computes from those that it is given."""

    EXACT = bands.EXACT
    """It pads by the numbers in its file, which a band restates, or not at all (`VALID`)."""
    SAME = bands.SAME
    """It pads by the height of the tensor that it is given, half above, the larger half below."""
    SCALED = bands.SCALED
    """It makes `up` rows of each row, and `more` at the end."""


@keywords
@dataclass(frozen=True, slots=True)
class RowMap:
    """Rows of an input that rows of the output need."""

    buffer: int
    """Id of the input."""
    window: int = 1
    stride: int = 1
    pad: int = 0
    """`window`, `stride` and `pad`: rows that a row of the output reads, their distance from those
    of the next row, and the rows of padding above the first."""
    up: int = 1
    """Rows of the output per row of the input where an op enlarges; the stride is then 1."""

    def needs(self, first: int, last: int) -> tuple[int, int]:
        """Return the half-open rows for the output rows `[first, last)`, not cut to the height."""
        low = (first * self.stride - self.pad) // self.up
        return low, -((self.pad - self.window - (last - 1) * self.stride) // self.up)


@keywords
@dataclass(frozen=True, slots=True)
class RowOp:
    """A row-local op."""

    output: int
    """Id of the buffer whose rows it computes."""
    maps: tuple[RowMap, ...]
    """A map for each input that is read by rows. Several inputs need the rule `EXACT`."""
    rule: RowRule = RowRule.EXACT
    """Rule by which its kernel finds the rows to compute."""
    more: int = 0
    """Rows beyond `up` per row of the input, with the rule `SCALED`."""
    cost: int = 0
    """Multiplications per row of the output."""
    scratch: tuple[int, int] = (0, 0)
    """Fixed bytes of workspace of a run, and those per row of its output."""


@keywords
@dataclass(frozen=True, slots=True)
class Band:
    """Rows of one run of an op on a band: those of each mapped input, and those it computes."""

    inputs: tuple[tuple[int, int], ...]
    output: tuple[int, int]


@keywords
@dataclass(frozen=True)
class Rows:
    """The row maps of a graph.

    Raise `GraphError` if a map names a buffer that its op does not read, or one without rows.
    """

    graph: Graph
    """The graph, untiled."""
    ops: tuple[RowOp | str, ...]
    """By op id, a :class:`RowOp`, or the reason why the op cannot run in bands, such as `"not
    row-local: reads all rows"`."""
    heights: tuple[int, ...]
    row_bytes: tuple[int, ...]
    """`heights` and `row_bytes`: by buffer id, rows and the bytes of each; 0 for buffers without
    rows."""
    rounding: int = 16
    """Sizes of tensors are rounded up to a multiple of it."""
    view_alignment: int = 1
    """Number of bytes that divides the place of a view in its tensor."""

    def __post_init__(self) -> None:
        graph = self.graph
        if (len(self.ops), len(self.heights), len(self.row_bytes)) != (
            len(graph.ops),
            *[len(graph.buffers)] * 2,
        ):
            raise GraphError(f"{graph.name}: row maps must cover all ops and buffers")
        for v, op in enumerate(self.ops):
            if isinstance(op, RowOp):
                self._check(v, op)

    def _check(self, v: int, op: RowOp) -> None:
        own, name = self.graph.ops[v], self.graph.ops[v].name
        if [b for b in own.writes if b != own.workspace] != [op.output]:
            raise GraphError(f"op {name!r}: a row-local op writes the rows of one buffer")
        read = {x.buffer for x in op.maps}
        if len(read) < len(op.maps) or not read or not read.issubset(own.reads):
            raise GraphError(f"op {name!r}: row maps name a buffer twice, or one it does not read")
        for b in (op.output, *read):
            buffer = self.graph.buffers[b]
            if not 0 < self.heights[b] * self.row_bytes[b] <= buffer.size or buffer.external:
                raise GraphError(f"op {name!r}: buffer {buffer.name!r} has no rows in the slab")
        if op.rule is not RowRule.EXACT and len(op.maps) > 1:
            raise GraphError(f"op {name!r}: the rule {op.rule.name} is for one input with rows")
        if any(min(x.window, x.stride, x.up) < 1 for x in op.maps):
            raise GraphError(f"op {name!r}: window, stride and up must be at least 1")

    @cached_property
    def least_bytes(self) -> tuple[int, ...]:
        """Bytes by buffer that stay live, at least, when some of its readers have run.

        Example: two convolutions read 8 rows, one of them at stride 2. If that one comes last, it
        leaves the last row unread, and 7 rows stay live.
        """
        return self._live_bytes(lambda rows: min(high - low for low, high in rows))

    @cached_property
    def waiting_bytes(self) -> tuple[int, ...]:
        """Bytes by buffer that are live, at least, from when it is made until a reader runs.

        Example: one convolution reads 8 rows, at stride 2. The last row may be dead.
        """

        def wanted(rows: list[tuple[int, int]]) -> int:
            low, high = _hull(rows)
            return high - low

        return self._live_bytes(wanted)

    def _live_bytes(self, wanted: Callable[[list[tuple[int, int]]], int]) -> tuple[int, ...]:
        """Return bytes by buffer of rows that are wanted of those that its readers read."""
        found = [buffer.size for buffer in self.graph.buffers]
        users, needed = self._needed
        for b, own in enumerate(users):
            if own and self.heights[b]:
                rows = wanted([self._read(v, b, needed) for v in own])
                if rows < self.heights[b]:
                    found[b] = min(found[b], rows * self.row_bytes[b])
        return tuple(found)

    @cached_property
    def _needed(self) -> tuple[list[set[int]], list[tuple[int, int]]]:
        """The readers of each buffer, and the rows that no tiling leaves out."""
        graph = self.graph
        users: list[set[int]] = [set() for _ in graph.buffers]
        for v, op in enumerate(graph.ops):
            for b in (*op.reads, *op.uses):
                users[graph.roots[b]].add(v)
        needed = [(0, height) for height in self.heights]
        for v in reversed(range(len(graph.ops))):
            made = self.ops[v]
            own = users[made.output] if isinstance(made, RowOp) else set()
            # The result of a stage has all rows.
            if isinstance(made, RowOp) and own and graph.buffers[made.output].output is None:
                needed[made.output] = _hull(self._read(u, made.output, needed) for u in own)
        return users, needed

    def _read(self, v: int, b: int, needed: list[tuple[int, int]]) -> tuple[int, int]:
        """Return the rows of a buffer that an op reads, of its output's that are needed."""
        op = self.ops[v]
        x = next((x for x in op.maps if x.buffer == b), None) if isinstance(op, RowOp) else None
        if x is None or not isinstance(op, RowOp):
            return 0, self.heights[b]
        first, last = needed[op.output]
        if first >= last:
            return 0, 0
        low, high = x.needs(first, last)
        return max(0, low), max(0, low, min(self.heights[b], high))

    @property
    def cost(self) -> int:
        """Multiplications of the row-local ops, as they are."""
        ops = (op for op in self.ops if isinstance(op, RowOp))
        return sum(op.cost * self.heights[op.output] for op in ops)

    def keep_whole(self, names: Iterable[str]) -> Rows:
        """Return the maps with some ops, by name, left whole."""
        ops = list(self.ops)
        # Letters of one name would be taken for names.
        for name in [names] if isinstance(names, str) else names:
            self.graph.op(name)
            ops[self.graph.op_ids[name]] = "kept whole, as asked"
        return replace(self, ops=tuple(ops))

    def aligned_to(self, alignment: int) -> Rows:
        """Return the maps with views at multiples of a power of two, in bytes."""
        if alignment < 1 or alignment & (alignment - 1):
            raise UsageError(f"alignment of rows must be a power of two, got {alignment}")
        return replace(self, view_alignment=alignment)

    def step(self, buffers: Iterable[int]) -> int:
        """Return the number of rows that divides the first row of each view of the buffers."""
        align = self.view_alignment
        return lcm(*(align // gcd(align, self.row_bytes[b]) for b in buffers))

    def rounded(self, bytes_: int) -> int:
        """Return a size as the runtime reserves it."""
        return round_up(bytes_, self.rounding)

    def band(self, v: int, first: int, last: int) -> Band | None:
        """Return the run of an op that makes rows `[first, last)` of its output, or None.

        The run has the fewest rows that make these rows right. Without such a run, as for
        rows of padding alone, the result is None.
        """
        op = self.ops[v]
        assert isinstance(op, RowOp)
        steps = self.step(x.buffer for x in op.maps), self.step([op.output])
        found, given = [], set()
        for x in op.maps:
            low, high, begin, count = bands.band_rows(
                int(op.rule),
                *(x.window, x.stride, x.pad, x.up, op.more, self.heights[x.buffer]),
                *(first, last, *steps),
            )
            found.append((low, high))
            given.add((begin, begin + count))
        # All inputs must make the same rows; with aligned views they may not.
        if len(given) > 1 or (0, 0) in given:
            return None
        return Band(tuple(found), given.pop())


def _hull(rows: Iterable[tuple[int, int]]) -> tuple[int, int]:
    kept = [(low, high) for low, high in rows if low < high] or [(0, 0)]
    return min(low for low, _ in kept), max(high for _, high in kept)


@keywords
@dataclass(frozen=True, slots=True)
class Tail:
    """Bytes that a runtime keeps beside the slab: what the model takes, and each thing more."""

    model: int
    """Bytes of the untiled model."""
    ops: tuple[int, ...]
    """By op id, bytes of one more run of an op: its node and the data of its kernel."""
    tensor: int = 0
    """Bytes per tensor in the slab."""
    slice: int = 0
    join: int = 0
    """`slice` and `join`: bytes of one op that slices rows, or joins them, with its constants."""
    joined: int = 0
    """Bytes per tensor that is joined."""
    first: tuple[int, ...] = ()
    """By op id, bytes that running an op in bands adds beside its further runs; empty for none."""
    name: str = "tail"
    """Words for reports, such as `"tail of a 32-bit build"`."""
    slack: int = 0
    """Most bytes by which a sum is below the tail of the written program, as of alignment. Sums are
    never above it, so that they bound it."""
    exact: Callable[..., int] | None = field(default=None, compare=False)
    """`exact(tiled, plan)` returns the tail of a tiled program with a plan; None if sums are
    exact."""

    @classmethod
    def none(cls, graph: Graph) -> Tail:
        """Return a tail without bytes, for the head alone."""
        return cls(0, (0,) * len(graph.ops), name="no tail")

    def total(self, runs: Mapping[int, int], tensors: int, slices: int, joined: list[int]) -> int:
        """Return the bytes of a tiled model.

        `runs`: further runs of each op in bands, by id. `tensors`: tensors in the slab beyond those
        of the untiled model. `slices`: number of ops that slice. `joined`: number of tensors of
        each op that joins.
        """
        more = sum(self.ops[v] * count for v, count in runs.items())
        more += sum(self.first[v] for v in runs) if self.first else 0
        joins = self.join * len(joined) + self.joined * sum(joined)
        return self.model + more + self.tensor * tensors + self.slice * slices + joins
