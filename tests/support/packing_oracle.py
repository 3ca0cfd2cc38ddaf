"""The least slab by CP-SAT, from the rectangles of a problem and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from optsched.model.packing_problem import PackingProblem
from optsched.model.reserved import Region


def least_slab(
    problem: PackingProblem, seconds: float = 60.0, regions: Sequence[Region] = ()
) -> int | None:
    """Return the least slab, or None if there is no packing.

    Each region keeps each rectangle that it meets in time away by itself: regions may overlap.

    Raises
    ------
    TimeoutError
        If the solver does not prove it in time.
    """
    model = cp_model.CpModel()
    n = len(problem)
    top = int(problem.size.sum() + problem.alignment.sum() + max(0, problem.pin.max(initial=0)))
    # Above all regions there is room for everything.
    top += max((region.high for region in regions), default=0)
    slab = model.new_int_var(0, top, "slab")
    offset = []
    for i in range(n):
        step, size, pin = (int(x[i]) for x in (problem.alignment, problem.size, problem.pin))
        turn = model.new_int_var(0, top // step, "")
        offset.append(turn * step)
        if pin >= 0:
            model.add(turn * step == pin)
        if problem.end[i] > problem.start[i]:
            model.add(turn * step + size <= slab)
    parts = problem.parts
    for step in sorted(set(parts.start.tolist())):
        live = []
        for j, i in enumerate(parts.owner.tolist()):
            low, high = int(parts.low[j]), int(parts.high[j])
            if parts.start[j] <= step < parts.end[j] and high > low:
                live.append(
                    model.new_interval_var(offset[i] + low, high - low, offset[i] + high, "")
                )
        model.add_no_overlap(live)
    first, last = int(problem.start.min(initial=0)), int(problem.end.max(initial=0))
    for region in regions:
        start = first if region.start is None else max(first, region.start)
        end = last if region.end is None else min(last, region.end)
        if start >= end:
            continue
        model.add(slab >= region.high)
        taken = model.new_fixed_size_interval_var(region.low, region.high - region.low, "")
        for j, i in enumerate(parts.owner.tolist()):
            low, high = int(parts.low[j]), int(parts.high[j])
            if max(start, parts.start[j]) < min(end, parts.end[j]) and high > low:
                part = model.new_interval_var(offset[i] + low, high - low, offset[i] + high, "")
                model.add_no_overlap([part, taken])
    model.minimize(slab)
    solver = cp_model.CpSolver()
    # Else it would leave the process without Python's handler of Ctrl-C.
    solver.parameters.catch_sigint_signal = False
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    if status != cp_model.OPTIMAL:
        raise TimeoutError(f"no proof within {seconds} seconds")
    return round(solver.objective_value)
