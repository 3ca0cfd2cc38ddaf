"""Stages of solve() that find orders and bounds: each calls one engine and yields its findings.

Stages that pack orders are in :mod:`optsched.solver.order_packing`, those that choose orders and
offsets together in :mod:`optsched.solver.joint_stages`, those for several streams in
:mod:`optsched.solver.streams`, those for orders near a baseline in :mod:`optsched.solver.near`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import Final

import numpy as np

from heuristics.portfolio import candidate_orders
from optsched.check.plan import check_order
from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.plan import Plan
from optsched.model.steps import Order
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.limits import Proof
from optsched.solver.effort import ORDERS
from optsched.solver.finding import Finding, peak_bound
from optsched.solver.joint_stages import OTHER_ORDERS_LACK
from optsched.solver.known import Known
from optsched.solver.order_packing import (
    Findings,
    before_last_packing,
    found_orders,
    pack_own_order,
    pack_quickly,
)
from optsched.solver.resume import Resume

PROGRAM: Final = "program"
"""Name of the ordering that keeps the ops as they are."""
RECORDED: Final = "recorded order"
"""Name of an order that the graph's file records, such as that of its framework."""


def heuristic_orders(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Try orders, promising ones first, until one meets a simple bound.

    A resumed search has the best of them already.
    """
    if resume.orders:
        return
    for name, order in _candidates(known):
        known.clock.spend(len(order))
        yield from found_orders(known, name, order)
        # One order is enough to know which ops may force the peak.
        if len(known.orders) == 1:
            yield simple_bound(known, order)
        if name in (PROGRAM, RECORDED):
            packings = ORDERS.recorded_packings if name == RECORDED else 1
            yield from pack_own_order(known, order, name, packings)
        take_interrupt()
        # At least two orders: the second is often one that the file records, which takes no time.
        late = len(known.orders) > 1 and known.clock.spent(ORDERS.heuristics_share)
        if late or known.order_done():
            return


def simple_bound(known: Known, order: Order) -> Finding[Plan]:
    """Return the bound of the ops that may force the peak of an order, which holds for all."""
    part = known.clock.share(ORDERS.simple_bound_share)
    bound = peak_lower_bound(known.graph, [order], clock=part)
    return Finding("simple bound", bounds=peak_bound(bound.value, Proof.BOUND))


def _candidates(known: Known) -> Iterator[tuple[str, IntArray]]:
    """Yield the heuristics' orders; those that the graph's file records stand after the first."""
    seed, peak_of = known.clock.limits.seed, known.orders.peak_of
    found = candidate_orders(known.graph, seed=seed, peak_of=peak_of)
    yield from islice(found, 1)
    recorded = {} if known.graph.origin is None else known.graph.origin.orders
    for order in recorded.values():
        # Order rules may forbid it.
        with suppress(PlanError):
            check_order(known.graph, order)
            yield RECORDED, np.array(order, np.int64)
    yield from found


def heuristic_orders_alone(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Try orders without proving any bound."""
    for finding in heuristic_orders(known, resume, clock):
        if not finding.bounds:
            yield finding


def closure_bounds(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Raise the bound by flows, if the simple one leaves a gap."""
    if known.order_done() or resume.orders:
        return
    from optsched.ordering import closure_bound

    orders = [order for _, order in known.best_orders(ORDERS.closure_orders)]
    found = closure_bound(known.graph, orders, clock=clock)
    yield Finding("closure bound", bounds=peak_bound(found.value, Proof.BOUND))


def order_search(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Find the minimum peak over all orders by exact search, then pack that order."""
    if known.order_done() or not known.has_time() or not len(known.orders):
        return
    # If other orders can be packed afterwards, these take time too.
    others = not known.features & OTHER_ORDERS_LACK
    part = known.part(ORDERS.order_share if others else ORDERS.peak_share)
    yield from _search_orders(known, resume, part)


def _search_orders(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Search where the last search of these numbers of ops ended, and pack what it finds."""
    from optsched.ordering import solve_order

    outcome = solve_order(
        known.graph,
        limits=clock,
        warm_start=known.best_orders(1)[0][1].tolist(),
        bound=known.peak_bound,
        progress=resume.rounds,
        on_event=known.relay("order search", orders=True),
    )
    resume.rounds = outcome.progress
    yield Finding(
        "order search",
        bounds=peak_bound(outcome.bound, outcome.proof),
        statistics=asdict(outcome.statistics),
        more=outcome.stop_reason.is_limit,
    )
    yield from found_orders(known, "order search", outcome.order)
    yield from pack_quickly(known, known.best_orders(1)[0][1], "order search")
    outcome.stop_reason.raise_if_interrupted()


def search_again(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Continue the search for an order; then search with renumbered ops: ties break otherwise."""
    if known.order_done() or not len(known.orders) or clock.left() is None:
        return
    from optsched.joint.other_orders import search_renamed

    yield Finding("order search again", more=True)
    clock = before_last_packing(known, resume, clock)
    if clock.expired():
        return
    yield from _search_orders(known, resume, clock.share(ORDERS.continued_part))
    if known.order_done():
        return
    resume.searches += 1
    rng = np.random.default_rng((known.clock.limits.seed, resume.searches))
    peak, order = known.best_orders(1)[0]
    relay = known.relay("order search again", orders=True)
    # Ties are broken by number, so other numbers lead the search elsewhere.
    names: list[int] = rng.permutation(known.size).tolist()
    start = np.argsort(names)[order].tolist()
    outcome = search_renamed(known.graph, names, lambda _: start, known.peak_bound, clock, relay)
    yield Finding("order search again", bounds=peak_bound(outcome.bound, outcome.proof))
    if outcome.peak < peak:
        found = np.array(outcome.order, np.int64)
        yield from found_orders(known, "order search again", found)
        yield from pack_quickly(known, found, "order search again")
    outcome.stop_reason.raise_if_interrupted()


def pooled_walk(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Lower the sum of the pools' peaks, which the search for the minimum peak ignores."""
    from heuristics.orderings.pooled import pooled_orders

    if not len(known.orders):
        return
    start = known.best_orders(1)[0][1]
    for order in pooled_orders(known.graph, start, seed=known.clock.limits.seed):
        yield from found_orders(known, "pooled order", order)
        yield from pack_quickly(known, order, "pooled order")
        if known.done() or clock.expired():
            break
