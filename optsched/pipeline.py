"""solve(): heuristics, bounds, exact search of orders, packing, the joint model; one checked plan.

The composition root: it chooses engines and keeps the best plan and bounds, and holds no
algorithm of its own. Each stage runs only while something is left to prove, so an easy graph
never imports a solver.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice

import numpy as np

from heuristics.portfolio import candidate_offsets, candidate_orders
from optsched.arrays import IntArray
from optsched.bounds import peak_lower_bound
from optsched.check import check_plan
from optsched.errors import UsageError
from optsched.graph import Graph
from optsched.inplace import refuse_inplace
from optsched.liveness import Order, peak_memory
from optsched.pairing import Pairs, pair_choices
from optsched.plan import Plan, make_plan
from optsched.problem import packing_problem
from optsched.result import Event, Limits, Objective, OnEvent, Proof, Result, StopReason

DEFAULT_LIMITS = Limits(seconds=60.0)
"""Where a caller sets no limits: some questions have no answer in useful time."""
JOINT_OPS = 60
"""Up to this many ops the joint model is worth starting by itself."""
PACKED_ORDERS = 3
"""Heuristic orders that are packed: those of least peak."""
MANY_BUFFERS = 20_000
"""Beyond this many only the best order is packed."""
CLOSURE_ORDERS = 8
"""Orders that spare the closure bound its flows; more of them hardly spare more."""
FIRST_PACK_SHARE, OTHER_SHARE, WINDOW_SHARE = 0.3, 0.5, 0.5
"""Parts of the time left that packing the first order of least peak, other orders (and before that
all orders of a small graph), and windows of a large one may take."""
OTHER_TRIES, WINDOW_TRIES = 200, 60
"""Other orders that are packed, and windows that are freed, at most."""
MILP_OPS = 60
"""Above this many ops the MILP would not be built in useful time."""


class Engine(StrEnum):
    """Who closes what the heuristics and simple bounds leave open."""

    AUTO = "auto"
    """Our search first, the joint CP-SAT model where the graph is small."""
    CPSAT = "cpsat"
    """The joint CP-SAT model, whatever the size."""
    MILP = "milp"
    """The order by MILP: an independent second opinion on small graphs."""
    HEURISTICS = "heuristics"
    """Nobody: heuristics and bounds only."""


def solve(
    graph: Graph,
    *,
    objective: Objective | str = Objective.SLAB,
    capacity: int | None = None,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | None = None,
    warm_start: Plan | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Choose an order and offsets of least slab or peak, with proof or an honest gap.

    Parameters
    ----------
    graph
        What to plan.
    objective
        `slab` (least slab, then least peak) or `peak` (least peak, then least slab).
    capacity
        Ask only whether a slab of this many bytes is enough.
    engine
        See :class:`Engine`.
    limits
        Time, workers, seed; a minute if None. Ctrl-C ends the search as a time limit does.
    warm_start
        A plan to start from; it must be valid.
    on_event
        Called whenever the best plan or bound moves.

    Returns
    -------
    Result
        Its plan has passed the independent checker and is never worse than the best heuristic's.

    Raises
    ------
    UsageError
        If the graph has several pools (a plan has one slab), or an option makes no sense: the
        models of `cpsat` and `milp` know nothing of in-place.
    PlanError
        If the warm start breaks a rule of the graph.
    """
    pools = sorted({graph.buffers[b].pool for b in graph.roots if not graph.buffers[b].external})
    if len(pools) > 1:
        raise UsageError(f"a plan has one slab, but the buffers name several pools: {pools}")
    run = _Run(
        graph,
        Objective(objective),
        capacity,
        limits or DEFAULT_LIMITS,
        on_event or (lambda event: None),
    )
    stages = _STAGES[Engine(engine)]
    if _joint in stages or _milp in stages:
        refuse_inplace(graph, f"engine {engine}")
    try:
        if warm_start is not None:
            run.offer(warm_start, "warm start")
            run.offer_order(warm_start.order, "warm start")
        for stage in stages:
            if run.plan is not None and run.seconds_left() == 0:
                break
            # A model asked for by name has its say even where the question is answered.
            if not run.done() or stage in (_joint, _milp):
                stage(run)
    except KeyboardInterrupt:
        run.interrupted = True
    return run.result()


