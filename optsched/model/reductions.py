"""Reductions: features of a packing problem that are solved as simpler packing problems.

A reduction turns a problem into parts, and offsets of the parts into offsets of the problem. All
reductions here are exact: the slab of the lifted offsets is the sum of the parts' slabs, and each
valid packing of the problem is lifted from valid packings of the parts with the same sum. Hence

* the minimum slab is the sum of the parts' minima;
* the sum of lower bounds of the parts is a lower bound of the problem;
* if some part has no valid packing, neither has the problem.

The packers, bounds and searches after a reduction know nothing of the feature. Each class proves
its claim. Regions that are reserved are one more (:class:`optsched.model.reserved.Reserved`), and
orders on streams become live ranges with pairs in :mod:`optsched.model.order_columns`.

In the example, the buffers of 8 and 4 bytes share an offset in pool `fast`:

>>> from optsched.model.packing_problem import PackingProblem
>>> problem = PackingProblem(size=[8, 3, 4], start=[0, 0, 2], end=[2, 3, 3], must_share=[(0, 2)])
>>> chain = Reduced(problem, ByPool.of(["fast", "slow", "fast"]), Groups())
>>> [part.size.tolist() for part in chain.parts]
[[8], [3]]
>>> chain.lift([np.array([16]), np.array([0])]).tolist()
[16, 0, 16]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import lcm
from typing import Protocol

import numpy as np

from optsched.errors import UsageError
from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.model.packing_problem import PackingProblem
from optsched.model.selection import select
from optsched.runtime.bytes import round_up


class Reduction(Protocol):
    """A way to solve a packing problem by solving others."""

    def reduce(self, problem: PackingProblem) -> tuple[PackingProblem, ...]:
        """Return the parts of a problem."""

    def lift(self, problem: PackingProblem, offsets: Sequence[IntArray]) -> IntArray:
        """Return the offsets of a problem, shape `(k,)`, for the offsets of each of its parts."""


class Reduced:
    """A problem after several reductions, each applied to the parts of the one before.

    Sums of sums are sums, so the composition is exact as each reduction is.

    `reductions`: the first one to apply first.
    """

    def __init__(self, problem: PackingProblem, *reductions: Reduction) -> None:
        self.problem = problem
        self.parts: tuple[PackingProblem, ...] = (problem,)
        self.first = reductions[0] if reductions else None
        self.inner: list[Reduced] = []
        if self.first is not None:
            # Each part is reduced further on its own.
            self.inner = [Reduced(x, *reductions[1:]) for x in self.first.reduce(problem)]
            self.parts = tuple(part for one in self.inner for part in one.parts)

    def lift(self, offsets: Iterable[IntArray]) -> IntArray:
        """Return the offsets of the problem, shape `(k,)`, for the offsets of its parts."""
        rows = iter(offsets)
        if self.first is None:
            return next(rows)
        # The parts come in the order in which they were made, so each takes as many as it has.
        lifted = [one.lift(islice(rows, len(one.parts))) for one in self.inner]
        return self.first.lift(self.problem, lifted)


class ByPool(tuple[IntArray, ...]):
    """Each pool on its own; the value is the positions of the buffers of each pool.

    *Proof.* Buffers of different pools never share a byte, pairs to keep apart count within a pool
    only, and the members of a group lie in one pool. So every rule on offsets concerns one pool:
    offsets are valid exactly if those of each pool are, and the problem's slab is defined as the
    sum of the pools' slabs.
    """

    __slots__ = ()

    @classmethod
    def of(cls, pools: Sequence[str]) -> ByPool:
        """Return the reduction for the pool of each buffer; pools in ascending order."""
        if len(set(pools)) == 1:
            # As nearly always; a list of numbers per pool takes long for many buffers.
            return cls([np.arange(len(pools))])
        rows: dict[str, list[int]] = {}
        for i, pool in enumerate(pools):
            rows.setdefault(pool, []).append(i)
        return cls(np.array(rows[pool], np.int64) for pool in sorted(rows))

    def reduce(self, problem: PackingProblem) -> tuple[PackingProblem, ...]:
        """Return the problem of each pool."""
        # One pool: the very same problem, without a copy.
        return (problem,) if len(self) < 2 else tuple(select(problem, row) for row in self)

    def lift(self, problem: PackingProblem, offsets: Sequence[IntArray]) -> IntArray:
        """Return the offsets of all buffers."""
        if len(self) < 2:
            return offsets[0]
        found = np.zeros(len(problem), np.int64)
        for row, own in zip(self, offsets, strict=True):
            found[row] = own
        return found

    def split(self, offsets: IntArray) -> list[IntArray]:
        """Return the offsets of each part: the inverse of :meth:`lift`."""
        return [offsets] if len(self) < 2 else [offsets[row] for row in self]

    def pieces(
        self, problem: PackingProblem, offsets: IntArray
    ) -> Iterator[tuple[PackingProblem, IntArray]]:
        """Yield the parts of a problem, each with its offsets."""
        return zip(self.reduce(problem), self.split(offsets), strict=True)


class Groups:
    """Each must-share group as one buffer.

    *Proof.* The members of a group have the same offset, so they are placed together or not at all.
    The one buffer has their largest size, is live whenever a member is, and has all their pairs;
    its alignment, pin and upper limit allow exactly the offsets that all members allow
    (:mod:`optsched.model.joined`). So an offset is valid for it exactly if it is valid for all
    members, and both end at the same byte.
    """

    def reduce(self, problem: PackingProblem) -> tuple[PackingProblem, ...]:
        """Return the problem without groups."""
        return (problem.joined.problem,)

    def lift(self, problem: PackingProblem, offsets: Sequence[IntArray]) -> IntArray:
        """Return the offset of its group for each member."""
        return offsets[0][problem.joined.place]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Sizes rounded up to a power of two, and offsets at its multiples.

    *Proof.* This is the definition of the aligned problem; buffers keep their positions and
    offsets. Offsets are valid for the original problem too, whose buffers are not larger.
    """

    align: int
    """Bytes, a power of two."""

    def reduce(self, problem: PackingProblem) -> tuple[PackingProblem, ...]:
        """Return the aligned problem.

        Raise `UsageError` if the sum of the sizes is too large. Raise `GraphError` if a buffer is
        pinned to an offset that is not aligned.
        """
        align = self.align
        sizes = [round_up(size, align) for size in problem.size.tolist()]
        # In Python integers: rounding up could pass 64 bits.
        if sum(sizes) >= MAX_TOTAL_BYTES:
            raise UsageError(f"{problem.name}: sizes rounded up to {align} add up to 2**62 or more")
        alignment = np.array([lcm(a, align) for a in problem.alignment.tolist()], np.int64)
        return (replace(problem, size=np.array(sizes, np.int64), alignment=alignment),)

    def lift(self, problem: PackingProblem, offsets: Sequence[IntArray]) -> IntArray:
        """Return the offsets as they are."""
        return offsets[0]
