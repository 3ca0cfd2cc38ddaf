"""Least exposed time within a peak, and the reverse, by CP-SAT.

Each op is an interval on the compute stream, the transfers follow each other, and each buffer is an
interval from the start of the op that allocates it to the end of its last user. As each op takes
time and no two overlap, what is live at one time is what is live at one step of the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ortools.sat.python import cp_model

from experiments.overlap.schedule import Program, exposed_time, schedule
from optsched.joint.cpsat.solver import SAFE
from optsched.joint.instance import INPUT, graph_instance
from optsched.model.liveness import peak_memory


@dataclass(frozen=True)
class Answer:
    """An order within the limits, and a bound on what is minimized."""

    order: tuple[int, ...]
    peak: int
    exposed: int
    bound: int
    """No order within the limits has less, as CP-SAT claims."""


@dataclass(frozen=True)
class Effort:
    """Limits of a run of CP-SAT."""

    seconds: float = 60.0
    workers: int = 2


def least_exposed(program: Program, peak: int, known: Sequence[int], effort: Effort) -> Answer:
    """Return the order of least exposed time whose peak is at most `peak` bytes.

    `known`: an order within the peak, from which the search starts.
    """
    made = _Model(program, peak)
    made.model.minimize(made.finish)
    order, bound = made.solve(known, effort)
    return answer(program, order, max(0, bound - program.busy))


def least_peak(program: Program, exposed: int, known: Sequence[int], effort: Effort) -> Answer:
    """Return the order of least peak whose exposed time is at most `exposed` microseconds.

    `known`: an order within that time, from which the search starts.
    """
    made = _Model(program, peak_memory(program.graph, known))
    made.model.add(made.finish <= program.busy + exposed)
    made.model.minimize(made.room)
    order, bound = made.solve(known, effort)
    return answer(program, order, bound * made.instance.unit)


def answer(program: Program, order: Sequence[int], bound: int = 0) -> Answer:
    """Return an order with its peak and its exposed time."""
    peak = peak_memory(program.graph, order)
    return Answer(tuple(order), peak, exposed_time(program, order), bound)


class _Model:
    """Orders of a program whose peak is at most `room` units, itself at most `peak` bytes."""

    def __init__(self, program: Program, peak: int) -> None:
        self.program, self.instance = program, graph_instance(program.graph)
        self.horizon = program.busy + sum(program.transfers.values())
        self.model: Any = cp_model.CpModel()
        self.room = self.model.new_int_var(0, peak // self.instance.unit, "")
        self.starts = [self._time() for _ in program.durations]
        self.begins = {v: self._time() for v in program.transfers}
        self.finish = self.model.new_int_var(program.busy, self.horizon, "")
        self._add_streams()
        self._add_memory()

    def _time(self) -> Any:
        return self.model.new_int_var(0, self.horizon, "")

    def _end(self, op: int) -> Any:
        return self.starts[op] + self.program.durations[op]

    def _add_streams(self) -> None:
        add, program, free = self.model.add, self.program, 0
        rows = zip(self.starts, program.durations, strict=True)
        self.model.add_no_overlap(self.model.new_fixed_size_interval_var(*x, "") for x in rows)
        for v, before in enumerate(program.graph.predecessors):
            for u in before:
                add(self._end(u) <= self.starts[v])
            add(self._end(v) <= self.finish)
        for v, duration in program.transfers.items():
            add(self.begins[v] >= self._end(v))
            add(self.begins[v] >= free)
            free = self.begins[v] + duration
            add(free <= self.finish)
        for v, launch in program.waits.items():
            add(self.starts[v] >= self.begins[launch] + program.transfers[launch])

    def _add_memory(self) -> None:
        intervals = []
        for i, item in enumerate(self.instance.items):
            start = 0 if item.birth == INPUT else self.starts[item.birth]
            ends = [self._end(u) for u in self.instance.last_users(i)]
            end = self.finish if item.kept else ends[0] if len(ends) == 1 else self._time()
            if not item.kept and len(ends) > 1:
                self.model.add_max_equality(end, ends)
            intervals.append(self.model.new_interval_var(start, self._time(), end, ""))
        sizes = [item.size for item in self.instance.items]
        self.model.add_cumulative(intervals, sizes, self.room)

    def solve(self, known: Sequence[int], effort: Effort) -> tuple[tuple[int, ...], int]:
        """Return an order and CP-SAT's bound; the known order if none was found in time."""
        times = schedule(self.program, known)
        for v, start in enumerate(self.starts):
            self.model.add_hint(start, times.starts[v])
        for v, begin in self.begins.items():
            self.model.add_hint(begin, times.begins[v])
        self.model.add_hint(self.finish, times.finish)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = effort.workers
        solver.parameters.max_time_in_seconds = effort.seconds
        solver.parameters.catch_sigint_signal = False
        for name, value in SAFE.items():
            setattr(solver.parameters, name, value)
        status = solver.solve(self.model)
        assert status not in (cp_model.INFEASIBLE, cp_model.MODEL_INVALID), "known is an order"
        bound = round(solver.best_objective_bound)
        if status == cp_model.UNKNOWN:
            return tuple(known), bound
        begun = [solver.value(start) for start in self.starts]
        order = tuple(sorted(range(len(begun)), key=begun.__getitem__))
        # As early as possible is never later than the model's times.
        assert schedule(self.program, order).finish <= solver.value(self.finish)
        assert (
            peak_memory(self.program.graph, order) <= solver.value(self.room) * self.instance.unit
        )
        return order, bound
