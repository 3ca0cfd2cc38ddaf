"""Two of the three forms: an order of least peak, and a packing of least slab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optsched.check.plan import check_order, check_packing
from optsched.joint.cpsat.canonical import canonical
from optsched.joint.cpsat.constraints import add_bounds
from optsched.joint.cpsat.cuts import Cuts
from optsched.joint.cpsat.engine import Target, Task, minimize, peak_of, slab_of
from optsched.joint.cpsat.instance import order_instance, packing_instance
from optsched.joint.cpsat.model import order_model, packing_model
from optsched.joint.cpsat.outcome import CpSatOutcome
from optsched.joint.cpsat.solver import SAFE, Settings, StopSignal
from optsched.model.graph import Graph
from optsched.model.liveness import Order
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.limits import Limits, OnEvent


def solve_order(
    graph: Graph,
    *,
    capacity: int | None = None,
    limits: Limits | None = None,
    warm_start: Order | None = None,
    peak_bound: int = 0,
    on_event: OnEvent | None = None,
    cuts: Cuts | None = None,
    settings: Settings = SAFE,
    stop: StopSignal | None = None,
) -> CpSatOutcome:
    """Choose an order of least peak.

    Parameters
    ----------
    graph
        What is to be planned.
    capacity
        Ask only whether the peak can be at most this many bytes; the first such order ends the
        search.
    limits
        Time, workers, seed.
    warm_start
        A valid order to start from; the answer is never worse.
    peak_bound
        A lower bound in bytes.
    on_event
        Called in this thread with every incumbent and bound. If it raises, the search is stopped
        and the error passed on; KeyboardInterrupt ends the search with the incumbent.
    cuts, settings
        Rules of dominance and symmetry; the configuration of CP-SAT.
    stop
        Ends the search when another thread sets it.

    Raises
    ------
    UsageError
        If sizes are outside the range in which CP-SAT is exact.
    PlanError
        If the warm start is not valid.
    """
    task = Task(capacity, limits, on_event, cuts, settings, stop)
    instance = order_instance(graph)
    start, rank, given = None, None, None
    if warm_start is not None:
        given = tuple(int(v) for v in warm_start)
        rank = (check_order(graph, given),)
        if task.met_by(rank[0]):
            return task.unchanged(rank, order=given)
    try:
        if given is not None:
            start = canonical(instance, given, None, task.cuts)
        variables = order_model(instance, task.cuts)
        add_bounds(variables, peak=instance.up(peak_bound))
        targets = [Target(variables.peak, peak_of, peak_bound)]
        found = minimize(variables, targets, start, rank, task)
    except KeyboardInterrupt:
        return task.interrupted(rank, peak_bound, order=given)
    return replace(found.outcome, order=given if found.point is None else found.point.order)


def solve_packing(
    problem: PackingProblem,
    *,
    capacity: int | None = None,
    limits: Limits | None = None,
    warm_start: Sequence[int] | None = None,
    slab_bound: int = 0,
    on_event: OnEvent | None = None,
    cuts: Cuts | None = None,
    settings: Settings = SAFE,
    stop: StopSignal | None = None,
) -> CpSatOutcome:
    """Choose offsets of least slab for given live ranges; parameters as of :func:`solve_order`.

    Gaps are supported: the parts of a buffer share its offset.
    """
    task = Task(capacity, limits, on_event, cuts, settings, stop)
    instance = packing_instance(problem)
    start, rank, given = None, None, None
    if warm_start is not None:
        given = tuple(int(offset) for offset in warm_start)
        rank = (check_packing(problem, given),)
        if task.met_by(rank[0]):
            return task.unchanged(rank, offsets=given)
    slab_bound = max(slab_bound, problem.max_load)
    try:
        if given is not None:
            places = [given[item.id] for item in instance.items]
            start = canonical(instance, (), places, task.cuts)
        variables = packing_model(instance, task.cuts)
        add_bounds(variables, slab=instance.up(slab_bound))
        targets = [Target(variables.slab, slab_of, slab_bound)]
        found = minimize(variables, targets, start, rank, task)
    except KeyboardInterrupt:
        return task.interrupted(rank, slab_bound, offsets=given)
    if found.point is None:
        return replace(found.outcome, offsets=given)
    offsets = [max(0, int(pin)) for pin in problem.pin]
    for item, offset in zip(instance.items, found.point.offsets, strict=True):
        offsets[item.id] = offset * instance.unit
    return replace(found.outcome, offsets=tuple(offsets))
