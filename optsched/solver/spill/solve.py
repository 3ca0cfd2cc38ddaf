"""A graph in several slabs with capacities: an order, and for each buffer a pool and an offset.

The order is that of :func:`optsched.solver.pipeline.solve`, least where everything lies in its own
pool. Where that plan keeps the capacities nothing is spilled. Else the orders at hand are packed by
:func:`optsched.solver.spill.pack.pack_pools`, and the one that spills fewest bytes is kept: the
fewest for that order where they meet its bound, the fewest of all orders where they meet the bound
over these.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heuristics.portfolio import candidate_orders
from optsched.check.pins import pins_clash
from optsched.check.plan import check_plan
from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs, heads, pair_choices
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem, packing_problem, select
from optsched.model.plan import Plan, make_plan
from optsched.model.pools import pool_graph
from optsched.runtime.limits import Limits, Objective, OnEvent, Proof, StopReason
from optsched.solver.pack import packing_bound
from optsched.solver.pipeline import Engine, solve
from optsched.solver.result import DEFAULT_LIMITS, PackingResult, Result, Status
from optsched.solver.spill.bounds import find_homes, find_shortage, spilled_bound
from optsched.solver.spill.pack import PackedPool, Pool, PoolsResult, Shortage, pack_pools

FIT_SHARE, SOLVE_SHARE, ORDERS_SHARE, PACK_SHARE = 0.3, 0.5, 0.2, 0.6
"""Parts of the time left that the search for a plan which fits, that for a least one, further
orders, and packing one of the orders may take."""
ORDERS = 3
"""Orders that are packed, at most."""


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
    spilled_bound
        Bytes that are spilled at least, whatever the order.
    refuted
        Why no order has room, or None; its ids are those of buffers of the graph.
    """

    graph: Graph
    result: Result
    before: Result
    problem: PackingProblem | None
    packing: PoolsResult | None
    spilled_bound: int
    refuted: Shortage | None

    @property
    def spilled_bytes(self) -> int:
        """Bytes of the buffers that lie in a later pool than their own."""
        return 0 if self.packing is None else self.packing.spilled_bytes

    @property
    def status(self) -> Status:
        """Optimal only if over all orders the fewest bytes are spilled and the slab is least."""
        if self.refuted is not None:
            return Status.INFEASIBLE
        if self.result.plan is None:
            return Status.UNKNOWN
        if self.result.status is Status.OPTIMAL and self.spilled_bytes <= self.spilled_bound:
            return Status.OPTIMAL
        return Status.FEASIBLE


def solve_in_pools(
    graph: Graph,
    pools: Sequence[Pool],
    *,
    objective: Objective | str = Objective.SLAB,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | None = None,
    warm_start: Plan | None = None,
    on_event: OnEvent | None = None,
) -> PooledResult:
    """Choose an order, and for each buffer a pool and an offset.

    Parameters
    ----------
    graph
        What to plan.
    pools
        In order of preference: what does not fit into its pool goes to the next one. Buffers that
        name none belong to the first. A pinned buffer stays in its own.
    objective, engine, limits, warm_start, on_event
        As for :func:`optsched.solver.pipeline.solve`. Of a warm start that says in which pools
        buffers lie only the order is taken.

    Raises
    ------
    UsageError
        If a buffer names no given pool, or a pool is given twice.
    """
    run = _Run(graph, pools, limits or DEFAULT_LIMITS, on_event)
    given = None if warm_start is None or warm_start.pools else warm_start
    before = run.solve(objective, engine, given)
    refuted = find_shortage(run.homes, before)
    if refuted is not None:
        none = replace(before, plan=None, peak=None, slab=None, capacity=None)
        stopped = replace(none, peak_proof=None, slab_proof=None, stop_reason=StopReason.DECIDED)
        return PooledResult(run.graph, stopped, before, None, None, 0, refuted)
    if before.plan is not None and run.homes.fits(before.plan):
        return run.unspilled(before, before.plan)
    orders = [plan.order for plan in (before.plan, warm_start) if plan is not None]
    return run.spilled(before, orders)


