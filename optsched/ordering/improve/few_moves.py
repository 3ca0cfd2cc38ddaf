"""Local search near a baseline: a lower peak with few moved ops, or fewer moved ops within a peak.

An order is a list of numbers here: the step of each op in the baseline.

*Lower the peak.* Only an op that crosses the fullest step can lower it: an op that runs before that
step and can run later, or one that runs later and can run before it. Each such op is tried next to
the fullest step, and as far beyond it as dependencies allow. The best change is made, until no
change lowers the peak or the number of steps that reach it.

*Move back.* The ops of any stretch of consecutive steps may run in the baseline's sequence instead,
if that is a valid order; the live bytes before and after the stretch do not change. So shorter and
shorter stretches of the order are put back into the baseline's sequence if they stay within the
peak. Then each op that is still moved is tried at all places between its kept neighbors.

Example: the order 2 0 1 3 moves one op, 2. Putting the stretch `2 0` back gives 0 2 1 3, and then
`2 1` gives 0 1 2 3, if these orders are valid and within the peak: no op is moved any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optsched.model.graph import Graph
from optsched.model.order_rules import kept_ops, moved_ops
from optsched.ordering.pieces import Piece, whole_piece
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
    piece = whole_piece(graph, baseline)
    turn = {v: i for i, v in enumerate(baseline)}
    best = [turn[v] for v in order]
    while True:
        running = _running(piece, best)
        found = min(_better(piece, best, running, most, clock), default=None)
        if found is None:
            return tuple(piece.ops[i] for i in best)
        best = found[1]


def _better(
    piece: Piece, order: list[int], running: list[int], most: int, clock: Clock
) -> Iterator[tuple[Fullness, list[int]]]:
    """Yield orders with one op moved that have a lower peak, or fewer steps at the peak."""
    now = _fullness(running)
    full = running.index(now[0]) if running else 0
    for at in range(len(order)):
        for place in dict.fromkeys(_places(piece, order, at, full)):
            if clock.expired():
                return
            clock.spend(1)
            changed = [*order[:at], *order[at + 1 :]]
            changed.insert(place, order[at])
            fullness = _fullness(_running(piece, changed))
            if fullness < now and moved_ops(changed, range(len(order))) <= most:
                yield fullness, changed


def _places(piece: Piece, order: list[int], at: int, full: int) -> list[int]:
    """Return the nearest and the farthest step beyond the fullest one that an op can move to."""
    i = order[at]
    if at <= full:
        behind = (s for s in range(at + 1, len(order)) if piece.needs[order[s]] >> i & 1)
        last = next(behind, len(order)) - 1
        return [full, last] if last >= max(full, at + 1) else []
    before = (s for s in range(at - 1, -1, -1) if piece.needs[i] >> order[s] & 1)
    first = next(before, -1) + 1
    return [full, first] if first <= full else []


def _running(piece: Piece, order: list[int]) -> list[int]:
    done, live, running = 0, piece.live, []
    for i in order:
        running.append(piece.running(i, done, live))
        done |= 1 << i
        live = piece.left(i, done, live)
    return running


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
    piece = whole_piece(graph, baseline)
    turn = {v: i for i, v in enumerate(baseline)}
    walk = _Walk(piece, [turn[v] for v in order], peak, clock)
    while True:
        before = walk.moved()
        walk.put_back_stretches()
        walk.put_back_ops()
        if walk.moved() >= before:
            return
        yield tuple(piece.ops[i] for i in walk.order)


class _Walk:
    """An order, with the ops that have run and the live bytes before each of its steps."""

    def __init__(self, piece: Piece, order: list[int], peak: int, clock: Clock) -> None:
        self.piece, self.order, self.peak, self.clock = piece, order, peak, clock
        self.done, self.live = [0] * (len(order) + 1), [piece.live] * (len(order) + 1)
        self._accept(0, order)

    def moved(self) -> int:
        """Return the number of ops that the order moves."""
        return len(self.order) - len(kept_ops(self.order, range(len(self.order))))

    def put_back_stretches(self) -> None:
        """Put shorter and shorter stretches into the baseline's sequence; they overlap by half."""
        n = len(self.order)
        length = n
        while length > 1:
            for start in range(0, n - length // 2, max(1, length // 2)):
                self._try(start, sorted(self.order[start : start + length]))
            length //= 2

    def put_back_ops(self) -> None:
        """Move each moved op between its kept neighbors, if a place there is within the peak."""
        kept = kept_ops(self.order, range(len(self.order)))
        for i in sorted(set(self.order).difference(kept)):
            if self.clock.expired():
                return
            step = {x: at for at, x in enumerate(self.order)}
            low = max((step[x] + 1 for x in kept if x < i), default=0)
            high = min((step[x] for x in kept if x > i), default=len(self.order))
            if self._put_between(i, step[i], low, high):
                kept = kept_ops(self.order, range(len(self.order)))

    def _put_between(self, i: int, at: int, low: int, high: int) -> bool:
        """Move the op of step `at` to a place from `low` to `high`; return False if none fits."""
        for place in range(low, high + 1):
            if place <= at:
                changed = [i, *self.order[place:at]]
                if self._try(place, changed):
                    return True
            elif self._try(at, [*self.order[at + 1 : place], i]):
                return True
        return False

    def _try(self, start: int, changed: list[int]) -> bool:
        """Replace a stretch of the order if the new one is valid and within the peak."""
        if changed == self.order[start : start + len(changed)] or self.clock.expired():
            return False
        self.clock.spend(1)
        piece, done, live = self.piece, self.done[start], self.live[start]
        for i in changed:
            if piece.needs[i] & ~done or piece.running(i, done, live) > self.peak:
                return False
            done |= 1 << i
            live = piece.left(i, done, live)
        self._accept(start, changed)
        return True

    def _accept(self, start: int, changed: list[int]) -> None:
        self.order[start : start + len(changed)] = changed
        for at, i in enumerate(changed, start):
            self.done[at + 1] = self.done[at] | 1 << i
            self.live[at + 1] = self.piece.left(i, self.done[at + 1], self.live[at])
