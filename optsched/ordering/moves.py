"""Orders near a baseline: the fewest ops moved within a peak, and the least peak within so many.

An order moves `n - |K|` ops, where `K` is a longest common subsequence with the baseline. The
search runs ops one by one and says of each whether it is *kept* or *moved*; kept ones come with
ascending steps in the baseline. A state is the set of ops that have run, the step `j` behind the
last op kept, and how many have been moved. Ops ahead of `j` that have not run can only be moved, so

    moved so far + ops ahead of `j` that have not run

is a bound on what every completion moves, and never falls: states are looked at by it, depth first
among equals. Whatever state is reached with it equal to `k`, all with less have been left behind,
so `k` is a bound at any time, and the first complete order moves fewest.

Three rules spare states. Each is sound because `M` (:mod:`optsched.ordering.problem`) is submodular
and what an op saves in place only grows with the ops that have ended:

* *Dominance*: of two states with the same ops, the one with the earlier `j` and no more moved can
  do whatever the other can.
* *Following*: if the baseline's next ops, each of which needs the one before it, stay within the
  peak and leave no more bytes live than before them, they are run and kept. Any completion can be
  changed so that they come first: whatever of them had run, no fewer bytes were live than are with
  all of them, so no other op finds more; and they are ahead of everything kept later.
* *Catching up*: so is an op that can only be moved, alone, where it leaves no more bytes live.

In states that every order passes (:func:`optsched.ordering.problem.forced_cuts`) the problem falls
apart: what is moved adds up. Every number of live bytes that was refused is above the peak asked
for, and the least of them is what must be allowed before anything can change; so a search that
fails says by how much the peak must rise.
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
    """What is known of the orders within a peak.

    Parameters
    ----------
    order
        One that moves few ops; None if none is known.
    moved
        How many it moves; meaningless without one.
    bound
        Every order within the peak moves as many.
    complete
        Whether the search came to its end: `moved` is least, or no order is within both limits.
    next_peak
        If complete and without an order: no order within the limit on moves has a smaller peak;
        None if none is within it at all.
    """

    order: tuple[int, ...] | None
    moved: int
    bound: int
    complete: bool
    next_peak: int | None = None


def fewest_moves(
    graph: Graph,
    baseline: Sequence[int],
    peak: int,
    *,
    clock: Clock,
    most: int | None = None,
    known: Sequence[int] | None = None,
) -> MovesOutcome:
    """Search for the order of a peak within a limit that moves fewest ops of a baseline.

    Parameters
    ----------
    graph
        The graph; it may be in-place.
    baseline
        A permutation of its ops; what it can not keep is moved.
    peak
        Bytes.
    clock
        When to stop; states are its work.
    most
        Orders that move more are of no interest.
    known
        An order within the peak, for the parts of the graph that the time is too short for.
    """
    n = len(graph.ops)
    most = n if most is None else most
    if graph.arrays.initial > peak:
        return MovesOutcome(None, 0, 0, complete=True, next_peak=graph.arrays.initial)
    pieces = split(graph, baseline)
    order: list[int] | None = []
    bound, complete, refused = 0, True, []
    for number, piece in enumerate(pieces):
        search = _MoveSearch(piece, peak, most - bound)
        found = search.run(clock.share(1 / (len(pieces) - number)))
        bound += search.bound
        refused += search.refused
        if found is None:
            complete &= search.complete
            if search.complete:
                # Within the peak and the limit this part has no order.
                return MovesOutcome(None, 0, bound, True, min(refused, default=None))
            found = None if known is None else piece.ops_in(known)
        order = None if order is None or found is None else [*order, *found]
    if order is None:
        return MovesOutcome(None, 0, bound, complete)
    return MovesOutcome(tuple(order), moved_ops(order, baseline), bound, complete)


@dataclass(frozen=True, slots=True)
class PeakOutcome:
    """What is known of the orders that move few ops.

    Parameters
    ----------
    order
        The one of smallest peak that is known; None if none is.
    peak
        Its peak; meaningless without one.
    bound
        No order within the limit has a smaller peak.
    feasible
        False if there is no order within the limit; None if that is not known.
    moved_bound
        Every order of the graph moves as many.
    """

    order: tuple[int, ...] | None
    peak: int
    bound: int
    feasible: bool | None
    moved_bound: int


def least_peak_within(
    graph: Graph,
    baseline: Sequence[int],
    most: int,
    *,
    clock: Clock,
    bound: int = 0,
    known: Sequence[int] | None = None,
) -> PeakOutcome:
    """Search for the order of least peak among those that move at most so many ops.

    By halves between the bound and the best order known: each half is asked of
    :func:`fewest_moves`, which says by how much the peak must rise where it finds nothing.

    Parameters
    ----------
    graph, baseline, most, clock
        As for :func:`fewest_moves`.
    bound
        A known lower bound on the peak.
    known
        An order within the limit, if there is one.
    """
    moved_bound = 0
    if known is None:
        roof = int(graph.arrays.size.sum())
        found = fewest_moves(graph, baseline, roof, most=most, clock=clock)
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
            bound = peak if found.next_peak is None else min(peak, found.next_peak)
            open_.append((bound, high))
        else:
            # Undecided: less is easier to refute, and more to find.
            open_ += [(low, middle), (middle + 1, high)]
    return PeakOutcome(order, peak, bound, True, moved_bound)


@dataclass(frozen=True, slots=True)
class _MoveState:
    """A set of ops that have run, as a mask, and how.

    `next` is the step behind the last op kept, `trail` the ops run since the state before.
    """

    done: int
    ready: int
    live: int
    next: int
    moved: int
    trail: tuple[int, ...]
    before: _MoveState | None


class _MoveSearch:
    """Best first by the bound on moves, last in first out among equals.

    `peak` and `most` are limits on live bytes and on ops moved.
    """

    def __init__(self, piece: Piece, peak: int, most: int) -> None:
        self.piece, self.peak, self.most = piece, peak, min(most, len(piece.ops))
        self.all = (1 << len(piece.ops)) - 1
        self.bound, self.complete = 0, False
        self.refused: list[int] = []
        self.lowest: int | None = None
        self.known: dict[int, list[tuple[int, int]]] = {}
        self.buckets: list[list[_MoveState]] = [[] for _ in range(self.most + 1)]

    def run(self, clock: Clock) -> list[int] | None:
        """Return the ids of the ops in an order that moves fewest, if there is one in time."""
        piece = self.piece
        self._push(_MoveState(0, piece.ready(0), piece.live, 0, 0, (), None))
        for cost, bucket in enumerate(self.buckets):
            self.bound = cost
            while bucket:
                clock.spend(1)
                if clock.expired():
                    return self._end(None)
                state = self._hurry(bucket.pop())
                if state.done == self.all:
                    self.complete = True
                    return self._end(state)
                if self._is_new(state):
                    self._branch(state)
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
        if cost <= self.most:
            self.buckets[cost].append(state)

    def _skipped(self, state: _MoveState) -> int:
        """Number of ops ahead of the last one kept that have not run."""
        return (~state.done & ((1 << state.next) - 1)).bit_count()

    def _fits(self, running: int) -> bool:
        if running > self.peak:
            self.lowest = running if self.lowest is None else min(self.lowest, running)
            return False
        return True

    def _ran(self, at: _MoveState, i: int, *, kept: bool, before: _MoveState | None) -> _MoveState:
        """Return the state after an op; it goes on the trail of `at` unless that is `before`."""
        done = at.done | 1 << i
        ready = at.ready & ~(1 << i)
        for w in self.piece.after[i]:
            if not self.piece.needs[w] & ~done:
                ready |= 1 << w
        live = self.piece.left(i, done, at.live)
        trail = (i,) if at is before else (*at.trail, i)
        place = i + 1 if kept else at.next
        return _MoveState(done, ready, live, place, at.moved + (not kept), trail, before)

    def _hurry(self, state: _MoveState) -> _MoveState:
        """Run what any completion can run at once: see *following* and *catching up*."""
        origin = state
        while True:
            further = self._follow(state, origin)
            if further is state:
                further = self._catch_up(state, origin)
            if further is state:
                return state
            state = further

    def _follow(self, state: _MoveState, origin: _MoveState) -> _MoveState:
        """Keep the baseline's next ops, each of which needs the last, where they leave less."""
        at = state
        for _ in range(EFFORT.most_followed):
            rest = ~at.done & self.all & -(1 << at.next)
            i = (rest & -rest).bit_length() - 1
            if i < 0 or not at.ready >> i & 1:
                break
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
        """Whether no state that can do as much has been looked at; keeps this one if so."""
        known = self.known.setdefault(state.done, [])
        if any(place <= state.next and moved <= state.moved for place, moved in known):
            return False
        known.append((state.next, state.moved))
        return True

    def _branch(self, state: _MoveState) -> None:
        """Run each op that may run, as one kept or moved."""
        ahead = ~state.done & self.all & -(1 << state.next)
        following = ahead & -ahead
        for i in reversed(members(state.ready)):
            if not self._fits(self.piece.running(i, state.done, state.live)):
                continue
            if 1 << i != following:
                self._push(self._ran(state, i, kept=False, before=state))
            if i >= state.next:
                self._push(self._ran(state, i, kept=True, before=state))
