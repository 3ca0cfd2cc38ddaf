"""One run of HiGHS within seconds of a clock, or within steps where the clock counts work.

HiGHS looks at its limits at the same points of a search on every machine. Where a clock counts
work, each look of an integer program and each iteration of a linear one has a price by the number
of entries, so that a run ends at the same point on every machine.

Example: an integer program of 5,000 entries has 2 seconds. A look is counted as 0.005 seconds, so
the run ends at the 400th look.
"""

from __future__ import annotations

import math
from typing import Any

from optsched.runtime.clock import Clock

ENTRY_SECONDS, LOOK_SECONDS, ITERATION_SECONDS = 1e-6, 1e-6, 1e-9
"""Seconds of an entry for the start, for a look, and for an iteration, about as measured."""
LEAST_SECONDS = 0.05
"""Least limit of a run: a shorter one is not worth an interruption."""


def run_highs(highs: Any, seconds: float, clock: Clock, *, integral: bool) -> None:
    """Run HiGHS for at most some seconds of what a clock has left; the result is in `highs`."""
    left = clock.seconds_left()
    seconds = max(seconds if left is None else min(seconds, left), LEAST_SECONDS)
    if not clock.counts:
        # HiGHS adds up the time of all runs.
        highs.setOptionValue("time_limit", highs.getRunTime() + seconds)
        highs.run()
        return
    highs.setOptionValue("time_limit", math.inf)
    entries = max(1, highs.getNumNz())
    if not integral:
        most = int(seconds / (ITERATION_SECONDS * entries))
        highs.setOptionValue("simplex_iteration_limit", min(2**31 - 1, 1 + most))
        highs.run()
        clock.spend(1, ENTRY_SECONDS * entries)
        clock.spend(max(0, highs.getInfo().simplex_iteration_count), ITERATION_SECONDS * entries)
        return
    looks, most = 0, 1 + int(seconds / (LOOK_SECONDS * entries))

    def look(event: Any) -> None:
        nonlocal looks
        looks += 1
        if looks >= most or clock.is_over:
            event.interrupt()

    highs.cbMipInterrupt.subscribe(look)
    try:
        highs.run()
    finally:
        highs.cbMipInterrupt.unsubscribe(look)
    clock.spend(1, ENTRY_SECONDS * entries)
    clock.spend(looks, LOOK_SECONDS * entries)
