"""Stages that pack orders: by heuristics at once, by the exact packer in a share of the time.

A packing problem is that of one order with one choice of in-place pairs. One that is settled, so
that more time would not change its packing, is noted by its digest and left alone afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from itertools import islice

import numpy as np

from heuristics.portfolio import candidate_offsets
from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs, pair_choices
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import pins_clash, pool_rows, sum_of_slabs
from optsched.model.reductions import ByPool
from optsched.model.steps import Order
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.limits import Objective
from optsched.solver.driver import Stage, run_stages
from optsched.solver.effort import PACKING
from optsched.solver.features import Feature
from optsched.solver.finding import Finding, slab_bound
from optsched.solver.known import Known, Measured
from optsched.solver.order_list import packing_key
from optsched.solver.packing_stages import CONTINUED, WHOLE, KnownPacking
from optsched.solver.resume import Resume

_LOG = logging.getLogger(__name__)
Findings = Iterator[Finding[Plan]]
PackingStages = Sequence[Stage[KnownPacking]]


def has_many_buffers(graph: Graph) -> bool:
    """Return True if packing all promising orders would take too long."""
    return len(graph.buffers) > PACKING.many_buffers


# Heuristics.


def found_orders(known: Known, source: str, *orders: Order) -> Findings:
    """Yield orders as findings; pack each quickly until there is a plan."""
    for order in orders:
        yield Finding(source, orders=(order,))
        if known.plan is None:
            yield from pack_quickly(known, order, source, packings=1)


def pack_quickly(known: Known, order: Order, source: str, packings: int | None = None) -> Findings:
    """Yield the plans that heuristic packers make of an order, until one is proved optimal.

    `packings`: maximum number of in-place choices, and of packers for each; None for all.
    """
    steps = np.asarray(order, np.int64)
    if not known.question.allows(steps):
        return
    graph, peak = known.graph, known.orders.peak_of(steps)
    moved = known.moved(steps)
    for pairs in islice(pair_choices(graph, steps, known.peak_bound, tries=0), packings):
        problem, ids = packing_problem(graph, steps, pairs)
        # No offsets exist for this order with these pairs, so no packer could succeed.
        if pins_clash(graph, problem, ids):
            continue
        rows = pool_rows(graph, ids)
        # No packing is below the load of a step, and one packer takes long as plain Python.
        if not known.is_better(Measured(peak, _load(problem, rows), moved)):
            continue
        begun = known.clock.now()
        for name, offsets in islice(candidate_offsets(problem, rows), packings):
            known.clock.spend(len(problem))
            # Making and checking a plan takes longer than most packings.
            # The slab is known before the plan is made, so most packings need no plan.
            if known.is_better(Measured(peak, sum_of_slabs(problem, rows, offsets), moved)):
                yield _heuristic_plan(graph, steps, ids, offsets, pairs, f"{source} + {name}")
            begun, took = known.clock.now(), known.clock.now() - begun
            left = known.clock.left()
            take_interrupt()
            # A packer may take longer than the one before; leave room for that.
            done = known.done() and not known.breaks_ties
            if done or (left is not None and left < PACKING.slower * took):
                return


def _heuristic_plan(
    graph: Graph, order: IntArray, ids: IntArray, offsets: IntArray, pairs: Pairs, source: str
) -> Finding[Plan]:
    try:
        plan = placed_plan(graph, order, ids, offsets, pairs)
    except PlanError as error:
        _LOG.warning("packing %s is wrong on %s: %s", source, graph.name, error)
        return Finding(source)
    return Finding(source, plans=(plan,), trial=True)


def pack_best_order(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Pack the best order so far at once: bounds may take seconds where kernels are not compiled.

    Its peak may be far below that of the first order, which has the only plan so far.
    """
    # A resumed search has packed its orders already.
    if known.graph.on_streams or known.plan is None or resume.orders:
        return
    peak, order = known.best_orders(1)[0]
    if peak < known.measured.peak:
        yield from pack_quickly(known, order, "heuristic order", packings=1)


