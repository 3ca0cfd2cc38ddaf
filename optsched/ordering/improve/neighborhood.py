"""Neighborhood search: windows of a known order around its peak, with the other steps fixed.

A window is a stretch of steps that contains a step of the peak. Between the two states at its ends
the exact search looks for a path below the peak; states outside do not change. On long chains with
few alternatives (recurrent cells, experts) this lowers the peak in milliseconds where annealing
takes many seconds.

Example: an order of 100 steps has its peak at step 50. Steps 30 to 68 are searched again, between
the state after step 29 and the state after step 68. If that finds a path below the peak, the order
is replaced; if not, another window, or a wider one, is tried.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.ordering.context import SearchContext
from optsched.ordering.kernels import explore
from optsched.ordering.search.segment import Segment


class WindowSearch:
    """Improvement of a valid order by searching randomly chosen windows.

    The random numbers depend on `seed`, and on the number of `steps` of an earlier search.
    """

    def __init__(
        self, context: SearchContext, order: Sequence[int], seed: int, steps: int = 0
    ) -> None:
        self.context = context
        self.start_from(order)
        self.rng = np.random.default_rng((seed, steps) if steps else seed)
        self.width = min(context.effort.window_ops, context.ops)

    def start_from(self, order: Sequence[int]) -> None:
        """Continue from another order."""
        self.order = list(order)
        self.peak, self.during = self.context.follow(self.order)

    def improve(self, states: int, tries: int, floor: int) -> bool:
        """Search windows until one is better; return False after `tries`, or at peak `floor`."""
        for _ in range(tries):
            if self.peak <= floor:
                return False
            if self.try_window(states):
                return True
            # After a failure the windows get wider, up to the full order.
            self.width = min(self.context.ops, self.width + max(1, self.width // 8))
        return False

    def try_window(self, states: int) -> bool:
        """Search one window, and replace the order if that lowers its bytes below the peak."""
        context = self.context
        peaks = np.flatnonzero(self.during == self.peak)
        # A random one of the fullest steps, as one window rarely lowers all of them.
        at = int(peaks[self.rng.integers(len(peaks))])
        # The two sides get random lengths, so that repeated tries see different ends.
        reach = self.rng.integers(self.width // 2, self.width + 1, 2).tolist()
        first, end = max(0, at - reach[0]), min(context.ops, at + 1 + reach[1])
        low, high = np.zeros(context.ops, np.bool_), np.zeros(context.ops, np.bool_)
        low[self.order[:first]] = True
        high[self.order[:end]] = True
        # With an end of the window at the peak, no path between the ends is below it.
        if max(context.live(low), context.live(high)) >= self.peak:
            return False
        context.statistics.windows += 1
        window = Segment(context, low, high, self.peak - 1, self.peak)
        if window.run(states) != explore.REACHED:
            return False
        context.statistics.improved += 1
        self.start_from(self.order[:first] + window.moves + self.order[end:])
        return True
