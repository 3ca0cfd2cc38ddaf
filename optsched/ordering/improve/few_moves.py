"""Local search near a baseline: a lower peak with few moved ops, or fewer moved ops within a peak.

*Lower the peak.* Only an op that crosses the fullest step can lower it: an op that runs before that
step and can run later, or one that runs later and can run before it. Each such op is tried next to
the fullest step, and as far beyond it as dependencies allow. The best change is made, until no
change lowers the peak or the number of steps that reach it.

*Move back.* The ops of any stretch of consecutive steps may run in the baseline's sequence instead,
if that is a valid order; the live bytes before and after the stretch do not change. So shorter and
shorter stretches of the order are put back into the baseline's sequence if they stay within the
peak. Then each op that is still moved is tried at all places between its kept neighbors.

Example: the baseline is 0 1 2 3, and the order 2 0 1 3 moves one op, 2. Putting the stretch `2 0`
back gives 0 2 1 3, and then `2 1` gives 0 1 2 3, if these orders are valid and within the peak: no
op is moved any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from optsched.model.graph import Graph
from optsched.model.order_rules import kept_ops, moved_ops
from optsched.ordering.inplace import unpack_savings
from optsched.ordering.problem import as_lists, build_problem
from optsched.runtime.clock import Clock

Fullness = tuple[int, int]
"""Live bytes of the fullest steps, and the number of these steps."""


def lower_peak(
    graph: Graph, baseline: Sequence[int], order: Sequence[int], most: int, clock: Clock
) -> tuple[int, ...]:
    """Return an order of the same peak or a lower one that moves at most `most` ops.

    `order` must do so already. Each order tried is a unit of the clock's work; the other arguments
    are those of :func:`optsched.ordering.moves.fewest_moves`.
    """
    if clock.expired():
        return tuple(order)
    walk = _Walk(_Rows(graph), order)
    while True:
        found = min(_better(walk, baseline, most, clock), key=itemgetter(0), default=None)
        if found is None:
            return tuple(walk.order)
        walk = _Walk(walk.rows, found[1])


def _better(
    walk: _Walk, baseline: Sequence[int], most: int, clock: Clock
) -> Iterator[tuple[Fullness, list[int]]]:
    """Yield orders with one op moved that have a lower peak, or fewer steps at the peak."""
    # Orders are compared by the peak and then by the number of steps at it: with several steps at
    # the peak, lowering one of them is progress too.
    now = _fullness(walk.running)
    full = walk.running.index(now[0]) if walk.running else 0
    for at in range(len(walk.order)):
        for place in dict.fromkeys(_places(walk, at, full)):
            if clock.expired():
                return
            clock.spend(1)
            # Only the steps between the old and the new place change, so only these are run again.
            changed = [*walk.order[:at], *walk.order[at + 1 :]]
            changed.insert(place, walk.order[at])
            start, end = min(at, place), max(at, place) + 1
            ran = walk.run(start, changed[start:end])
            if ran is None:
                continue
            fullness = _fullness([*walk.running[:start], *ran.running, *walk.running[end:]])
            if fullness < now and moved_ops(changed, baseline) <= most:
                yield fullness, changed


def _places(walk: _Walk, at: int, full: int) -> list[int]:
    """Return the nearest and the farthest step beyond the fullest one that an op can move to."""
    v = walk.order[at]
    if at <= full:
        # Moving an op past the fullest step helps only if dependencies leave a place there.
        last = min((walk.step[w] for w in walk.rows.succ[v]), default=len(walk.order)) - 1
        return [full, last] if last >= max(full, at + 1) else []
    first = max((walk.step[u] for u in walk.rows.pred[v]), default=-1) + 1
    return [full, first] if first <= full else []


def _fullness(running: list[int]) -> Fullness:
    peak = max(running, default=0)
    return peak, running.count(peak)


def move_back(
    graph: Graph, baseline: Sequence[int], order: Sequence[int], peak: int, clock: Clock
) -> Iterator[tuple[int, ...]]:
    """Yield orders within a peak that move fewer and fewer ops, starting from one within it.

    Each order tried is a unit of the clock's work; the other arguments are those of
    :func:`optsched.ordering.moves.fewest_moves`.
    """
    if clock.expired():
        return
    back = _MoveBack(_Walk(_Rows(graph), order), baseline, peak, clock)
    while True:
        before = back.moved()
        back.put_back_stretches()
        # Single ops after the stretches: a stretch that failed as a whole may hold some that fit.
        back.put_back_ops()
        if back.moved() >= before:
            return
        yield tuple(back.walk.order)


class _MoveBack:
    """An order that stays within a peak while its ops are moved back to a baseline."""

    def __init__(self, walk: _Walk, baseline: Sequence[int], peak: int, clock: Clock) -> None:
        self.walk, self.baseline, self.peak, self.clock = walk, baseline, peak, clock
        self.turn = {v: at for at, v in enumerate(baseline)}

    def moved(self) -> int:
        """Return the number of ops that the order moves."""
        return moved_ops(self.walk.order, self.baseline)

    def put_back_stretches(self) -> None:
        """Put shorter and shorter stretches into the baseline's sequence; they overlap by half."""
        n = len(self.walk.order)
        length = n
        while length > 1:
            # Stretches overlap by half, so that ops around a border of one lie in the middle of
            # the next.
            for start in range(0, n - length // 2, max(1, length // 2)):
                if self.clock.expired():
                    return
                stretch = self.walk.order[start : start + length]
                self._try(start, sorted(stretch, key=self.turn.__getitem__))
            length //= 2

    def put_back_ops(self) -> None:
        """Move each moved op between its kept neighbors, if a place there is within the peak."""
        kept = kept_ops(self.walk.order, self.baseline)
        moved = set(self.walk.order).difference(kept)
        for v in sorted(moved, key=self.turn.__getitem__):
            if self.clock.expired():
                return
            step, turn = self.walk.step, self.turn
            # Between the last kept op that comes earlier in the baseline, and the first that comes
            # later, the op counts as not moved.
            low = max((step[x] + 1 for x in kept if turn[x] < turn[v]), default=0)
            high = min((step[x] for x in kept if turn[x] > turn[v]), default=len(step))
            if self._put_between(v, step[v], low, high):
                # One op more is kept, and the others may now have narrower or wider gaps.
                kept = kept_ops(self.walk.order, self.baseline)

    def _put_between(self, v: int, at: int, low: int, high: int) -> bool:
        """Move the op of step `at` to a place from `low` to `high`; return False if none fits."""
        order = self.walk.order
        for place in range(low, high + 1):
            if place <= at:
                if self._try(place, [v, *order[place:at]]):
                    return True
            elif self._try(at, [*order[at + 1 : place], v]):
                return True
        return False

    def _try(self, start: int, changed: list[int]) -> bool:
        """Replace a stretch of the order if the new one is valid and within the peak."""
        if changed == self.walk.order[start : start + len(changed)] or self.clock.expired():
            return False
        self.clock.spend(1)
        ran = self.walk.run(start, changed, self.peak)
        if ran is None:
            return False
        self.walk.replace(start, changed, ran)
        return True


class _Rows:
    """Rows of a graph's ordering problem as lists, which Python reads faster than arrays."""

    def __init__(self, graph: Graph) -> None:
        problem = build_problem(graph.arrays)
        self.pred = as_lists(problem.pred_ptr, problem.pred)
        self.succ = as_lists(problem.succ_ptr, problem.succ)
        self.read = as_lists(problem.read_ptr, problem.read)
        self.rise, self.delta = problem.rise.tolist(), problem.delta.tolist()
        self.size: list[int] = problem.size.tolist()
        self.savings = unpack_savings(problem.savings)
        self.base = problem.base

    def saved(self, v: int, users: Mapping[int, int]) -> int:
        """Return the bytes that an op saves in place, by the users left of each shared buffer."""
        possible = (x for x, needs in self.savings[v] if all(users[b] == 1 for b in needs))
        return max(possible, default=0)


class _Ran(NamedTuple):
    """Live bytes by step of a stretch: while its op runs, and once it has ended."""

    running: list[int]
    left: list[int]


class _Walk:
    """A valid order with its live bytes, in which stretches of steps are exchanged.

    The buffers that are live before and after a stretch are the same in each of its sequences, so a
    stretch is run alone, in time proportional to the reads of its ops.

    `rows`: the graph of the order. `order`: op ids, a valid order.

    Attributes
    ----------
    step, last
        The step of each op, and of the last user of each shared buffer.
    running, left
        Live bytes while the op of each step runs, and once it has ended.
    """

    def __init__(self, rows: _Rows, order: Sequence[int]) -> None:
        n = len(order)
        self.rows, self.order = rows, list(order)
        self.step, self.last = [0] * n, [0] * len(rows.size)
        self.running, self.left = [0] * n, [0] * n
        self._number(0, self.order)
        ran = self.run(0, self.order)
        assert ran is not None, "the order is not valid"
        self.running, self.left = ran

    def run(self, start: int, changed: Sequence[int], most: int | None = None) -> _Ran | None:
        """Return the live bytes if the ops of a stretch run in another sequence.

        Return None if an op would run before a predecessor, or with more than `most` bytes live.
        """
        rows, end = self.rows, start + len(changed)
        # Users still to run of the buffers that end in this stretch.
        # Buffers whose last user runs after the stretch stay live through it in any sequence.
        users = Counter(b for v in changed for b in rows.read[v] if self.last[b] < end)
        live = self.left[start - 1] if start else rows.base
        done: set[int] = set()
        ran = _Ran([], [])
        for v in changed:
            if any(self.step[u] >= start and u not in done for u in rows.pred[v]):
                return None
            running = live + rows.rise[v] - rows.saved(v, users)
            if most is not None and running > most:
                return None
            live += rows.delta[v]
            for b in rows.read[v]:
                users[b] -= 1
                if not users[b]:
                    live -= rows.size[b]
            done.add(v)
            ran.running.append(running)
            ran.left.append(live)
        return ran

    def replace(self, start: int, changed: Sequence[int], ran: _Ran) -> None:
        """Let the ops of a stretch run in another sequence, with its live bytes."""
        end = start + len(changed)
        self.order[start:end] = changed
        self.running[start:end], self.left[start:end] = ran
        self._number(start, changed)

    def _number(self, start: int, changed: Sequence[int]) -> None:
        """Note the steps of the ops of a stretch, and those of last users among them."""
        end = start + len(changed)
        for at, v in enumerate(changed, start):
            self.step[v] = at
            for b in self.rows.read[v]:
                # A last user after the stretch does not change; one inside may be another op now.
                if self.last[b] < end:
                    self.last[b] = at
