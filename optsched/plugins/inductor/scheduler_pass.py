"""The pass that Inductor calls after fusion: an order of least memory, or Inductor's own.

Inductor fuses a graph, then calls this pass with the fused nodes. The pass returns them in the
order of smallest simulated peak (:mod:`optsched.plugins.inductor.orders`), some of them cut into
parts if that lowers the peak (:mod:`optsched.plugins.inductor.cuts`). If anything fails, Inductor's
own result is used.

Example: nodes `other`, `big`, `sum` and `join` are passed in this order; the pass returns `big`,
`sum`, `other`, `join`, so that the large result is reduced before another one exists.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from torch._guards import CompileContext
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomSchedulerPass
from torch._inductor.graph import SubgraphLowering
from torch._inductor.virtualized import V

from optsched.errors import OptschedError
from optsched.plugins.gain import DEFAULT_GAIN, MinGain, kept_reason
from optsched.plugins.inductor.cuts.find import Cuts, find_cuts
from optsched.plugins.inductor.cuts.rebuild import restore_nodes, use_nodes
from optsched.plugins.inductor.earlier import Earlier
from optsched.plugins.inductor.lifecycle import expect_lives, plan_lives
from optsched.plugins.inductor.orders.candidates import Decision
from optsched.plugins.inductor.orders.choice import Choice
from optsched.plugins.inductor.orders.node_order import decide_order
from optsched.plugins.inductor.reading.collectives import require_known_collectives
from optsched.plugins.inductor.reading.ownership import find_owned_inputs
from optsched.plugins.inductor.reading.support import KeptOrderError, require_support
from optsched.plugins.inductor.reading.triton import runs_on_gpu
from optsched.plugins.inductor.regions import current_region
from optsched.plugins.inductor.running.cached import leave_record
from optsched.plugins.inductor.running.measured import Meter
from optsched.plugins.inductor.sizes.kernels import KernelMemory, MeasuredKernels, measure_kernels
from optsched.plugins.inductor.sizes.meter import missing_counter
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts
from optsched.plugins.records import CompiledGraph, remember
from optsched.plugins.sources import sources_digest
from optsched.runtime.clock import Clock, counted_seconds
from optsched.runtime.limits import Limits, Proof
from optsched.runtime.text import listed
from optsched.store import PlanStore

logger = logging.getLogger("optsched.plugins.inductor")
WALL = 10
"""Time limits after which the wall's clock ends the searches for a graph."""
EARLIER_ORDERS = Earlier[tuple[Order, bool]](most=128)
"""Orders of graphs within a budget and their reuse, first as simulated, then as compiled."""


