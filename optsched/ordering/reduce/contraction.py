"""Contractions: pairs of ops that some optimal order runs back to back are merged, repeatedly.

Redundant data are dropped first: edges that follow from others, and users of a shared buffer that
another user always follows. A buffer left with one user is added to that user's net change. Then,
until nothing changes:

* *late*: `u` uses no shared buffer, its net change is not negative, and it has a single successor
  `c`, whose peak after `u` is at least that of `u`. Then `u` runs right before `c`.
* *early*: `c` has a single predecessor `u`, its net change is not positive, and its peak after `u`
  is at most that of `u`. Then `c` runs right after `u`.

In both cases, moving one op to the other does not raise the live bytes of any state, and the moved
op does not exceed the peak of the other, so the optimum stays the same. Each case is the mirror
image of the other.

In an in-place graph the op that stays keeps its savings, and the moved op must not exceed its peak
even when it saves most. No third op loses a saving: in the first case the moved op uses no shared
buffer, in the second it ends earlier. A saving whose op is always the last user is subtracted from
the rise; a saving whose op is never the last user is dropped.

Example: `cast` writes 4 bytes that only `matmul` reads, which rises by 64. The two become one op
that rises by 68, in which `cast` runs right before `matmul`.

After a merge only the affected ops are looked at again, since a join may have thousands of
predecessors: the ops with an edge to or from the op that left, and those in a heap of ops that wait
for the op that stays to rise high enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import TypeVar

import numpy as np

from optsched.model.arrays import IntArray, Rows, build_rows, transpose
from optsched.ordering.inplace import Saving, Savings, pack_savings, unpack_savings
from optsched.ordering.problem import OrderingProblem, in_order, make_problem, topological
from optsched.ordering.reduce.transitive import CheckTime, find_implied, without

PACE = 1_024
"""Ops between two checks of the clock."""

T = TypeVar("T")

Waiting = dict[int, list[tuple[int, int]]]
"""By op: a heap of pairs (rise that the op needs, other op that can be merged with it then)."""


@dataclass(frozen=True, slots=True)
class Contracted:
    """A smaller problem with the same minimum peak."""

    problem: OrderingProblem
    members: tuple[tuple[int, ...], ...]
    """By op: the ops of the larger problem that it stands for, in the order they run."""
    anchors: tuple[int, ...]
    """By op: the one of its members that the others were moved to."""

    def expand(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the smaller problem into one of the larger."""
        return [u for v in order for u in self.members[v]]

    def gather(self, values: IntArray) -> IntArray:
        """Return, for each op of the smaller problem, the largest of the values of its members."""
        known = values.tolist()
        return np.array([max([known[v] for v in row]) for row in self.members], np.int64)

    def spread(self, values: IntArray) -> IntArray:
        """Return, for each op of the larger problem, the value of the op that it is a member of."""
        found = [0] * sum(map(len, self.members))
        for row, value in zip(self.members, values.tolist(), strict=True):
            for v in row:
                found[v] = value
        return np.array(found, np.int64)

    def shrink(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the larger problem into one of the smaller, with no higher peak."""
        step = {v: i for i, v in enumerate(order)}
        # The anchor did not move in any merge, so its step says where the merged op can run.
        return sorted(range(len(self.members)), key=lambda v: step[self.anchors[v]])


def contract(
    problem: OrderingProblem, *, merge: bool = True, check_time: CheckTime = lambda: None
) -> Contracted:
    """Return the contracted problem; with `merge` False only redundant data are dropped.

    `check_time` is called now and then; it may raise an exception to stop.
    """
    work = Merging(problem, check_time)
    work.fold()
    # A merge makes edges redundant, and dropping them may leave an op with one neighbor: repeat.
    while merge and work.merge_all():
        work.drop_implied()
        work.fold()
    return work.result()


class Merging:
    """The problem as Python sets while it shrinks; a merged op keeps the number of one member."""

    def __init__(self, problem: OrderingProblem, check_time: CheckTime) -> None:
        n, m = len(problem.delta), len(problem.size)
        self.check_time = check_time
        self.base = problem.base
        self.alive = list(range(n))
        number = np.empty(n, np.int64)
        number[topological(problem)] = np.arange(n)
        pred, user = Rows(problem.pred_ptr, problem.pred), Rows(problem.user_ptr, problem.user)
        # Implied edges hide pairs with a single predecessor or successor, so they go first.
        edges, uses = find_implied(number, number, pred, user, check_time)
        pred, user = without(pred, edges), without(user, uses)
        self.pred = self.sets(pred)
        self.succ = self.sets(transpose(pred, n))
        self.rise: list[int] = problem.rise.tolist()
        self.delta: list[int] = problem.delta.tolist()
        self.size: list[int] = problem.size.tolist()
        self.users = self.sets(user)
        self.shared = list(range(m))
        self.members = [deque((v,)) for v in self.paced(self.alive)]
        # Ops that could run right before an op (late) or right after it (early) if it rose higher.
        self.late: Waiting = {}
        self.early: Waiting = {}
        self.reads: dict[int, set[int]] = {}
        self.check_time()
        # Few ops have savings, so they are kept by op instead of in a list of all ops.
        self.savings = {v: row for v, row in enumerate(unpack_savings(problem.savings)) if row}

    def paced(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, checking the clock now and then."""
        left = iter(items)
        for item in left:
            self.check_time()
            yield item
            # A check of the clock costs more than handling an item.
            yield from islice(left, PACE - 1)

    def sets(self, rows: Rows) -> list[set[int]]:
        """Return the rows as sets."""
        flat, bounds = rows.idx.tolist(), rows.ptr.tolist()
        return [set(flat[a:b]) for a, b in self.paced(pairwise(bounds))]

    def fold(self) -> None:
        """Add buffers with one user to its net change, and join buffers with equal users."""
        first: dict[frozenset[int], int] = {}
        instead: dict[int, int] = {}
        shared = []
        for b in self.paced(self.shared):
            last = frozenset(self.users[b])
            # With one user the release is a fixed part of that op's change.
            if len(last) == 1:
                self.delta[min(last)] -= self.size[b]
            # Buffers with equal users are released together, so one buffer of their total size is
            # enough.
            elif last in first:
                self.size[first[last]] += self.size[b]
                instead[b] = first[last]
            else:
                first[last] = b
                shared.append(b)
        self.shared = shared
        # Buffers with one user left, or joined ones, may make a saving certain.
        for v in list(self.savings):
            self.review_savings(v, instead)

    def drop_implied(self) -> None:
        """Drop edges and users that have become redundant by merges."""
        # Merges have changed the order, so ops get new numbers.
        missing = {v: len(self.pred[v]) for v in self.paced(self.alive)}
        order = in_order(self.alive, missing, self.succ)
        number = np.empty(len(self.pred), np.int64)
        number[order] = np.arange(len(order))
        pred = build_rows([self.pred[v] for v in self.paced(order)])
        user = build_rows([self.users[b] for b in self.paced(self.shared)])
        edges, uses = find_implied(number, np.arange(len(order)), pred, user, self.check_time)
        second = np.repeat(order, np.diff(pred.ptr))[edges].tolist()
        for u, v in zip(pred.idx[edges].tolist(), second, strict=True):
            self.pred[v].discard(u)
            self.succ[u].discard(v)
        buffers = np.repeat(self.shared, np.diff(user.ptr))[uses].tolist()
        for v, b in zip(user.idx[uses].tolist(), buffers, strict=True):
            self.users[b].discard(v)

    def review_savings(self, v: int, instead: dict[int, int]) -> None:
        """Drop the savings of an op that are certain (into its rise) or impossible."""
        always = 0
        found: list[Saving] = []
        for value, needs in self.savings.pop(v):
            left = frozenset(instead.get(b, b) for b in needs)
            # A needed buffer that the op does not use any more is released by another op: never
            # possible.
            if all(v in self.users[b] for b in left):
                left = frozenset(b for b in left if len(self.users[b]) > 1)
                found.append((value, left))
                # A saving without remaining needs is certain, and becomes part of the op's rise.
                always = always if left else max(always, value)
        # The certain part is in the rise now; what remains is the advantage beyond it.
        self.rise[v] -= always
        found = [(value - always, left) for value, left in found if value > always]
        if found:
            self.savings[v] = found

    def most_saved(self, v: int) -> int:
        """Return the most bytes that an op can save."""
        return max((value for value, _ in self.savings.get(v, ())), default=0)

    def merge_all(self) -> bool:
        """Merge pairs while there are any; return True if a pair was merged."""
        self.reads = {v: set() for v in self.paced(self.alive)}
        for b in self.paced(self.shared):
            for v in self.users[b]:
                self.reads[v].add(b)
        self.late, self.early = {}, {}
        gone: set[int] = set()
        stack = list(self.alive)
        for v in self.paced(_drained(stack)):
            # The stack may hold an op twice; one that left is skipped.
            if v in gone:
                continue
            pair = self.find_late(v) or self.find_early(v)
            if pair is None:
                continue
            u, c = pair
            # The op found on the stack leaves, as the other may have thousands of neighbors.
            stay, leave = (c, u) if v == u else (u, c)
            self.merge(u, c, stay, leave)
            gone.add(leave)
            room = self.rise[stay] - self.most_saved(stay)
            # Ops whose only neighbor has changed, and those that waited for a higher rise, are
            # tried again.
            behind = self.pred[leave].union(_released(self.late.get(stay, []), room))
            ahead = self.succ[leave].union(
                _released(self.early.get(stay, []), self.room_behind(stay))
            )
            # Sorted, so that the result does not depend on the order of Python's sets.
            stack += [stay, *sorted(behind), *sorted(ahead)]
        self.alive = [v for v in self.alive if v not in gone]
        self.savings = {v: row for v, row in self.savings.items() if v not in gone}
        return bool(gone)

    def find_late(self, u: int) -> tuple[int, int] | None:
        """Return `u` and its successor if case *late* applies to them, else None."""
        # The op frees nothing, so it may wait until right before its only successor.
        if len(self.succ[u]) != 1 or self.reads[u] or self.delta[u] < 0:
            return None
        c = next(iter(self.succ[u]))
        rise = self.rise[u] - self.delta[u]
        if rise <= self.rise[c] - self.most_saved(c):
            return u, c
        # Not yet, but possibly after `c` has been merged with an op that rises higher.
        heappush(self.late.setdefault(c, []), (rise, u))
        return None

    def find_early(self, c: int) -> tuple[int, int] | None:
        """Return the predecessor of `c` and `c` if case *early* applies to them, else None."""
        # After it no more bytes are live, so running it right after its predecessor delays nothing.
        if len(self.pred[c]) != 1 or self.delta[c] > 0:
            return None
        u = next(iter(self.pred[c]))
        if self.rise[c] <= self.room_behind(u):
            return u, c
        # Not yet, but possibly after `u` has been merged with an op of a larger rise.
        heappush(self.early.setdefault(u, []), (self.rise[c], c))
        return None

    def room_behind(self, u: int) -> int:
        """Return the largest rise after `u` that stays within the peak of `u`."""
        return self.rise[u] - self.most_saved(u) - self.delta[u]

    def merge(self, u: int, c: int, stay: int, leave: int) -> None:
        """Merge `u` and `c`, which run in this sequence, into one op with the number `stay`."""
        # The merged op needs the larger of both rises, the second one on top of the first change.
        self.rise[stay] = max(self.rise[u], self.delta[u] + self.rise[c])
        self.delta[stay] = self.delta[u] + self.delta[c]
        self.members[stay] = _joined(self.members[u], self.members[c])
        self.succ[u].discard(c)
        self.pred[c].discard(u)
        for w in self.pred[leave]:
            self.succ[w].discard(leave)
            self.succ[w].add(stay)
        for w in self.succ[leave]:
            self.pred[w].discard(leave)
            self.pred[w].add(stay)
        self.pred[stay] |= self.pred[leave]
        self.succ[stay] |= self.succ[leave]
        for b in self.reads[leave]:
            # Uses move to the op that stays. Its own may be among them, so sets absorb duplicates.
            self.users[b].discard(leave)
            self.users[b].add(stay)
        self.reads[stay] |= self.reads[leave]

    def result(self) -> Contracted:
        """Return the smaller problem."""
        number = {v: i for i, v in enumerate(self.alive)}
        before = [[number[u] for u in self.pred[v]] for v in self.paced(self.alive)]
        users = [[number[v] for v in self.users[b]] for b in self.paced(self.shared)]
        pred, user = build_rows(before), build_rows(users)
        self.check_time()
        problem = make_problem(
            pred,
            user,
            np.array([self.rise[v] for v in self.alive], np.int64),
            np.array([self.delta[v] for v in self.alive], np.int64),
            np.array([self.size[b] for b in self.shared], np.int64),
            self.packed_savings(),
            self.base,
        )
        members = tuple(tuple(self.members[v]) for v in self.paced(self.alive))
        return Contracted(problem, members, tuple(self.alive))

    def packed_savings(self) -> Savings | None:
        """Return the savings with the new numbers of ops and shared buffers."""
        if not self.savings:
            return None
        number = {b: i for i, b in enumerate(self.shared)}
        return pack_savings(
            [
                [(value, frozenset(number[b] for b in needs)) for value, needs in row]
                for row in (self.savings.get(v, []) for v in self.alive)
            ]
        )


def _joined(first: deque[int], second: deque[int]) -> deque[int]:
    """Return the concatenation; the smaller sequence is copied into the larger."""
    if len(first) < len(second):
        second.extendleft(reversed(first))
        return second
    first.extend(second)
    return first


def _released(waiting: list[tuple[int, int]], most: int) -> Iterator[int]:
    """Pop the ops that wait for a rise of at most `most`."""
    while waiting and waiting[0][0] <= most:
        yield heappop(waiting)[1]


def _drained(stack: list[int]) -> Iterator[int]:
    """Pop the items of a stack until it is empty; items may be pushed during the loop."""
    while stack:
        yield stack.pop()
