"""Packing of given live ranges by CP-SAT, as published; formulations written from the papers.

`pairs`: Moffitt, "MiniMalloc: a lightweight memory allocator for hardware-accelerated machine
learning", ASPLOS 2023: an offset per buffer, and for each two buffers that are live together one of
two inequalities. `rectangles`: the same problem as rectangles in time and space that must not
overlap, with the load of each step as a cumulative constraint.
"""

from __future__ import annotations

from ortools.sat.python import cp_model

from optsched.model.packing_problem import PackingProblem


def pack_by_cpsat(
    problem: PackingProblem, how: str, seconds: float, workers: int
) -> tuple[int | None, bool]:
    """Return the smallest slab found, and True if CP-SAT claims that it is the minimum.

    Pins, gaps and sharing are not part of the published models.
    """
    model, size = cp_model.CpModel(), problem.size.tolist()
    start, end = problem.start.tolist(), problem.end.tolist()
    total = sum(size)
    offset = [
        model.new_int_var(0, (total - s) // a, f"offset{i}") * a
        for i, (s, a) in enumerate(zip(size, problem.alignment.tolist(), strict=True))
    ]
    slab = model.new_int_var(problem.max_load, total, "slab")
    for i, s in enumerate(size):
        model.add(offset[i] + s <= slab)
    if how == "pairs":
        for i in range(len(size)):
            for j in range(i):
                if start[i] < end[j] and start[j] < end[i]:
                    below = model.new_bool_var(f"below{i}_{j}")
                    model.add(offset[i] + size[i] <= offset[j]).only_enforce_if(below)
                    model.add(offset[j] + size[j] <= offset[i]).only_enforce_if(~below)
    else:
        times = [
            model.new_fixed_size_interval_var(a, b - a, "time")
            for a, b in zip(start, end, strict=True)
        ]
        space = [
            model.new_fixed_size_interval_var(at, s, "space")
            for at, s in zip(offset, size, strict=True)
        ]
        model.add_no_overlap_2d(times, space)
        model.add_cumulative(times, size, slab)
    model.minimize(slab)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, False
    return round(solver.objective_value), status == cp_model.OPTIMAL
