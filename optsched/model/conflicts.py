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
>>> found = conflicts.cliques()
>>> found.ptr.tolist(), found.idx.tolist()
([0, 3], [0, 1, 2])
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import BoolArray, IntArray, Rows, bit_rows, distinct, pack_rows
from optsched.model.kernels.cliques import grow_sets, heaviest_set

TABLE_BUFFERS = 4096
"""Maximum number of buffers for which a table of all conflicts is made."""
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

    `whole`: intervals in which buffers are fully occupied. `size`: shape `(k,)`: sizes in bytes.
    `pairs`: shape `(p, 2)`: pairs to keep apart. Both `whole` and `pairs` may only name buffers
    that have bytes and are live at some step.
    """

    def __init__(self, whole: Whole, size: IntArray, pairs: IntArray) -> None:
        self.whole, self.size, self.pairs = whole, size, pairs
        # Both directions, so that the partners of a buffer are found by its number.
        both = np.concatenate([pairs, pairs[:, ::-1]])
        self.apart = pack_rows(both[:, 0], both[:, 1], len(size))
        # Intervals that meet another one begin before its end, and less than the longest before it.
        turn = np.argsort(whole.start, kind="stable")
        self.start, self.end, self.owner = whole.start[turn], whole.end[turn], whole.owner[turn]
        self.longest = int((whole.end - whole.start).max(initial=0))
        # Each buffer's own intervals, in the order of time.
        turn = np.argsort(self.owner, kind="stable")
        self.own = np.searchsorted(self.owner[turn], np.arange(len(size) + 1))
        self.own_start, self.own_end = self.start[turn], self.end[turn]
        self.work = 0

    def of(self, i: int) -> BoolArray:
        """Return the buffers that conflict with a buffer as a mask of shape `(k,)`."""
        row = self._met(i)
        row[self.apart.row(i)] = True
        # A buffer meets itself at every step, but may of course share its own bytes.
        row[i] = False
        self.work += len(row)
        return row

    @cached_property
    def table(self) -> BoolArray:
        """Shape `(k, k)`: True for pairs that conflict, for a number of buffers that allows it."""
        table = self.met.copy()
        table[self.pairs[:, 0], self.pairs[:, 1]] = True
        table[self.pairs[:, 1], self.pairs[:, 0]] = True
        return table

    @cached_property
    def met(self) -> BoolArray:
        """Shape `(k, k)`: True for pairs of buffers that are fully occupied at the same step."""
        k = len(self.size)
        met = np.zeros((k, k), np.bool_)
        # Of two intervals that meet, the later one begins before the end of the earlier one.
        until = np.searchsorted(self.start, self.end).tolist()
        for at, owner in enumerate(self.owner.tolist()):
            met[owner, self.owner[at + 1 : until[at]]] = True
        met |= met.T
        np.fill_diagonal(met, False)
        self.work += k * k
        return met

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

    def cliques(self, known: int = 0) -> Rows:
        """Return cliques that together contain each pair that does not appear in the steps.

        The last one is the heaviest clique found by a short search, if it has more bytes than the
        others and than `known`, the bytes known to be live at once.
        """
        # A table of k * k flags up to 4,096 buffers, 16 MiB; beyond that rows are made when
        # needed.
        if len(self.size) <= TABLE_BUFFERS:
            found = self._grow_by_table()
        else:
            with_pairs = np.flatnonzero(np.diff(self.apart.ptr)).tolist()
            found = self._grow_by_rows({a: self._unseen(a) for a in with_pairs})
        weights = np.add.reduceat(self.size[found.idx], found.ptr[:-1])
        heaviest = self.heaviest(max(known, int(weights.max(initial=0))))
        if heaviest is None:
            return found
        idx = np.concatenate([found.idx, heaviest])
        return Rows(np.append(found.ptr, len(idx)), idx)

    def _turn(self, left: Iterable[int]) -> list[int]:
        """Return the buffers by descending size: cliques grown around large buffers weigh most."""
        return sorted(left, key=lambda i: (-int(self.size[i]), i))

    def _grow_by_rows(self, left: dict[int, set[int]]) -> Rows:
        """Return cliques that cover all pairs left, for too many buffers to tabulate."""
        found: list[IntArray] = []
        for a in self._turn(left):
            while left[a]:
                found.append(self._grown(a, left))
                members = set(found[-1].tolist())
                # A clique covers all pairs among its members at once.
                for i in members & left.keys():
                    left[i] -= members
        ptr = np.cumsum([0, *(len(one) for one in found)])
        return Rows(ptr, np.concatenate([NO_SETS.idx, *found]))

    def _grow_by_table(self) -> Rows:
        """Return the same cliques as :meth:`_grow_by_rows`, grown by a kernel."""
        k = len(self.size)
        turn = np.array(self._turn(range(k)), np.int64)
        masks = bit_rows(self.table[np.ix_(turn, turn)])
        # From here on buffers are positions in this sequence, in which the largest comes first.
        a, b = np.argsort(turn)[self.pairs[~self.met[self.pairs[:, 0], self.pairs[:, 1]]]].T
        # Both directions of each pair once, ascending.
        a, b = np.divmod(distinct(np.concatenate([a * k + b, b * k + a])), max(1, k))
        left, most_work = pack_rows(a, b, k), GROWTH_WORK - self.work
        grown = min(k + max(0, most_work) // max(1, k), k * len(a))
        members, ends = np.empty(grown + len(a), np.int64), np.empty(len(a), np.int64)
        grow = grow_sets.for_work(k * int(np.count_nonzero(np.diff(left.ptr))))
        count = grow(masks, left.ptr, left.idx, most_work, members, ends)
        found = Rows(np.append(0, ends[:count]), turn[members[: ends[:count].max(initial=0)]])
        self.work += k * len(found.idx)
        return Rows(found.ptr, found.idx[np.lexsort((found.idx, found.owners()))])

    def _unseen(self, a: int) -> set[int]:
        """Return the partners of a buffer that are never fully occupied at the same step."""
        return {b for b in self.apart.row(a).tolist() if not self._meet(a, b)}

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
        """Return the heaviest clique found with more than `known` bytes, or None.

        It is searched for by branch and bound. If the search runs out of work, the clique found
        only gives a weaker bound.
        """
        # Without pairs the steps show all conflicts, and their load is the heaviest clique.
        if not len(self.pairs) or len(self.size) > HEAVIEST_BUFFERS:
            return None
        takes_room = np.union1d(self.whole.owner, self.pairs)
        ids = takes_room[np.lexsort((takes_room, -self.size[takes_room]))]
        masks = bit_rows(self.table[np.ix_(ids, ids)])
        found = np.zeros(len(ids), np.int64)
        search = heaviest_set.for_work(len(ids))
        count = search(masks, self.size[ids], known, HEAVIEST_WORK, found)
        return np.sort(ids[found[:count]]) if count else None


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
