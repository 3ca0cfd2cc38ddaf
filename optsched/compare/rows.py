"""Results of a comparison on one graph: a row of figures per method, or the reason for none.

Methods are judged by one percentage, the *excess* `value / best known - 1`. If the best known value
is proved to be the minimum, this is the excess over the optimum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from optsched.compare.methods import Kind, Method
from optsched.errors import UsageError
from optsched.formats import stock_of
from optsched.formats.format import Stock
from optsched.formats.labels import distinct_labels
from optsched.model.graph import Graph
from optsched.runtime.limits import Objective, Proof, StopReason
from optsched.runtime.shown import Shown
from optsched.runtime.text import counted, nearest
from optsched.solver.result import Result
from optsched.solver.status import Status


class Trouble(StrEnum):
    """The reason why a method has no figures."""

    FAILED = "failed"
    """The method raised an error."""
    REFUSED = "refused"
    """The checker rejected the method's plan."""
    TIMED_OUT = "timed out"
    DIED = "died"
    """The process ended: the system killed it, or compiled code crashed."""
    ABSENT = "not there"
    """Nothing to measure: the recorded order, the plan file or the order to pack is missing."""
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Measured:
    """A method's plan as the independent checker measured it."""

    method: str
    kind: Kind
    """Part of a plan that the method chooses."""
    peak: int
    slab: int
    runtime: float
    """Run time in seconds."""
    result: Result | None = None
    """Plan, bounds and proofs of a solver; None for other methods."""
    order: tuple[int, ...] = field(default=(), repr=False)
    """Op ids, first to run first."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A method without figures, and why."""

    method: str
    kind: Kind
    trouble: Trouble
    reason: str
    runtime: float = 0.0


Outcome = Measured | Failed


def was_interrupted(outcome: object) -> bool:
    """Return True if the outcome is that of an interrupted method."""
    if isinstance(outcome, Failed):
        return outcome.trouble is Trouble.INTERRUPTED
    result = outcome.result if isinstance(outcome, Measured) else None
    return result is not None and result.stop_reason is StopReason.INTERRUPTED


@dataclass(frozen=True, slots=True)
class MethodRow:
    """Figures of one method on one graph."""

    graph: str
    method: str
    """`graph` and `method`: name of the graph and of the method."""
    kind: Kind
    """`order` (judged by its peak; packed greedily by size), `packing` (of the best order) or
    `plan` (order and offsets); the last two are judged by their slab."""
    peak: int
    slab: int
    """`peak` and `slab`: bytes."""
    peak_excess: float
    slab_excess: float
    """`peak_excess` and `slab_excess`: `value / best known - 1`."""
    runtime: float
    """Seconds."""
    status: Status
    """`optimal` if the value that the method is judged by equals the proved lower bound."""
    against_optimum: bool
    """True if the best known value of this quantity is proved to be the minimum."""
    proof: Proof | None = None
    """Proof of a solver's own value; None for other methods."""
    stop_reason: StopReason | None = None
    """Reason why a solver stopped; None for other methods."""
    order: tuple[int, ...] = field(default=(), repr=False)
    """Op ids in the order that was measured, first to run first."""

    @property
    def fragmentation(self) -> int:
        """Bytes of the slab above the peak of the same order."""
        return self.slab - self.peak

    @property
    def value(self) -> int:
        """Value that the method is judged by: peak or slab, in bytes."""
        return self.peak if self.kind is Kind.ORDER else self.slab

    @property
    def excess(self) -> float:
        """Excess of the value that the method is judged by."""
        return self.peak_excess if self.kind is Kind.ORDER else self.slab_excess


@dataclass(frozen=True, slots=True)
class StockPlan:
    """Peak and slab, in bytes, of the plan that a file's framework makes on its own.

    The slab is None if the framework has a peak only. It is `estimated` if the framework's rules
    tell the bytes that it holds, but not for this memory model or file; so are all bytes that could
    not be `measured` for a `reason`.
    """

    stock: Stock
    method: str
    peak: int
    slab: int | None
    estimated: bool = False
    reason: str = ""
    measured: bool = False

    def value(self, quantity: Objective) -> int | None:
        """Return the bytes of a quantity."""
        return self.slab if quantity is Objective.SLAB else self.peak


