"""Runs CP-SAT on a model: parameters, incumbents, bounds, interruption."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Protocol

from ortools.sat.python import cp_model

from optsched.errors import UsageError
from optsched.joint.cpsat.variables import Point, Variables, read_order
from optsched.runtime.limits import Limits

POLL = 0.1
"""Seconds between two looks at the stop signal."""


class StopSignal(Protocol):
    """What another thread sets to end a search; `threading.Event` is one."""

    def is_set(self) -> bool:
        """Whether the search should end."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """A configuration of CP-SAT.

    Parameters
    ----------
    parameters
        Names and values of its parameters.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)


SAFE = Settings({"presolve_inclusion_work_limit": 0})
"""The default. Without the parameter OR-Tools 9.15 is known to return a wrong optimum with a
matching bound (OR-Tools issue 5293)."""

SECOND = Settings(
    {
        "presolve_inclusion_work_limit": 0,
        "cp_model_presolve": False,
        "cp_model_probing_level": 0,
        "symmetry_level": 0,
        "linearization_level": 2,
    }
)
"""As different as can be, to confirm a claim: most reported errors lie in presolve."""


@dataclass
class Run:
    """What one run of CP-SAT found.

    Parameters
    ----------
    best
        Best point seen, or None.
    bound
        Units below which, it says, the objective does not go; None without an objective or bound.
    finished
        It says that the search is complete.
    interrupted
        It was asked to end.
    """

    best: Point | None = None
    bound: int | None = None
    finished: bool = False
    interrupted: bool = False


OnProgress = Callable[[Run], None]


def run(
    variables: Variables,
    value: Callable[[Point], tuple[int, ...]],
    *,
    limits: Limits,
    settings: Settings = SAFE,
    hint: Point | None = None,
    stop: StopSignal | None = None,
    on_progress: OnProgress | None = None,
) -> Run:
    """Solve a model in a thread of its own, so that Ctrl-C ends the search and not the program.

    Parameters
    ----------
    variables
        A complete model.
    value
        What is to be least, told from the point itself and not from the solver's variables.
    limits, settings
        Time, workers, seed; further parameters.
    hint
        A point to start from.
    stop
        Ends the search when set.
    on_progress
        Called in the caller's thread whenever best point or bound moved. If it raises, the search
        is stopped first.
    """
    if hint is not None:
        add_hint(variables, hint)
    return _Runner(variables, value, _solver(limits, settings)).run(stop, on_progress)


def add_hint(variables: Variables, point: Point) -> None:
    """Hint every variable at the value it has in a point, in place of any older hint."""
    model = variables.model
    model.clear_hints()
    for variable, meaning in variables.meanings:
        model.add_hint(variable, int(meaning(point)))
    # CP-SAT makes variables of constants; they count when it asks whether a hint is complete.
    hinted = {variable.index for variable, _ in variables.meanings}
    for index, made in enumerate(model.proto.variables):
        if index not in hinted:
            model.add_hint(model.get_int_var_from_proto_index(index), made.domain[0])


def _solver(limits: Limits, settings: Settings) -> Any:
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = limits.workers
    parameters.random_seed = limits.seed % 2**31
    # Its own handler would leave the process without Python's when the search ends.
    parameters.catch_sigint_signal = False
    if limits.seconds is not None:
        parameters.max_time_in_seconds = max(0.0, limits.seconds)
    for name, setting in settings.parameters.items():
        setattr(parameters, name, setting)
    return solver


class _Incumbents(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
    """Reads each solution at once: what the solver holds at the end may be gone or worse."""

    def __init__(self, variables: Variables, found: Callable[[Point], None]) -> None:
        super().__init__()
        self.variables, self.found = variables, found

    def on_solution_callback(self) -> None:
        """Make a point of the solution."""
        variables = self.variables
        steps = [
            early + sum(1 - self.value(literal) for literal in row.values())
            for (early, _), row in zip(variables.windows, variables.done, strict=False)
        ]
        order = read_order(variables.instance, steps) if variables.ordered else ()
        offsets = tuple(self.value(offset) for offset in variables.offset)
        self.found(Point(variables.instance, order, offsets))


class _Runner:
    def __init__(
        self, variables: Variables, value: Callable[[Point], tuple[int, ...]], solver: Any
    ) -> None:
        self.variables, self.value, self.solver = variables, value, solver
        self.state = Run()
        self.moves: queue.SimpleQueue[Point | int | None] = queue.SimpleQueue()
        self.error: Exception | None = None

    def run(self, stop: StopSignal | None, on_progress: OnProgress | None) -> Run:
        """Start the thread, pass on what it reports, and end it in any case."""
        thread = threading.Thread(target=self._work, name="cp-sat", daemon=True)
        thread.start()
        try:
            while self._take():
                if on_progress is not None:
                    on_progress(self.state)
                if stop is not None and stop.is_set():
                    self.state.interrupted = True
                    break
        except KeyboardInterrupt:
            self.state.interrupted = True
        finally:
            while thread.is_alive():
                self.solver.stop_search()
                thread.join(0.02)
        while self._take():
            pass
        if self.error is not None:
            raise self.error
        return self.state

    def _take(self) -> bool:
        """Take in all moves that have come; False when the last one was among them."""
        try:
            move = self.moves.get(timeout=POLL)
            while True:
                if move is None:
                    # Stays for the next call.
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
            status = self.solver.solve(model, _Incumbents(self.variables, self.moves.put))
            if status == cp_model.MODEL_INVALID:
                raise UsageError(f"CP-SAT refuses the model: {model.validate().strip()}")
            self.state.finished = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) and model.has_objective():
                self._on_bound(self.solver.best_objective_bound)
        except Exception as error:
            self.error = error
        finally:
            self.moves.put(None)

    def _on_bound(self, bound: float) -> None:
        # Bounds are integers in floats; they are exact below 2**53, and sizes are kept below.
        if abs(bound) < 2**53:
            self.moves.put(ceil(bound - 1e-6))


def remaining(limits: Limits, started: float) -> Limits:
    """Limits less the time since `started`."""
    if limits.seconds is None:
        return limits
    left = limits.seconds - (time.perf_counter() - started)
    return Limits(max(0.0, left), limits.workers, limits.seed)
