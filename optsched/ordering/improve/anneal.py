"""Simulated annealing over orders: random moves; worse ones are accepted less and less often.

The target of the walk is one byte below the best peak so far. The cost of an order is the sum, over
its steps, of the live bytes above the target; bytes below the target cost nothing. So moves among
steps that are low enough are free, and the walk drifts there until it finds room for the steps that
are too high. A move that raises the cost by `c` is accepted if `c` is at most the temperature times
an exponential random number (the rule of Metropolis).

On graphs too wide for a search of states, annealing finds in a second orders that the search of
windows does not find in minutes. It proves nothing.

Example: live bytes 5, 9, 7, 9 with the best peak 9, so the target is 8 and the cost 1 + 1. Moving
an op so that they become 6, 8, 8, 10 leaves the cost at 2, and is accepted.

References
----------
Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220, 1983.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.walk import DRAW_BITS, go_on, start_walk

MOVE_WORK = 16
"""Elements of work per move."""


class Annealer:
    """Annealing of one order in cycles; it can be stopped and resumed.

    In-place graphs need no special treatment: the live bytes of a step are exact.

    `context`: the problem, with at least one op. `order`: a valid order to start from. `seed`,
    `steps`: seed of the walk, and number of steps of an earlier search, which also changes the
    random numbers. The walk is a function of these arguments and of the number of moves.
    """

    def __init__(
        self, context: SearchContext, order: Sequence[int], seed: int, steps: int = 0
    ) -> None:
        self.context = context
        # A resumed search with the same seed would repeat the old walk, so the steps are mixed in.
        self.rng = np.random.default_rng((seed, steps) if steps else seed)
        # The unit of temperature: the mean rise, weighted by the rises themselves.
        rise = context.problem.rise.astype(np.float64)
        self.scale = float((rise @ rise) / max(1.0, rise.sum()))
        # Quantiles of the exponential distribution, from which kernels draw by index.
        # A table is read by random bits instead of a logarithm per move. The middle of each part
        # is used, as the logarithm of 0 is infinite.
        part = (np.arange(1 << DRAW_BITS) + 0.5) / (1 << DRAW_BITS)
        self.luck = -np.log(part)
        self.reaches: IntArray = (1 + context.effort.mean_reach * self.luck).astype(np.int64)
        self.cycle, self.done, self.turn = context.effort.first_cycle, 0, 0
        self.walked = self.lowered = 0
        self.start_from(order)

    def start_from(self, order: Sequence[int]) -> None:
        """Continue from another order."""
        context = self.context
        start = np.array(order, np.int64)
        self.walk = start_walk(context.problem, start, context.follow(order)[1])
        self.best, self.peak = start, self.height()

    @property
    def order(self) -> list[int]:
        """The best order found."""
        return cast("list[int]", self.best.tolist())

    def height(self) -> int:
        """Return the peak of the present order of the walk."""
        return max(self.context.problem.base, int(self.walk.during.max()))

    def improve(self, moves: int, floor: int) -> None:
        """Walk for a number of moves, or until the peak is at most `floor`.

        If the last lower peak was found in the second half of the walk, continue up to a limit: an
        improvement may be followed by more.
        """
        # No order is below the base, so a lower floor would never be reached.
        floor, effort = max(floor, self.context.problem.base), self.context.effort
        least, most = self.walked + moves, self.walked + moves * effort.helpful
        while self.peak > floor and self.walked < max(least, min(most, 2 * self.lowered)):
            self.stride(floor)
            self.done += effort.stride
            self.context.clock.spend(effort.stride // effort.moves_per_state)
            # Each cycle cools from hot to cold. The next one is longer and starts at the next
            # temperature.
            if self.done >= self.cycle:
                self.cycle, self.done = int(self.cycle * effort.cycle_growth), 0
                self.turn = (self.turn + 1) % len(effort.temperatures)
            self.context.check_time()

    def stride(self, floor: int) -> None:
        """Try moves at one temperature."""
        context = self.context
        hottest = context.effort.temperatures[self.turn]
        # Geometric cooling: the temperature falls by a constant factor per move.
        cooling = (context.effort.coldest / hottest) ** (self.done / self.cycle)
        temperature = self.scale * hottest * cooling
        picks = self.rng.integers(0, 2**62, context.effort.stride)
        # After a lower peak the target changes, so the kernel returns and is called with the rest.
        while len(picks) and self.peak > floor:
            tried = context.pick(go_on, MOVE_WORK * len(picks))(
                context.problem, self.walk, self.peak - 1, temperature, picks, self.reaches,
                self.luck,
            )  # fmt: skip
            self.walked += tried
            context.statistics.walked += tried
            picks = picks[tried:]
            if self.height() < self.peak:
                context.statistics.lowered += 1
                self.lowered = self.walked
                self.best, self.peak = self.walk.order.copy(), self.height()