@dataclass
class _Run:
    """The best plan and bounds so far."""

    graph: Graph
    objective: Objective
    capacity: int | None
    limits: Limits
    on_event: OnEvent
    started: float = field(default_factory=time.perf_counter)
    plan: Plan | None = None
    peak: int = 0
    slab: int = 0
    candidates: list[tuple[int, IntArray]] = field(default_factory=list)
    bound: int = 0
    proof: Proof = Proof.BOUND
    refuted_slab: int = 0
    packed: set[bytes] = field(default_factory=set)
    claimed_peak: int = 0
    claimed_slab: int = 0
    trace: list[Event] = field(default_factory=list)
    interrupted: bool = False
    exhausted: bool = False

    def offer(self, plan: Plan, source: str) -> None:
        """Check a plan and keep it if it is better."""
        checked = check_plan(self.graph, plan)
        if self.plan is not None and self._key(checked.peak, checked.slab) >= self._key(
            self.peak, self.slab
        ):
            return
        self.plan, self.peak, self.slab = plan, checked.peak, checked.slab
        self.report(source)

    def offer_order(self, order: Order, source: str) -> None:
        """Remember an order; pack it at once if there is no plan yet."""
        found = np.asarray(order, np.int64)
        self.candidates.append((peak_memory(self.graph, found), found))
        if self.plan is None:
            self.pack(found, source, packings=1)

    def pack(self, order: IntArray, source: str, packings: int | None = None) -> None:
        """Offer the plans that the heuristic packers make of an order, until the slab is least."""
        for taken in islice(pair_choices(self.graph, order, self.bound, tries=0), packings):
            problem, _ = packing_problem(self.graph, order, taken)
            for name, offsets in islice(candidate_offsets(problem), packings):
                plan = make_plan(self.graph, order, offsets, taken)
                self.offer(plan, f"{source} + {name}")
                if self.done():
                    return

    def best_orders(self, count: int) -> list[tuple[int, IntArray]]:
        """Peak and order of the best few candidates, each order once."""
        found: dict[bytes, tuple[int, IntArray]] = {}
        for peak, order in sorted(self.candidates, key=lambda candidate: candidate[0]):
            found.setdefault(order.tobytes(), (peak, order))
            if len(found) == count:
                break
        return list(found.values())

    def raise_bound(self, value: int, proof: Proof, source: str) -> None:
        """Keep a proved lower bound on the peak of every order."""
        if value > self.bound:
            self.bound, self.proof = value, proof
            self.report(source)

    @property
    def slab_bound(self) -> int:
        """Bytes that every slab has: those of every peak, or one more than all orders refuse."""
        return max(self.bound, self.refuted_slab + 1 if self.refuted_slab else 0)

    def refute_slab(self, refuted: int, source: str) -> None:
        """Keep that no order packs into so many bytes."""
        if refuted >= self.slab_bound:
            self.refuted_slab = refuted
            self.report(source)

    def claim(self, objective: Objective, bound: int) -> None:
        """Keep a bound that only a solver vouches for."""
        if objective is Objective.PEAK:
            self.claimed_peak = max(self.claimed_peak, bound)
        else:
            self.claimed_slab = max(self.claimed_slab, bound)

    def seconds_left(self) -> float | None:
        """Time that may still be spent; None without a limit."""
        if self.limits.seconds is None:
            return None
        return max(0.0, self.limits.seconds - (time.perf_counter() - self.started))

    def limits_left(self, share: float = 1.0) -> Limits:
        """The limits of a stage that may use this share of the time left."""
        left = self.seconds_left()
        return replace(self.limits, seconds=None if left is None else left * share)

    def asks_for_slab(self) -> bool:
        """Whether offsets decide the question; what writes in place is packed by others."""
        wanted = self.objective is Objective.SLAB or self.capacity is not None
        return wanted and not self.graph.in_place

    def order_done(self) -> bool:
        """Whether an order of least peak is known and proved."""
        return any(peak <= self.bound for peak, _ in self.candidates)

    def done(self) -> bool:
        """Whether the question is answered."""
        if self.capacity is not None and self.slab_bound > self.capacity:
            return True
        if self.plan is None:
            return False
        if self.capacity is not None and self.slab <= self.capacity:
            return True
        if self.objective is Objective.PEAK:
            return self.peak <= self.bound
        return self.slab <= self.slab_bound

    def relay(self, source: str) -> OnEvent:
        """An event handler for an engine: its bound, on this run's clock, with our best value."""

        def forward(event: Event) -> None:
            self.report(source, event.bound)

        return forward

    def stop_if(self, reason: StopReason) -> None:
        """End the run where an engine was interrupted and has handed over what it found."""
        if reason is StopReason.INTERRUPTED:
            raise KeyboardInterrupt

    def result(self) -> Result:
        """Put together what is known."""
        has_plan = self.plan is not None
        peak_proof = slab_proof = None
        if has_plan and self.peak <= self.bound:
            peak_proof = self.proof
        elif has_plan and self.peak <= self.claimed_peak:
            peak_proof = Proof.CLAIMED
        if has_plan and self.slab <= self.bound:
            slab_proof = Proof.JOINT
        elif has_plan and self.slab <= self.slab_bound:
            # Of every order: the packings below the slab were searched.
            slab_proof = Proof.PACKING_SEARCH
        elif has_plan and self.slab <= self.claimed_slab:
            slab_proof = Proof.CLAIMED
        claimed = self.claimed_slab if self.objective is Objective.SLAB else self.claimed_peak
        return Result(
            plan=self.plan,
            peak=self.peak if has_plan else None,
            slab=self.slab if has_plan else None,
            peak_bound=self.bound,
            slab_bound=self.slab_bound,
            peak_proof=peak_proof,
            slab_proof=slab_proof,
            objective=self.objective,
            stop_reason=self._stop_reason(),
            capacity=self.capacity,
            claimed_bound=claimed if claimed > self._proved() else None,
            runtime=time.perf_counter() - self.started,
            trace=tuple(self.trace),
        )

    def _stop_reason(self) -> StopReason:
        if self.capacity is not None and self.done():
            return StopReason.DECIDED
        if self.done():
            return StopReason.PROVED
        if self.interrupted:
            return StopReason.INTERRUPTED
        if self.seconds_left() == 0:
            return StopReason.TIME_LIMIT
        return StopReason.EXHAUSTED

    def _key(self, peak: int, slab: int) -> tuple[int, int]:
        return (slab, peak) if self.objective is Objective.SLAB else (peak, slab)

    def _proved(self) -> int:
        return self.slab_bound if self.objective is Objective.SLAB else self.bound

    def report(self, source: str, bound: int = 0) -> None:
        value = None
        if self.plan is not None:
            value = self.slab if self.objective is Objective.SLAB else self.peak
        seconds = time.perf_counter() - self.started
        event = Event(seconds, value, max(self._proved(), bound), source)
        self.trace.append(event)
        self.on_event(event)


