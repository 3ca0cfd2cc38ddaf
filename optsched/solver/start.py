"""Findings before the first stage, of the caller and of earlier searches; and a plan at the end."""

from __future__ import annotations

from heuristics.orderings.program import program
from optsched.check.plan import check_order
from optsched.errors import UsageError
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.solver import near, order_packing
from optsched.solver.finding import Finding
from optsched.solver.known import Known
from optsched.solver.order_packing import Findings, found_orders
from optsched.solver.resume import Resume
from optsched.solver.stages import simple_bound


def take_up(known: Known, resume: Resume, plan: Plan | None) -> Findings:
    """Yield the caller's plan, and what an earlier search has found and proved."""
    if plan is not None:
        # A plan whose buffers have left their own pools is a start for its order only.
        if known.own_pools is None or not plan.pools:
            _refuse_start(known.question, plan)
            yield Finding("warm start", plans=(plan,))
        yield from found_orders(known, "warm start", plan.order)
        # No stage runs any more, so this is the only bound.
        if known.clock.expired():
            yield simple_bound(known, plan.order)
    if resume.graph:
        yield from _resumed(known, resume)
    if known.question.near is not None:
        yield from near.baseline_order(known)


def _refuse_start(question: Question, plan: Plan) -> None:
    if plan.placed(question.planned) != question.planned:
        raise UsageError("the warm start has buffers in other pools than their own")
    if not question.allows(plan.order):
        raise UsageError(f"the warm start moves more than {question.max_moved} ops of the baseline")


def _resumed(known: Known, resume: Resume) -> Findings:
    name, source = known.graph.name, "earlier search"
    for order in resume.orders:
        # An order from a file is checked like any other.
        check_order(known.graph, order)
        yield from found_orders(known, source, order)
    # Before the bound is used: a wrong one would end the search with a false proof.
    least = known.orders.least_peak()
    if least is not None and least < resume.peak_bound:
        raise UsageError(f"{name}: an order refutes the bound of an earlier search")
    yield Finding(source, bounds=resume.bounds)
    if known.plan is not None and known.measured.slab < known.slab_bound:
        raise UsageError(f"{name}: a plan refutes the bound of an earlier search")
    # Heuristics and bounds are not repeated once there are orders.
    resume.orders = tuple(tuple(order.tolist()) for _, order in known.best_orders(1))
    if known.plan is None:
        # Without the plan that came of them, these packings are worth another look.
        resume.packed.clear()
        resume.seen.clear()


def make_a_plan(known: Known) -> Findings:
    """Yield a plan of the best order if limits or an interrupt left none, however late it is."""
    if known.plan is None and known.interrupted:
        yield from found_orders(known, "program order", program(known.question.graph))
    yield from order_packing.pack_at_the_end(known)
