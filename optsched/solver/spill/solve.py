"""A graph in several slabs with capacities: an order, and for each buffer a pool and an offset.

First :func:`optsched.solver.pipeline.solve` plans the graph with every buffer in its own pool. If
that plan keeps the capacities, nothing is spilled. Otherwise
:func:`optsched.solver.spill.pack.pack_in_pools` packs the best orders found, and the order that
spills the fewest bytes is kept. Its spilled bytes are minimum for the order if they meet the bound
for the order, and minimum over all orders if they meet the bound over all orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from heuristics.portfolio import candidate_orders
from optsched.check.plan import check_plan
from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs, heads, pair_choices
from optsched.model.liveness import peak_memory
from optsched.model.order_rules import NO_RULES, OrderRules
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import Pool, pins_clash, pool_graph
from optsched.model.question import Question
from optsched.model.selection import select
from optsched.runtime.clock import Clock
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import LimitKeywords, Limits, Objective, OnEvent, Proof, StopReason
from optsched.solver.effort import SPILL
from optsched.solver.in_pools import PackedPool, PackingInPools, PlanInPools
from optsched.solver.known import written_plan
from optsched.solver.packing_result import PackingResult, result_in_pools
from optsched.solver.pipeline import answer, solve
from optsched.solver.result import Result
from optsched.solver.schedule import Engine
from optsched.solver.spill.bounds import OwnPools, find_own_pools, find_shortage, spilled_bound
from optsched.solver.spill.pack import pack_in_pools
from optsched.solver.spill.pooled import PooledProblem
from optsched.solver.status import Status


def answer_in_pools(
    question: Question,
    clock: Clock,
    engine: Engine = Engine.AUTO,
    plan: Plan | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Answer a question about several pools, into which buffers may spill.

    Parameters
    ----------
    question, clock, engine, on_event
        As for :func:`optsched.solver.pipeline.answer`.
    plan
        A plan to start from. Only its order is used if it says in which pools buffers lie.

    Raises
    ------
    UsageError
        If a buffer names no given pool, or a pool is given twice.
    """
    question.graph.refuse_streams("pools that spill into each other")
    own_pools = find_own_pools(question.planned, question.pools)
    driver = _PoolPlanner(own_pools, question, clock, on_event)
    before = driver.solve(engine, None if plan is None or plan.pools else plan)
    # If no order has room, no choice of pools does: the answer needs no packing.
    refuted = find_shortage(own_pools, before)
    if refuted is not None:
        none = replace(before, plan=None, peak=None, slab=None, peak_proof=None, slab_proof=None)
        found = PlanInPools(before, refuted=refuted)
        asked = driver.question_in_pools(before)
        return replace(none, question=asked, stop_reason=StopReason.DECIDED, in_pools=found)
    if before.plan is not None and own_pools.fits(before.plan):
        return driver.unspilled(before, before.plan)
    # The caller's order is tried as well, as it may spill less.
    orders = [known.order for known in (before.plan, plan) if known is not None]
    return driver.spilled(before, orders)


@keywords
def solve_in_pools(
    graph: Graph,
    pools: Sequence[Pool],
    *,
    objective: Objective | str = Objective.SLAB,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | Clock | None = None,
    warm_start: Plan | None = None,
    order_rules: OrderRules = NO_RULES,
    on_event: OnEvent | None = None,
    **named: Unpack[LimitKeywords],
) -> Result:
    """Plan a graph in pools: the former spelling of `solve(graph, pools=pools)`.

    Parameters
    ----------
    graph, pools, objective, engine, limits, warm_start, order_rules, on_event, named
        As for :func:`optsched.solve`.

    Examples
    --------
    >>> from optsched import GraphBuilder, Pool, solve, solve_in_pools
    >>> build = GraphBuilder("pair")
    >>> build.op("load", writes={"x": 8})
    >>> build.op("scale", reads=["x"], writes={"y": 4})
    >>> build.output("y")
    >>> graph = build.build()
    >>> pools = [Pool("fast", 8), Pool("slow")]
    >>> solve_in_pools(graph, pools).spilled_bytes, solve(graph, pools=pools).spilled_bytes
    (4, 4)
    """
    return solve(
        graph,
        pools=pools,
        objective=objective,
        engine=engine,
        limits=limits,
        warm_start=warm_start,
        order_rules=order_rules,
        on_event=on_event,
        **named,
    )