def _heuristics(run: _Run) -> None:
    """Orders, promising ones first, until one meets a simple bound."""
    for name, order in candidate_orders(run.graph, seed=run.limits.seed):
        run.offer_order(order, name)
        if len(run.candidates) == 1:
            bound = peak_lower_bound(run.graph, [order])
            run.raise_bound(bound.value, Proof.BOUND, "simple bound")
        if run.order_done() or run.seconds_left() == 0:
            return


def _closure_bound(run: _Run) -> None:
    if run.order_done():
        return
    from optsched.ordering import closure_bound

    left = run.seconds_left()
    deadline = None if left is None else time.monotonic() + left
    orders = [order for _, order in run.best_orders(CLOSURE_ORDERS)]
    found = closure_bound(run.graph, orders, deadline=deadline)
    run.raise_bound(found.value, Proof.BOUND, "closure bound")


def _pack_heuristically(run: _Run) -> None:
    few = PACKED_ORDERS if len(run.graph.buffers) <= MANY_BUFFERS else 1
    for _, order in run.best_orders(few):
        run.pack(order, "heuristic order")
        if run.done() or run.seconds_left() == 0:
            return


def _order_search(run: _Run) -> None:
    """The least peak over all orders, by our exact search; then its order, packed."""
    if run.order_done():
        return
    from optsched.ordering import solve_order

    outcome = solve_order(
        run.graph,
        limits=run.limits_left(),
        warm_start=run.best_orders(1)[0][1].tolist(),
        bound=run.bound,
        on_event=run.relay("order search"),
    )
    run.raise_bound(outcome.bound, outcome.proof or Proof.SEARCH, "order search")
    run.offer_order(outcome.order, "order search")
    run.pack(run.best_orders(1)[0][1], "order search")
    run.stop_if(outcome.stop_reason)


def _first_packing(run: _Run) -> None:
    _packing_search(run, FIRST_PACK_SHARE)


def _packing_search(run: _Run, share: float = 1.0) -> None:
    """The least slab of the least-peak order, by our exact packing search."""
    if run.objective is Objective.PEAK and not run.order_done():
        return
    _, order = run.best_orders(1)[0]
    choices = list(pair_choices(run.graph, order, run.bound))
    for number, taken in enumerate(choices):
        # The choices of in-place pairs share the time; without in-place there is one.
        _pack_choice(run, order, taken, share / (len(choices) - number))
        if run.done() or run.seconds_left() == 0:
            return


def _pack_choice(run: _Run, order: IntArray, taken: Pairs, share: float) -> None:
    from optsched.packing import solve_packing

    key = order.tobytes() + np.array(taken, np.int64).tobytes()
    if key in run.packed:
        return
    problem, _ = packing_problem(run.graph, order, taken)
    if run.graph.in_place and problem.max_load >= run.slab:
        return
    outcome = solve_packing(
        problem,
        limits=run.limits_left(share),
        capacity=run.capacity,
        # Its bound is that of one order.
        on_event=lambda event: run.report("packing search"),
    )
    if outcome.offsets is not None:
        run.offer(make_plan(run.graph, order, outcome.offsets, taken), "packing search")
    if outcome.stop_reason is not StopReason.TIME_LIMIT:
        run.packed.add(key)
    run.stop_if(outcome.stop_reason)


