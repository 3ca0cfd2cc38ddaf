"""One method on one graph: run it, and let the independent checker measure its plan."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from heuristics import ORDERINGS, PACKINGS
from heuristics.portfolio import pack_apart
from optsched.check.plan import Checked, check_order, check_plan
from optsched.compare.methods import RECORDED, Exact, Heuristic, Kind, Method, PlanFile
from optsched.compare.rows import Failed, Measured, Outcome, Trouble
from optsched.errors import OptschedError, PlanError
from optsched.formats import read_plan, read_recorded
from optsched.formats.recorded import CHOSEN
from optsched.model.graph import Graph
from optsched.model.inplace_choice import pair_choices
from optsched.model.liveness import Order, peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import make_plan
from optsched.model.pools import pool_rows
from optsched.runtime.limits import Limits, OnEvent, StopReason
from optsched.solver.pipeline import Engine, solve

DEFAULT_PACKING = "greedy_by_size"
"""How an order is packed where only orders are compared."""


class AbsentError(OptschedError):
    """There is nothing to measure: no recorded order, no plan, no order to pack."""


@dataclass
class Bench:
    """A graph on which methods are measured, and what they share.

    Parameters
    ----------
    graph
        The graph.
    limits, engine
        Of solvers without their own.
    path
        The graph's file, for the orders it records.
    best_order
        What packings are given; set by our own method.
    on_event
        Told how solvers get on.
    """

    graph: Graph
    limits: Limits
    engine: Engine = Engine.AUTO
    path: str = ""
    best_order: Order | None = None
    on_event: OnEvent | None = None
    orders: dict[str, tuple[Order, float]] = field(default_factory=dict)
    recorded: dict[str, tuple[int, ...]] | None = None

    def measure(self, method: Method) -> Outcome:
        """Run a method; whatever goes wrong in it is an outcome, too."""
        started = time.perf_counter()
        try:
            match method:
                case Heuristic():
                    return self._heuristic(method)
                case PlanFile():
                    return self._plan_file(method)
                case Exact():
                    return self._exact(method)
        except AbsentError as error:
            trouble, reason = Trouble.ABSENT, str(error)
        except PlanError as error:
            trouble, reason = Trouble.REFUSED, str(error)
        except OptschedError as error:
            trouble, reason = Trouble.FAILED, str(error)
        except Exception as error:
            # A method that crashes is a row; the others have their turn.
            trouble, reason = Trouble.FAILED, f"{type(error).__name__}: {error}"
        reason = " ".join(reason.split())
        return Failed(method.name, method.kind, trouble, reason, time.perf_counter() - started)

    def limits_of(self, method: Exact) -> Limits:
        """Return the limits of a solver."""
        if method.seconds is None:
            return self.limits
        seconds = None if method.seconds == float("inf") else method.seconds
        return replace(self.limits, seconds=seconds)

    def _heuristic(self, method: Heuristic) -> Measured:
        order, seconds = self._order(method.ordering)
        checked, packed = _pack(self.graph, order, method.packing or DEFAULT_PACKING)
        runtime = {
            Kind.ORDER: seconds,
            Kind.PACKING: packed,
            Kind.PLAN: seconds + packed,
        }[method.kind]
        return Measured(method.name, method.kind, checked.peak, checked.slab, runtime)

    def _order(self, ordering: str | None) -> tuple[Order, float]:
        if ordering is None:
            if self.best_order is None:
                raise AbsentError("no order to pack: our own method found no plan")
            return self.best_order, 0.0
        if ordering not in self.orders:
            self.orders[ordering] = self._make_order(ordering)
        return self.orders[ordering]

    def _make_order(self, ordering: str) -> tuple[Order, float]:
        if ordering.startswith(RECORDED):
            # To read it takes time, but it is not known how long it took to make.
            return self._recorded_order(ordering), 0.0
        started = time.perf_counter()
        order = ORDERINGS[ordering](self.graph, self.limits.seed)
        return order, time.perf_counter() - started

    def _recorded_order(self, method: str) -> tuple[int, ...]:
        if self.recorded is None:
            self.recorded = read_recorded(self.path) if self.path else {}
        name = method.partition(":")[2] or CHOSEN
        if name not in self.recorded:
            raise AbsentError(f"the file records no order {name!r}")
        check_order(self.graph, self.recorded[name])
        return self.recorded[name]

    def _plan_file(self, method: PlanFile) -> Measured:
        plan = read_plan(_plan_path(method.path, self.graph), self.graph)
        checked = check_plan(self.graph, plan)
        return Measured(method.name, method.kind, checked.peak, checked.slab, 0.0)

    def _exact(self, method: Exact) -> Outcome:
        result = solve(
            self.graph,
            engine=method.engine or self.engine,
            limits=self.limits_of(method),
            on_event=self.on_event,
        )
        if result.plan is None:
            reason = f"{result.stop_reason} before any plan was found"
            cut = result.stop_reason is StopReason.INTERRUPTED
            trouble = Trouble.INTERRUPTED if cut else Trouble.FAILED
            return Failed(method.name, method.kind, trouble, reason, result.runtime)
        checked = check_plan(self.graph, result.plan, peak=result.peak, slab=result.slab)
        return Measured(
            method.name,
            method.kind,
            checked.peak,
            checked.slab,
            result.runtime,
            # Results travel between processes: the graph is known on both sides.
            replace(result, graph=None),
        )


def _plan_path(path: str, graph: Graph) -> Path:
    """Return the plan's file: the path itself, or in a folder the file named as the graph."""
    given = Path(path)
    if not given.is_dir():
        return given
    names = [f"{graph.name}{suffix}" for suffix in (".json", ".json.gz", ".plan.json")]
    for name in names:
        if (given / name).is_file():
            return given / name
    raise AbsentError(f"{path} holds no {names[0]}")


def _pack(graph: Graph, order: Order, packing: str) -> tuple[Checked, float]:
    """Pack an order, in-place with the best of a few choices of pairs; return the seconds too."""
    peak, runtime = peak_memory(graph, order), 0.0
    found = []
    for taken in pair_choices(graph, order, tries=0):
        problem, ids = packing_problem(graph, order, taken)
        started = time.perf_counter()
        offsets = pack_apart(problem, pool_rows(graph, ids), PACKINGS[packing])
        runtime += time.perf_counter() - started
        found.append(check_plan(graph, make_plan(graph, order, offsets, taken), peak=peak))
    return min(found, key=lambda checked: checked.slab), runtime
