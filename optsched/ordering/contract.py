"""Contractions: ops that some best order runs back to back become one, and are split up at the end.

Before anything is merged, what follows from the rest is dropped: edges implied by others, and users
of a shared buffer that some other user of it always comes after. A buffer left with one user counts
towards that user's net change. Then, until nothing changes:

* *late*: `u` is no shared buffer's user, its net change is not negative and it has one
  successor `c`, which rises at least as high from where `u` leaves off. `u` runs right before `c`.
* *early*: `c` has one predecessor `u`, its net change is not positive and from where `u` leaves
  off it rises no higher than `u` itself. `c` runs right after `u`.

In both, moving the one op to the other raises the live bytes of no state and no rise above the
other op's, so the optimum stays the same. The mirror of a case is the other one.

In an in-place graph the op that stays keeps its ways to save bytes, and the other's rise must not
pass its own even where it saves the most. The op that moves is not missed by the ways of others: in
the first case it uses no shared buffer, in the second it ends sooner. A way that needs nothing any
more, as its op is always the last user, is taken off the rise; one whose op never is, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from optsched.arrays import IntArray, build_rows
from optsched.ordering.model import Net, make_net
from optsched.ordering.ways import Way, Ways, pack_ways, unpack_ways

TOO_MANY = 300_000
"""Above this many ops ancestor sets take too much time, and nothing is contracted."""

BLOCK = 8_192
"""Ops of which it is known at a time what they come before: a bit each for every op."""

PACE = 1_024
"""Ops between two looks at the clock."""

CheckTime = Callable[[], None]
"""Raises when the time is up."""


@dataclass(frozen=True, slots=True)
class Contracted:
    """A smaller problem with the same least peak.

    Parameters
    ----------
    net
        The problem.
    members
        Ops of the larger problem behind each op, in the order they run.
    anchors
        The one of them that the others were moved to.
    """

    net: Net
    members: tuple[tuple[int, ...], ...]
    anchors: tuple[int, ...]

    def expand(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the smaller problem into one of the larger."""
        return [u for v in order for u in self.members[v]]

    def gather(self, values: IntArray) -> IntArray:
        """Turn values of the larger problem's ops into the largest over each op of the smaller."""
        return np.array([max(values[list(row)]) for row in self.members], np.int64)

    def shrink(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the larger problem into one of the smaller, of at most its peak."""
        step = {v: i for i, v in enumerate(order)}
        return sorted(range(len(self.members)), key=lambda v: step[self.anchors[v]])


def contract(net: Net, *, merge: bool = True, check_time: CheckTime = lambda: None) -> Contracted:
    """Return the contracted problem; with `merge` False only what is implied is dropped.

    `check_time` is called now and then, and may raise.
    """
    n = len(net.net)
    if n > TOO_MANY:
        return Contracted(net, tuple((v,) for v in range(n)), tuple(range(n)))
    work = _Work(net, check_time)
    while True:
        work.drop_implied()
        if not merge or not work.merge_all():
            return work.result()


class _Work:
    """The problem as Python sets while it shrinks; a merged op keeps one of the two numbers."""

    def __init__(self, net: Net, check_time: CheckTime) -> None:
        n, m = len(net.net), len(net.size)
        self.check_time = check_time
        self.alive = list(range(n))
        self.pred = [set(_row(net.pred_ptr, net.pred, v)) for v in self.paced(self.alive)]
        self.succ = [set(_row(net.succ_ptr, net.succ, v)) for v in self.paced(self.alive)]
        self.hill: list[int] = net.hill.tolist()
        self.net: list[int] = net.net.tolist()
        self.size: list[int] = net.size.tolist()
        self.users = [set(_row(net.user_ptr, net.user, b)) for b in self.paced(range(m))]
        self.shared = list(range(m))
        self.members: list[list[int]] = [[v] for v in self.paced(self.alive)]
        self.reads: dict[int, set[int]] = {}
        self.check_time()
        self.ways = {v: row for v, row in enumerate(unpack_ways(net.ways)) if row}

    def paced(self, items: Iterable[int]) -> Iterator[int]:
        """The items, with a look at the clock now and then."""
        for i, item in enumerate(items):
            if i % PACE == 0:
                self.check_time()
            yield item

    def topological(self) -> list[int]:
        missing = {v: len(self.pred[v]) for v in self.paced(self.alive)}
        order = [v for v in self.alive if not missing[v]]
        for v in self.paced(order):
            for w in self.succ[v]:
                missing[w] -= 1
                if not missing[w]:
                    order.append(w)
        return order

    def drop_implied(self) -> None:
        """Drop implied edges and users; fold in buffers with one user, join those with the same."""
        order = self.topological()
        for start in range(0, len(order), BLOCK):
            self.drop_implied_by(order, start)
        first: dict[frozenset[int], int] = {}
        instead: dict[int, int] = {}
        shared = []
        for b in self.paced(self.shared):
            last = frozenset(self.users[b])
            if len(last) == 1:
                self.net[min(last)] -= self.size[b]
            elif last in first:
                self.size[first[last]] += self.size[b]
                instead[b] = first[last]
            else:
                first[last] = b
                shared.append(b)
        self.shared = shared
        for v in list(self.ways):
            self.review_ways(v, instead)

    def drop_implied_by(self, order: list[int], start: int) -> None:
        """Drop the implied edges from, and uses by, a block of ops: each has its bit in a mask."""
        bit = {v: 1 << i for i, v in enumerate(order[start : start + BLOCK])}
        above: dict[int, int] = {}
        for v in self.paced(order[start:]):
            reach = direct = 0
            for u in self.pred[v]:
                reach |= above.get(u, 0)
                direct |= bit.get(u, 0)
            if reach & direct:
                for u in [u for u in self.pred[v] if reach & bit.get(u, 0)]:
                    self.pred[v].discard(u)
                    self.succ[u].discard(v)
            if reach | direct:
                above[v] = reach | direct
        for b in self.paced(self.shared):
            reach = 0
            for v in self.users[b]:
                reach |= above.get(v, 0)
            if reach:
                self.users[b] = {v for v in self.users[b] if not reach & bit.get(v, 0)}

    def review_ways(self, v: int, instead: dict[int, int]) -> None:
        """Keep what is still open of an op's ways."""
        always = 0
        found: list[Way] = []
        for value, needs in self.ways.pop(v):
            left = frozenset(instead.get(b, b) for b in needs)
            if all(v in self.users[b] for b in left):
                left = frozenset(b for b in left if len(self.users[b]) > 1)
                found.append((value, left))
                always = always if left else max(always, value)
        self.hill[v] -= always
        found = [(value - always, left) for value, left in found if value > always]
        if found:
            self.ways[v] = found

    def most_saved(self, v: int) -> int:
        """The most bytes that an op may save."""
        return max((value for value, _ in self.ways.get(v, ())), default=0)

    def merge_all(self) -> bool:
        """Merge pairs as long as there are any; whether there was one."""
        self.reads = {v: set() for v in self.paced(self.alive)}
        for b in self.paced(self.shared):
            for v in self.users[b]:
                self.reads[v].add(b)
        gone: set[int] = set()
        stack = list(self.alive)
        for v in self.paced(_drained(stack)):
            if v in gone:
                continue
            pair = self.find_late(v) or self.find_early(v)
            if pair is None:
                continue
            u, c = pair
            stay, leave = (c, u) if v == u else (u, c)
            self.merge(u, c, stay, leave)
            gone.add(leave)
            stack += [stay, *self.pred[stay], *self.succ[stay]]
        self.alive = [v for v in self.alive if v not in gone]
        self.ways = {v: row for v, row in self.ways.items() if v not in gone}
        return bool(gone)

    def find_late(self, u: int) -> tuple[int, int] | None:
        if len(self.succ[u]) != 1 or self.reads[u] or self.net[u] < 0:
            return None
        c = next(iter(self.succ[u]))
        least = self.net[u] + self.hill[c] - self.most_saved(c)
        return (u, c) if self.hill[u] <= least else None

    def find_early(self, c: int) -> tuple[int, int] | None:
        if len(self.pred[c]) != 1 or self.net[c] > 0:
            return None
        u = next(iter(self.pred[c]))
        least = self.hill[u] - self.most_saved(u)
        return (u, c) if self.net[u] + self.hill[c] <= least else None

    def merge(self, u: int, c: int, stay: int, leave: int) -> None:
        """Let `u` and then `c` be one op, called `stay`."""
        self.hill[stay] = max(self.hill[u], self.net[u] + self.hill[c])
        self.net[stay] = self.net[u] + self.net[c]
        self.members[stay] = self.members[u] + self.members[c]
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
            self.users[b].discard(leave)
            self.users[b].add(stay)
        self.reads[stay] |= self.reads[leave]

    def result(self) -> Contracted:
        number = {v: i for i, v in enumerate(self.alive)}
        before = [[number[u] for u in self.pred[v]] for v in self.paced(self.alive)]
        users = [[number[v] for v in self.users[b]] for b in self.paced(self.shared)]
        pred, user = build_rows(before), build_rows(users)
        self.check_time()
        net = make_net(
            pred,
            user,
            np.array([self.hill[v] for v in self.alive], np.int64),
            np.array([self.net[v] for v in self.alive], np.int64),
            np.array([self.size[b] for b in self.shared], np.int64),
            self.packed_ways(),
        )
        members = tuple(tuple(self.members[v]) for v in self.paced(self.alive))
        return Contracted(net, members, tuple(self.alive))

    def packed_ways(self) -> Ways | None:
        """The ways by the new numbers of ops and shared buffers."""
        if not self.ways:
            return None
        number = {b: i for i, b in enumerate(self.shared)}
        return pack_ways(
            [
                [(value, frozenset(number[b] for b in needs)) for value, needs in row]
                for row in (self.ways.get(v, []) for v in self.alive)
            ]
        )


def _drained(stack: list[int]) -> Iterator[int]:
    """What is on a stack, also what is put there meanwhile."""
    while stack:
        yield stack.pop()


def _row(ptr: IntArray, idx: IntArray, i: int) -> list[int]:
    row: list[int] = idx[ptr[i] : ptr[i + 1]].tolist()
    return row
