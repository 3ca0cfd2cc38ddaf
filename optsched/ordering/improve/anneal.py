"""Annealing: a walk over orders that at first may rise above the best peak, and ever less so.

What a walk is to get down to is one byte below the best peak so far, and the bytes by which its
steps pass that, summed, are what it pays; nothing below counts. So it is free to change whatever
is not yet, or no longer, part of the problem, and on graphs too wide for a search of states it
reaches in a second what windows of a good order do not reach in minutes. It proves nothing.

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
"""Elements of work in one move."""


class Annealer:
    """Improves an order by cycles of annealing; can be left and taken up again.

    In-place graphs are walked like all others: a step's live bytes are exact.

    Parameters
    ----------
    context
        The problem, of one op or more.
    order
        A valid order; replaced by better ones.
    seed, steps
        Of the walk, which is a function of all this and the moves asked for. After so many steps of
        an earlier search it is another one.
    """

    def __init__(
        self, context: SearchContext, order: Sequence[int], seed: int, steps: int = 0
    ) -> None:
        self.context = context
        self.rng = np.random.default_rng((seed, steps) if steps else seed)
        rise = context.problem.rise.astype(np.float64)
        self.scale = float((rise @ rise) / max(1.0, rise.sum()))
        part = (np.arange(1 << DRAW_BITS) + 0.5) / (1 << DRAW_BITS)
        self.luck = -np.log(part)
        self.reaches: IntArray = (1 + context.effort.mean_reach * self.luck).astype(np.int64)
        self.cycle, self.done, self.turn = context.effort.first_cycle, 0, 0
        self.walked = self.lowered = 0
        self.start_from(order)

    def start_from(self, order: Sequence[int]) -> None:
        """Go on from another order."""
        context = self.context
        start = np.array(order, np.int64)
        self.walk = start_walk(context.problem, start, context.follow(order)[1])
        self.best, self.peak = start, self.height()

    @property
    def order(self) -> list[int]:
        """The best order met."""
        return cast("list[int]", self.best.tolist())

    def height(self) -> int:
        """The peak where the walk is."""
        return max(self.context.problem.base, int(self.walk.during.max()))

    def improve(self, moves: int, floor: int) -> None:
        """Go on for a number of moves, or until the peak is at `floor`.

        And on from there, up to a limit, while the last lower peak is in the later half of the
        walk: what has just helped may do so again.
        """
        floor, effort = max(floor, self.context.problem.base), self.context.effort
        least, most = self.walked + moves, self.walked + moves * effort.helpful
        while self.peak > floor and self.walked < max(least, min(most, 2 * self.lowered)):
            self.stride(floor)
            self.done += effort.stride
            self.context.clock.spend(effort.stride // effort.moves_per_state)
            if self.done >= self.cycle:
                self.cycle, self.done = int(self.cycle * effort.cycle_growth), 0
                self.turn = (self.turn + 1) % len(effort.heats)
            self.context.check_time()

    def stride(self, floor: int) -> None:
        """Try moves at one heat."""
        context = self.context
        hottest = context.effort.heats[self.turn]
        heat = self.scale * hottest * (context.effort.coldest / hottest) ** (self.done / self.cycle)
        picks = self.rng.integers(0, 2**62, context.effort.stride)
        while len(picks) and self.peak > floor:
            tried = context.pick(go_on, MOVE_WORK * len(picks))(
                context.problem, self.walk, self.peak - 1, heat, picks, self.reaches, self.luck
            )
            self.walked += tried
            context.statistics.walked += tried
            picks = picks[tried:]
            if self.height() < self.peak:
                context.statistics.lowered += 1
                self.lowered = self.walked
                self.best, self.peak = self.walk.order.copy(), self.height()