@dataclass(frozen=True)
class SchedulerPass(CustomSchedulerPass):  # type: ignore[misc]
    """Orders the nodes of each graph that Inductor compiles."""

    time_limit: float
    """Seconds for the solver per graph: for the order, then for cuts and the order after them."""
    store: str | None
    """Path of a plan store, if any."""
    reorder: bool
    reuse: bool
    """`reorder` and `reuse`: Inductor's settings `reorder_for_peak_memory` and `allow_buffer_reuse`
    at the time when the pass was set up; the pass sets both for each graph."""
    lifecycle: bool = False
    """True to keep the planned lives of buffers, which are compared when the graph runs."""
    min_gain: MinGain = DEFAULT_GAIN
    """Least saving for which Inductor's own order is replaced; any, where only another order is
    within the budget."""
    cuda: bool = False
    """True to order graphs of a GPU, too."""
    measure: bool = False
    """True to measure the first calls of each graph."""
    split: str | bool = "auto"
    """Cuts of fused nodes: `"auto"`, `"peak"` or False."""
    budget: int | None = None
    """Bytes that a step may need; None: as few as can be. Within it Inductor's own order is kept if
    it fits, else its reuse of buffers if an order with it fits, as both save time; and nodes stay
    whole (:mod:`optsched.plugins.inductor.recompute.calibrate`)."""

    def uuid(self) -> str | None:
        """Return a digest of all that decides the plans; None disables Inductor's caches."""
        if self.lifecycle:
            # A graph served from the cache would bypass the pass.
            return None
        try:
            # Plans from another state of the store may differ, so its content is part of the key.
            stored = None if self.store is None else PlanStore(self.store).digest()
        except OptschedError:
            return None
        chosen = (self.time_limit, stored, self.reorder, self.reuse, self.min_gain)
        limits = self._limits()
        settings = repr((*chosen, self.cuda, self.measure, self.split, self.budget, limits))
        return hashlib.sha256((sources_digest() + settings).encode()).hexdigest()

    def __call__(self, nodes: list[Any]) -> list[Any]:
        """Return the nodes in the order in which they are to run; never fail."""
        if isinstance(V.graph, SubgraphLowering):
            # A subgraph of an op: the graph that contains it was left to Inductor.
            return nodes
        start, name = time.perf_counter(), _graph_name()
        # Settings of an earlier graph must not decide about this one.
        self._leave_to_inductor()
        try:
            # Other processes, such as those that compile kernels, must not decide what is found.
            with counted_seconds(WALL * self.time_limit):
                answer = self._within_region(nodes)._answer(nodes, name)
        except Exception as error:
            # The compilation may have stopped half way, with the settings of our order.
            self._leave_to_inductor()
            answer = _Answer(nodes, _failure(name, len(nodes), error))
        remember(replace(answer.record, seconds=time.perf_counter() - start))
        # Written into the compiled module, so that a process that loads it from the cache reports
        # it too.
        leave_record(V.graph, answer.record, answer.meter)
        return answer.nodes

    def _limits(self) -> tuple[int, int] | None:
        """Return the bytes that the graphs of the present region may need, if it has its own."""
        region = current_region()
        return None if region is None else region.limits

    def _within_region(self, nodes: Sequence[Any]) -> SchedulerPass:
        """Return this pass with the budget of the graph that is compiled."""
        region = current_region()
        if region is None or region.limits is None:
            return self
        budget = region.limits[V.graph.is_backward]
        if V.graph.is_backward and region.expected is not None:
            # What this call owns is not live outside of it, and the reverse.
            sizes = {x.storage: x.size for x in find_owned_inputs(nodes).expected}
            budget += sum(sizes.values()) - region.expected
        return replace(self, budget=budget)

    def _answer(self, nodes: list[Any], name: str) -> _Answer:
        """Read the facts, decide on order and cuts, and apply both."""
        require_support(nodes, self.time_limit, cuda=self.cuda)
        require_known_collectives(nodes)
        kernels = measure_kernels(nodes)
        clock = Clock.of(Limits(seconds=self.time_limit))
        facts, decision = self.decide(nodes, kernels.by_name, name, self.time_limit)
        cuts = self.cut(nodes, facts, decision, kernels.by_name, name, clock)
        try:
            return self._apply(nodes, name, kernels, facts, decision, cuts)
        except Exception:
            # The scheduler may know the nodes after cuts, which will not run.
            if cuts is not None:
                restore_nodes(nodes)
            raise

    def _apply(
        self,
        nodes: list[Any],
        name: str,
        kernels: MeasuredKernels,
        facts: WrapperFacts,
        decision: Decision,
        cuts: Cuts | None,
    ) -> _Answer:
        """Return the nodes to run and what is reported of them."""
        record = _describe(decision, name, len(nodes), applied=decision.gains)
        ordered, final = nodes, decision
        choice = decision.best if decision.gains else decision.own
        if cuts is not None:
            record = _describe_cuts(cuts, record, decision)
            facts, final, choice = cuts.facts, cuts.decision, cuts.decision.best
            use_nodes(cuts.nodes)
            ordered = _use_order(cuts.nodes, choice)
        elif decision.gains:
            ordered = _use_order(nodes, choice)
        if self.lifecycle and not V.graph.cpp_wrapper:
            lives = plan_lives(facts, choice.order, reuse=choice.reuse, name=name)
            expect_lives(V.graph, lives)
        meter = _meter(facts, final, _device(nodes)) if self.measure else None
        notes = (_above(self.budget, choice), _note(kernels, decision, choice, runs_on_gpu(nodes)))
        missing = f"not measured: {why}" if meter and (why := missing_counter(meter.device)) else ""
        record = replace(record, note="; ".join(filter(None, (*notes, missing))))
        return _Answer(ordered, record, meter)

    def _leave_to_inductor(self) -> None:
        """Restore the settings that an earlier graph may have changed, so that Inductor decides."""
        config.reorder_for_peak_memory = self.reorder
        config.allow_buffer_reuse = self.reuse

    def decide(
        self, nodes: Sequence[Any], kernels: Mapping[str, KernelMemory], name: str, seconds: float
    ) -> tuple[WrapperFacts, Decision]:
        """Return the facts of nodes, and the decision on their order."""
        facts, decision = decide_order(
            nodes,
            kernels,
            seconds=seconds,
            name=name,
            reorder=self.reorder,
            reuse=self.reuse,
            store=None if self.store is None else PlanStore(self.store),
            earlier=None if self.budget is None else EARLIER_ORDERS,
            min_gain=self.min_gain,
            enough=self.budget or 0,
        )
        # Few bytes are worth another order, too, if the graph exceeds the budget by them.
        best, own = decision.best.highest, decision.own.highest
        if self.budget is not None and best <= self.budget < own:
            decision = replace(decision, min_gain=MinGain(Fraction(0), 0))
        return facts, decision

    def cut(
        self,
        nodes: Sequence[Any],
        facts: WrapperFacts,
        decision: Decision,
        kernels: Mapping[str, KernelMemory],
        name: str,
        clock: Clock,
    ) -> Cuts | None:
        """Return cuts of fused nodes that lower the peak; None if the nodes stay as they are.

        With a budget, these are cuts of a graph above it that save at least the excess, at any
        price if cheap ones do not, or else as much as they can.
        """
        peak = (decision.best if decision.gains else decision.own).peak
        if not self.split or (self.budget is not None and peak <= self.budget):
            return None
        # Cuts are searched by the sizes of the first call, and a budget holds for all sizes.
        if self.budget is not None and facts.worst:
            return None
        excess = 0 if self.budget is None else peak - self.budget
        tries = [(str(self.split), max(excess, self.min_gain.size), self.budget is not None)]
        if self.budget is not None:
            # Above the budget in any case, the graph is brought as near as cuts can.
            tries.append(("peak", self.min_gain.size, False))
        for split, size, must_fit in tries:
            try:
                found = find_cuts(
                    nodes,
                    facts,
                    decision,
                    kernels,
                    lambda made, seconds: self.decide(made, kernels, name, seconds),
                    split=split,
                    clock=clock,
                    min_gain=replace(self.min_gain, size=size),
                    name=name,
                    must_fit=must_fit,
                    earlier=self.budget is not None,
                )
            except Exception as error:
                logger.warning("%s: fused nodes left to Inductor: %s", name, _reason(error))
                return None
            if found is not None:
                return found
        return None