class _Run:
    def __init__(
        self, graph: Graph, pools: Sequence[Pool], limits: Limits, on_event: OnEvent | None
    ) -> None:
        self.started = time.perf_counter()
        self.pools, self.limits, self.on_event = tuple(pools), limits, on_event
        self.homes = find_homes(graph, pools)
        self.graph, self.home = self.homes.graph, self.homes.home

    def limits_left(self, share: float) -> Limits:
        """The limits of what may take this share of the time left."""
        if self.limits.seconds is None:
            return self.limits
        left = max(0.0, self.limits.seconds - (time.perf_counter() - self.started))
        return replace(self.limits, seconds=share * left)

    def solve(
        self, objective: Objective | str, engine: Engine | str, warm_start: Plan | None
    ) -> Result:
        """Plan the graph with every buffer in its own pool."""
        capacity = self.homes.capacity()
        found = None
        if capacity is not None:
            found = solve(
                self.graph,
                objective=objective,
                capacity=capacity,
                engine=engine,
                limits=self.limits_left(FIT_SHARE),
                warm_start=warm_start,
                on_event=self.on_event,
            )
            if found.stop_reason is StopReason.INTERRUPTED or (
                found.plan is not None and self.homes.fits(found.plan)
            ):
                return found
            warm_start = found.plan
        # Once something must be spilled a low peak counts, not that the capacity is refuted.
        least = solve(
            self.graph,
            objective=objective,
            engine=engine,
            limits=self.limits_left(SOLVE_SHARE),
            warm_start=warm_start,
            on_event=self.on_event,
        )
        if found is None or found.slab_bound <= least.slab_bound:
            return replace(least, capacity=capacity)
        return replace(least, capacity=capacity, slab_bound=found.slab_bound, slab_proof=None)

    def is_before(self, until: float | None) -> bool:
        """Whether more time is left than this."""
        left = self.limits_left(1.0).seconds
        return until is None or left is None or left > until

    def unspilled(self, before: Result, plan: Plan) -> PooledResult:
        """Return a plan that keeps the capacities as it is."""
        names = tuple(buffer.pool for buffer in self.graph.buffers)
        kept = replace(plan, pools=names)
        problem, ids = packing_problem(self.graph, plan.order)
        offsets = np.array([plan.offsets[b] for b in ids.tolist()], np.int64)
        packed = []
        for number, pool in enumerate(self.pools):
            rows = np.flatnonzero(self.home[ids] == number)
            least = peak_memory(pool_graph(self.graph, pool.name), plan.order)
            given = _as_given(select(problem, rows), offsets[rows], least)
            packed.append(PackedPool(pool, rows, given))
        packing = PoolsResult(
            packed=tuple(packed),
            spilled=(),
            spilled_bytes=0,
            spilled_bound=0,
            unplaced=(),
            shortage=None,
            short={},
            stop_reason=before.stop_reason,
            runtime=0.0,
        )
        return self.finish(before, replace(before, plan=kept, capacity=None), problem, packing, 0)

    def spilled(self, before: Result, orders: Sequence[Sequence[int]]) -> PooledResult:
        """Pack a few orders and keep the one that spills fewest bytes."""
        best: tuple[tuple[int, ...], Plan | None, PackingProblem, PoolsResult] | None = None
        until = self.limits_left(1 - ORDERS_SHARE).seconds
        bound = spilled_bound(self.homes, before, lambda: self.is_before(until))
        tried = self.orders(orders)
        for left, order in zip(range(len(tried), 0, -1), tried, strict=True):
            chosen = self.problem(order)
            if chosen is None:
                continue
            problem, ids, taken = chosen
            homes = [self.pools[int(number)].name for number in self.home[ids]]
            limits = self.limits_left(1.0 if left == 1 else PACK_SHARE)
            packing = pack_pools(problem, homes, self.pools, limits=limits, on_event=self.on_event)
            plan = None
            if packing.slab is not None:
                plan = self.plan(order, problem, ids, taken, packing)
            missing = int(packing.shortage is not None) + len(packing.unplaced)
            key = (missing, packing.spilled_bytes, packing.slab or 0)
            if best is None or key < best[0]:
                best = (key, plan, problem, packing)
            late = self.limits_left(1.0).seconds == 0
            stopped = packing.stop_reason is StopReason.INTERRUPTED
            if late or stopped or (plan is not None and packing.spilled_bytes <= bound):
                break
        if best is None:
            raise GraphError(
                f"{self.graph.name}: buffers are pinned onto each other in all orders tried"
            )
        _, plan, problem, packing = best
        result = self.result(before, plan, packing)
        return self.finish(before, result, problem, packing, bound)

    def orders(self, first: Sequence[Sequence[int]]) -> list[IntArray]:
        """Return orders to be packed, each once: those given, then heuristics' of least peak."""
        found = {tuple(order): 0 for order in first}
        until = self.limits_left(1 - ORDERS_SHARE).seconds
        others = []
        for _, order in candidate_orders(self.graph, seed=self.limits.seed):
            others.append((peak_memory(self.graph, order), tuple(np.asarray(order).tolist())))
            if not self.is_before(until):
                break
        for _, steps in sorted(others):
            found.setdefault(steps, 0)
        return [np.array(order, np.int64) for order in list(found)[:ORDERS]]

    def problem(self, order: IntArray) -> tuple[PackingProblem, IntArray, Pairs] | None:
        """Return the packing problem of an order, with the in-place pairs that spare most.

        None if pinned buffers clash in this order.
        """
        choices = [
            (*packing_problem(self.graph, order, taken), taken)
            for taken in pair_choices(self.graph, order, tries=0)
        ]
        able = [choice for choice in choices if not pins_clash(self.graph, *choice[:2])]
        return min(able, key=lambda choice: packing_bound(choice[0]), default=None)

    def plan(
        self,
        order: IntArray,
        problem: PackingProblem,
        ids: IntArray,
        taken: Pairs,
        packing: PoolsResult,
    ) -> Plan:
        """Return the checked plan of a packing."""
        names, offsets = packing.places(len(problem))
        pools = [buffer.pool for buffer in self.graph.buffers]
        for b, name in zip(ids.tolist(), names, strict=True):
            pools[b] = name
        for output, head in heads(taken).items():
            pools[output] = pools[head]
        made = make_plan(self.graph, order, offsets, taken)
        plan = replace(made, pools=tuple(pools[root] for root in self.graph.roots))
        limits = {pool.name: pool.capacity for pool in self.pools if pool.capacity is not None}
        check_plan(self.graph, plan, slab=packing.slab, capacities=limits)
        return plan

    def result(self, before: Result, plan: Plan | None, packing: PoolsResult) -> Result:
        """Return peak and slab of a plan that spills, with what is proved of them."""
        peak = None if plan is None else plan.peak(self.graph)
        slab = packing.slab
        # What was refuted of slabs holds where all lie in their own pools. Live bytes do anywhere.
        return replace(
            before,
            plan=plan,
            peak=peak,
            slab=slab,
            slab_bound=before.peak_bound,
            peak_proof=before.peak_proof if peak == before.peak_bound else None,
            slab_proof=Proof.JOINT if slab == before.peak_bound else None,
            stop_reason=packing.stop_reason,
            capacity=None,
            claimed_bound=None,
        )

    def finish(
        self,
        before: Result,
        result: Result,
        problem: PackingProblem,
        packing: PoolsResult,
        bound: int,
    ) -> PooledResult:
        """Put the parts together."""
        timed = replace(result, runtime=time.perf_counter() - self.started)
        found = PooledResult(self.graph, timed, before, problem, packing, bound, None)
        if found.status is Status.OPTIMAL and result.stop_reason is StopReason.EXHAUSTED:
            return replace(found, result=replace(timed, stop_reason=StopReason.PROVED))
        return found


def _as_given(problem: PackingProblem, offsets: IntArray, bound: int) -> PackingResult:
    """Return offsets as the result of a packing that nobody searched."""
    slab = problem.slab_size(offsets)
    proof = Proof.PACKING if slab == bound else None
    return PackingResult(offsets, slab, bound, proof, StopReason.DECIDED)
