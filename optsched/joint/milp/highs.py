"""One run of HiGHS in a thread: progress, limits, interruption.

HiGHS calls back whenever it checks its limits. With one worker these calls come at the same points
of the search on every machine, so that `Limits.work` counts them: a limit on work then ends the
search at the same point each time. They are also where Ctrl-C stops it. HiGHS runs in this process
(highspy up to 1.13.1 can be loaded together with OR-Tools, later versions cannot).

Example: 50,000 units of work are five checks. The third one comes with an order of 12 units, and
the run ends after the fifth with the bound 10.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from optsched.joint.milp.program import MilpPoint, MilpProgram
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts

CHECK_WORK = 10_000
"""Units of `Limits.work` per check of limits; 0.05 to 0.6 seconds were measured."""
POLL_SECONDS = 0.1
"""Seconds between two checks of the clock and of a pending interrupt."""
TOLERANCE = 1e-9
"""Feasibility tolerance, of values near 1."""


@dataclass(slots=True)
class HighsRun:
    """Results of one run so far; numbers are in units."""

    bound: float = -inf
    objective: float = inf
    finished: bool = False
    infeasible: bool = False
    point: MilpPoint | None = None
    """Order of the last solution, or None."""
    interrupted: bool = False
    """True if the run was stopped by Ctrl-C."""


class HighsThread:
    """Solver of a program in a separate thread, so that Ctrl-C ends the search alone."""

    def __init__(self, model: MilpProgram, clock: Clock) -> None:
        self.model, self.clock, self.state = model, clock, HighsRun()
        self.moves: queue.SimpleQueue[MilpPoint | float | None] = queue.SimpleQueue()
        # Under a limit on work the clock plays no part, so that runs can be repeated.
        self.by_work = clock.limits.work is not None
        self.stopped = False
        self.error: Exception | None = None

    def run(self, on_progress: Callable[[HighsRun], None]) -> HighsRun:
        """Start the thread and report its progress; `on_progress` is called in this thread."""
        self.model.refuse_range()
        if self.model.impossible:
            return HighsRun(finished=True, infeasible=True)
        thread = threading.Thread(target=self._work, name="highs", daemon=True)
        thread.start()
        try:
            with held_interrupts():
                while self._receive():
                    on_progress(self.state)
                    # Raises KeyboardInterrupt if Ctrl-C was pressed meanwhile.
                    self.clock.expired()
        except KeyboardInterrupt:
            self.state.interrupted = True
        finally:
            self.stopped = True
            thread.join()
        # Solutions that came between the last look and the end.
        while self._receive(wait=False):
            pass
        if self.error is not None:
            raise self.error
        return self.state

    def _receive(self, *, wait: bool = True) -> bool:
        """Take one move of the solver, if any; return False after the last one."""
        try:
            move = self.moves.get(timeout=POLL_SECONDS) if wait else self.moves.get_nowait()
        except queue.Empty:
            return wait
        if isinstance(move, float):
            self.state.bound = max(self.state.bound, move)
        elif move is not None:
            self.state.point = move
        return move is not None

    def _work(self) -> None:
        try:
            left = None if self.by_work else self.clock.left()
            run_highs(
                self.model.problem, self.model.pulp, left, self.clock.limits.workers, self._on
            )
            self._read()
        except Exception as error:
            self.error = error
        finally:
            self.moves.put(None)

    def _on(self, kind: int, message: str, out: Any, into: Any, _: Any) -> None:
        """Note a solution or a bound; end the run if it is stopped or has no work left."""
        if kind == int(_calls().kCallbackMipImprovingSolution):
            # Read at once: the array belongs to the solver.
            values = list(out.mip_solution)
            index = {x.name: i for i, x in enumerate(self.model.problem.variables())}
            places = {x: index.get(x.name) for x in self.model.first.values()}
            self.moves.put(self.model.read(lambda x: _at(values, places[x])))
            return
        self.clock.spend(CHECK_WORK)
        if isfinite(out.mip_dual_bound):
            self.moves.put(float(out.mip_dual_bound))
        if self.stopped or (self.by_work and not self.clock.left()):
            into.user_interrupt = True

    def _read(self) -> None:
        """Read the final state."""
        problem, pulp, state = self.model.problem, self.model.pulp, self.state
        info = problem.solverModel.getInfo()
        state.infeasible = problem.sol_status == pulp.LpSolutionInfeasible
        state.finished = problem.sol_status == pulp.LpSolutionOptimal
        state.objective = float(info.objective_function_value)
        # A program without binaries is solved as a linear program, which has no MIP bound.
        self.moves.put(state.objective if state.finished else float(info.mip_dual_bound))
        if info.primal_solution_status == _FEASIBLE and not state.infeasible:
            self.moves.put(self.model.read(lambda x: x.value()))


def _at(values: Sequence[float], place: int | None) -> float | None:
    """Return a value; None for a variable without any constraint, which HiGHS does not have."""
    return None if place is None else values[place]


def _calls() -> Any:
    """Return the kinds of calls that HiGHS makes."""
    import highspy

    return highspy.cb.HighsCallbackType


_FEASIBLE = 2
"""Status of HiGHS for a feasible solution."""


def run_highs(
    problem: Any,
    pulp: Any,
    seconds: float | None,
    workers: int,
    callback: Callable[[int, str, Any, Any, Any], None] | None = None,
) -> tuple[float, bool]:
    """Solve a program of PuLP; return its bound and whether the solver finished."""
    calls = _calls().kCallbackMipImprovingSolution, _calls().kCallbackMipInterrupt
    listen = {} if callback is None else {"callbackTuple": (callback, None)}
    problem.solve(
        pulp.HiGHS(
            msg=False,
            # HiGHS would otherwise stop within 0.01 % of the optimum.
            gapRel=0.0,
            gapAbs=0.0,
            timeLimit=seconds,
            parallel="off" if workers == 1 else "on",
            mip_feasibility_tolerance=TOLERANCE,
            primal_feasibility_tolerance=TOLERANCE,
            callbacksToActivate=list(calls) if listen else None,
            **listen,
        )
    )
    finished = problem.sol_status == pulp.LpSolutionOptimal
    info = problem.solverModel.getInfo()
    return float(info.objective_function_value if finished else info.mip_dual_bound), finished
