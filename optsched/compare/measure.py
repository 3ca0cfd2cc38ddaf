"""Measurement of one method on one graph: run it, then have the independent checker measure it."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from heuristics import ORDERINGS, OWN_ORDERINGS, OWN_PACKINGS, PACKINGS
from heuristics.portfolio import pack_apart
from optsched.check.plan import Checked, check_order, check_plan
from optsched.compare.methods import RECORDED, Exact, Heuristic, Kind, Method, PlanFile
from optsched.compare.rows import Failed, Measured, Outcome, Trouble
from optsched.errors import FormatError, OptschedError, PlanError, UsageError
from optsched.formats.answers import Asked, open_plain
from optsched.model.graph import Graph
from optsched.model.inplace_choice import pair_choices
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.model.pools import pool_rows
from optsched.model.steps import Order, order_ids
from optsched.runtime.limits import Limits, OnEvent, StopReason
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.schedule import Engine

DEFAULT_PACKING = "greedy_by_size"
"""Packer for the orders of methods that choose only an order."""

_Found = TypeVar("_Found")


class AbsentError(OptschedError):
    """There is nothing to measure: no recorded order, no plan or no order to pack."""


class OverdueError(OptschedError):
    """A foreign method did not finish within its time."""


_TROUBLES: dict[type[BaseException], Trouble] = {
    AbsentError: Trouble.ABSENT,
    OverdueError: Trouble.TIMED_OUT,
    PlanError: Trouble.REFUSED,
}
"""Trouble by type of the error raised; any other error counts as `FAILED`."""


@dataclass
class MethodRunner:
    """Runner that measures methods on one graph and shares orders between them."""

    graph: Graph
    limits: Limits
    engine: Engine = Engine.AUTO
    """Engine of solvers without one of their own, as `limits` for those without limits."""
    best_order: Order | None = None
    """Order that packing methods pack: the one that our own method found."""
    on_event: OnEvent | None = None
    """Callback for the progress of solvers."""
    patience: float | None = None
    """Seconds after which a foreign method is abandoned; None where its process can be ended
    instead."""
    orders: dict[str, tuple[Order, float]] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    """Peaks of `orders` in bytes, from the checker."""

    def measure(self, method: Method) -> Outcome:
        """Run a method and return its figures, or its failure if it raises any error."""
        started = time.perf_counter()
        try:
            match method:
                case Heuristic():
                    return self._heuristic(method)
                case PlanFile():
                    return self._plan_file(method)
                case Exact():
                    return self._exact(method)
        # SystemExit too: a method may call exit.
        except (Exception, SystemExit) as error:
            # A crash is recorded as this method's outcome, so that the other methods still run.
            text = str(error)
            if not isinstance(error, OptschedError):
                text = f"{type(error).__name__}: {text}"
            seconds, trouble = time.perf_counter() - started, _TROUBLES.get(type(error))
            reason = " ".join(text.split())
            return Failed(method.name, method.kind, trouble or Trouble.FAILED, reason, seconds)

    def limits_of(self, method: Method) -> Limits:
        """Return the limits of a method: a solver's own, or those of the whole run."""
        if not isinstance(method, Exact) or method.seconds is None:
            return self.limits
        # A solver with seconds of its own is not limited by work as well.
        return replace(self.limits, seconds=method.seconds, work=None)

    def _heuristic(self, method: Heuristic) -> Measured:
        order, seconds = self.order_of(method)
        _, checked, packed = self.pack(order, method.packing or DEFAULT_PACKING)
        runtime = {Kind.ORDER: seconds, Kind.PACKING: packed, Kind.PLAN: seconds + packed}
        order = tuple(map(int, order))
        return measured(method, checked, runtime[method.kind], order)

    def order_of(self, method: Heuristic) -> tuple[Order, float]:
        """Return the order that a method computes or is given, and the seconds chosen."""
        name = method.ordering
        if name is None:
            if self.best_order is None:
                raise AbsentError("no order to pack: optsched found no plan")
            return self.best_order, 0.0
        # Several methods share one order: `lpmf`, `lpmf+skyline` and so on.
        if name not in self.orders:
            if method.is_recorded:
                # How long the order took to compute is not recorded; reading it does not count.
                self.orders[name] = self._recorded_order(name), 0.0
            else:
                make = method.function or ORDERINGS[name]
                ours = make is OWN_ORDERINGS.get(name)
                self.orders[name] = self._make_order(name, make, ours=ours)
        return self.orders[name]

    def peak_of(self, method: Heuristic) -> int:
        """Return the peak, in bytes, of the order that a method computes or is given."""
        order, _ = self.order_of(method)
        known = self.peaks.get(method.ordering or "")
        return check_order(self.graph, tuple(map(int, order))) if known is None else known

    def _make_order(
        self, name: str, make: Callable[..., Any], *, ours: bool
    ) -> tuple[Order, float]:
        started = time.perf_counter()
        # A foreign method gets a copy of the graph, because it might write to the arrays.
        graph = self.graph if ours else replace(self.graph)
        found = self._call(make, graph, self.limits.seed, ours=ours)
        seconds = time.perf_counter() - started
        # Names, or integers of any kind, but no floats.
        found = list(found)
        named = bool(found) and isinstance(found[0], str)
        order = tuple(map(operator.index, order_ids(self.graph, found) if named else found))
        self.peaks[name] = check_order(self.graph, order)
        return order, seconds

    def _recorded_order(self, method: str) -> tuple[int, ...]:
        origin, name = self.graph.origin, RECORDED[method]
        if origin is not None and origin.trouble:
            raise FormatError(origin.trouble)
        if origin is None or name not in origin.orders:
            raise AbsentError(f"the file records no order {name!r}")
        self.peaks[method] = check_order(self.graph, origin.orders[name])
        return origin.orders[name]

    def plan_of(self, method: Method) -> Plan:
        """Return the plan of an ordering, a packing or both; raise the method's error if it fails.

        A method without a packer is packed by :data:`DEFAULT_PACKING`.
        """
        if not isinstance(method, Heuristic):
            raise UsageError(f"method {method.name!r} is not an ordering or a packing")
        return self.pack(self.order_of(method)[0], method.packing or DEFAULT_PACKING)[0]

    def pack(self, order: Order, packing: str) -> tuple[Plan, Checked, float]:
        """Pack an order with each of a few choices of in-place pairs.

        Return the smallest plan, the checker's figures, and the seconds that the packer took.
        """
        graph, peak, runtime = self.graph, peak_memory(self.graph, order), 0.0
        make = PACKINGS[packing]
        found = []
        # Which outputs overwrite their inputs is a choice of its own; each one is packed.
        for chosen in pair_choices(graph, order, tries=0):
            problem, ids = packing_problem(graph, order, chosen)
            started = time.perf_counter()
            ours = make is OWN_PACKINGS.get(packing)
            offsets = self._call(pack_apart, problem, pool_rows(graph, ids), make, ours=ours)
            runtime += time.perf_counter() - started
            # The checker measures, so that no method is judged by its own figures.
            plan = placed_plan(graph, order, ids, offsets, chosen)
            found.append((plan, check_plan(graph, plan, peak=peak)))
        plan, checked = min(found, key=lambda both: both[1].slab)
        return plan, checked, runtime

    def _call(self, function: Callable[..., _Found], *args: Any, ours: bool) -> _Found:
        """Call a method; abandon a foreign method that exceeds `patience`."""
        if ours or self.patience is None:
            return function(*args)
        return call_within(self.patience, function, *args)

    def _plan_file(self, method: PlanFile) -> Measured:
        answer = open_plain(_plan_path(method.path, self.graph), Asked(self.graph, verb="compare"))
        if not answer.plan.keeps_pools(self.graph):
            raise PlanError("plan places buffers in other pools than the graph")
        return measured(method, answer.checked, 0.0, answer.plan.order)

    def _exact(self, method: Exact) -> Outcome:
        result = solve(
            self.graph,
            engine=method.engine or self.engine,
            limits=self.limits_of(method),
            on_event=self.on_event,
        )
        if result.plan is None:
            return planless(method, result)
        checked = check_plan(self.graph, result.plan, peak=result.peak, slab=result.slab)
        # Results are sent between processes; both sides already have the graph.
        own = replace(result, question=None, state=None)
        return measured(method, checked, result.runtime, result.plan.order, own)


