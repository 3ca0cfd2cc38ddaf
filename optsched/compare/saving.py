"""Savings: bytes held under a plan, against those that the file's framework holds on its own.

A saving answers the question for which people run the program: how many bytes does my model need
today, how many with this plan, and is less possible? The bytes of today come from the framework's
own order and packing, which each row of the table of formats names as its
:class:`~optsched.formats.format.Stock`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from heuristics import PACKINGS
from heuristics.portfolio import pack_apart
from optsched.check.packing import check_packing
from optsched.compare.measure import DEFAULT_PACKING, MethodRunner
from optsched.compare.methods import Heuristic, Method, parse_methods
from optsched.compare.module import ModuleRunner, runner_of
from optsched.compare.rows import Comparison, Failed, MethodRow, StockPlan
from optsched.errors import OptschedError, PlanError, UsageError
from optsched.formats import FORMATS, PackingTable, session_of, sniff_file, stock_of
from optsched.formats.format import FILE_ORDER, Stock
from optsched.formats.held import fused_among, held_among
from optsched.model.graph import Graph
from optsched.model.module import Module, module_of
from optsched.model.packing_problem import PackingProblem
from optsched.model.pools import sum_of_slabs
from optsched.model.reductions import ByPool
from optsched.model.saving import Saving
from optsched.runtime.bytes import round_up
from optsched.runtime.limits import Limits, Objective
from optsched.solver.module_result import ModuleResult
from optsched.solver.result import Result

MOST_BESIDE = 4e7
"""Most pairs of buffers that are live together for which greedy packing by size is run."""


def own_methods(paths: Iterable[str]) -> list[str]:
    """Return the methods of the files' own frameworks, without those of unreadable files."""
    # The order of the file is always among them, for frameworks whose method fails.
    found = list(FILE_ORDER.methods)
    for path in paths:
        with suppress(OptschedError):
            found += sniff_file(path).stock.methods
    return list(dict.fromkeys(found))


def stock_plan(what: Graph | Module, *, peak_only: bool = False) -> StockPlan | None:
    """Return the plan that the framework of a graph makes, or None without a valid one.

    `what`: graph in its memory model, without order rules, which the framework does not know; or a
    module with calls. Its origin names the framework; a graph made in Python has none, and is
    compared with the order of its ops. `peak_only`: True if the slab is not asked for: packing
    takes longer than all else for a large graph.
    """
    entry = what if isinstance(what, Graph) else what.graphs[what.entry]
    session, reason = session_of(entry), ""
    if session is not None:
        if isinstance(held := session.held(), int):
            own = stock_of(entry)
            said = own.counts + own.measured_counts, own.counts_apart + own.measured_counts
            stock = replace(own, title=own.measured_title, peak_only=True)
            stock = replace(stock, counts=said[0], counts_apart=said[1])
            return StockPlan(stock, own.methods[0], held, None, measured=True)
        reason = held
    module = module_of(what) if isinstance(what, Graph) else what
    runner = runner_of(module, entry, Limits())
    # The framework's own method first, and the file's order if that fails.
    for candidate in (stock_of(entry), FILE_ORDER):
        for method in parse_methods(candidate.methods):
            # A failing heuristic costs this figure only.
            with suppress(Exception):
                found = _stock_plan(runner, candidate, method, peak_only or candidate.peak_only)
                return replace(found, reason=reason)
    return None


def plan_not_compared(what: Graph | Module, methods: Sequence[Method]) -> StockPlan | None:
    """Return the plan of :func:`stock_plan`; None if its method is compared, and nothing is run."""
    entry = what if isinstance(what, Graph) else what.graphs[what.entry]
    own = set(stock_of(entry).methods)
    is_compared = any(method.name in own for method in methods)
    return None if is_compared and session_of(entry) is None else stock_plan(what)


def _stock_plan(runner: MethodRunner, stock: Stock, method: Method, peak_only: bool) -> StockPlan:
    """Return the plan of a method; raise its error if it fails or its plan is invalid."""
    # Without offsets of its own, a framework has a peak and no slab.
    if peak_only and isinstance(method, Heuristic) and not isinstance(runner, ModuleRunner):
        return StockPlan(stock, method.name, runner.peak_of(method), None)
    found = runner.measure(method)
    if isinstance(found, Failed):
        raise UsageError(found.reason)
    return _as_held(StockPlan(stock, method.name, found.peak, found.slab), runner.graph)


