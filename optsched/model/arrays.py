"""A graph as flat int64 arrays, the only form that compiled code receives.

Adjacency is stored in compressed sparse rows: the neighbors of `i` are `idx[ptr[i]:ptr[i + 1]]`,
ascending and distinct.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from optsched.model.wiring import Wired
from optsched.runtime.collector import paused_collector
from optsched.runtime.kernel import inner

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Integers = Sequence[SupportsIndex] | npt.NDArray[np.integer[Any]]
"""Types that callers may pass for an :data:`IntArray`."""
ROW_BITS = 32
"""Bits per integer in rows of bits: few enough that arithmetic on them cannot overflow."""


@inner
def row_lengths(ptr: IntArray) -> IntArray:
    """Return the number of entries of each row.

    The loop replaces a sum of arrays, which would take a second to compile.
    """
    lengths = np.empty(len(ptr) - 1, np.int64)
    for i in range(len(lengths)):
        lengths[i] = ptr[i + 1] - ptr[i]
    return lengths


def row_counts(ptr: IntArray, marked: npt.NDArray[np.bool_]) -> IntArray:
    """Return the number of marked entries of each row; `marked` has one flag per entry."""
    # Differences of a running sum: no loop over the rows.
    total = np.zeros(len(marked) + 1, np.int64)
    np.cumsum(marked, out=total[1:])
    return cast(IntArray, total[ptr[1:]] - total[ptr[:-1]])


@dataclass(frozen=True, slots=True)
class Rows:
    """Compressed sparse rows."""

    ptr: IntArray
    """Shape `(rows + 1,)`."""
    idx: IntArray
    """Shape `(ptr[-1],)`."""

    def row(self, i: int) -> IntArray:
        """Return the entries of row `i`."""
        return self.idx[self.ptr[i] : self.ptr[i + 1]]

    def owners(self) -> IntArray:
        """Return the row of each entry."""
        return np.repeat(np.arange(len(self.ptr) - 1, dtype=np.int64), np.diff(self.ptr))

    def select(self, rows: IntArray) -> Rows:
        """Return the given rows, in that order."""
        lengths = np.diff(self.ptr)[rows]
        ptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=ptr[1:])
        within = np.arange(ptr[-1], dtype=np.int64) - np.repeat(ptr[:-1], lengths)
        return Rows(ptr, self.idx[np.repeat(self.ptr[:-1][rows], lengths) + within])


@dataclass(frozen=True, slots=True)
class GraphArrays:
    """Data of a graph with `n` ops and `m` buffers for kernels.

    Views have 0 bytes here. An op that uses a view also uses its root, so live ranges need no
    further rule. Buffers outside the slab have 0 bytes, too.
    """

    pred: Rows
    succ: Rows
    """Ops that must run before each op, and ops that must run after it."""
    read: Rows
    """Buffers that each op uses and does not produce."""
    user: Rows
    """Ops that use each buffer, except its producer: the transpose of `read`."""
    write: Rows
    born: Rows
    """Buffers that each op produces, and buffers that it allocates."""
    producer: IntArray
    birth: IntArray
    """Shape `(m,)`: the ops that produce and allocate each buffer, or -1 for a graph input."""
    size: IntArray
    """Shape `(m,)`: bytes that are counted."""
    keep: npt.NDArray[np.bool_]
    """Shape `(m,)`, bool: True if the buffer stays live to the end."""
    alloc: IntArray
    """Shape `(n,)`: bytes allocated when the op starts."""
    own: IntArray
    """Shape `(n,)`: bytes of the op's products that no op uses, released when it ends."""
    initial: int
    """Bytes live before the first step."""
    inplace_op: IntArray
    inplace_output: IntArray
    inplace_source: IntArray
    """Shape `(pairs,)`: ops, ascending, that may write an output into a dying input. Only
    admissible pairs are listed; there are none unless the graph is in-place. Inputs are roots.
    """

    @property
    def op_count(self) -> int:
        """Number of ops, `n`."""
        return len(self.alloc)

    @property
    def buffer_count(self) -> int:
        """Number of buffers, `m`."""
        return len(self.size)

    def users(self, buffer: int) -> list[int]:
        """Return the ops that use a buffer, including its producer, ascending."""
        made = int(self.producer[buffer])
        return sorted({*self.user.row(buffer).tolist(), *((made,) if made >= 0 else ())})

    def inplace_pairs(self) -> list[tuple[int, int, int]]:
        """Return op, output and source of each admissible pair, in the order of the arrays."""
        columns = (self.inplace_op, self.inplace_output, self.inplace_source)
        return list(zip(*(column.tolist() for column in columns), strict=True))


def distinct(values: IntArray) -> IntArray:
    """Return the distinct values, ascending.

    For a few hundred values this takes a fifth of the time of `np.unique`.
    """
    found = np.sort(values)
    first = np.append(True, found[1:] != found[:-1])[: len(found)]
    return cast(IntArray, found[first])


def build_rows(rows: Sequence[Collection[int]]) -> Rows:
    """Pack rows, sorting their entries and removing duplicates."""
    return distinct_rows(*flat_rows(rows), len(rows))