def measured(
    method: Method,
    checked: Checked,
    seconds: float,
    order: tuple[int, ...],
    result: Result | None = None,
) -> Measured:
    """Return the outcome of a method from the checker's figures."""
    name, kind = method.name, method.kind
    return Measured(name, kind, checked.peak, checked.slab, seconds, result, order)


def planless(method: Exact, result: Result) -> Failed:
    """Return the failure of a solver that found no plan."""
    reason = f"{result.stop_reason} before any plan was found"
    cut = result.stop_reason is StopReason.INTERRUPTED
    trouble = Trouble.INTERRUPTED if cut else Trouble.FAILED
    return Failed(method.name, method.kind, trouble, reason, result.runtime)


def call_within(seconds: float, function: Callable[..., _Found], *args: Any) -> _Found:
    """Call a function in its own thread, and stop waiting after a time limit in seconds.

    Raise `OverdueError` if the function is still running then. Its thread continues, but the result
    is discarded.
    """
    found: list[_Found] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(function(*args))
        except BaseException as error:
            errors.append(error)

    # A daemon, so that a method that never ends does not keep the program alive.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not found:
        raise OverdueError(f"not done after {seconds:g} s")
    return found[0]


def _plan_path(path: str, graph: Graph) -> Path:
    """Return the plan's file: the path itself or, in a folder, the file named after the graph."""
    given = Path(path)
    if not given.is_dir():
        return given
    names = [f"{graph.name}{suffix}" for suffix in (".json", ".json.gz", ".plan.json")]
    for name in names:
        if (given / name).is_file():
            return given / name
    raise AbsentError(f"no plan {names[0]!r} in folder {path}")
