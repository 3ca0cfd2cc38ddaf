"""Orders near a baseline: fewest moved ops within a peak, and least peak with at most k moved ops.

An order moves `n - |K|` ops, where `K` is a longest common subsequence with the baseline. The
search runs ops one by one and labels each *kept* or *moved*; the kept ops are in the sequence of
the baseline. A state is the set of ops run so far, the step `j` after the last kept op, and the
number of moved ops. Ops before step `j` that are left can only be moved, so

    moved so far + ops before `j` that are left

is a lower bound on the moves of every completion, and never falls along a path. States are expanded
in ascending order of this bound, depth first among equals. When a state of bound `k` is expanded,
no state with a smaller bound is left, so `k` is a lower bound for the problem at any time, and the
first complete order moves fewest ops.

Example: baseline `a b c`, where only `b a c` is within the peak. To run `b` first and keep it costs
1 (`a` can then only be moved), as does moving it. Both lead to `b a c`, which moves one op.

Three rules spare states. Each is sound because `M` (:mod:`optsched.ordering.problem`) is submodular
and what an op saves in place only grows with the ops that have ended:

* *Dominance*: of two states with the same ops, the one with the earlier `j` and no more moved ops
  has all completions of the other.
* *Following*: if the next ops of the baseline, where each needs the one before it, stay within
  the peak and leave no more bytes live than before them, they are run and kept. Any completion can
  be changed so that these ops come first: in each state in which only some of them had run, at
  least as many bytes were live as with all of them, so the other ops have no more bytes live than
  before; and in the baseline they precede everything kept later.
* *Catching up*: an op that can only be moved runs at once if it leaves no more bytes live.

The problem is split at the states that every order passes
(:func:`optsched.ordering.problem.forced_cuts`); the moves of the pieces add up. Every number of
live bytes that the search rejected is above the given peak. No smaller peak than the least of them
can change the answer, so a search without a result also returns the next peak worth trying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optsched.model.dependencies import members
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.order_rules import moved_ops
from optsched.ordering.effort import EFFORT
from optsched.ordering.pieces import Piece, split
from optsched.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class MovesOutcome:
    """The order within a peak that moves fewest ops, as far as it is known."""

    order: tuple[int, ...] | None
    """An order that moves few ops; None if no order is known."""
    moved: int
    """Number of ops that it moves; meaningless if `order` is None."""
    bound: int
    """Lower bound on the moved ops of every order within the peak."""
    complete: bool
    """True if the search was not stopped: `moved` is minimal, or no order is within both limits."""
    next_peak: int | None = None
    """If complete and without an order: a lower bound on the peak of every order within the limit
    on moves; None if such an order does not exist."""


def fewest_moves(
    graph: Graph,
    baseline: Sequence[int],
    peak: int,
    *,
    clock: Clock,
    most: int | None = None,
    known: Sequence[int] | None = None,
) -> MovesOutcome:
    """Search for the order within a peak that moves fewest ops of a baseline.

    Parameters
    ----------
    graph
        The graph; it may be in-place.
    baseline
        A permutation of its ops, not necessarily a valid order.
    peak
        Limit on live bytes.
    clock
        Limit on time or work; a state is a unit of work.
    most
        Limit on moved ops (default: none).
    known
        An order within the peak, used for the pieces of the graph that the time does not suffice
        for.
    """
    n = len(graph.ops)
    most = n if most is None else most
    # The inputs alone exceed the peak, in any order.
    if graph.arrays.initial > peak:
        return MovesOutcome(None, 0, 0, complete=True, next_peak=graph.arrays.initial)
    if clock.expired():
        moved = 0 if known is None else moved_ops(known, baseline)
        return MovesOutcome(None if known is None else tuple(known), moved, 0, complete=False)
    pieces = split(graph, baseline)
    at = {} if known is None else {v: step for step, v in enumerate(known)}
    # Moves of the pieces add up, so each piece may use what the bounds of the others leave.
    order: list[int] | None = []
    bound, complete, refused = 0, True, []
    for number, piece in enumerate(pieces):
        search = _MoveSearch(piece, peak, most - bound)
        # Time is shared evenly among the pieces that are left: one hard piece must not starve the
        # others.
        found = search.run(clock.share(1 / (len(pieces) - number)))
        bound += search.bound
        refused += search.refused
        if found is None:
            complete &= search.complete
            if search.complete:
                # This piece has no order within both limits, and so the graph has none.
                return MovesOutcome(None, 0, bound, True, min(refused, default=None))
            # Without an answer, the ops of this piece run as in the known order.
            found = None if known is None else sorted(piece.ops, key=at.__getitem__)
        order = None if order is None or found is None else [*order, *found]
    if order is None:
        return MovesOutcome(None, 0, bound, complete)
    return MovesOutcome(tuple(order), moved_ops(order, baseline), bound, complete)


@dataclass(frozen=True, slots=True)
class PeakOutcome:
    """The order of least peak with a limit on moved ops, as far as it is known."""

    order: tuple[int, ...] | None
    """The best order found; None if no order is known."""
    peak: int
    """Peak of that order, in bytes; meaningless if `order` is None."""
    bound: int
    """Lower bound on the peak of every order within the limit."""
    feasible: bool | None
    """False if no order is within the limit; None if that is unknown."""
    moved_bound: int
    """Lower bound on the moved ops of every order of the graph."""


def least_peak_within(
    graph: Graph,
    baseline: Sequence[int],
    most: int,
    *,
    clock: Clock,
    bound: int = 0,
    known: Sequence[int] | None = None,
) -> PeakOutcome:
    """Search for the order of least peak among those that move at most `most` ops.

    Bisects between the bound and the peak of the best order: :func:`fewest_moves` decides whether
    an order within the middle exists, and returns the next peak worth trying if it does not.

    `graph`, `baseline`, `most`, `clock`: as for :func:`fewest_moves`. `bound`: a known lower bound
    on the peak. `known`: an order within the limit, if there is one.
    """
    moved_bound = 0
    if known is None:
        # Any valid order is within the sum of all sizes, so this asks for the fewest moves alone.
        limit = int(graph.arrays.size.sum())
        found = fewest_moves(graph, baseline, limit, most=most, clock=clock)
        moved_bound = found.bound
        if found.order is None or found.moved > most:
            return PeakOutcome(None, 0, bound, False if found.complete else None, moved_bound)
        known = found.order
    order, peak = tuple(known), peak_memory(graph, known)
    open_ = [(bound, peak)]
    while open_ and bound < peak and not clock.expired():
        low, high = open_.pop()
        low, high = max(low, bound), min(high, peak)
        if low >= high:
            continue
        middle = (low + high) // 2
        part = clock.share(EFFORT.ask_share)
        found = fewest_moves(graph, baseline, middle, most=most, clock=part)
        if found.order is not None and found.moved <= most:
            order, peak = found.order, peak_memory(graph, found.order)
            open_.append((low, peak))
        elif found.complete:
            # No higher peak worth trying means that the known order is optimal within the limit.
            bound = peak if found.next_peak is None else min(peak, found.next_peak)
            open_.append((bound, high))
        else:
            # Undecided: a smaller peak is easier to refute, a larger one easier to reach.
            open_ += [(low, middle), (middle + 1, high)]
    return PeakOutcome(order, peak, bound, True, moved_bound)


@dataclass(frozen=True, slots=True)
class _MoveState:
    """A state of the search: the mask of the ops that have run, and the way they were run.

    `next` is the step after the last kept op, `trail` the ops run since the state `before`.
    """

    done: int
    ready: int
    live: int
    next: int
    moved: int
    trail: tuple[int, ...]
    before: _MoveState | None


class _MoveSearch:
    """Best-first search by the bound on moves, last in first out among equals.

    `peak` and `most` are limits on live bytes and on ops moved.
    """

    def __init__(self, piece: Piece, peak: int, most: int) -> None:
        self.piece, self.peak, self.most = piece, peak, min(most, len(piece.ops))
        # Bit `i` stands for the op of turn `i` in the baseline, so "earlier" is a mask of low
        # bits.
        self.all = (1 << len(piece.ops)) - 1
        self.bound, self.complete = 0, False
        self.refused: list[int] = []
        self.lowest: int | None = None
        self.known: dict[int, list[tuple[int, int]]] = {}
        # One stack per cost: costs are small integers, so no heap is needed.
        self.buckets: list[list[_MoveState]] = [[] for _ in range(self.most + 1)]

    def run(self, clock: Clock) -> list[int] | None:
        """Return the op ids of an order that moves fewest ops; None if the time is too short."""
        piece = self.piece
        self._push(_MoveState(0, piece.ready(0), piece.live, 0, 0, (), None))
        for cost, bucket in enumerate(self.buckets):
            self.bound = cost
            while bucket:
                clock.spend(1)
                # Time is tested once per state, and an unfinished bucket leaves its cost as the
                # bound.
                if clock.expired():
                    return self._end(None)
                state = self._run_forced(bucket.pop())
                if state.done == self.all:
                    self.complete = True
                    return self._end(state)
                if self._is_new(state):
                    self._branch(state)
        # All states within the limit are expanded: every order moves at least one op more.
        self.bound, self.complete = self.most + 1, True
        return self._end(None)

    def _end(self, state: _MoveState | None) -> list[int] | None:
        self.refused = [] if self.lowest is None else [self.lowest]
        if state is None:
            return None
        trails = []
        while state is not None:
            trails.append(state.trail)
            state = state.before
        return [self.piece.ops[i] for trail in trails[::-1] for i in trail]

    def _push(self, state: _MoveState) -> None:
        cost = state.moved + self._skipped(state)
        # The bound never falls along a path, so states above the limit can be dropped.
        if cost <= self.most:
            self.buckets[cost].append(state)

    def _skipped(self, state: _MoveState) -> int:
        """Return the number of ops left that come before the last kept one in the baseline."""
        return (~state.done & ((1 << state.next) - 1)).bit_count()

    def _fits(self, running: int) -> bool:
        if running > self.peak:
            # The least rejected value is the next peak at which the answer may change.
            self.lowest = running if self.lowest is None else min(self.lowest, running)
            return False
        return True

    def _ran(self, at: _MoveState, i: int, *, kept: bool, before: _MoveState | None) -> _MoveState:
        """Return the state after op `i`; it extends the trail of `at` unless that is `before`."""
        done = at.done | 1 << i
        ready = at.ready & ~(1 << i)
        for w in self.piece.after[i]:
            if not self.piece.needs[w] & ~done:
                ready |= 1 << w
        live = self.piece.left(i, done, at.live)
        trail = (i,) if at is before else (*at.trail, i)
        place = i + 1 if kept else at.next
        return _MoveState(done, ready, live, place, at.moved + (not kept), trail, before)

    def _run_forced(self, state: _MoveState) -> _MoveState:
        """Run the ops that every completion may run at once: *following* and *catching up*."""
        origin = state
        while True:
            further = self._follow(state, origin)
            if further is state:
                further = self._catch_up(state, origin)
            if further is state:
                return state
            state = further

    def _follow(self, state: _MoveState, origin: _MoveState) -> _MoveState:
        """Run and keep the baseline's next ops, if they leave no more bytes live."""
        at = state
        for _ in range(EFFORT.most_followed):
            # Bits from `next` on: the lowest one set is the baseline's next op.
            rest = ~at.done & self.all & -(1 << at.next)
            i = (rest & -rest).bit_length() - 1
            if i < 0 or not at.ready >> i & 1:
                break
            # Each op but the first must need the one before it, as the proof of the rule requires.
            if at is not state and not self.piece.needs[i] >> (at.next - 1) & 1:
                break
            if not self._fits(self.piece.running(i, at.done, at.live)):
                break
            at = self._ran(at, i, kept=True, before=origin)
            if at.live <= state.live:
                return at
        return state

    def _catch_up(self, state: _MoveState, origin: _MoveState) -> _MoveState:
        for i in members(state.ready & ((1 << state.next) - 1)):
            if self._fits(self.piece.running(i, state.done, state.live)):
                after = self._ran(state, i, kept=False, before=origin)
                if after.live <= state.live:
                    return after
        return state

    def _is_new(self, state: _MoveState) -> bool:
        """Return True, and remember the state, if no expanded state dominates it."""
        known = self.known.setdefault(state.done, [])
        # Same ops, no later `next` and no more moved: all completions of this state are covered.
        if any(place <= state.next and moved <= state.moved for place, moved in known):
            return False
        known.append((state.next, state.moved))
        return True

    def _branch(self, state: _MoveState) -> None:
        """Push the successors of a state: each ready op as a kept op, a moved op, or both."""
        ahead = ~state.done & self.all & -(1 << state.next)
        # The lowest set bit alone: the next op that the baseline would run.
        following = ahead & -ahead
        # Reversed, because a bucket is a stack: the first op in the baseline is tried first.
        for i in reversed(members(state.ready)):
            if not self._fits(self.piece.running(i, state.done, state.live)):
                continue
            # Moving the baseline's next op is dominated by keeping it.
            if 1 << i != following:
                self._push(self._ran(state, i, kept=False, before=state))
            if i >= state.next:
                self._push(self._ran(state, i, kept=True, before=state))