def _as_held(plan: StockPlan, graph: Graph) -> StockPlan:
    """Return a plan with the bytes that the framework holds for a graph's file, or as an estimate.

    Known are those of the file's own memory model: options may have changed the graph's.
    """
    row = None if graph.origin is None else FORMATS.get(graph.origin.format)
    if plan.stock is FILE_ORDER or graph.origin is None or row is None or row.held is None:
        return plan
    held = graph.origin.held.get(graph.model_name)
    return replace(plan, estimated=True) if held is None else replace(plan, slab=held)


def held_with(what: Graph | Module, order: Iterable[str] | None) -> int | str:
    """Return the bytes that the framework was measured to hold with the ops of a plan in its order.

    A reason in words if they are not known, which is empty without a plan or a runtime to run it.
    `what`: graph of a model file, or a module. `order`: names of the ops of the module's entry as
    they run in the plan; None without a plan.
    """
    entry = what if isinstance(what, Graph) else what.graphs[what.entry]
    session = None if order is None else session_of(entry)
    if session is None or order is None or isinstance(session.held(), str):
        return ""
    return session.planned(list(order))


def names_in(graph: Graph, order: Iterable[int]) -> Iterable[str]:
    """Return the names of ops in an order, once and when they are needed."""
    return (graph.ops[v].name for v in order)


def saving_of(
    what: Graph | Module,
    known: StockPlan | None,
    *,
    order: Iterable[str] | None = None,
    **of: Any,
) -> Saving:
    """Return the :func:`saving` of a plan with this order, measured if the framework's own is."""
    is_measured = known is not None and known.measured
    return saving(known, held=held_with(what, order) if is_measured else "", **of)


def saving(
    known: StockPlan | None,
    *,
    peak: int | None,
    slab: int | None,
    bounds: tuple[int, int] | None = None,
    objective: Objective = Objective.SLAB,
    among: str = "",
    held: int | str = "",
) -> Saving:
    """Return the saving of a plan against the framework's own.

    `known`: the framework's plan, from :func:`stock_plan`. `peak`, `slab`: bytes of the plan; None
    without a plan. `bounds`: proved lower bounds on peak and slab; None if nothing is proved.
    `objective`: the quantity compared, unless only the framework's peak is known. `among`: plans
    that the bounds are about, in words. `held`: bytes that the framework was measured to hold with
    the plan, or why they are not known, from :func:`held_with`; measured bytes are compared with
    measured ones alone.
    """
    stock = FILE_ORDER if known is None else known.stock
    # A framework without a slab is compared by its peak, also if the slab was minimized.
    no_slab = stock.peak_only or (known is not None and known.slab is None)
    quantity = Objective.PEAK if no_slab else objective
    is_slab = quantity is Objective.SLAB
    # The word that the framework's users know: arena, slab or peak.
    noun = stock.noun if is_slab or stock.peak_only else "peak"
    after = slab if is_slab else peak
    bound = None if bounds is None else bounds[is_slab]
    if known is None:
        return Saving(quantity, noun, None, after, bound, among=among)
    before = known.value(quantity)
    if stock.peak_only:
        # The framework's own bytes are those of blocks.
        after, bound = (None if x is None else round_up(x, stock.block) for x in (after, bound))
    planned = unmeasured = None
    if known.measured:
        planned, after = after, held if isinstance(held, int) else None
        figures = [x for x in (before, after) if x is not None]
        among = fused_among(among, is_below=bound is not None and min(figures, default=0) < bound)
        if planned is not None and after is None:
            unmeasured = held or "its order is not known"
    against = stock.title if is_slab or stock.peak_only else stock.order_title
    against += ", estimated" if known.reason or (is_slab and known.estimated) else ""
    against += f" ({known.reason})" if known.reason else ""
    method = known.method
    return Saving(
        quantity, noun, before, after, bound, against, method, among, planned, str(unmeasured or "")
    )


def stock_row(found: Comparison) -> MethodRow | None:
    """Return the figures of the framework's own method, or None if it was not compared."""
    names = (*found.stock.methods, *FILE_ORDER.methods)
    return next((row for name in names if (row := found.find_row(name)) is not None), None)


