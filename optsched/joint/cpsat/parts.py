"""Parts of a plan that CP-SAT searches one after another, each with a short limit.

A part that is decided makes the next one larger, and one that is not decided makes it smaller: the
parts grow until they just fit the limit.

>>> resized(16, True, (6, 80)), resized(16, False, (6, 80)), resized(80, True, (6, 80))
(19, 13, 80)
"""

from __future__ import annotations

from collections.abc import Callable

from optsched.joint.cpsat.solver import EFFORT, CpSatRun, Point, SolvedModel, SolverThread
from optsched.runtime.clock import Clock

LARGER, SMALLER = 1.15, 0.8
"""Factors of the size after a part that was decided, and after one that was not."""


def resized(size: int, decided: bool, limits: tuple[int, int]) -> int:
    """Return the size of the next part, within the smallest and the largest size."""
    low, high = limits
    return int(min(high, max(low, size * (LARGER if decided else SMALLER) + 1)))


def solve_part(
    model: SolvedModel[Point], value: Callable[[Point], int], clock: Clock, seconds: float
) -> CpSatRun[Point]:
    """Search one part for a number of seconds, or the same amount of work.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C was pressed meanwhile.
    """
    left = clock.left()
    if clock.limits.work is not None:
        seconds *= EFFORT.work_per_second
    share = 1.0 if not left else min(1.0, seconds / left)
    run = SolverThread(model, value, clock.share(share), EFFORT).run(lambda _: None)
    if run.interrupted:
        raise KeyboardInterrupt
    return run
