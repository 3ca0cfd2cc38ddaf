"""One method on all computations of a module, callees first, measured as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from optsched.check.module import check_module, check_schedule
from optsched.check.plan import Checked, check_order
from optsched.compare.measure import (
    DEFAULT_PACKING,
    AbsentError,
    MethodRunner,
    measured,
    planless,
)
from optsched.compare.methods import FRAMEWORKS, RECORDED, Exact, Heuristic, Kind, PlanFile
from optsched.compare.rows import Measured, Outcome
from optsched.formats import read_module_plan
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.model.steps import Order
from optsched.runtime.limits import Objective
from optsched.solver.module import solve_module

_Sizes = dict[str, int]


@dataclass
class ModuleRunner(MethodRunner):
    """Measures methods on a module: each orders and packs every computation by itself.

    Where only orders are judged, a method is shown what its own orders of the callees need at their
    peaks; otherwise the slabs that they are packed in. Where results lie inside what is called
    there are orders alone to judge.

    Parameters
    ----------
    module
        The module; `graph` is its entry, for names and sizes of tables.
    best_orders
        What packings are given; set by our own method.
    """

    module: Module = field(kw_only=True)
    best_orders: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def _heuristic(self, method: Heuristic) -> Measured:
        if self.module.results_inside and method.kind is not Kind.ORDER:
            raise AbsentError("results lie inside what is called: there are no offsets to choose")
        peaks: _Sizes = {}
        slabs: _Sizes = {}
        seconds = {Kind.ORDER: 0.0, Kind.PACKING: 0.0}
        order: Order = ()
        for name in self.module.computations:
            by_peak = method.kind is Kind.ORDER
            graph = self.module.with_blocks(name, peaks if by_peak else slabs)
            order, took = self._order_within(name, graph, method)
            peaks[name] = check_order(self.module.with_blocks(name, peaks), list(map(int, order)))
            slabs[name], packed = peaks[name], 0.0
            if not self.module.results_inside:
                part = self._part(self.module.with_blocks(name, slabs))
                placed, packed = part.pack(order, method.packing or DEFAULT_PACKING)
                slabs[name] = placed.slab
            seconds[Kind.ORDER] += took
            seconds[Kind.PACKING] += packed
        runtime = {**seconds, Kind.PLAN: sum(seconds.values())}[method.kind]
        entry = self.module.entry
        checked = Checked(peaks[entry], {"": slabs[entry]})
        return measured(method, checked, runtime, tuple(map(int, order)))

    def _order_within(self, name: str, graph: Graph, method: Heuristic) -> tuple[Order, float]:
        part = self._part(graph)
        part.best_order = self.best_orders.get(name)
        recorded = method.ordering is not None and (
            method.ordering in FRAMEWORKS or method.ordering.startswith(RECORDED)
        )
        if recorded:
            if name == self.module.entry:
                return self.order_of(method)
            # A text that is a schedule is one of every computation.
            return tuple(range(len(graph.ops))), 0.0
        return part.order_of(method)

    def _part(self, graph: Graph) -> MethodRunner:
        return MethodRunner(graph, self.limits, self.engine, patience=self.patience)

    def _plan_file(self, method: PlanFile) -> Measured:
        plans, _ = read_module_plan(method.path, self.module)
        checked, entry = check_module(self.module, plans), self.module.entry
        whole = Checked(checked.peaks[entry], {"": checked.slabs[entry]})
        return measured(method, whole, 0.0, plans[entry].order)

    def _exact(self, method: Exact) -> Outcome:
        if self.module.results_inside:
            return self._exact_peak(method)
        found = solve_module(
            self.module,
            engine=method.engine or self.engine,
            limits=self.limits_of(method),
            on_event=self.on_event,
        )
        result = found.entry
        if result.plan is None or found.plans is None:
            return planless(method, result)
        if method.is_ours:
            self.best_orders = found.orders
        checked, entry = check_module(self.module, found.plans), self.module.entry
        whole = Checked(checked.peaks[entry], {"": checked.slabs[entry]})
        return measured(method, whole, found.runtime, result.plan.order, result)

    def _exact_peak(self, method: Exact) -> Outcome:
        """Choose orders alone, where results have no place of their own; slabs are peaks then."""
        found = solve_module(
            self.module,
            objective=Objective.PEAK,
            engine=method.engine or self.engine,
            limits=self.limits_of(method),
            on_event=self.on_event,
        )
        result = found.entry
        if result.plan is None:
            return planless(method, result)
        peak = check_schedule(self.module, found.orders)[self.module.entry]
        known = replace(result, slab=peak, slab_proof=result.peak_proof)
        checked = Checked(peak, {"": peak})
        return measured(method, checked, found.runtime, result.plan.order, known)