@dataclass(frozen=True)
class _Answer:
    """The nodes that Inductor gets, their record, and how to measure them."""

    nodes: list[Any]
    record: CompiledGraph
    """`nodes` and `record`: nodes in the order in which they run, and the decision."""
    meter: Meter | None = None
    """The way to measure calls; None if they are not measured."""


def _failure(name: str, ops: int, error: Exception) -> CompiledGraph:
    """Log the reason for which a graph is left to Inductor, and return its record."""
    reason = _reason(error)
    # An unsupported graph is expected; any other error is a fault that somebody should see.
    level = logging.INFO if isinstance(error, KeptOrderError) else logging.WARNING
    logger.log(level, "%s: order left to Inductor: %s", name, reason)
    return CompiledGraph("inductor", name, ops, reason=reason)


def _use_order(nodes: Sequence[Any], choice: Choice) -> list[Any]:
    """Return nodes in the order of a choice, with Inductor's settings so that it stays."""
    # Otherwise Inductor would reorder once more, by its less accurate estimate.
    config.reorder_for_peak_memory = False
    config.allow_buffer_reuse = choice.reuse
    return [nodes[v] for v in choice.order]


def _describe(decision: Decision, name: str, ops: int, *, applied: bool) -> CompiledGraph:
    own, best = decision.own, decision.best
    record = CompiledGraph(
        "inductor",
        name,
        ops,
        before=own.peak,
        after=best.peak if applied else own.peak,
        bound=decision.bound,
        proof=Proof(decision.proof).words if decision.proof else "",
        solver_seconds=decision.solver_seconds,
    )
    if decision.bound is not None and decision.bound > best.peak:
        # The runtime shares bytes that the graph counts twice, so the graph's bound does not apply.
        record = replace(record, bound=None, proof="")
    if not applied:
        if decision.least is not None and decision.least < min(own.peak, best.peak):
            reason = f"it is within the peak; the best order found needs {decision.least:,} bytes"
        else:
            reason = kept_reason(own.peak, best.peak, decision.min_gain)
        return replace(record, reason=reason)
    order = f"order: {best.name}, {best.moved} of {ops} nodes moved"
    if best.reuse != own.reuse:
        order += ", buffer reuse off"
    if not decision.own_is_valid:
        order += "; Inductor's own order breaks one that a mutation needs"
    return replace(record, order=order)