@dataclass(frozen=True, slots=True)
class Comparison(Shown):
    """All methods on one graph, and the values that they are measured against."""

    graph: Graph
    """The graph."""
    result: Result
    """Result of our own solver; it has no plan if the solver failed."""
    best_peak: int
    best_slab: int
    """`best_peak` and `best_slab`: minimum over all methods, in bytes."""
    rows: tuple[MethodRow, ...]
    """Methods with figures, in the requested order."""
    failed: tuple[Failed, ...] = ()
    """Methods without figures."""
    peak_bound: int = 0
    slab_bound: int = 0
    """`peak_bound` and `slab_bound`: best proved lower bounds of all solvers that ran, in bytes."""
    among: str = ""
    """Plans that the bounds are about, in words; empty if they are all of the graph's."""
    own_plan: StockPlan | None = None
    """Plan of the graph's framework, unless its method is among those compared."""
    path: str = ""
    digest: str = ""
    """`path` and `digest`: path of the graph's file and SHA-256 of its content; empty if it has
    none."""
    held: int | str = ""
    """Bytes that the framework holds with the order of least peak, if its own were measured; or why
    they are not known."""

    def __repr__(self) -> str:
        numbers = f"best peak {self.best_peak:,}, best slab {self.best_slab:,}"
        return f"Comparison({self.graph.name!r}, {counted(len(self.rows), 'method')}, {numbers})"

    @property
    def stock(self) -> Stock:
        """The way in which the framework of the graph plans on its own."""
        return stock_of(self.graph)

    @property
    def outcomes(self) -> tuple[MethodRow | Failed, ...]:
        """Outcomes of all methods, those with figures first."""
        return (*self.rows, *self.failed)

    def row(self, method: str) -> MethodRow:
        """Return the row of a method.

        Raise `UsageError` if the method was not compared, or has no figures; the message says which
        and why.
        """
        found = self.find_row(method)
        if found is not None:
            return found
        failed = self.failure(method)
        if failed is not None:
            raise UsageError(f"{method} has no figures: {failed.reason}")
        names = [row.method for row in self.rows]
        raise UsageError(f"method {method!r} was not compared{nearest(method, names)}")

    def find_row(self, method: str) -> MethodRow | None:
        """Return the row of a method, or None if it has no figures."""
        return next((row for row in self.rows if row.method == method), None)

    def failure(self, method: str) -> Failed | None:
        """Return the failure of a method, or None if it has figures."""
        return next((failed for failed in self.failed if failed.method == method), None)


def told_apart(found: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Give graphs that share a name as much of their paths as tells them apart."""
    labels = distinct_labels([c.graph.name for c in found], [c.path for c in found])
    return tuple(map(_named, found, labels))


def _named(comparison: Comparison, name: str) -> Comparison:
    if comparison.graph.name == name:
        return comparison
    graph = replace(comparison.graph, name=name)
    rows = tuple(replace(row, graph=name) for row in comparison.rows)
    return replace(comparison, graph=graph, rows=rows)


def judge(
    graph: Graph,
    methods: Sequence[Method],
    outcomes: Mapping[str, Outcome],
    reference: str,
    *,
    floor: int = 0,
    among: str = "",
    own_plan: StockPlan | None = None,
) -> Comparison | None:
    """Measure outcomes against the best known value and the best proved bound.

    A requested method without an outcome was interrupted before its turn. The result of the method
    named `reference` becomes that of the comparison. `floor` is a lower bound on the peak of every
    order, for runs in which no solver gives one. `among` are the plans that all bounds are about,
    in words; `own_plan` is the plan of the graph's framework. Return None if no method has figures.
    """
    found = [
        outcomes.get(m.name)
        or Failed(m.name, m.kind, Trouble.INTERRUPTED, "interrupted before its turn")
        for m in methods
    ]
    measured = [x for x in found if isinstance(x, Measured)]
    if not measured:
        return None
    results = [x.result for x in measured if x.result is not None]
    # The highest bound of any method holds for all of them.
    peak_bound = max([floor, *(result.peak_bound for result in results)])
    slab_bound = max([floor, *(result.slab_bound for result in results)])
    peak, slab = min(x.peak for x in measured), min(x.slab for x in measured)
    ours = outcomes.get(reference)
    own = ours.result if isinstance(ours, Measured) else None
    return Comparison(
        # The graph that a module's entry was planned on has blocks for the computations it calls.
        graph=graph if own is None or own.graph is None else own.graph,
        result=own or _nothing(peak_bound, slab_bound),
        best_peak=peak,
        best_slab=slab,
        rows=tuple(_row(graph.name, x, peak, slab, peak_bound, slab_bound) for x in measured),
        failed=tuple(x for x in found if isinstance(x, Failed)),
        peak_bound=peak_bound,
        slab_bound=slab_bound,
        among=among,
        own_plan=own_plan,
    )


def _row(
    graph: str, x: Measured, peak: int, slab: int, peak_bound: int, slab_bound: int
) -> MethodRow:
    by_peak = x.kind is Kind.ORDER
    value, best, bound = (x.peak, peak, peak_bound) if by_peak else (x.slab, slab, slab_bound)
    return MethodRow(
        graph=graph,
        method=x.method,
        kind=x.kind,
        peak=x.peak,
        slab=x.slab,
        # A graph without bytes has no excess.
        peak_excess=x.peak / peak - 1 if peak else 0.0,
        slab_excess=x.slab / slab - 1 if slab else 0.0,
        runtime=x.runtime,
        # Optimal by any bound, also by that of another method.
        status=Status.OPTIMAL if value == bound else Status.FEASIBLE,
        against_optimum=best == bound,
        proof=x.result.slab_proof if x.result else None,
        stop_reason=x.result.stop_reason if x.result else None,
        order=x.order,
    )


def _nothing(peak_bound: int, slab_bound: int) -> Result:
    """Return the placeholder for our own result if our solver failed."""
    return Result(
        plan=None,
        peak=None,
        slab=None,
        peak_bound=peak_bound,
        slab_bound=slab_bound,
        peak_proof=None,
        slab_proof=None,
        stop_reason=StopReason.EXHAUSTED,
    )