def comparison_saving(found: Comparison) -> Saving:
    """Return the saving of the best plan of a comparison against the framework's own method."""
    row, known = stock_row(found), found.own_plan
    if known is None and row is not None:
        used = found.stock if row.method in found.stock.methods else FILE_ORDER
        known = _as_held(StockPlan(used, row.method, row.peak, row.slab), found.graph)
    return saving(
        known,
        peak=found.best_peak,
        slab=found.best_slab,
        bounds=(found.peak_bound, found.slab_bound),
        among=held_among(found.graph, found.among),
        held=found.held,
    )


def best_order(found: Comparison) -> Iterable[str] | None:
    """Return the names of ops in the order of least peak of a comparison, by choice our own."""
    own = found.result
    orders = [row.order for row in found.rows if row.peak == found.best_peak and row.order]
    if own.plan is not None and own.peak == found.best_peak:
        orders.insert(0, own.plan.order)
    return names_in(found.graph, orders[0]) if orders else None


def figures_of(found: Result | ModuleResult) -> dict[str, Any]:
    """Return the figures of a solver's result as :func:`saving_of` takes them."""
    if isinstance(found, ModuleResult):
        figures = figures_of(found.entry)
        if found.module.results_inside:
            # Such a module has orders only.
            figures["objective"] = Objective.PEAK
        elif figures["objective"] is Objective.SLAB:
            figures["among"] = found.restriction
        return figures
    result = found
    return {
        "peak": result.peak,
        "slab": result.slab,
        "bounds": (result.peak_bound, result.slab_bound),
        "objective": result.objective,
        "among": result.restriction,
        "order": names_in(result.graph, result.plan.order)
        if result.plan is not None and result.graph is not None
        else None,
    }


def packing_saving(
    table: PackingTable, slab: int | None, bound: int | None = None, among: str = ""
) -> Saving:
    """Return the saving of a packing against the offsets of its file, or against greedy by size.

    `slab` and `bound` are in bytes, `slab` None without a packing. With pools, each buffer counts
    in the pool that its row names. `among` are the packings that the bound is about, in words. A
    packing too large for greedy by size in about a second is compared with nothing.
    """
    problem = table.problem
    pools = ByPool.of(table.pools or [""] * len(problem))
    held, against, method = _slab_in_file(table, pools), "the file's offsets", "recorded"
    if held is None and _beside(problem) <= MOST_BESIDE:
        # Without a packing where greedy by size misses an upper limit.
        with suppress(OptschedError):
            offsets = pack_apart(problem, pools, PACKINGS[DEFAULT_PACKING])
            held = sum_of_slabs(problem, pools, offsets)
            against, method = "greedy packing by size", DEFAULT_PACKING
    return Saving(Objective.SLAB, "slab", held, slab, bound, against, method, among)


def _beside(problem: PackingProblem) -> float:
    """Return about how many pairs of buffers are live together."""
    if not len(problem):
        return 0.0
    lived = float((problem.end - problem.start).sum())
    return len(problem) * lived / max(1, int(problem.end.max() - problem.start.min()))


def _slab_in_file(table: PackingTable, pools: ByPool) -> int | None:
    """Return the slab of the offsets in the file; None if they are incomplete or invalid."""
    given, problem = table.offsets, table.problem
    if given is None or (len(given) and given.min() < 0):
        return None
    try:
        pieces = pools.pieces(problem, given)
        return sum(check_packing(part, own.tolist()) for part, own in pieces)
    except PlanError:
        return None


def total_saving(savings: Sequence[Saving]) -> Saving | None:
    """Return the sum of savings with known bytes on both sides; None if there are none.

    The sum is proved minimal only if every part is.
    """
    # A sum needs both sides of every graph in it.
    whole = [x for x in savings if x.before is not None and x.after is not None]
    if not whole:
        return None
    first = whole[0]
    same = all((x.noun, x.against) == (first.noun, first.against) for x in whole)
    noun, against = (first.noun, first.against) if same else ("memory", "the frameworks' own plans")
    # One unknown bound leaves the sum unproved.
    bound = None if any(x.bound is None for x in whole) else sum(x.bound or 0 for x in whole)
    before, after = (
        sum(value or 0 for value in side)
        for side in zip(*((x.before, x.after) for x in whole), strict=True)
    )
    # A part that is minimal among some plans only makes the sum so, too.
    among = " and ".join(dict.fromkeys(x.among for x in whole if x.among))
    planned = sum((x.after if x.planned is None else x.planned) or 0 for x in whole)
    named = None if all(x.planned is None for x in whole) else planned
    return Saving(first.quantity, noun, before, after, bound, against, among=among, planned=named)
