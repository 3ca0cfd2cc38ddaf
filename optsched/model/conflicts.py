"""Sets of pairwise conflicting buffers, for conflicts that live ranges do not show.

Two buffers conflict if both are fully occupied at some step, or if they are a pair to keep apart.
Conflicts of the first kind appear in the steps. For the other pairs, sets of pairwise conflicting
buffers (cliques) are grown greedily until each pair is in one of them. Each clique acts like one
more step at which its members are live. Any method that packs live ranges with gaps can therefore
handle these pairs, and the total size of a clique is a lower bound on the slab. One more clique is
the heaviest one that a short branch and bound finds.

In the example, buffers 0, 1 and 2 are live one after another, but all three pairs must be kept
apart. They form one clique, whose size of 12 bytes is a lower bound on the slab:

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

from optsched.model.arrays import IntArray, Rows, pack_rows
from optsched.runtime.kernel import kernel

BoolArray = npt.NDArray[np.bool_]

TABLE_BUFFERS = 4096
"""Maximum number of buffers for which computed rows of conflicts are kept."""
GROWTH_WORK = 1 << 28
"""Maximum number of buffers examined while cliques are grown; the remaining pairs become cliques of
two.
"""
CANDIDATE_WORK = 8
"""Buffers of a mask that are examined in the time of one interval."""
HEAVIEST_WORK = 200_000
"""Maximum number of buffers examined in the search for the heaviest clique."""
HEAVIEST_BUFFERS = 2_000
"""Maximum number of buffers for which the heaviest clique is searched for."""


NO_SETS = Rows(np.zeros(1, np.int64), np.zeros(0, np.int64))


class Whole(NamedTuple):
    """Intervals `[start, end)` in which buffers are fully occupied; arrays have shape `(r,)`."""

    owner: IntArray
    start: IntArray
    end: IntArray


class Conflicts:
    """Conflicts among `k` buffers: pairs that must not share any byte.

    Parameters
    ----------
    whole
        Intervals in which buffers are fully occupied.
    size
        Shape `(k,)`: sizes in bytes.
    pairs
        Shape `(p, 2)`: pairs to keep apart. Both `whole` and `pairs` may only name buffers that
        have bytes and are live at some step.
    """

    def __init__(self, whole: Whole, size: IntArray, pairs: IntArray) -> None:
        self.whole, self.size = whole, size
        # Both directions, so that the partners of a buffer are found by its number.
        self.apart: dict[int, list[int]] = {}
        for a, b in pairs.tolist():
            self.apart.setdefault(a, []).append(b)
            self.apart.setdefault(b, []).append(a)
        # Intervals that meet another one begin before its end, and less than the longest before it.
        turn = np.argsort(whole.start, kind="stable")
        self.start, self.end, self.owner = whole.start[turn], whole.end[turn], whole.owner[turn]
        self.longest = int((whole.end - whole.start).max(initial=0))
        # Each buffer's own intervals, in the order of time.
        turn = np.argsort(self.owner, kind="stable")
        self.own = np.searchsorted(self.owner[turn], np.arange(len(size) + 1))
        self.own_start, self.own_end = self.start[turn], self.end[turn]
        self.rows: dict[int, BoolArray] = {}
        self.work = 0

    def of(self, i: int) -> BoolArray:
        """Return the buffers that conflict with a buffer as a mask of shape `(k,)`."""
        row = self.rows.get(i)
        if row is None:
            row = self._met(i)
            row[self.apart.get(i, [])] = True
            # A buffer meets itself at every step, but may of course share its own bytes.
            row[i] = False
            self.work += len(row)
            # Rows are kept only while all of them together stay small: k rows have k * k bytes.
            if len(self.size) <= TABLE_BUFFERS:
                self.rows[i] = row
        return row

    def _intervals(self, i: int) -> tuple[IntArray, IntArray]:
        """Return the starts and the ends of a buffer's intervals, in the order of time."""
        own = slice(self.own[i], self.own[i + 1])
        return self.own_start[own], self.own_end[own]

    def _met(self, i: int) -> BoolArray:
        """Return the buffers that are fully occupied at the same step as a buffer, as a mask."""
        row = np.zeros(len(self.size), np.bool_)
        start, end = self._intervals(i)
        # Candidates start before the end, and not earlier than the longest interval before the
        # start.
        first = np.searchsorted(self.start, start - self.longest)
        count = np.searchsorted(self.start, end) - first
        # With many candidates, one pass over all intervals is cheaper than testing each candidate.
        if count.sum() > len(self.owner):
            met = _meets(self.start, self.end, start, end)
            row[self.owner[met]] = True
        else:
            # Candidates of all intervals, one interval after another.
            interval = np.repeat(np.arange(len(count)), count)
            near = np.arange(len(interval)) + (first - np.cumsum(count) + count)[interval]
            row[self.owner[near[self.end[near] > start[interval]]]] = True
        self.work += CANDIDATE_WORK * min(int(count.sum()), len(self.owner))
        return row

    def _meet(self, a: int, b: int) -> bool:
        """Return True if two buffers are fully occupied at the same step."""
        # The longer list is searched by bisection, once per interval of the shorter one.
        one, other = sorted((self._intervals(a), self._intervals(b)), key=lambda x: len(x[0]))
        return bool(_meets(*one, *other).any())

    def cliques(self, known: int = 0) -> list[IntArray]:
        """Return cliques that together contain each pair that does not appear in the steps.

        The last one is the heaviest clique found by a short search, if it has more bytes than the
        others and than `known`, the bytes known to be live at once.
        """
        # A table of k * k flags up to 4,096 buffers, 16 MiB; beyond that rows are made when
        # needed.
        grow = self._grow_by_table if len(self.size) <= TABLE_BUFFERS else self._grow_by_rows
        found = grow({a: self._unseen(a) for a in self.apart})
        weights = [int(self.size[clique].sum()) for clique in found]
        heaviest = self.heaviest(max([known, *weights]))
        return found if heaviest is None else [*found, heaviest]

    def _turn(self, left: Iterable[int]) -> list[int]:
        """Return the buffers by descending size: cliques grown around large buffers weigh most."""
        return sorted(left, key=lambda i: (-int(self.size[i]), i))

    def _grow_by_rows(self, left: dict[int, set[int]]) -> list[IntArray]:
        """Return cliques that cover all pairs left, for too many buffers to tabulate."""
        found: list[IntArray] = []
        for a in self._turn(left):
            while left[a]:
                found.append(self._grown(a, left))
                members = set(found[-1].tolist())
                # A clique covers all pairs among its members at once.
                for i in members & left.keys():
                    left[i] -= members
        return found

    def _grow_by_table(self, left: dict[int, set[int]]) -> list[IntArray]:
        """Return the same cliques as :meth:`_grow_by_rows`, grown by a kernel."""
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
                # Without work left the pair alone is a clique: covering pairs matters, large
                # cliques are a gain.
                most = 2 if self.work > GROWTH_WORK else k
                grow = grow_set.for_work(k)
                count = grow(a, most, rows, table, self.size, members)
                self.work += k * count
                found.append(np.sort(members[:count]))
        return found

    def _unseen(self, a: int) -> set[int]:
        """Return the partners of a buffer that are never fully occupied at the same step."""
        return {b for b in self.apart[a] if not self._meet(a, b)}

    def _grown(self, a: int, left: dict[int, set[int]]) -> IntArray:
        """Return a maximal clique that contains a buffer and one of its partners.

        The buffer added next is the one that covers most of the pairs left; the larger one wins
        ties.
        """
        if self.work > GROWTH_WORK:
            return np.array(sorted((a, min(left[a], key=lambda i: (-self.size[i], i)))), np.int64)
        members: list[int] = []
        able = np.ones(len(self.size), np.bool_)
        gain = np.zeros(len(self.size), np.int64)
        best = a
        while True:
            members.append(best)
            # Members cover a pair that is left only if both ends are in the clique.
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
        """Return the heaviest clique found with more than `known` bytes, or None."""
        # Without pairs the steps show all conflicts, and their load is the heaviest clique.
        if not self.apart or len(self.size) > HEAVIEST_BUFFERS:
            return None
        search = _HeaviestSet(self, known)
        search.run()
        return np.array(sorted(search.best), np.int64) if search.best else None