class _PoolPlanner:
    def __init__(
        self, own_pools: OwnPools, question: Question, clock: Clock, on_event: OnEvent | None
    ) -> None:
        self.own_pools, self.question, self.clock, self.on_event = (
            own_pools,
            question,
            clock,
            on_event,
        )
        self.graph, self.own_pool, self.pools = own_pools.graph, own_pools.own_pool, own_pools.pools

    def solve(self, engine: Engine, warm_start: Plan | None) -> Result:
        """Plan the graph with every buffer in its own pool."""

        def ask(capacity: int | None, share: float, start: Plan | None) -> Result:
            # A capacity limits the slab, so that the slab is what the search lowers.
            by = self.question.objective if capacity is None else Objective.SLAB
            asked = Question(self.graph, objective=by, capacity=capacity)
            return answer(
                asked,
                limits=self.clock.share(share),
                engine=engine,
                warm_start=start,
                on_event=self.on_event,
            )

        capacity, refuted = self.own_pools.capacity(), 0
        if capacity is not None:
            found = ask(capacity, SPILL.fit_share, warm_start)
            if found.stop_reason is StopReason.INTERRUPTED or (
                found.plan is not None and self.own_pools.fits(found.plan)
            ):
                return found
            warm_start, refuted = found.plan, found.slab_bound
        # Once something must be spilled a low peak counts, not that the capacity is refuted.
        best = ask(None, SPILL.solve_share, warm_start)
        assert best.question is not None
        fits = replace(best.question, capacity=capacity)
        # The refuted capacity is a bound on the slab too, perhaps a better one.
        if refuted <= best.slab_bound:
            return replace(best, question=fits)
        return replace(best, question=fits, slab_bound=refuted, slab_proof=None)

    def unspilled(self, before: Result, plan: Plan) -> Result:
        """Return the result of a plan that keeps the capacities without spilling."""
        # Each buffer stays in the pool that it names.
        kept = replace(plan, pools=tuple(buffer.pool for buffer in self.graph.buffers))
        problem, ids = packing_problem(self.graph, plan.order)
        offsets = np.array([plan.offsets[b] for b in ids.tolist()], np.int64)
        packed = []
        for number, pool in enumerate(self.pools):
            rows = np.flatnonzero(self.own_pool[ids] == number)
            slab = select(problem, rows).slab_size(offsets[rows])
            bound = peak_memory(pool_graph(self.graph, pool.name), plan.order)
            proof = Proof.PACKING if slab == bound else None
            given = PackingResult(offsets[rows], slab, bound, proof, StopReason.DECIDED)
            packed.append(PackedPool(pool, rows, given))
        in_pools = PackingInPools(tuple(packed))
        packing = result_in_pools(problem, in_pools, before.stop_reason, self.clock)
        return self.finish(before, replace(before, plan=kept), problem, packing, 0)

    def spilled(self, before: Result, orders: Sequence[Sequence[int]]) -> Result:
        """Pack a few orders and keep the one that spills fewest bytes."""
        best: tuple[tuple[int, ...], Plan | None, PackingProblem, PackingResult] | None = None
        part = self.clock.share(SPILL.orders_share)
        bound = spilled_bound(self.own_pools, before, part)
        tried = self.orders(orders, part)
        for left, order in zip(range(len(tried), 0, -1), tried, strict=True):
            choice = self.problem(order)
            if choice is None:
                continue
            problem, ids, chosen = choice
            own_pools = [self.pools[number].name for number in self.own_pool[ids].tolist()]
            share = self.clock.share(1.0 if left == 1 else SPILL.pack_share)
            asked = PooledProblem.of(problem, own_pools, self.pools)
            packing = pack_in_pools(asked, share, self.on_event)
            plan = None
            if packing.slab is not None:
                plan = self.plan(order, problem, ids, chosen, packing)
                if chosen:
                    # An output written in place lies in another buffer, but counts separately.
                    spilled = self.spilled_bytes(plan)
                    assert packing.in_pools is not None
                    found = replace(packing.in_pools, spilled_bytes=spilled, spilled_bound=bound)
                    packing = replace(packing, in_pools=found)
            # First that everything has a place, then few spilled bytes, then a small slab.
            missing = int(packing.shortage is not None) + len(packing.unplaced)
            key = (missing, packing.spilled_bytes, packing.slab or 0)
            if best is None or key < best[0]:
                best = (key, plan, problem, packing)
            stopped = packing.stop_reason is StopReason.INTERRUPTED
            fewest = plan is not None and packing.spilled_bytes <= bound
            if stopped or fewest or self.clock.expired():
                break
        if best is None:
            raise GraphError(
                f"{self.graph.name}: buffers are pinned onto each other in all orders tried"
            )
        _, plan, problem, packing = best
        result = self.result(before, plan, packing)
        return self.finish(before, result, problem, packing, bound)

    def orders(self, first: Sequence[Sequence[int]], clock: Clock) -> list[IntArray]:
        """Return orders to be packed, each once: those given, then heuristics' of smallest peak."""
        found = dict.fromkeys(tuple(order) for order in first)
        others = []
        for _, order in candidate_orders(self.graph, seed=clock.limits.seed):
            others.append((peak_memory(self.graph, order), tuple(np.asarray(order).tolist())))
            if clock.expired():
                break
        found |= dict.fromkeys(steps for _, steps in sorted(others))
        return [np.array(order, np.int64) for order in list(found)[: SPILL.orders]]

    def problem(self, order: IntArray) -> tuple[PackingProblem, IntArray, Pairs] | None:
        """Return the packing problem of an order, with the in-place pairs that spare most.

        None if pinned buffers clash in this order.
        """
        choices = [
            (*packing_problem(self.graph, order, chosen), chosen)
            for chosen in pair_choices(self.graph, order, tries=0)
        ]
        # Pins may clash with one choice of pairs and not with another.
        able = [choice for choice in choices if not pins_clash(self.graph, *choice[:2])]
        return min(able, key=lambda choice: choice[0].slab_bound, default=None)

    def plan(
        self,
        order: IntArray,
        problem: PackingProblem,
        ids: IntArray,
        chosen: Pairs,
        packing: PackingResult,
    ) -> Plan:
        """Return the plan of a packing."""
        names, offsets = packing.places(len(problem))
        pools = [buffer.pool for buffer in self.graph.buffers]
        for b, name in zip(ids.tolist(), names, strict=True):
            pools[b] = name
        for output, head in heads(chosen).items():
            # An output written in place lies where its input does.
            pools[output] = pools[head]
        made = placed_plan(self.graph, order, ids, offsets, chosen)
        return replace(made, pools=tuple(pools[root] for root in self.graph.roots))

    def spilled_bytes(self, plan: Plan) -> int:
        """Return the bytes of the buffers that lie in another pool than their own."""
        place = {b: group[0] for group in self.graph.must_share for b in group}
        spilled: dict[int, int] = {}
        for b, buffer in enumerate(self.graph.buffers):
            is_root = self.graph.roots[b] == b and plan.offsets[b] is not None
            if is_root and plan.pools[b] != buffer.pool:
                first = place.get(b, b)
                # A group counts once, by its largest member.
                spilled[first] = max(spilled.get(first, 0), buffer.size)
        return sum(spilled.values())

    def result(self, before: Result, plan: Plan | None, packing: PackingResult) -> Result:
        """Return peak and slab of a plan that spills, with their bounds and proofs."""
        peak = None if plan is None else plan.peak(self.graph)
        slab = packing.slab
        # By slabs: holds if all buffers lie in their own pools. By live bytes: always.
        return replace(
            before,
            plan=plan,
            peak=peak,
            slab=slab,
            slab_bound=before.peak_bound,
            peak_proof=before.peak_proof if peak == before.peak_bound else None,
            slab_proof=Proof.JOINT if slab == before.peak_bound else None,
            stop_reason=packing.stop_reason,
            claimed_bound=None,
        )

    def question_in_pools(self, before: Result) -> Question:
        """Return the question about these pools, after the one about buffers in their own pools."""
        assert before.question is not None
        rules = self.question.rules
        asked = replace(before.question, graph=self.graph, rules=rules, capacity=None)
        return replace(asked, pools=self.pools)

    def finish(
        self,
        before: Result,
        result: Result,
        problem: PackingProblem,
        packing: PackingResult,
        bound: int,
    ) -> Result:
        """Put the parts together; the plan is checked as it is written to a file."""
        if result.plan is not None:
            rooms = {pool.name: pool.capacity for pool in self.pools if pool.capacity is not None}
            written = written_plan(self.own_pools.given, result.plan)
            check_plan(
                self.own_pools.given, written, peak=result.peak, slab=result.slab, capacities=rooms
            )
        found = replace(
            result,
            log=replace(result.log, seconds=self.clock.seconds()),
            question=self.question_in_pools(before),
            in_pools=PlanInPools(before, problem, packing, packing.spilled_bytes, bound),
        )
        return replace(found, stop_reason=self.stop_reason(found, result))

    def stop_reason(self, found: Result, result: Result) -> StopReason:
        """Return the stop reason of a plan in pools, after that of its order."""
        reason = result.stop_reason
        if reason in (StopReason.DECIDED, StopReason.INTERRUPTED):
            return reason
        if found.status is Status.OPTIMAL:
            # Fitting the capacities decides the question, but proves no minimum.
            minimum = bool(found.spilled_bytes) or result.status is Status.OPTIMAL
            return StopReason.PROVED if minimum else StopReason.DECIDED
        if reason is StopReason.PROVED:
            # Proved for this order, not for all.
            late = self.clock.expired()
            return self.clock.limit_reason() if late else StopReason.EXHAUSTED
        return reason