def _all_orders(run: _Run) -> None:
    """Each order of a small graph, packed or refuted: a proof where the slab exceeds the peak."""
    if run.plan is None or not run.asks_for_slab() or len(run.graph.ops) > JOINT_OPS:
        return
    from optsched.joint import exhaust

    found = exhaust(
        run.graph,
        run.slab - 1 if run.capacity is None else run.capacity,
        floor=run.slab_bound,
        offer=lambda plan: run.offer(plan, "all orders"),
        limits=run.limits_left(OTHER_SHARE),
    )
    if found.complete:
        run.refute_slab(found.refuted, "all orders")


def _other_orders(run: _Run) -> None:
    """Other orders of least peak, each packed for a short while."""
    if not run.asks_for_slab():
        return
    from optsched.joint import other_plans

    best = run.best_orders(PACKED_ORDERS)
    budget = max(run.bound, best[0][0]) if run.capacity is None else run.capacity
    # Orders of least peak first; some above it may pack into less than all of these.
    above = budget if run.capacity is not None else max(budget, run.slab - 1)
    for room in dict.fromkeys((budget, above)):
        orders = [order for peak, order in best if peak <= room]
        limits = run.limits_left(OTHER_SHARE)
        if orders and not run.done():
            for plan in other_plans(
                run.graph,
                orders,
                budget,
                bound=run.bound,
                limits=limits,
                tries=OTHER_TRIES,
                room=room,
            ):
                run.offer(plan, "other order")


def _joint_windows(run: _Run) -> None:
    """Order and offsets inside stretches of steps, by CP-SAT, where the whole is too large."""
    if run.plan is None or not run.asks_for_slab() or len(run.graph.ops) <= JOINT_OPS:
        return
    from optsched.joint.windows import window_plans

    target = max(run.bound, run.best_orders(1)[0][0]) if run.capacity is None else run.capacity
    limits = run.limits_left(WINDOW_SHARE)
    try:
        for plan in window_plans(run.graph, run.plan, target, limits=limits, windows=WINDOW_TRIES):
            run.offer(plan, "window")
    except UsageError:
        # As for the joint model.
        return


def _joint(run: _Run) -> None:
    """Order and offsets together, by CP-SAT; its bound is a claim."""
    from optsched.cpsat import Stop, solve_joint

    outcome = solve_joint(
        run.graph,
        objective=run.objective,
        capacity=run.capacity,
        limits=run.limits_left(),
        warm_start=run.plan,
        peak_bound=run.bound,
        slab_bound=run.bound,
        on_event=run.relay("cpsat"),
    )
    if outcome.plan is not None:
        run.offer(outcome.plan, "cpsat")
    run.claim(run.objective, outcome.bound)
    if outcome.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt


def _joint_if_small(run: _Run) -> None:
    if len(run.graph.ops) > JOINT_OPS or run.graph.in_place:
        return
    try:
        _joint(run)
    except UsageError:
        # Sizes outside CP-SAT's exact range: nobody asked for it by name, so do without.
        return


def _milp(run: _Run) -> None:
    """The order by MILP, then the heuristic packers; its bound is a claim."""
    from optsched.milp import solve_order_milp

    if len(run.graph.ops) > MILP_OPS:
        raise UsageError(
            f"engine milp takes up to {MILP_OPS} ops, {run.graph.name} has {len(run.graph.ops)}"
        )
    outcome = solve_order_milp(run.graph, limits=run.limits_left(), peak_bound=run.bound)
    if outcome.order is not None:
        run.offer_order(outcome.order, "milp")
        run.pack(np.asarray(outcome.order, np.int64), "milp")
    run.claim(Objective.PEAK, outcome.bound)


Stage = Callable[[_Run], None]
_HEURISTIC_STAGES: tuple[Stage, ...] = (_heuristics, _closure_bound, _pack_heuristically)
_STAGES: dict[Engine, Sequence[Stage]] = {
    Engine.AUTO: (
        *_HEURISTIC_STAGES,
        _order_search,
        _first_packing,
        _all_orders,
        _other_orders,
        _joint_if_small,
        _joint_windows,
        _packing_search,
    ),
    Engine.CPSAT: (*_HEURISTIC_STAGES, _joint),
    Engine.MILP: (*_HEURISTIC_STAGES, _milp),
    Engine.HEURISTICS: _HEURISTIC_STAGES,
}
