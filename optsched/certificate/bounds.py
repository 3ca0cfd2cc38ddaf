"""Certificates of rung L2: an op, and the precedences that a budget implies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from optsched.certificate.effort import DEFAULT_EFFORT, CertificateEffort
from optsched.certificate.flow import FlowNetwork
from optsched.certificate.trail import Conflict, Trail, list_steps
from optsched.check.steps import End, EndStep, OpStep, OrderStep, Step
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.ordering import closure_bound
from optsched.ordering.bound.precedences import BudgetPrecedences
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem
from optsched.runtime.clock import Clock


def context_of(graph: Graph, clock: Clock) -> SearchContext:
    """The graph as a search has it."""
    return SearchContext(build_problem(graph.arrays), clock=clock)


def running_in(graph: Graph, order: IntArray) -> IntArray:
    """Live bytes while each op runs in an order, by op."""
    during = np.empty(len(order), np.int64)
    during[order] = timeline(graph, order).running
    return during


def with_precedences(graph: Graph, pairs: Iterable[tuple[int, int]]) -> Graph:
    """The graph with control dependencies besides its own."""
    control = [set(op.control) for op in graph.ops]
    for first, second in pairs:
        control[second].add(first)
    rows = zip(graph.ops, control, strict=True)
    return replace(graph, ops=tuple(replace(op, control=tuple(sorted(row))) for op, row in rows))


def closure_step(graph: Graph, orders: Sequence[IntArray]) -> tuple[int, Step]:
    """Return the closure bound and the step that shows it."""
    network = FlowNetwork(graph)
    found = closure_bound(graph, orders)
    if found.op is None:
        at = End.START if network.initial >= network.kept else End.END
        return max(network.initial, network.kept), EndStep(at)
    forced = network.forced(found.op, found.value - 1)
    if forced is None:
        raise RuntimeError("a closure bound can not be shown")
    return found.value, OpStep(found.op, forced)


def refute(
    graph: Graph,
    order: IntArray,
    budget: int,
    clock: Clock,
    effort: CertificateEffort = DEFAULT_EFFORT,
) -> tuple[list[OrderStep], Sequence[Step] | None]:
    """Look for a refutation of a budget by implied precedences.

    Parameters
    ----------
    graph
        The graph.
    order
        A good order: the ops with most live bytes in it are looked at first.
    budget
        Bytes.
    clock
        Says when to stop with the precedences found so far.
    effort
        Of how many ops flows are looked at.

    Returns
    -------
    tuple
        Precedences that hold within the budget, and steps that refute it; None if none do.
    """
    if len(graph.ops) > effort.flow_ops:
        return [], None
    trail = implied(graph, order, budget, clock)
    steps, conflict = trail.steps(), refuting_op(graph, trail, budget)
    if conflict is None:
        return steps, None
    return steps, list_steps(graph, budget, conflict, len(steps) + 1)


def implied(graph: Graph, order: IntArray, budget: int, clock: Clock) -> Trail:
    """Return the precedences that a budget implies, and why."""
    precedences = BudgetPrecedences(context_of(graph, clock))
    with suppress(OutOfTimeError):
        precedences.refute(budget, running_in(graph, order))
    trail = Trail(FlowNetwork(graph), budget)
    for first, second in precedences.added:
        clock.spend(len(graph.ops))
        trail.imply(first, second)
    return trail


def refuting_op(graph: Graph, trail: Trail, budget: int) -> Conflict | None:
    """Return why some op can not run within the budget, if the precedences found leave one."""
    pairs = ((inference.first, inference.second) for inference in trail.inferences)
    found = closure_bound(with_precedences(graph, pairs))
    return None if found.op is None or found.value <= budget else trail.refute(found.op)