def _device(nodes: Sequence[Any]) -> str:
    """Return the device of a supported graph, which runs on a single one."""
    devices = [device for node in nodes if (device := node.get_device()) is not None]
    return "cpu" if not runs_on_gpu(nodes) else str(devices[0])


def _meter(facts: WrapperFacts, decision: Decision, device: str) -> Meter:
    freed = {given.name for given in facts.inputs}
    positions = (i for i, name in enumerate(V.graph.graph_inputs) if name in freed)
    return Meter(device, decision.start, tuple(positions))


def _describe_cuts(cuts: Cuts, record: CompiledGraph, decision: Decision) -> CompiledGraph:
    """Return the record of a graph whose nodes were cut: peaks against Inductor's own order."""
    best = cuts.decision.best
    ordered = decision.best.peak if decision.gains else decision.own.peak
    return replace(
        record,
        before=decision.own.peak,
        after=best.peak,
        # The runtime shares bytes that the graph counts twice, as above.
        bound=cuts.found.bound if cuts.found.bound <= best.peak else None,
        proof="",
        order=f"order: {best.name}, with Inductor's fused nodes {ordered:,} bytes",
        reason="",
        fusion=cuts.text,
    )


def _above(budget: int | None, taken: Choice) -> str:
    """Return a note if a graph needs more than the step was asked to.

    Its split was simulated with shorter limits, so other orders and cuts may have been found.
    """
    is_within = budget is None or taken.highest <= budget
    return "" if is_within else f"above the {budget:,} bytes that it may need within the peak"


def _note(kernels: MeasuredKernels, decision: Decision, taken: Choice, on_gpu: bool) -> str:
    """Return a note on bytes that the figures leave out, and on symbolic sizes with a range."""
    remarks = ["simulated, not measured on a GPU"] if on_gpu else []
    if kernels.unknown:
        names = listed(kernels.unknown, 3)
        remarks.append(f"what these kernels allocate while they run is not counted: {names}")
    if decision.unknown_bytes:
        remarks.append(f"its caller may hold {decision.unknown_bytes:,} bytes more or fewer")
    if taken.worst:
        own = f" (Inductor's order {decision.own.worst:,})" if taken != decision.own else ""
        remarks.append(f"at the upper ends of its sizes {taken.worst:,} bytes{own}")
    return "; ".join(remarks)


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()
    if isinstance(error, OptschedError):
        return text[0]
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"


def _graph_name() -> str:
    phase = (
        "inference" if V.graph.is_inference else "backward" if V.graph.is_backward else "forward"
    )
    return f"{CompileContext.current_compile_id() or 'graph'} {phase}"