def _meets(start: IntArray, end: IntArray, others: IntArray, until: IntArray) -> BoolArray:
    """Return which intervals `[start, end)` meet one of the sorted intervals `[others, until)`."""
    met = np.zeros(len(start), np.bool_)
    # Only the first interval that ends after the start needs a look.
    after = np.searchsorted(until, start, side="right")
    inside = after < len(until)
    met[inside] = others[after[inside]] < end[inside]
    return met


def sets_among(ids: IntArray, count: int, sets: Rows) -> Rows:
    """Return what sets of buffers have among `ids`, as positions in `ids`.

    Pairs of many buffers take seconds to cover by sets. The sets of all buffers cover those of a
    part as well, and with this number of buffers no heavier set is searched for.
    """
    slot = np.full(count, -1, np.int64)
    slot[ids] = np.arange(len(ids))
    member, owner = slot[sets.idx], sets.owners()
    left = np.bincount(owner[member >= 0], minlength=len(sets.ptr) - 1)
    kept = (member >= 0) & (left[owner] > 1)
    number = np.cumsum(left > 1) - 1
    return pack_rows(number[owner[kept]], member[kept], int((left > 1).sum()))


class _HeaviestSet:
    """Branch and bound for the heaviest clique; sets are Python integers, heaviest buffer at bit 0.

    The buffers that may be added are colored so that no two of one color conflict. A clique
    contains at most one buffer per color, so the sum of the heaviest buffer of each color is an
    upper limit on the weight that can be added. If the search runs out of work, the clique found
    only gives a weaker bound.
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
        # The last entry of a coloring has the largest limit, so it is tried first.
        stack = [(0, able, self._coloured(able))]
        while stack:
            weight, able, order = stack[-1]
            # Even all that may be added does not beat the best clique.
            if not order or weight + order[-1][1] <= self.most or self.work > HEAVIEST_WORK:
                stack.pop()
                if members:
                    members.pop()
                continue
            i, _ = order.pop()
            # The branch that has the buffer is searched now, the one without it next.
            stack[-1] = (weight, able & ~(1 << i), order)
            members.append(i)
            weight += self.weight[i]
            if weight > self.most:
                self.most, self.best = weight, [self.ids[j] for j in members]
            able &= self.rows[i]
            stack.append((weight, able, self._coloured(able)))

    def _coloured(self, able: int) -> list[tuple[int, int]]:
        """Return the buffers by color, each with the most that it and earlier ones can add."""
        order: list[tuple[int, int]] = []
        total = 0
        while able:
            free, weight = able, 0
            while free:
                i = (free & -free).bit_length() - 1
                # The first buffer of a color is its heaviest.
                weight = weight or self.weight[i]
                order.append((i, total + weight))
                able &= ~(1 << i)
                # Only buffers that do not conflict with this one can have its color.
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
    """Write a maximal clique that contains a buffer to `members`; return its number of buffers.

    The buffer added next is the one that covers most of the pairs left; ties go to the larger
    buffer, then to the first one.

    Parameters
    ----------
    first
        Buffer to start with.
    most
        Maximum number of buffers in the clique.
    rows
        Shape `(k, k)`: True for buffers that conflict; no buffer conflicts with itself.
    left
        Shape `(k, k)`: True for pairs not covered by a clique yet; those of this clique are
        cleared.
    size
        Shape `(k,)`: sizes in bytes.
    members
        Shape `(k,)`: the clique is written to its beginning.
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
    # All pairs of the clique are covered, so they give no further gain.
    for x in range(count):
        for y in range(count):
            left[members[x], members[y]] = False
    return count
