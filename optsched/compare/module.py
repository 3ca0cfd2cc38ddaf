"""Measurement of one method on all computations of a module, callees first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from optsched.check.module import check_module, check_schedule
from optsched.check.plan import Checked, check_order
from optsched.compare.measure import DEFAULT_PACKING, AbsentError, MethodRunner, measured, planless
from optsched.compare.methods import Exact, Heuristic, Kind, PlanFile
from optsched.compare.rows import Measured, Outcome
from optsched.errors import FormatError
from optsched.formats.answers import Asked, open_answer
from optsched.formats.answers.module import ModuleAnswer
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.model.steps import Order
from optsched.runtime.limits import Objective
from optsched.solver.module import solve_module

_Sizes = dict[str, int]


def runner_of(module: Module, graph: Graph, *settings: Any, **named: Any) -> MethodRunner:
    """Return the runner for a module with calls, or for the graph alone, which is its entry."""
    if module.calls:
        return ModuleRunner(graph, *settings, **named, module=module)
    return MethodRunner(graph, *settings, **named)


@dataclass
class ModuleRunner(MethodRunner):
    """Runner that measures methods on a module: every computation is ordered and packed separately.

    A call allocates a block for the computation that it calls. For methods that are judged by their
    order, the size of the block is the callee's peak in the method's own order; for others, it is
    the callee's slab. In a module whose results lie inside the called computation's block, only
    orders can be measured.
    """

    module: Module = field(kw_only=True)
    best_orders: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Orders by computation that packing methods pack: those that our own method found."""

    def _heuristic(self, method: Heuristic) -> Measured:
        if self.module.results_inside and method.kind is not Kind.ORDER:
            raise AbsentError(
                "results lie inside blocks of called computations: no offsets to choose"
            )
        peaks: _Sizes = {}
        slabs: _Sizes = {}
        seconds = {Kind.ORDER: 0.0, Kind.PACKING: 0.0}
        order: Order = ()
        # Callees first, as a caller needs the size of their blocks.
        for name in self.module.computations:
            # Judged by order, a callee counts with its peak: packing is not this method's affair.
            by_peak = method.kind is Kind.ORDER
            graph = self.module.with_blocks(name, peaks if by_peak else slabs)
            order, took = self._order_within(name, graph, method)
            # The checker's peak, not the method's own figure.
            peaks[name] = check_order(self.module.with_blocks(name, peaks), list(map(int, order)))
            slabs[name], packed = peaks[name], 0.0
            if not self.module.results_inside:
                part = self._part(self.module.with_blocks(name, slabs))
                _, placed, packed = part.pack(order, method.packing or DEFAULT_PACKING)
                slabs[name] = placed.slab
            seconds[Kind.ORDER] += took
            seconds[Kind.PACKING] += packed
        runtime = {**seconds, Kind.PLAN: sum(seconds.values())}[method.kind]
        return measured(method, self._whole(peaks, slabs), runtime, tuple(map(int, order)))

    def _order_within(self, name: str, graph: Graph, method: Heuristic) -> tuple[Order, float]:
        part = self._part(graph)
        part.best_order = self.best_orders.get(name)
        if method.is_recorded:
            if name == self.module.entry:
                return self.order_of(method)
            # A scheduled HLO text lists every computation in its order.
            return tuple(range(len(graph.ops))), 0.0
        return part.order_of(method)

    def _part(self, graph: Graph) -> MethodRunner:
        return MethodRunner(graph, self.limits, self.engine, patience=self.patience)

    def _plan_file(self, method: PlanFile) -> Measured:
        answer = open_answer(method.path, Asked(self.module, verb="compare"))
        if not isinstance(answer, ModuleAnswer):
            raise FormatError(f"{method.path}: expected a plan of a module, got {answer.holds}")
        whole = self._whole(answer.checked.peaks, answer.checked.slabs)
        return measured(method, whole, 0.0, answer.plans[self.module.entry].order)

    def _exact(self, method: Exact) -> Outcome:
        """Solve for orders only if results have no place of their own; slabs then equal peaks."""
        by_peak = self.module.results_inside
        found = solve_module(
            self.module,
            objective=Objective.PEAK if by_peak else Objective.SLAB,
            engine=method.engine or self.engine,
            limits=self.limits_of(method),
            on_event=self.on_event,
        )
        result, plans = found.entry, found.plans
        if result.plan is None or (plans is None and not by_peak):
            return planless(method, result)
        # Packing methods pack these orders later.
        if method.is_ours:
            self.best_orders = found.orders
        if plans is None:
            peaks = check_schedule(self.module, found.orders)
            whole = self._whole(peaks, peaks)
            result = replace(result, slab=whole.peak, slab_proof=result.peak_proof)
        else:
            checked = check_module(self.module, plans)
            whole = self._whole(checked.peaks, checked.slabs)
        return measured(method, whole, found.runtime, found.orders[self.module.entry], result)

    def _whole(self, peaks: Mapping[str, int], slabs: Mapping[str, int]) -> Checked:
        """Return the module's figures: those of its entry, with blocks for the calls."""
        entry = self.module.entry
        return Checked(peaks[entry], {"": slabs[entry]})