def pack_own_order(known: Known, order: Order, source: str, packings: int) -> Findings:
    """Pack an order of the framework, though its peak may be larger than others.

    Under a short limit the order of smallest peak may have a larger slab, and a plan above what a
    framework makes is of no use.
    """
    is_slab = known.question.objective is Objective.SLAB
    if is_slab and not known.graph.on_streams and not has_many_buffers(known.graph):
        yield from pack_quickly(known, order, source, packings)


def pack_heuristically(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Pack the best orders so far by all promising packers."""
    many = has_many_buffers(known.graph)
    for _, order in known.best_orders(1 if many else PACKING.packed_orders):
        yield from pack_quickly(known, order, "heuristic order")
        if known.done() or known.clock.expired():
            break


def pack_before_search(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Pack the best orders, unless there are many buffers and the search may find better orders."""
    if known.order_done() or not has_many_buffers(known.graph):
        yield from pack_heuristically(known, resume, clock)


def pack_at_the_end(known: Known) -> Findings:
    """Pack the best order if a limit kept it from being packed.

    The program's own order is thus a plan however tight the limit.
    """
    if known.done() or known.graph.on_streams or not len(known.orders):
        return
    peak, order = known.best_orders(1)[0]
    if known.plan is None or peak < known.measured.peak:
        many = has_many_buffers(known.graph)
        yield from pack_quickly(known, order, "heuristic order", packings=1 if many else None)


# The exact packer.


def first_packing(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Search the packings of the order of smallest peak in a part of the time."""
    part = before_last_packing(known, resume, clock)
    yield from _pack_best_orders(known, resume, part, CONTINUED)


def last_packing(known: Known, resume: Resume, clock: Clock) -> Findings:
    """Search the packings of the best plan's order by all means, then those of other orders."""
    settled = known.plan is None
    if known.plan is not None:
        settled = yield from pack_order(known, resume, known.plan.order, clock, WHOLE)
    if not known.done() and known.has_time():
        settled &= yield from _pack_best_orders(known, resume, known.part(), WHOLE)
    yield Finding("packing search", more=not settled)


def _pack_best_orders(
    known: Known, resume: Resume, clock: Clock, stages: PackingStages
) -> Generator[Finding[Plan], None, bool]:
    """Pack the best order, with several pools the best few; return True if all are settled."""
    # If only the peak counts, its order decides; packing waits for the proved one.
    if known.question.objective is Objective.PEAK and not known.order_done():
        return True
    # With several pools the rank of an order does not tell which one packs best.
    orders = known.best_orders(PACKING.packed_orders if known.question.pool_graphs else 1)
    settled = True
    for number, (_, order) in enumerate(orders):
        share = clock.share(1 / (len(orders) - number))
        settled &= yield from pack_order(known, resume, order, share, stages)
    return settled


def pack_order(
    known: Known, resume: Resume, order: Order, clock: Clock, stages: PackingStages
) -> Generator[Finding[Plan], None, bool]:
    """Pack an order with each choice of in-place pairs; return True if all are settled."""
    choices = list(pair_choices(known.graph, order, known.peak_bound))
    settled = True
    for number, pairs in enumerate(choices):
        if known.done() or not known.has_time():
            return known.done()
        share = clock.share(1 / (len(choices) - number))
        settled &= yield from _pack_choice(known, resume, order, pairs, share, stages)
    return settled


def _pack_choice(
    known: Known, resume: Resume, order: Order, pairs: Pairs, clock: Clock, stages: PackingStages
) -> Generator[Finding[Plan], None, bool]:
    key = packing_key(order, pairs)
    # Settled by this search or the one that it resumes.
    if key in resume.packed:
        return True
    graph = known.graph
    problem, ids = packing_problem(graph, order, pairs)
    if pins_clash(graph, problem, ids):
        return True
    rows = pool_rows(graph, ids)
    # No packing is below the load of a step.
    if _cannot_improve(known, order, _load(problem, rows)):
        return True
    packed = PooledPacking(known, problem, rows)
    packed.run(clock, stages)
    if packed.offsets is not None:
        plans = (placed_plan(graph, order, ids, packed.offsets, pairs),)
        # A widened problem has longer live ranges than the order needs, so its bound is not that of
        # the order.
        is_only = Feature.ONE_ORDER in known.features and not problem.is_widened
        yield Finding("packing search", plans=plans)
        if is_only:
            yield Finding("only order", bounds=slab_bound(packed.bound))
    if packed.interrupted:
        raise KeyboardInterrupt
    if packed.settled:
        resume.packed[key] = None
    return packed.settled


def _load(problem: PackingProblem, pools: ByPool) -> int:
    """Return the most bytes live at a step, added up over the pools."""
    return sum(part.max_load for part in pools.reduce(problem))


def _cannot_improve(known: Known, order: Order, load: int) -> bool:
    """Return True if no packing of an order with a load can be better than the best plan."""
    if known.plan is None or known.question.objective is not Objective.SLAB:
        return False
    # With equal slab a plan can still be better by moving fewer ops.
    fewer = Feature.FEWEST in known.features and known.question.moved(order) < known.measured.moved
    return load > known.slab_wanted or (load == known.slab_wanted and not fewer)


class PooledPacking:
    """Separate packings of the pools of a problem, and their sum.

    `known`: state of the search, which is told of progress. `problem`: live ranges of one order.
    `pools`: buffers of each pool.
    """

    def __init__(self, known: Known, problem: PackingProblem, pools: ByPool) -> None:
        self.known, self.problem, self.pools = known, problem, pools
        self.offsets: IntArray | None = None
        self.bound, self.settled, self.interrupted = 0, True, False

    def run(self, clock: Clock, stages: PackingStages) -> None:
        """Pack each pool in its share of the time; `offsets` stay None if one has no packing."""
        parts, packed = self.pools.reduce(self.problem), list[IntArray]()
        for number, problem in enumerate(parts):
            part = KnownPacking(
                problem,
                clock.share(1 / (len(parts) - number)),
                # A capacity is one of the sum of all pools, which a single pool cannot decide.
                self.known.capacity if len(parts) < 2 else None,
                # The bound of one order is not a bound of the question.
                lambda event: self.known.report("packing search"),
            )
            run_stages(part, None, stages)
            self._add(part, stages)
            if part.offsets is None:
                return
            packed.append(part.offsets)
        self.offsets = self.pools.lift(self.problem, packed)

    def _add(self, part: KnownPacking, stages: PackingStages) -> None:
        self.bound += part.slab_bound
        late = part.stop_reason().is_limit
        # Quick stages settle nothing by themselves, unless they meet the bound.
        self.settled &= part.done() or (stages is WHOLE and not late)
        self.interrupted |= part.interrupted


# The time that is kept for the last packing.


def before_last_packing(known: Known, resume: Resume, clock: Clock) -> Clock:
    """Return a clock that leaves time to pack the order of the best plan found until then.

    The time after that is searched only if the packing of the best plan's order is settled.
    """
    left, whole = left_before_last_packing(known), clock.left()
    if left is None or not whole or left >= whole:
        return clock
    # Nothing is left to search in the best plan's own order, so others may have the time.
    settled = known.plan is not None and (
        packing_key(known.plan.order, ()) in resume.packed
        # No packing is below the bytes that are live at once, so that none will be searched.
        or _cannot_improve(known, known.plan.order, known.measured.peak)
    )
    return clock if settled and not left else clock.share(left / whole)


def left_before_last_packing(known: Known) -> float | None:
    """Return the time left before the last packing begins; None if that has no time of its own."""
    if known.plan is None or Feature.PEAK & known.features:
        return None
    # The part reserved is one of the whole time, so that it does not shrink with each stage.
    reserved = PACKING.last_packing * (known.clock.limit or 0.0)
    return known.clock.share(1.0, reserved).left()
