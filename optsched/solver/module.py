"""Planning of a module: called computations first, then their callers with a block for each.

The minimum of a caller never falls when a block in it grows, so a minimum for every callee is part
of a minimum for the whole: one plan of each computation is enough, made in one pass. Proofs compose
in the same way. A lower bound of a caller is that of its graph in which every block has the lower
bound of what it calls; where the callee's minimum is proved, that is the graph it is planned on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import SupportsIndex, Unpack

import numpy as np

from optsched.check.module import check_module, check_schedule
from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.memory_model import plannable
from optsched.model.module import Module
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import make_plan
from optsched.model.question import Question
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.clock import Clock
from optsched.runtime.collector import paused_collector
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import (
    LimitKeywords,
    Limits,
    Objective,
    OnEvent,
    Proof,
    StopReason,
    choose_limits,
    choose_member,
    choose_size,
)
from optsched.solver.effort import MODULES
from optsched.solver.finding import Finding
from optsched.solver.known import Known
from optsched.solver.module_result import ModuleResult
from optsched.solver.order_packing import found_orders
from optsched.solver.pack import pack
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.schedule import Engine
from optsched.solver.status import Status


@keywords
def solve_module(
    module: Module,
    *,
    objective: Objective | str = Objective.SLAB,
    capacity: int | str | SupportsIndex | None = None,
    inplace: bool = False,
    align: int | str | SupportsIndex | None = None,
    engine: Engine | str = Engine.AUTO,
    limits: Limits | Clock | None = None,
    on_event: OnEvent | None = None,
    **named: Unpack[LimitKeywords],
) -> ModuleResult:
    """Choose an order and offsets for every computation, with proof or an honest gap.

    Parameters
    ----------
    module
        The module to plan.
    objective, capacity, engine
        As for :func:`optsched.solve`, of the entry with all that it calls. Every other computation
        is planned for the same objective.
    inplace, align
        As for :func:`optsched.solve`, of every computation.
    limits, on_event, named
        As for :func:`optsched.solve`; every computation gets an equal share of the time left.

    Returns
    -------
    ModuleResult
        Its plans have passed the independent checker.

    Raises
    ------
    UsageError
        If an option makes no sense, or offsets are asked for where results lie inside callees.

    Examples
    --------
    The body needs 40 bytes, which are live while `while` runs, beside its output of 8.

    >>> from optsched import Call, GraphBuilder, Module, solve_module
    >>> body, main = GraphBuilder("body"), GraphBuilder("main")
    >>> body.op("step", workspace=40)
    >>> main.op("while", writes={"y": 8})
    >>> graphs = {"body": body.build(), "main": main.build()}
    >>> module = Module("loop", graphs, "main", (Call("main", "while", ("body",)),))
    >>> result = solve_module(module)
    >>> result.entry.slab, result.results["body"].slab
    (48, 40)
    """
    if not isinstance(module, Module):
        raise UsageError(f"a Module is wanted, got {type(module).__name__}: solve plans a graph")
    asked, enough = choose_size(objective), None
    if capacity is not None:
        # A capacity limits the slab, so that the slab is what the search lowers.
        asked, enough = Objective.SLAB, parse_bytes(capacity)
    if module.results_inside and asked is Objective.SLAB:
        raise UsageError(
            f"{module.name}: results lie inside what is called and have no offsets: only the "
            "objective 'peak' can be asked for"
        )
    module = module.with_graphs(lambda graph: plannable(graph, inplace, align))
    clock = Clock.of(choose_limits(limits, named))
    run = _ModuleRun(module, asked, choose_member(Engine, engine, "engine"), enough, on_event)
    # Callees come first, so each caller finds the results of what it calls.
    for number, name in enumerate(module.computations):
        run.plan(name, clock.share(1 / (len(module.computations) - number)))
        # An interrupt ends the whole pass; later computations get no time.
        if run.interrupted:
            clock.stop()
    return run.result(clock.seconds())


@dataclass
class _ModuleRun:
    """The pass over the computations, and the results of those that are planned already.

    Blocks of these have their `peak` or `slab`, or a bound on it: the key that methods take.
    """

    module: Module
    objective: Objective
    engine: Engine
    capacity: int | None
    on_event: OnEvent | None
    results: dict[str, Result] = field(default_factory=dict)
    graphs: dict[tuple[str, tuple[tuple[str, int], ...]], Graph] = field(default_factory=dict)
    interrupted: bool = False
    """True once a search of any computation was interrupted."""

    def plan(self, name: str, clock: Clock) -> None:
        """Plan a computation whose callees are planned, and bound what any plan of it needs."""
        by_slab = self.objective is Objective.SLAB
        key = "slab" if by_slab else "peak"
        is_entry = name == self.module.entry
        # Closed: the callees' bounds equal their figures, so that one graph serves plan and bound.
        closed = all(self._same(name, key, bound) for bound in ("peak_bound", "slab_bound"))
        found = solve(
            self._graph(name, key),
            objective=self.objective,
            # The capacity is that of the whole module, which the entry stands for.
            capacity=self.capacity if is_entry else None,
            engine=self.engine,
            limits=clock if closed else clock.share(MODULES.plan_share),
            on_event=self.on_event if is_entry else None,
        )
        made = found if by_slab else self._placed(name, found, clock)
        if any(self.results[c].plan is None for c in self.module.callees_of(name)):
            # Its blocks were empty: that bounds it, but its plan has no room for what it calls.
            made = replace(made, plan=None)
        low_peak = self._below(name, key, "peak_bound", found, Objective.PEAK, clock)
        low_slab = low_peak
        if by_slab or self._same(name, key, "slab_bound"):
            low_slab = self._below(name, key, "slab_bound", found, self.objective, clock)
        ends = {x.stop_reason for x in (found, low_peak, low_slab)}
        self.interrupted |= StopReason.INTERRUPTED in ends
        self._keep(name, made, low_peak, low_slab)

    def result(self, seconds: float) -> ModuleResult:
        """Return the checked result."""
        made = ModuleResult(self.module, self.results, seconds)
        claims = {
            name: {key: getattr(x, key) for key in ("peak", "slab")}
            for name, x in self.results.items()
        }
        if made.plans is not None:
            check_module(self.module, made.plans, claims)
        elif self.module.results_inside and len(made.orders) == len(self.results):
            check_schedule(self.module, made.orders, {n: x["peak"] for n, x in claims.items()})
        return made

    def _placed(self, name: str, found: Result, clock: Clock) -> Result:
        """Return a new packing of a plan's order, if callees take more than their live bytes."""
        if found.plan is None or self.module.results_inside or self._same(name, "slab", "peak"):
            return found
        graph = self._graph(name, "slab")
        order = np.array(found.plan.order, np.int64)
        question = Question(graph, objective=self.objective)
        known = Known(question, clock)
        for finding in found_orders(known, "order of least peak", order):
            known.merge(finding)
        if not graph.in_place:
            problem, _ = packing_problem(graph, order)
            packed = pack(problem, limits=clock)
            if packed.offsets is not None:
                plan = make_plan(graph, order, packed.offsets)
                known.merge(Finding("its packing", plans=(plan,)))
        return replace(found, plan=known.plan, slab=known.measured.slab, question=question)

    def _below(
        self, name: str, key: str, bound: str, found: Result, objective: Objective, clock: Clock
    ) -> Result:
        """Return a result whose bound holds for all plans of the callees."""
        if self._same(name, key, bound):
            return found
        graph = self._graph(name, bound)
        # No time for another search: the simple bound is valid for any order.
        if clock.expired() and found.plan is not None:
            low = peak_lower_bound(graph, [found.plan.order], clock=clock).value
            bounded = replace(found, peak_bound=low, slab_bound=low)
            return replace(bounded, peak_proof=Proof.BOUND, slab_proof=Proof.JOINT)
        # Blocks of a bound have other sizes, so that offsets may not fit; they are only a start.
        fits = found.plan is not None and len(found.plan.offsets) == len(graph.buffers)
        return solve(
            graph,
            objective=objective,
            engine=self.engine,
            limits=clock.share(MODULES.bound_share),
            warm_start=found.plan if fits else None,
        )

    def _graph(self, name: str, key: str) -> Graph:
        """Return the graph of a computation, its callees' blocks by a number of their results."""
        sizes = self._sizes(name, key)
        known = name, tuple(sizes.items())
        if known not in self.graphs:
            with paused_collector():
                self.graphs[known] = self.module.with_blocks(name, sizes)
        return self.graphs[known]

    def _same(self, name: str, key: str, other: str) -> bool:
        return self._sizes(name, key) == self._sizes(name, other)

    def _sizes(self, name: str, key: str) -> dict[str, int]:
        return {c: getattr(self.results[c], key) or 0 for c in self.module.callees_of(name)}

    def _keep(self, name: str, made: Result, low_peak: Result, low_slab: Result) -> None:
        """Keep a computation's numbers, as they are with all that it calls."""
        peak = slab = None
        if made.plan is not None:
            peak = peak_memory(self._graph(name, "peak"), made.plan.order)
            slab = None if self.module.results_inside else made.slab
        peak_bound = low_peak.peak_bound
        slab_bound = max(peak_bound, low_slab.slab_bound)
        slab_proof = low_slab.slab_proof if slab == slab_bound else None
        if slab_proof is not None and not any(b.pool for b in self.module.graphs[name].buffers):
            # A joint bound (L5) for blocks of the callees' slabs may fail for their live bytes,
            # so that the kind of proof is decided again.
            slab_proof = Proof.JOINT if slab == peak_bound else Proof.JOINT_SEARCH
        result = replace(
            made,
            peak=peak,
            slab=slab,
            peak_bound=peak_bound,
            slab_bound=slab_bound,
            # A proof is kept only where figures and bound still meet with all callees inside.
            peak_proof=low_peak.peak_proof if peak == peak_bound else None,
            slab_proof=slab_proof,
            claimed_bound=None,
        )
        self.results[name] = replace(result, stop_reason=self._reason(name, result))

    def _reason(self, name: str, result: Result) -> StopReason:
        """Return why it ended: where it is open for the sake of callees alone, why these did."""
        settled = result.status in (Status.OPTIMAL, Status.INFEASIBLE)
        # Later computations ran out of time only because the user wanted no more.
        if self.interrupted and not settled:
            return StopReason.INTERRUPTED
        if settled or result.stop_reason not in (StopReason.PROVED, StopReason.DECIDED):
            return result.stop_reason
        reasons = [self.results[c].stop_reason for c in self.module.callees_of(name)]
        return next((x for x in reasons if x is not StopReason.PROVED), result.stop_reason)
