"""Execution of CP-SAT on a model: parameters, incumbents, bounds, interruption.

A bound that CP-SAT reports is a claim: nothing here proves it. Solutions are replayed by the
checker.

Example: after 3 seconds the solver has a slab of 12 and the bound 10; an interrupt ends it, and
both numbers are returned.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Generic, Protocol, TypeVar

from ortools.sat.python import cp_model

from optsched.errors import UsageError
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts

EXACT_FLOAT = 2**53
"""CP-SAT reports bounds as floats, which represent integers below this exactly."""
SAFE: Mapping[str, Any] = {"presolve_inclusion_work_limit": 0}
"""Parameters that avoid a known error of OR-Tools 9.15, which can return a wrong optimum with a
matching bound (OR-Tools issue 5293).
"""


@dataclass(frozen=True, slots=True)
class CpSatEffort:
    """Parameters of a run of CP-SAT in addition to its limits."""

    poll_seconds: float = 0.1
    """Seconds between two checks of the clock and of a pending interrupt."""
    work_per_second: int = 100_000
    """Units of `Limits.work` per second of CP-SAT's deterministic time."""
    parameters: Mapping[str, Any] = field(default_factory=lambda: SAFE)
    """Names and values of further parameters of CP-SAT."""


EFFORT = CpSatEffort()
"""Default parameters."""


Point = TypeVar("Point")
Read_co = TypeVar("Read_co", covariant=True)


class SolvedModel(Protocol[Read_co]):
    """A model from whose solutions points are read."""

    model: Any

    def read(self, value: Callable[[Any], int]) -> Read_co:
        """Return the point of the solution in which a variable has the given value."""


@dataclass
class CpSatRun(Generic[Point]):
    """Results of one run of CP-SAT so far."""

    best: Point | None = None
    """Best point found, or None."""
    bound: int | None = None
    """Claimed lower bound on the objective in units; None without an objective or bound."""
    finished: bool = False
    """True if CP-SAT reports that the search is complete."""
    reported: int | None = None
    """Objective that CP-SAT reports at the end for its best solution; None without one."""
    infeasible: bool = False
    """True if CP-SAT reports that the model has no solution."""
    interrupted: bool = False
    """True if the run was stopped by Ctrl-C."""


class _SolutionReader(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
    """Callback that reads each solution at once, since the final state may lack or worsen it."""

    def __init__(self, variables: SolvedModel[Point], found: Callable[[Point], None]) -> None:
        super().__init__()
        self.variables, self.found = variables, found

    def on_solution_callback(self) -> None:
        """Convert the solution to a point."""
        self.found(self.variables.read(self.value))


class SolverThread(Generic[Point]):
    """Solver of a model in a separate thread, so that Ctrl-C ends the search and not the program.

    `value` is the quantity to minimize; it is computed from a point rather than from the solver's
    variables.
    """

    def __init__(
        self,
        variables: SolvedModel[Point],
        value: Callable[[Point], int],
        clock: Clock,
        effort: CpSatEffort,
    ) -> None:
        self.variables, self.value = variables, value
        self.clock, self.effort = clock, effort
        self.solver = _make_solver(clock, effort)
        self.state: CpSatRun[Point] = CpSatRun()
        self.moves: queue.SimpleQueue[Point | int | None] = queue.SimpleQueue()
        self.error: Exception | None = None

    def run(self, on_progress: Callable[[CpSatRun[Point]], None]) -> CpSatRun[Point]:
        """Start the thread, report its progress, and stop it in any case.

        `on_progress` is called in the calling thread; if it raises, the search is stopped first.
        """
        thread = threading.Thread(target=self._work, name="cp-sat", daemon=True)
        thread.start()
        try:
            with held_interrupts():
                # Python handles signals in its main thread only, so this one waits in short
                # intervals.
                while self._receive():
                    on_progress(self.state)
                    self.clock.expired()
        except KeyboardInterrupt:
            self.state.interrupted = True
        finally:
            # A stop may come before the search has started, so it is repeated until the thread
            # ends.
            while thread.is_alive():
                self.solver.stop_search()
                thread.join(0.02)
        # Results that arrived while the search was being stopped.
        while self._receive():
            pass
        if self.error is not None:
            raise self.error
        spent = self.solver.response_proto.deterministic_time
        self.clock.spend(ceil(spent * self.effort.work_per_second))
        return self.state

    def _receive(self) -> bool:
        """Process all results that have arrived; return False after the last one."""
        try:
            # The first result may take a while; further ones are taken without waiting.
            move = self.moves.get(timeout=self.effort.poll_seconds)
            while True:
                if move is None:
                    # Put the end marker back for the next call.
                    self.moves.put(None)
                    return False
                self._apply(move)
                move = self.moves.get_nowait()
        except queue.Empty:
            return True

    def _apply(self, move: Point | int) -> None:
        state = self.state
        if isinstance(move, int):
            state.bound = move if state.bound is None else max(state.bound, move)
        elif state.best is None or self.value(move) < self.value(state.best):
            state.best = move

    def _work(self) -> None:
        try:
            model = self.variables.model
            self.solver.best_bound_callback = self._on_bound
            status = self.solver.solve(model, _SolutionReader(self.variables, self.moves.put))
            if status == cp_model.MODEL_INVALID:
                raise UsageError(f"CP-SAT rejected the model: {model.validate().strip()}")
            # The final status, since a time limit may also end a run that has an optimum.
            self.state.finished = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
            self.state.infeasible = status == cp_model.INFEASIBLE
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) and model.has_objective():
                self._on_bound(self.solver.best_objective_bound)
                self.state.reported = round(self.solver.objective_value)
        except Exception as error:
            self.error = error
        finally:
            self.moves.put(None)

    def _on_bound(self, bound: float) -> None:
        if abs(bound) < EXACT_FLOAT:
            # Bounds are integers in units; a rounding error must not push one up by a unit.
            self.moves.put(ceil(bound - 1e-6))


def _make_solver(clock: Clock, effort: CpSatEffort) -> Any:
    solver = cp_model.CpSolver()
    parameters, limits, left = solver.parameters, clock.limits, clock.left()
    parameters.num_workers = limits.workers
    parameters.random_seed = limits.seed % 2**31
    # CP-SAT's own signal handler would remove Python's handler when the search ends.
    parameters.catch_sigint_signal = False
    if left is not None and limits.work is not None:
        parameters.max_deterministic_time = left / effort.work_per_second
    elif left is not None:
        parameters.max_time_in_seconds = left
    for name, setting in effort.parameters.items():
        setattr(parameters, name, setting)
    return solver
