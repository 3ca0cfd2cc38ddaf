"""Certificates of rung L2: an op, a set of ops, and the precedences that a budget implies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from optsched.certificate.effort import DEFAULT_EFFORT, CertificateEffort
from optsched.certificate.flow import FlowNetwork
from optsched.certificate.trail import Conflict, Trail, list_steps
from optsched.check.steps import End, EndStep, OpStep, OrderStep, SetStep, Step
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import running_by_op
from optsched.ordering import closure_bound
from optsched.ordering.bound.precedences import BudgetPrecedences, related
from optsched.ordering.bound.sets import ForcedSet, best_set, extremes
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem
from optsched.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Claim:
    """That no order of a graph is within a budget, and what may be spent on showing it.

    Parameters
    ----------
    graph
        The graph.
    order
        A good order: the ops with most live bytes in it are looked at first.
    budget
        Bytes.
    clock
        Says when to stop with what was found so far.
    effort
        What to try at most.
    """

    graph: Graph
    order: IntArray
    budget: int
    clock: Clock
    effort: CertificateEffort = DEFAULT_EFFORT

    @property
    def during(self) -> IntArray:
        """Live bytes while each op runs in the order, by op."""
        return running_by_op(self.graph, self.order)

    def context(self) -> SearchContext:
        """The graph as a search has it."""
        return SearchContext(build_problem(self.graph.arrays), clock=self.clock)


def with_precedences(graph: Graph, pairs: Iterable[tuple[int, int]]) -> Graph:
    """The graph with control dependencies besides its own."""
    control = [set(op.control) for op in graph.ops]
    for first, second in pairs:
        control[second].add(first)
    rows = zip(graph.ops, control, strict=True)
    return replace(graph, ops=tuple(replace(op, control=tuple(sorted(row))) for op, row in rows))


def closure_step(graph: Graph, orders: Sequence[IntArray], clock: Clock | None) -> tuple[int, Step]:
    """Return the closure bound, or the best part of it in time, and the step that shows it."""
    network = FlowNetwork(graph)
    found = closure_bound(graph, orders, clock=clock)
    if found.op is None:
        at = End.START if network.initial >= network.kept else End.END
        return max(network.initial, network.kept), EndStep(at)
    forced = network.forced(found.op, found.value - 1)
    if forced is None:
        raise RuntimeError("a closure bound can not be shown")
    return found.value, OpStep(found.op, forced)


def refute(claim: Claim) -> tuple[list[OrderStep], Sequence[Step] | None]:
    """Look for a refutation of a budget by a set of ops, or by implied precedences.

    Returns
    -------
    tuple
        Precedences that hold within the budget, and steps that refute it; None if none do.
    """
    graph, budget = claim.graph, claim.budget
    if len(graph.ops) > claim.effort.flow_ops:
        return [], None
    found = refuting_set(claim)
    if found is not None:
        return [], [found]
    trail = implied(claim)
    steps, conflict = trail.steps(), refuting_op(graph, trail, budget)
    if conflict is None:
        return steps, None
    return steps, list_steps(graph, budget, conflict, len(steps) + 1)


def refuting_set(claim: Claim) -> SetStep | None:
    """Return a set of which no op can be last (or first) within the budget, if one is found."""
    with suppress(OutOfTimeError):
        context = claim.context()
        above = related(context.problem)
        found = best_set(context, above, claim.budget, enough=claim.budget + 1)
        if found is not None:
            ends = extremes(context, above, np.array(found.ops, np.int64), last=found.last)
            return set_step(claim, found, (op for op, _ in ends))
    return None


def set_step(claim: Claim, found: ForcedSet, ends: Iterable[int]) -> SetStep | None:
    """Return the step that shows that none of `ends` is last (or first), if flows show it."""
    network, flows = FlowNetwork(claim.graph), []
    for op in ends:
        others = [v for v in found.ops if v != op]
        before, after = (others, ()) if found.last else ((), others)
        flow = network.forced(op, claim.budget, before, after)
        if flow is None:
            return None
        flows.append((op, flow))
    return SetStep(found.last, found.ops, tuple(flows))


def implied(claim: Claim) -> Trail:
    """Return the precedences that a budget implies, and why."""
    precedences = BudgetPrecedences(claim.context())
    with suppress(OutOfTimeError):
        precedences.refute(claim.budget, claim.during)
    trail = Trail(FlowNetwork(claim.graph), claim.budget)
    for first, second in precedences.added:
        claim.clock.spend(len(claim.graph.ops))
        trail.imply(first, second)
    return trail


def refuting_op(graph: Graph, trail: Trail, budget: int) -> Conflict | None:
    """Return why some op can not run within the budget, if the precedences found leave one."""
    pairs = ((inference.first, inference.second) for inference in trail.inferences)
    found = closure_bound(with_precedences(graph, pairs))
    return None if found.op is None or found.value <= budget else trail.refute(found.op)
