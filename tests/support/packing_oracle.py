"""The least slab by CP-SAT, from the rectangles of a problem and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from optsched.model.packing_problem import PackingProblem
from optsched.model.reserved import Region
from tests.support.things import Thing, apart_of, things_of


def least_slab(
    problem: PackingProblem, seconds: float = 60.0, regions: Sequence[Region] = ()
) -> int | None:
    """Return the least slab, or None if a packing does not exist.

    Each region alone keeps away the rectangles that it meets in time: regions may overlap.

    Raise `TimeoutError` if the solver does not prove it in time.
    """
    model = cp_model.CpModel()
    top = int(problem.size.sum() + problem.alignment.sum() + max(0, problem.pin.max(initial=0)))
    # Above all regions there is room for everything.
    top += max((region.high for region in regions), default=0)
    slab = model.new_int_var(0, top, "slab")
    things = things_of(problem)
    # Of a group, one common multiple of the alignments may be more than all of them together.
    top += sum(thing.alignment for thing in things)
    offset = []
    for thing in things:
        step, pin = thing.alignment, thing.pin
        turn = model.new_int_var(0, top // step, "")
        offset.append(turn * step)
        if pin >= 0:
            model.add(turn * step == pin)
        if thing.is_live:
            model.add(turn * step + thing.size <= slab)
            model.add(turn * step <= min(thing.highest, top))
    for step in sorted({step for thing in things for step in thing.there}):
        live = []
        for place, thing in zip(offset, things, strict=True):
            low, high = thing.there.get(step, (0, 0))
            if high > low:
                live.append(model.new_interval_var(place + low, high - low, place + high, ""))
        model.add_no_overlap(live)
    for a, b in apart_of(problem, things):
        both = [(offset[t], things[t].size) for t in (a, b)]
        model.add_no_overlap([model.new_interval_var(x, size, x + size, "") for x, size in both])
    _keep_out(model, problem, regions, list(zip(offset, things, strict=True)), slab)
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


def _keep_out(
    model: cp_model.CpModel,
    problem: PackingProblem,
    regions: Sequence[Region],
    placed: Sequence[tuple[cp_model.LinearExpr, Thing]],
    slab: cp_model.IntVar,
) -> None:
    """Keep everything out of the regions while they are there."""
    first, last = int(problem.start.min(initial=0)), int(problem.end.max(initial=0))
    for region in regions:
        start = first if region.start is None else max(first, region.start)
        end = last if region.end is None else min(last, region.end)
        if start >= end:
            continue
        model.add(slab >= region.high)
        taken = model.new_fixed_size_interval_var(region.low, region.high - region.low, "")
        for place, thing in placed:
            here = {row for step, row in thing.there.items() if start <= step < end}
            for low, high in here:
                part = model.new_interval_var(place + low, high - low, place + high, "")
                model.add_no_overlap([part, taken])
