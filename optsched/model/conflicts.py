"""Sets of buffers that must all lie apart: what pairs ask for beyond live ranges.

Two buffers conflict if both are there as a whole at some step, or if they are a pair that is kept
apart. The steps show the first kind. For the pairs that no step shows, sets of buffers that all
conflict are grown greedily until each pair is in one. Each such set is like one more step at which
its members are live, so whatever packs live ranges with gaps packs these too, and the sizes of a
set add up to a bound on the slab. The heaviest set that a short search finds is one of them.

>>> import numpy as np
>>> start, end, size = (np.array(x) for x in ([0, 1, 2, 2], [1, 2, 3, 4], [4, 3, 5, 2]))
>>> conflicts = Conflicts(Whole(np.arange(4), start, end), size, np.array([[0, 1], [0, 2], [1, 2]]))
>>> [found.tolist() for found in conflicts.cliques()]
[[0, 1, 2]]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import kernel

BoolArray = npt.NDArray[np.bool_]

TABLE_BUFFERS = 4096
"""Up to so many buffers the rows of conflicts are kept once they are made."""
GROWTH_WORK = 1 << 31
"""Buffers looked at while sets are grown; pairs left over then are sets by themselves."""
HEAVIEST_WORK = 200_000
"""Buffers looked at in the search for the heaviest set."""
HEAVIEST_BUFFERS = 2_000
"""With more buffers that search is left out."""


class Whole(NamedTuple):
    """Stretches `[start, end)` in which buffers are there as a whole; all of shape `(r,)`."""

    owner: IntArray
    start: IntArray
    end: IntArray


class Conflicts:
    """Which buffers may share no byte at all, of `k` with a `size` in bytes each.

    `whole` says when they are there as a whole, and `pairs`, shape `(p, 2)`, which are kept apart;
    both only of buffers that take room.
    """

    def __init__(self, whole: Whole, size: IntArray, pairs: IntArray) -> None:
        self.whole, self.size = whole, size
        self.apart: dict[int, list[int]] = {}
        for a, b in pairs.tolist():
            self.apart.setdefault(a, []).append(b)
            self.apart.setdefault(b, []).append(a)
        self.stretches: dict[int, list[tuple[int, int]]] = {}
        if self.apart:
            rows = (whole.owner.tolist(), whole.start.tolist(), whole.end.tolist())
            for owner, start, end in zip(*rows, strict=True):
                self.stretches.setdefault(owner, []).append((start, end))
        self.rows: dict[int, BoolArray] = {}
        self.work = 0

    def of(self, i: int) -> BoolArray:
        """Return what a buffer conflicts with, shape `(k,)`."""
        row = self.rows.get(i)
        if row is None:
            row = self._met(i)
            row[self.apart.get(i, [])] = True
            row[i] = False
            self.work += len(row)
            if len(self.size) <= TABLE_BUFFERS:
                self.rows[i] = row
        return row

    def _met(self, i: int) -> BoolArray:
        """Return the buffers that are there as a whole at a step at which this one is."""
        row = np.zeros(len(self.size), np.bool_)
        for start, end in self.stretches.get(i, ()):
            meets = (self.whole.start < end) & (self.whole.end > start)
            row[self.whole.owner[meets]] = True
        return row

    def cliques(self, known: int = 0) -> list[IntArray]:
        """Return sets of buffers that all conflict; each pair that no step shows is in one.

        Of the sets that weigh more than the bytes that are `known` to be live at once, one is
        searched for.
        """
        grow = self._grow_by_table if len(self.size) <= TABLE_BUFFERS else self._grow_by_rows
        found = grow({a: self._unseen(a) for a in self.apart})
        weights = [int(self.size[clique].sum()) for clique in found]
        heaviest = self.heaviest(max([known, *weights]))
        return found if heaviest is None else [*found, heaviest]

    def _turn(self, left: Iterable[int]) -> list[int]:
        """Return buffers whose pairs come first: sets that grow around large ones weigh most."""
        return sorted(left, key=lambda i: (-int(self.size[i]), i))

    def _grow_by_rows(self, left: dict[int, set[int]]) -> list[IntArray]:
        """Return sets that cover all pairs left, where there are too many buffers for tables."""
        found: list[IntArray] = []
        for a in self._turn(left):
            while left[a]:
                found.append(self._grown(a, left))
                members = set(found[-1].tolist())
                for i in members & left.keys():
                    left[i] -= members
        return found

    def _grow_by_table(self, left: dict[int, set[int]]) -> list[IntArray]:
        """Return the same sets, grown by a kernel."""
        if not any(left.values()):
            return []
        k, found = len(self.size), list[IntArray]()
        rows = np.array([self.of(i) for i in range(k)])
        table = np.zeros((k, k), np.bool_)
        for a, others in left.items():
            table[a, list(others)] = True
        members = np.zeros(k, np.int64)
        for a in self._turn(left):
            while table[a].any():
                most = 2 if self.work > GROWTH_WORK else k
                grow = grow_set.for_work(k)
                count = grow(a, most, rows, table, self.size, members)
                self.work += k * count
                found.append(np.sort(members[:count]))
        return found

    def _unseen(self, a: int) -> set[int]:
        """Return the partners of a buffer that are never there, as a whole, when it is."""
        met = self._met(a)
        return {b for b in self.apart[a] if not met[b]}

    def _grown(self, a: int, left: dict[int, set[int]]) -> IntArray:
        """Return a set that holds a buffer and a partner, and to which no other can be added.

        Whoever brings most of the pairs that are left comes next, the larger among equals.
        """
        members: list[int] = []
        able = np.ones(len(self.size), np.bool_)
        gain = np.zeros(len(self.size), np.int64)
        best = a
        while True:
            members.append(best)
            gain[list(left.get(best, ()))] += 1
            if len(members) > 1 and self.work > GROWTH_WORK:
                break
            able &= self.of(best)
            ids = np.flatnonzero(able)
            self.work += len(able)
            if not len(ids):
                break
            ids = ids[gain[ids] == gain[ids].max()]
            best = int(ids[np.argmax(self.size[ids])])
        return np.array(sorted(members), np.int64)

    def heaviest(self, known: int) -> IntArray | None:
        """Return the heaviest set found of more than `known` bytes; None without one."""
        if not self.apart or len(self.size) > HEAVIEST_BUFFERS:
            return None
        search = _HeaviestSet(self, known)
        search.run()
        return np.array(sorted(search.best), np.int64) if search.best else None


class _HeaviestSet:
    """Branch and bound; sets are bits of Python's integers, the heaviest buffer at the lowest bit.

    Buffers that may be added are coloured: those of one colour exclude each other, so at most the
    heaviest of each colour can be added. What the limit on work leaves out is only a weaker bound.
    """

    def __init__(self, conflicts: Conflicts, known: int) -> None:
        takes_room = set(conflicts.whole.owner.tolist()) | conflicts.apart.keys()
        self.ids = sorted(takes_room, key=lambda i: (-int(conflicts.size[i]), i))
        self.weight = [int(conflicts.size[i]) for i in self.ids]
        place = np.array(self.ids, np.int64)
        self.rows = [_bits(conflicts.of(i)[place]) for i in self.ids]
        self.best: list[int] = []
        self.most = known
        self.work = 0

    def run(self) -> None:
        """Search until done or out of work."""
        members: list[int] = []
        able = (1 << len(self.ids)) - 1
        stack = [(0, able, self._coloured(able))]
        while stack:
            weight, able, order = stack[-1]
            if not order or weight + order[-1][1] <= self.most or self.work > HEAVIEST_WORK:
                stack.pop()
                if members:
                    members.pop()
                continue
            i, _ = order.pop()
            stack[-1] = (weight, able & ~(1 << i), order)
            members.append(i)
            weight += self.weight[i]
            if weight > self.most:
                self.most, self.best = weight, [self.ids[j] for j in members]
            able &= self.rows[i]
            stack.append((weight, able, self._coloured(able)))

    def _coloured(self, able: int) -> list[tuple[int, int]]:
        """Return the buffers by colour, each with what it and those before it can add at most."""
        order: list[tuple[int, int]] = []
        total = 0
        while able:
            free, weight = able, 0
            while free:
                i = (free & -free).bit_length() - 1
                # The first of a colour is its heaviest.
                weight = weight or self.weight[i]
                order.append((i, total + weight))
                able &= ~(1 << i)
                free &= ~(1 << i) & ~self.rows[i]
            total += weight
        self.work += len(order)
        return order


def _bits(row: BoolArray) -> int:
    return int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little")


@kernel
def grow_set(
    first: int, most: int, rows: BoolArray, left: BoolArray, size: IntArray, members: IntArray
) -> int:
    """Write a set that holds a buffer, and to which no other can be added; return how many it has.

    Whoever brings most of the pairs that are left comes next, then the larger, then the first.

    `first` is the buffer to begin with, and `most` how many the set may have. Which buffers
    conflict, none with itself, is in `rows`, shape `(k, k)`, and in `left` which pairs are in no
    set yet: those of the set are taken out. It is written to the beginning of `members`.
    """
    ids = np.arange(len(size))
    gain = np.zeros(len(size), np.int64)
    able, count, best = len(size), 0, first
    while best >= 0 and count < most:
        members[count] = best
        count += 1
        kept, after = 0, -1
        for x in range(able):
            i = ids[x]
            if rows[best, i]:
                ids[kept] = i
                kept += 1
                gain[i] += left[best, i]
                more = 0 if after < 0 else gain[i] - gain[after]
                if after < 0 or more > 0 or (more == 0 and size[i] > size[after]):
                    after = i
        able, best = kept, after
    for x in range(count):
        for y in range(count):
            left[members[x], members[y]] = False
    return count
