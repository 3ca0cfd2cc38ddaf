"""The comparator: how far each method is from the proven bound, on one graph."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from heuristics import ORDERINGS, PACKINGS
from heuristics.portfolio import pack_apart
from optsched.check import Checked, check_plan
from optsched.errors import UsageError
from optsched.graph import Graph
from optsched.liveness import Order, peak_memory
from optsched.pairing import pair_choices
from optsched.pipeline import DEFAULT_LIMITS, Engine, solve
from optsched.plan import make_plan
from optsched.problem import packing_problem
from optsched.result import Limits, OnEvent, Result, optimality_gap
from optsched.slabs import pool_rows

OUR_METHOD = "optsched"
DEFAULT_PACKING = "greedy_by_size"
"""How an order is packed where only orders are compared."""


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one graph.

    Parameters
    ----------
    instance, method
        Names.
    kind
        `order` (peak is its own, packed greedily by size), `packing` (of the best order) or
        `plan` (both chosen).
    peak, slab
        Bytes.
    peak_gap, slab_gap
        `(value - bound) / value` against the proven bound over all plans.
    excess
        `value / best known - 1`, of the slab for packings and of the peak else.
    runtime
        Seconds.
    """

    instance: str
    method: str
    kind: str
    peak: int
    slab: int
    peak_gap: float
    slab_gap: float
    excess: float
    runtime: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """All methods on one graph, and what they are measured against."""

    graph: Graph
    result: Result
    best_peak: int
    best_slab: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class _Measured:
    method: str
    kind: str
    peak: int
    slab: int
    runtime: float


def method_names() -> list[str]:
    """Names that :func:`compare_methods` takes."""
    return [*ORDERINGS, *PACKINGS, OUR_METHOD]


def compare_methods(
    graph: Graph,
    *,
    methods: Sequence[str] | None = None,
    engine: Engine = Engine.AUTO,
    limits: Limits | None = None,
    on_event: OnEvent | None = None,
) -> Comparison:
    """Run methods on a graph and measure each against the best known plan and bound.

    Parameters
    ----------
    graph
        The graph.
    methods
        Names of orderings and packings; all of them if None. Our own plan is always made: it
        brings the bound.
    engine, limits, on_event
        For our own plan.

    Raises
    ------
    UsageError
        If a method is not known.
    """
    chosen = list(methods) if methods is not None else method_names()
    for name in chosen:
        if name not in method_names():
            known = ", ".join(method_names())
            raise UsageError(f"unknown method {name!r}; known are: {known}")
    limits = limits or DEFAULT_LIMITS
    result = solve(graph, engine=engine, limits=limits, on_event=on_event)
    measured = [_run_ordering(graph, x, limits.seed) for x in chosen if x in ORDERINGS]
    if result.plan is not None:
        order = result.plan.order
        measured += [_run_packing(graph, order, x) for x in chosen if x in PACKINGS]
        peak, slab = result.plan.peak(graph), result.plan.slab(graph)
        measured.append(_Measured(OUR_METHOD, "plan", peak, slab, result.runtime))
    best_peak = min(m.peak for m in measured)
    best_slab = min(m.slab for m in measured)
    rows = tuple(_judge(graph, m, result, best_peak, best_slab) for m in measured)
    return Comparison(graph, result, best_peak, best_slab, rows)


def _run_ordering(graph: Graph, method: str, seed: int) -> _Measured:
    started = time.perf_counter()
    order = ORDERINGS[method](graph, seed)
    runtime = time.perf_counter() - started
    checked, _ = _pack(graph, order, DEFAULT_PACKING)
    return _Measured(method, "order", checked.peak, checked.slab, runtime)


def _run_packing(graph: Graph, order: Order, method: str) -> _Measured:
    checked, runtime = _pack(graph, order, method)
    return _Measured(method, "packing", checked.peak, checked.slab, runtime)


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


def _judge(graph: Graph, m: _Measured, result: Result, best_peak: int, best_slab: int) -> Row:
    value, best = (m.slab, best_slab) if m.kind == "packing" else (m.peak, best_peak)
    return Row(
        instance=graph.name,
        method=m.method,
        kind=m.kind,
        peak=m.peak,
        slab=m.slab,
        peak_gap=optimality_gap(m.peak, result.peak_bound),
        slab_gap=optimality_gap(m.slab, result.slab_bound),
        excess=value / best - 1 if best else 0.0,
        runtime=m.runtime,
    )