def flat_rows(rows: Sequence[Collection[int]]) -> tuple[IntArray, IntArray]:
    """Return the row and the value of each entry of some rows, in their order."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    entries = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
    return np.repeat(np.arange(len(rows), dtype=np.int64), lengths), entries


def distinct_rows(owners: IntArray, entries: IntArray, count: int) -> Rows:
    """Return `count` rows of (owner, entry) pairs, entries ascending and distinct."""
    width = int(entries.max(initial=0)) + 1
    owners, entries = np.divmod(distinct(owners * width + entries), width)
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=count), out=ptr[1:])
    return Rows(ptr, entries)


def pack_rows(owners: IntArray, entries: IntArray, count: int) -> Rows:
    """Return rows of (owner, entry) pairs; pairs of one row keep their order."""
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=count), out=ptr[1:])
    return Rows(ptr, entries[np.argsort(owners, kind="stable")])


def bit_rows(table: npt.NDArray[np.bool_]) -> IntArray:
    """Return the rows of a table as integers of :data:`ROW_BITS` bits, shape `(n, words)`.

    Bit 0 of the first integer is the first column.
    """
    packed = np.packbits(table, axis=1, bitorder="little")
    missing = -packed.shape[1] % (ROW_BITS // 8)
    padded = np.ascontiguousarray(np.pad(packed, ((0, 0), (0, missing))))
    return padded.view("<u4").astype(np.int64)


def transpose(rows: Rows, count: int) -> Rows:
    """Return the transpose, which has `count` rows."""
    return pack_rows(rows.idx, rows.owners(), count)


@paused_collector()
def build_arrays(graph: Wired, inplace: Sequence[tuple[int, int, int]]) -> GraphArrays:
    """Flatten a graph, in linear time apart from sorting the rows.

    `inplace` lists the admissible `(op, output, root of the input)`, ascending.
    """
    n, m = len(graph.ops), len(graph.buffers)
    buffers = graph.buffers
    made_by = [-1 if p is None else p for p in graph.producers]
    # Allocated by its producer, unless the buffer names another op.
    born_at = [p if b.birth is None else b.birth for p, b in zip(made_by, buffers, strict=True)]
    producer, birth = np.array(made_by, np.int64), np.array(born_at, np.int64)
    named = [
        flat_rows(list(map(attrgetter(key), graph.ops))) for key in ("reads", "uses", "writes")
    ]
    writer, written = named[2]
    reader, used = (np.concatenate(both) for both in zip(*named[:2], strict=True))
    # Whoever uses a view uses the bytes of its root, which the root's live range must know.
    roots = np.array(graph.roots, np.int64)
    reader = np.concatenate([reader, reader, writer])
    used = np.concatenate([used, roots[used], roots[written]])
    others = producer[used] != reader
    read = distinct_rows(reader[others], used[others], n)
    user = transpose(read, m)
    pred = build_rows(graph.predecessors)
    keep, made = np.array(graph.kept, np.bool_), birth >= 0
    none = np.zeros(0, np.int64)
    wired = GraphArrays(
        pred=pred,
        succ=transpose(pred, n),
        read=read,
        user=user,
        write=distinct_rows(writer, written, n),
        born=pack_rows(birth[made], np.flatnonzero(made), n),
        producer=producer,
        birth=birth,
        size=none,
        keep=keep,
        alloc=np.zeros(n, np.int64),
        own=none,
        initial=0,
        inplace_op=none,
        inplace_output=none,
        inplace_source=none,
    )
    return with_bytes(wired, graph, inplace)


def with_bytes(
    wired: GraphArrays, graph: Wired, inplace: Sequence[tuple[int, int, int]]
) -> GraphArrays:
    """Return the arrays of a graph that has the same wiring, but buffers of other sizes.

    `inplace` is that of :func:`build_arrays`.
    """
    buffers = graph.buffers
    size = np.array([buffer.size for buffer in buffers], np.int64)
    # Most buffers have neither policy, and a property per buffer takes longer.
    policies = [b for b, x in enumerate(buffers) if x.input is not None or x.output is not None]
    outside = np.zeros(len(buffers), np.bool_)
    outside[[b for b in policies if buffers[b].external]] = True
    size[outside[np.array(graph.roots, np.int64)]] = 0
    # Made and never used: such bytes are allocated and released by the same op.
    unread = (np.diff(wired.user.ptr) == 0) & ~wired.keep
    made, lost = wired.birth >= 0, (wired.birth >= 0) & unread
    alloc, own = np.zeros(wired.op_count, np.int64), np.zeros(wired.op_count, np.int64)
    np.add.at(alloc, wired.birth[made], size[made])
    np.add.at(own, wired.producer[lost], size[lost])
    pairs = np.array(inplace, np.int64).reshape(-1, 3).T
    return replace(
        wired,
        size=size,
        alloc=alloc,
        own=own,
        # Inputs that no op uses are released before the first step.
        initial=int(size[~made & ~unread].sum()),
        inplace_op=np.ascontiguousarray(pairs[0]),
        inplace_output=np.ascontiguousarray(pairs[1]),
        inplace_source=np.ascontiguousarray(pairs[2]),
    )
