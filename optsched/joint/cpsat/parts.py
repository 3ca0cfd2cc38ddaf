"""Parts of a plan that CP-SAT searches one after another, each with a short limit."""

from __future__ import annotations

from collections.abc import Callable

from optsched.joint.cpsat.solver import EFFORT, CpSatRun, Point, SolvedModel, SolverThread
from optsched.runtime.clock import Clock


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
