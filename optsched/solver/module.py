"""Planning of a module: called computations first, then their callers with a block for each.

The minimum of a caller never falls when a block in it grows, so a minimum for every callee is part
of a minimum for the whole: one plan of each computation is enough, made in one pass. Proofs compose
in the same way. A lower bound of a caller is that of its graph in which every block has the lower
bound of what it calls; where the callee's minimum is proved, that is the graph it is planned on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import SupportsIndex, Unpack

from optsched.check.module import check_module, replay_orders
from optsched.errors import UsageError
from optsched.model.memory_model import plannable
from optsched.model.module import Module
from optsched.model.order_rules import Baseline
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.runtime.bytes import parse_bytes
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
    choose_member,
    choose_size,
)
from optsched.solver.effort import MODULES
from optsched.solver.module_result import ModuleResult
from optsched.solver.pipeline import answer
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
    """The pass over the computations, and the results of those that are planned already."""

    module: Module
    objective: Objective
    engine: Engine
    capacity: int | None
    on_event: OnEvent | None
    results: dict[str, Result] = field(default_factory=dict)
    interrupted: bool = False
    """True once a search of any computation was interrupted."""

    def plan(self, name: str, clock: Clock) -> None:
        """Plan a computation whose callees are planned, and bound what any plan of it needs."""
        aim, callees = self.objective, {c: self.results[c] for c in self.module.callees_of(name)}
        blocks, slabs, low_peaks, low_slabs = (
            {callee: getattr(x, figure) or 0 for callee, x in callees.items()}
            for figure in (aim, "slab", "peak_bound", "slab_bound")
        )
        # Closed: the callees' bounds equal their figures, so that one graph serves plan and bound.
        closed = blocks == low_peaks == low_slabs
        question, on_event = self._question(name, blocks), None
        if name == self.module.entry:
            # The capacity is that of the whole module, which the entry stands for.
            question, on_event = replace(question, capacity=self.capacity), self.on_event
        share = 1.0 if closed else MODULES.plan_share
        found = made = self._answer(question, clock, share, on_event=on_event)
        if slabs != blocks and found.plan is not None and not self.module.results_inside:
            # Callees take more than their live bytes: the order is packed with their slabs.
            question = self._question(name, slabs)
            near = Baseline(found.plan.order, max_moved=0)
            packed = self._answer(replace(question, near=near, objective=Objective.SLAB), clock)
            made = replace(found, plan=packed.plan, slab=packed.slab, question=question)
        if any(x.plan is None for x in callees.values()):
            # Its blocks were empty: that bounds it, but its plan has no room for what it calls.
            made = replace(made, plan=None)
        low_peak = low_slab = found
        share = MODULES.bound_share
        if low_peaks != blocks:
            question = replace(self._question(name, low_peaks), objective=Objective.PEAK)
            low_peak = low_slab = self._answer(question, clock, share, start=found.plan)
        if low_slabs == blocks:
            low_slab = found
        elif aim is Objective.SLAB:
            low_slab = self._answer(self._question(name, low_slabs), clock, share, start=found.plan)
        self._keep(name, made, low_peak, low_slab)

    def _question(self, name: str, blocks: Mapping[str, int]) -> Question:
        """Return the question about a computation whose callees have blocks of some bytes."""
        return Question(self.module.with_blocks(name, blocks), objective=self.objective)

    def _answer(
        self,
        question: Question,
        clock: Clock,
        share: float = 1.0,
        *,
        start: Plan | None = None,
        on_event: OnEvent | None = None,
    ) -> Result:
        """Answer a question in a share of the time, from a plan that may have other blocks."""
        # Blocks of a bound have other sizes, so that offsets may not fit; they are only a start.
        fits = start is not None and len(start.offsets) == len(question.graph.buffers)
        found = answer(
            question,
            limits=clock.share(share),
            # With an order given, nothing is left for a named engine.
            engine=self.engine if question.near is None else Engine.AUTO,
            on_event=on_event,
            warm_start=start if fits else None,
        )
        self.interrupted |= found.stop_reason is StopReason.INTERRUPTED
        return found

    def _keep(self, name: str, made: Result, low_peak: Result, low_slab: Result) -> None:
        """Keep a computation's numbers, as they are with all that it calls."""
        has_slab = made.plan is not None and not self.module.results_inside
        slab = made.slab if has_slab else None
        peak_bound = low_peak.peak_bound
        slab_bound = max(peak_bound, low_slab.slab_bound)
        slab_proof = low_slab.slab_proof if slab == slab_bound else None
        if slab_proof is not None and not any(b.pool for b in self.module.graphs[name].buffers):
            # A joint bound (L5) for blocks of the callees' slabs may fail for their live bytes,
            # so that the kind of proof is decided again.
            slab_proof = Proof.JOINT if slab == peak_bound else Proof.JOINT_SEARCH
        result = replace(
            made,
            # With blocks as large as slabs it is not that of the whole, which is measured later.
            peak=None if made.plan is None else made.peak,
            slab=slab,
            peak_bound=peak_bound,
            slab_bound=slab_bound,
            peak_proof=low_peak.peak_proof,
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

    def result(self, seconds: float) -> ModuleResult:
        """Return the result, with the peaks that the checker measures."""
        made = ModuleResult(self.module, self.results, seconds)
        figures = ("slab",) if self.objective is Objective.SLAB else ("peak", "slab")
        claims = {n: {key: getattr(x, key) for key in figures} for n, x in self.results.items()}
        if made.plans is not None:
            peaks = check_module(self.module, made.plans, claims).peaks
        else:
            claimed = {name: claim.get("peak") for name, claim in claims.items()}
            peaks = replay_orders(self.module, made.orders, claimed)
        for name, x in self.results.items():
            # A proof is kept only where figure and bound meet with all callees inside.
            proof = x.peak_proof if peaks.get(name) == x.peak_bound else None
            self.results[name] = replace(x, peak=peaks.get(name), peak_proof=proof)
        return made
