"""Exact search of a segment: between two downsets that some optimal order passes through.

A search expands states from one end. It raises its budget only when no state is left within it, so
the first path to the goal is optimal. It *commits* to a state with no more live bytes than its
root: by submodularity some optimal path passes through the smallest state with fewest bytes between
the two, so that state becomes the root and all others are dropped. Two searches, forward from the
start and backward from the end, alternate. Each alone is exhaustive, but commits may be near one
end only; a budget that one has refuted is refuted for the other.

Example: `a` makes 9 bytes and frees 6 when it ends, `b` makes 5 and frees 5. The search starts with
budget 0: both ops are blocked, `b` by 5 bytes and `a` by 9. The budget becomes 5; `b` runs and 0
bytes are left, as many as at the root, so the search commits to `{b}`. Then only `a` is left, and
the budget becomes 9.
"""

from __future__ import annotations

import numpy as np

from optsched.ordering.context import SearchContext
from optsched.ordering.kernels import children, explore
from optsched.ordering.kernels import states as arenas
from optsched.ordering.kernels.children import SearchTask
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.kernels.state import LIVE, READY, place_all, start_state
from optsched.ordering.reduce.symmetry import make_keys


class DirectedSearch:
    """A search in one direction over the segment between two downsets.

    A `long` search looks for identical blocks first; other searches only use them if they are
    known.
    """

    def __init__(self, segment: Segment, *, forward: bool, long: bool = False) -> None:
        self.context = context = segment.context
        self.budget, rules = segment.budget, context.rules
        self.task = SearchTask(
            forward, segment.ceiling, rules.close, rules.commit, rules.probe, rules.lift,
            rules.foresee,
        )  # fmt: skip
        # Backward the roles of the two ends are exchanged.
        start, goal = (segment.low, segment.high)[:: 1 if forward else -1]
        self.begin = start.copy(), segment.high & ~segment.low
        self.keys = make_keys(context.families(wanted=long), context.codes, goal)
        self.path = np.empty(len(goal) + 1, np.int32)
        effort = context.effort
        self.slice = max(1, min(effort.first_slice, effort.slice_ops // max(1, context.ops)))
        self.reset()

    def reset(self) -> None:
        """Start from the root."""
        context = self.context
        done, within = self.begin
        self.state = start_state(context.problem, done, within, self.task.forward)
        self.plant(int(np.count_nonzero(within)))
        self.scratch = explore.start_scratch(context.ops, context.checked_ops)
        self.delay_look_ahead()

    def plant(self, left: int) -> None:
        """Make the current state the root, with `left` ops to place."""
        # A new arena drops all states before the commit, as they are not needed any more.
        live, room = int(self.state.tally[LIVE]), self.context.effort.first_room
        self.arena = arenas.make_arena(room, self.context.ops, left, live)

    def delay_look_ahead(self) -> None:
        """Delay the look-ahead bound in searches of many ops, as its time grows with the ops."""
        gauge, effort = self.scratch.gauge, self.context.effort
        gauge[explore.WAIT] = max(explore.FIRST_LOOK, self.context.ops // effort.ops_per_state)
        gauge[explore.PERIOD] = min(explore.SELDOM, self.context.ops // effort.ops_per_period)

    def commit(self, moves: list[int]) -> int:
        """Make the state that `moves` lead to, before the goal, the root; return its live bytes."""
        context = self.context
        placed = np.array(moves, np.int32)
        context.pick(place_all)(context.problem, self.state, self.task.forward, placed)
        self.plant(int(self.arena.left[0]) - len(moves))
        # The state shares the second array, and `place_all` places only ops inside it. So the ops
        # placed are taken out of the array last.
        self.begin[0][placed] = self.task.forward
        self.begin[1][placed] = False
        self.delay_look_ahead()
        return int(self.state.tally[LIVE])

    @property
    def states(self) -> int:
        """Number of states stored."""
        return int(self.arena.fill[arenas.STATES])

    def make_room(self) -> None:
        """Grow the arena until it has room for all successors of the current state.

        A state has at most one successor per ready op.
        """
        wanted = self.states + int(self.state.tally[READY])
        self.arena = arenas.grow_arena(self.arena, self.context.ops)
        while len(self.arena.parent) < wanted:
            self.arena = arenas.grow_arena(self.arena, self.context.ops)

    def run(self, states: int) -> tuple[int, list[int]]:
        """Search until `states` states are stored or it ends; return the code and the moves."""
        context = self.context
        while True:
            step = context.pick(explore.advance, self.slice * context.ops)
            # Work is counted in expansions, which do not depend on the machine.
            before, expanded = context.clock.now(), int(context.counters[children.EXPANDED])
            how, budget, length = step(
                context.problem, self.task, self.state, self.arena, self.scratch, self.budget,
                self.keys, self.path, context.counters, self.slice, states,
            )  # fmt: skip
            context.clock.spend(int(context.counters[children.EXPANDED]) - expanded)
            self.budget = int(budget)
            if how == explore.EXHAUSTED and self.budget < self.task.ceiling:
                # Only without rule `lift`: the search starts again with the larger budget.
                self.reset()
            elif how in (explore.EXHAUSTED, explore.REACHED):
                return int(how), self.path[:length].tolist()
            elif self.states >= states:
                return explore.FULL, []
            elif how == explore.FULL:
                self.make_room()
            elif context.clock.limits.work is None:
                self.pace(context.clock.now() - before)
            context.check_time()

    def pace(self, seconds: float) -> None:
        """Set the next slice to take about as long as the clock may go unchecked."""
        wanted = self.context.effort.slice_seconds
        if seconds < wanted / 2:
            self.slice *= 2
        elif seconds > wanted * 2:
            self.slice = max(1, self.slice // 2)


class Segment:
    """The paths from one downset to another; both ends move inwards as searches commit.

    `context`: the problem. `low`, `high`: shape `(n,)`: the two downsets, the smaller one first.
    `budget`: known lower bound on the peak of every path. `ceiling`: paths whose peak is at least
    this are of no interest.
    """

    def __init__(
        self, context: SearchContext, low: Flags, high: Flags, budget: int, ceiling: int
    ) -> None:
        self.context = context
        self.low, self.high = low.copy(), high.copy()
        self.budget, self.ceiling = budget, ceiling
        self.head: list[int] = []
        self.tail: list[int] = []
        self.searches: dict[bool, DirectedSearch] = {}
        self.turn = self.context.effort.first_turn
        self.ends = (context.live(low), context.live(high))

    @property
    def moves(self) -> list[int]:
        """The ops placed so far, in order; all ops of the segment once it is solved."""
        return self.head + self.tail[::-1]

    def run(self, states: int) -> int:
        """Search until each direction has stored `states` states; return a code.

        `REACHED`: `moves` is a path of minimum peak `budget`. `EXHAUSTED`: no path has a peak below
        the ceiling. `FULL`: undecided.
        """
        while True:
            self.context.check_time()
            left = int(np.count_nonzero(self.high & ~self.low))
            if left == 0:
                return explore.REACHED
            # Each path starts and ends with the live bytes of the two ends.
            self.budget = max(self.budget, *self.ends)
            if self.budget >= self.ceiling:
                return explore.EXHAUSTED
            how = self.take_turns(states, both=self.context.rules.dovetail and left > 1)
            if how != explore.REACHED:
                return how

    def take_turns(self, states: int, *, both: bool) -> int:
        """Alternate between the two searches until one of them ends.

        The end with more live bytes is first: a search from there ends in a commit, as the goal
        has no more live bytes than its root.
        """
        first = self.ends[0] >= self.ends[1]
        while True:
            for forward in (first, not first) if both else (first,):
                search = self.search(forward=forward, long=states > self.context.effort.first_turn)
                search.budget = max(search.budget, self.budget)
                how, moves = search.run(min(self.turn, states))
                self.note_bytes()
                self.budget = max(self.budget, search.budget)
                if how == explore.EXHAUSTED:
                    return how
                if how == explore.REACHED:
                    self.accept(moves, forward=forward)
                    return how
            # Both searches have used up what they may store.
            if self.turn >= states:
                return explore.FULL
            self.turn *= self.context.effort.turn_growth

    def note_bytes(self) -> None:
        """Record the largest size of the tables of states."""
        room = sum(len(search.arena.parent) for search in self.searches.values())
        stats = self.context.statistics
        stats.table_bytes = max(stats.table_bytes, room * arenas.STATE_BYTES)

    def search(self, *, forward: bool, long: bool) -> DirectedSearch:
        """Return the search from one end; it is created at the first call."""
        if forward not in self.searches:
            self.searches[forward] = DirectedSearch(self, forward=forward, long=long)
        return self.searches[forward]

    def accept(self, moves: list[int], *, forward: bool) -> None:
        """Place moves permanently, and drop the search from the other end."""
        self.context.statistics.commits += 1
        search = self.searches[forward]
        if len(moves) < search.arena.left[0]:
            live = search.commit(moves)
            self.ends = (live, self.ends[1]) if forward else (self.ends[0], live)
        # The other search ran towards a goal that has now moved.
        self.searches = {forward: search}
        if forward:
            self.low[moves] = True
            self.head += moves
        else:
            self.high[moves] = False
            self.tail += moves
        self.turn = self.context.effort.first_turn
