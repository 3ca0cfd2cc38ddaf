"""A graph in several slabs with capacities: an order, and for each buffer a pool and an offset.

The order is that of :func:`optsched.solver.pipeline.solve`, least where everything lies in its own
pool. Where that plan keeps the capacities nothing is spilled. Else the orders at hand are packed by
:func:`optsched.solver.spill.pack.pack_pools`, and the one that spills fewest bytes is kept: the
fewest for that order where they meet its bound, the fewest of all orders where they meet the bound
over these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from optsched.model.packing_problem import PackingProblem, packing_problem, select
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import Pool, pins_clash, pool_graph
from optsched.model.question import Question
from optsched.runtime.clock import Clock
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import (
    LimitKeywords,
    Limits,
    Objective,
    OnEvent,
    Proof,
    StopReason,
    choose_limits,
)
from optsched.solver.effort import SPILL_EFFORT
from optsched.solver.known import written_plan
from optsched.solver.pipeline import Engine, solve
from optsched.solver.result import PackingResult, Result, Status, judge
from optsched.solver.spill.bounds import Homes, find_homes, find_shortage, spilled_bound
from optsched.solver.spill.pack import PackedPool, PoolsResult, Shortage, pack_pools


@dataclass(frozen=True, slots=True)
class PooledResult:
    """A checked plan in pools and what is known about it.

    Parameters
    ----------
    graph
        What was planned; buffers that named no pool name the first one.
    result
        Plan, peak and slab with their bounds: of every plan that spills as few bytes.
    before
        What `solve` says of the graph with every buffer in its own pool; its capacity is that
        pool's if there is only one.
    problem, packing
        The buffers as live in the plan's order, and how they lie; both None where all orders are
        refuted.
    spilled_bytes, spilled_bound
        Bytes of the buffers that lie in a later pool than their own, and of those that do in
        every plan; a group counts as one buffer, as large as its largest.
    refuted
        Why no order has room, or None; its ids are those of buffers of the graph.
    """

    graph: Graph
    result: Result
    before: Result
    problem: PackingProblem | None
    packing: PoolsResult | None
    spilled_bytes: int
    spilled_bound: int
    refuted: Shortage | None

    @property
    def status(self) -> Status:
        """Optimal if the spilled bytes are proved the fewest of all orders.

        If none are spilled, slabs must be within their capacities, or minimum without one.
        """
        decides = bool(self.spilled_bytes) or self.is_limited
        return judge(
            None if self.result.plan is None else self.spilled_bytes,
            self.spilled_bound,
            refuted=self.refuted is not None,
            proved=None if decides else self.result.status is Status.OPTIMAL,
        )

    @property
    def is_limited(self) -> bool:
        """True if every pool that holds a buffer has a capacity, so that fitting is enough."""
        held = (
            [] if self.packing is None else [part for part in self.packing.packed if len(part.ids)]
        )
        return bool(held) and all(part.pool.capacity is not None for part in held)


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
) -> PooledResult:
    """Choose an order, and for each buffer a pool and an offset.

    Parameters
    ----------
    graph
        What to plan.
    pools
        In order of preference: what does not fit into its pool goes to the next one. Buffers that
        name none belong to the first. A pinned buffer stays in its own.
    objective, engine, limits, warm_start, order_rules, on_event, named
        As for :func:`optsched.solve`. Only the order is taken from a warm start that says in which
        pools buffers lie.

    Raises
    ------
    UsageError
        If a buffer names no given pool, or a pool is given twice.
    """
    graph.refuse_streams("pools that spill into each other")
    homes = find_homes(order_rules.apply(graph), pools)
    driver = _PoolPlanner(homes, order_rules, Clock.of(choose_limits(limits, named)), on_event)
    given = None if warm_start is None or warm_start.pools else warm_start
    before = driver.solve(objective, engine, given)
    refuted = find_shortage(homes, before)
    if refuted is not None:
        none = replace(before, plan=None, peak=None, slab=None, peak_proof=None, slab_proof=None)
        question = driver.question_in_pools(before)
        stopped = replace(none, question=question, stop_reason=StopReason.DECIDED)
        return PooledResult(homes.graph, stopped, before, None, None, 0, 0, refuted)
    if before.plan is not None and homes.fits(before.plan):
        return driver.unspilled(before, before.plan)
    orders = [plan.order for plan in (before.plan, warm_start) if plan is not None]
    return driver.spilled(before, orders)


class _PoolPlanner:
    def __init__(
        self, homes: Homes, rules: OrderRules, clock: Clock, on_event: OnEvent | None
    ) -> None:
        self.homes, self.rules, self.clock, self.on_event = homes, rules, clock, on_event
        self.graph, self.home, self.pools = homes.graph, homes.home, homes.pools

    def solve(
        self, objective: Objective | str, engine: Engine | str, warm_start: Plan | None
    ) -> Result:
        """Plan the graph with every buffer in its own pool."""

        def ask(capacity: int | None, share: float, start: Plan | None) -> Result:
            return solve(
                self.graph,
                objective=objective,
                capacity=capacity,
                engine=engine,
                limits=self.clock.share(share),
                warm_start=start,
                on_event=self.on_event,
            )

        capacity, refuted = self.homes.capacity(), 0
        if capacity is not None:
            found = ask(capacity, SPILL_EFFORT.fit_share, warm_start)
            if found.stop_reason is StopReason.INTERRUPTED or (
                found.plan is not None and self.homes.fits(found.plan)
            ):
                return found
            warm_start, refuted = found.plan, found.slab_bound
        # Once something must be spilled a low peak counts, not that the capacity is refuted.
        best = ask(None, SPILL_EFFORT.solve_share, warm_start)
        assert best.question is not None
        fits = replace(best.question, capacity=capacity)
        if refuted <= best.slab_bound:
            return replace(best, question=fits)
        return replace(best, question=fits, slab_bound=refuted, slab_proof=None)

    def unspilled(self, before: Result, plan: Plan) -> PooledResult:
        """Return a plan that keeps the capacities as it is."""
        kept = replace(plan, pools=tuple(buffer.pool for buffer in self.graph.buffers))
        problem, ids = packing_problem(self.graph, plan.order)
        offsets = np.array([plan.offsets[b] for b in ids.tolist()], np.int64)
        packed = []
        for number, pool in enumerate(self.pools):
            rows = np.flatnonzero(self.home[ids] == number)
            slab = select(problem, rows).slab_size(offsets[rows])
            bound = peak_memory(pool_graph(self.graph, pool.name), plan.order)
            proof = Proof.PACKING if slab == bound else None
            given = PackingResult(offsets[rows], slab, bound, proof, StopReason.DECIDED)
            packed.append(PackedPool(pool, rows, given))
        packing = PoolsResult(tuple(packed), (), 0, 0, (), None, {}, before.stop_reason, 0.0)
        return self.finish(before, replace(before, plan=kept), problem, packing, 0)

    def spilled(self, before: Result, orders: Sequence[Sequence[int]]) -> PooledResult:
        """Pack a few orders and keep the one that spills fewest bytes."""
        best: tuple[tuple[int, ...], Plan | None, PackingProblem, PoolsResult] | None = None
        part = self.clock.share(SPILL_EFFORT.orders_share)
        bound = spilled_bound(self.homes, before, part)
        tried = self.orders(orders, part)
        for left, order in zip(range(len(tried), 0, -1), tried, strict=True):
            chosen = self.problem(order)
            if chosen is None:
                continue
            problem, ids, taken = chosen
            homes = [self.pools[number].name for number in self.home[ids].tolist()]
            share = self.clock.share(1.0 if left == 1 else SPILL_EFFORT.pack_share)
            packing = pack_pools(problem, homes, self.pools, limits=share, on_event=self.on_event)
            plan = None
            if packing.slab is not None:
                plan = self.plan(order, problem, ids, taken, packing)
                if taken:
                    # An output written in place lies in another buffer, but counts separately.
                    spilled = self.spilled_bytes(plan)
                    packing = replace(packing, spilled_bytes=spilled, spilled_bound=bound)
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
        return [np.array(order, np.int64) for order in list(found)[: SPILL_EFFORT.orders]]

    def problem(self, order: IntArray) -> tuple[PackingProblem, IntArray, Pairs] | None:
        """Return the packing problem of an order, with the in-place pairs that spare most.

        None if pinned buffers clash in this order.
        """
        choices = [
            (*packing_problem(self.graph, order, taken), taken)
            for taken in pair_choices(self.graph, order, tries=0)
        ]
        able = [choice for choice in choices if not pins_clash(self.graph, *choice[:2])]
        return min(able, key=lambda choice: choice[0].slab_bound, default=None)

    def plan(
        self,
        order: IntArray,
        problem: PackingProblem,
        ids: IntArray,
        taken: Pairs,
        packing: PoolsResult,
    ) -> Plan:
        """Return the plan of a packing."""
        names, offsets = packing.places(len(problem))
        pools = [buffer.pool for buffer in self.graph.buffers]
        for b, name in zip(ids.tolist(), names, strict=True):
            pools[b] = name
        for output, head in heads(taken).items():
            pools[output] = pools[head]
        made = placed_plan(self.graph, order, ids, offsets, taken)
        return replace(made, pools=tuple(pools[root] for root in self.graph.roots))

    def spilled_bytes(self, plan: Plan) -> int:
        """Return the bytes of the buffers that lie in another pool than their own."""
        place = {b: group[0] for group in self.graph.must_share for b in group}
        spilled: dict[int, int] = {}
        for b, buffer in enumerate(self.graph.buffers):
            is_root = self.graph.roots[b] == b and plan.offsets[b] is not None
            if is_root and plan.pools[b] != buffer.pool:
                first = place.get(b, b)
                spilled[first] = max(spilled.get(first, 0), buffer.size)
        return sum(spilled.values())

    def result(self, before: Result, plan: Plan | None, packing: PoolsResult) -> Result:
        """Return peak and slab of a plan that spills, with what is proved of them."""
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
        asked = replace(before.question, graph=self.graph, rules=self.rules, capacity=None)
        return replace(asked, pools=self.pools)

    def finish(
        self,
        before: Result,
        result: Result,
        problem: PackingProblem,
        packing: PoolsResult,
        bound: int,
    ) -> PooledResult:
        """Put the parts together; the plan is checked as it is written to a file."""
        if result.plan is not None:
            rooms = {pool.name: pool.capacity for pool in self.pools if pool.capacity is not None}
            written = written_plan(self.homes.given, result.plan)
            check_plan(
                self.homes.given, written, peak=result.peak, slab=result.slab, capacities=rooms
            )
        spilled = packing.spilled_bytes
        timed = replace(
            result,
            log=replace(result.log, seconds=self.clock.seconds()),
            question=self.question_in_pools(before),
        )
        found = PooledResult(self.graph, timed, before, problem, packing, spilled, bound, None)
        reason = result.stop_reason
        if reason in (StopReason.DECIDED, StopReason.INTERRUPTED):
            return found
        if found.status is Status.OPTIMAL:
            # That everything fits decides the question; that it could take less does not.
            minimum = bool(found.spilled_bytes) or result.status is Status.OPTIMAL
            reason = StopReason.PROVED if minimum else StopReason.DECIDED
        elif reason is StopReason.PROVED:
            # Of this order, not of all.
            late = self.clock.expired()
            reason = self.clock.limit_reason() if late else StopReason.EXHAUSTED
        return replace(found, result=replace(timed, stop_reason=reason))
