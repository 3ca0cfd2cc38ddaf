"""Certificates by order bounds (L2): an op, a set of ops, and precedences that a budget implies.

Each step is a flow at an op, as the checker adds it up (:mod:`optsched.ordering.bound.flow`). A
budget is refuted if some op needs more than it in every order; by a bound of the table, such as a
set of ops, each of them needing more if it runs last; or if an op does not fit once the implied
precedences are added.

Example: `a` and `b` each make 4 bytes that `join` reads to make 3. Within a budget of 10, `join`
does not fit: the flow of its inputs and output is 11. One step refutes the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from optsched.certificate.effort import DEFAULT_EFFORT, CertificateEffort
from optsched.certificate.trail import Conflict, Trail, list_steps
from optsched.check.certificate import Step
from optsched.check.steps import End, EndStep, OpStep, OrderStep
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import running_by_op
from optsched.ordering import closure_bound
from optsched.ordering.bound.flow import FlowNetwork
from optsched.ordering.bound.precedences import BudgetPrecedences, related
from optsched.ordering.bound.table import ORDER_BOUNDS
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem
from optsched.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that no order of a graph is within a budget, with limits on the work of its proof."""

    graph: Graph
    order: IntArray
    """Op ids of a good order: the ops with most live bytes in it are looked at first."""
    budget: int
    """Bytes."""
    clock: Clock
    """Limit on time or work; once it has expired, the precedences found so far are used."""
    effort: CertificateEffort = DEFAULT_EFFORT
    """Limits on each kind of step."""

    @property
    def during(self) -> IntArray:
        """Live bytes while each op runs in the order, by op."""
        return running_by_op(self.graph, self.order)

    def context(self) -> SearchContext:
        """Return the context of a search for the graph."""
        return SearchContext(build_problem(self.graph.arrays), clock=self.clock)


def with_precedences(graph: Graph, pairs: Iterable[tuple[int, int]]) -> Graph:
    """Return the graph with additional control dependencies, given as pairs (earlier, later)."""
    control = [set(op.control) for op in graph.ops]
    # An edge that is there already stays one edge.
    for first, second in pairs:
        control[second].add(first)
    rows = zip(graph.ops, control, strict=True)
    return replace(graph, ops=tuple(replace(op, control=tuple(sorted(row))) for op, row in rows))


def closure_step(graph: Graph, orders: Sequence[IntArray], clock: Clock | None) -> tuple[int, Step]:
    """Return the best closure bound found in time, and the step that proves it."""
    network = FlowNetwork(graph)
    found = closure_bound(graph, orders, clock=clock)
    # No op forces more than the inputs or the kept buffers do.
    if found.op is None:
        at = End.START if network.initial >= network.kept else End.END
        return max(network.initial, network.kept), EndStep(at)
    forced = network.forced(found.op, found.value - 1)
    # The search and the checker's network count differently only if one of them is wrong.
    if forced is None:
        raise RuntimeError(f"no flow proves the closure bound of op {found.op}")
    return found.value, OpStep(found.op, forced)


def refute(claim: Claim) -> tuple[list[OrderStep], Sequence[Step] | None]:
    """Look for a refutation of a budget by a bound of the table, or by implied precedences.

    Return precedences that hold within the budget; the steps that refute it, or None.
    """
    graph, budget = claim.graph, claim.budget
    # Each precedence takes a flow, which is too much for larger graphs.
    if len(graph.ops) > claim.effort.flow_ops:
        return [], None
    found = refuting_bound(claim)
    # A bound is one step, so it makes the shortest certificate.
    if found is not None:
        return [], [found]
    trail = implied(claim)
    steps, conflict = trail.steps(), refuting_op(graph, trail, budget)
    if conflict is None:
        return steps, None
    return steps, list_steps(graph, budget, conflict, len(steps) + 1)


def refuting_bound(claim: Claim) -> Step | None:
    """Return the step of a bound that refutes the budget, such as a set of ops, or None."""
    with suppress(OutOfTimeError):
        context = claim.context()
        above = related(context.problem)
        for row in ORDER_BOUNDS:
            found = row.find(context, above, claim.budget, enough=claim.budget + 1)
            if found and (step := found.step(FlowNetwork(claim.graph), claim.budget)):
                return step
    return None


def implied(claim: Claim) -> Trail:
    """Return the precedences that a budget implies, each with its flow."""
    precedences = BudgetPrecedences(claim.context())
    with suppress(OutOfTimeError):
        precedences.refute(claim.budget, claim.during)
    trail = Trail(FlowNetwork(claim.graph), claim.budget)
    for first, second in precedences.added:
        # A flow over all ops, as work that does not depend on the machine.
        claim.clock.spend(len(claim.graph.ops))
        trail.imply(first, second)
    return trail


def refuting_op(graph: Graph, trail: Trail, budget: int) -> Conflict | None:
    """Return the conflict at an op that does not fit after the precedences found, or None."""
    # The network of the trail knows the pairs already; the bound needs them as edges.
    pairs = ((inference.first, inference.second) for inference in trail.inferences)
    found = closure_bound(with_precedences(graph, pairs))
    return None if found.op is None or found.value <= budget else trail.refute(found.op)
