"""The first line of commands: bytes before and after a plan, and whether less is possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optsched.errors import PlanError
from optsched.model.fused import FusedGraph
from optsched.model.module import Module
from optsched.model.saving import Saving
from optsched.runtime.limits import Objective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optsched.compare.rows import StockPlan
    from optsched.formats import PackingTable
    from optsched.formats.answers import Answer, Proved
    from optsched.model.graph import Graph

MOST_PACKED = 40_000
"""Buffers up to which the framework's order is packed, which takes a second after the time limit.

The packing of 300,000 buffers takes 20 s. Such a plan is compared by its peak."""


def add_saving(what: Graph | Module, record: dict[str, Any], text: str, **of: Any) -> str:
    """Put the saving against the framework's own plan into a record; return it before the text.

    `of` has the figures of the plan, as for :func:`optsched.compare.saving.saving_of`. `what` is
    planned by the framework without order rules.
    """
    from optsched.compare.saving import saving_of, stock_plan
    from optsched.formats.held import held_among
    from optsched.model.graph import Graph

    if isinstance(what, Graph):
        of = {**of, "among": held_among(what, of.get("among", ""))}
    entry = what.graphs[what.entry] if isinstance(what, Module) else what
    is_large = len(entry.buffers) > MOST_PACKED
    known = stock_plan(what, peak_only=is_large or of.get("objective") is Objective.PEAK)
    found = saving_of(what, known, **of)
    record["saving"] = found.to_dict()
    if note := _counted_bytes(what, known):
        record["counts"] = note
        text = f"{note}\n{text}"
    return f"{found}\n{text}"


def _counted_bytes(what: Graph | Module, known: StockPlan | None) -> str:
    """Return words for what the bytes of a graph include; empty if its framework has none."""
    from optsched.model.graph import Graph

    if known is None or not isinstance(what, Graph):
        return ""
    # What is counted depends on whether ops write in place.
    candidates = bool(what.inplace_candidates)
    return known.stock.counts if what.in_place or not candidates else known.stock.counts_apart


def add_checked_saving(
    answer: Answer, proved: Proved | None, record: dict[str, Any], lines: Sequence[str]
) -> str:
    """Put the saving of a checked plan into its record; return it before the lines.

    The peak is compared with what the framework was seen to hold, or else with that of its own
    order, which the checker replays as it does the plan's. A bound counts only if it is one of the
    question asked.
    """
    from optsched.formats import session_of
    from optsched.formats.held import held_among
    from optsched.model.graph import Graph

    covers = proved is not None and proved.covers and proved.quantity is Objective.PEAK
    bound, among = (proved.bound, proved.among) if proved and covers else (None, "")
    what, title = answer.planned, ""
    if isinstance(what, Graph):
        among = held_among(what, among)
    if isinstance(what, Graph) and session_of(what) is not None:
        from optsched.compare.saving import saving_of, stock_plan

        own, bounds = stock_plan(what, peak_only=True), None if bound is None else (bound, bound)
        of = {"peak": record["peak"], "slab": None, "bounds": bounds, "among": among}
        found = saving_of(what, own, objective=Objective.PEAK, order=answer.order, **of)
    else:
        # The peak and not the slab: offsets of the framework's own plan would take a packer.
        title, before = _own_peak(answer)
        found = Saving(Objective.PEAK, "peak", before, record["peak"], bound, title, among=among)
    record["saving"] = found.to_dict()
    # The framework's own order is one; whole nodes may run in many.
    known = [f"{title}: in the best order known"] if isinstance(answer.planned, FusedGraph) else []
    return "\n".join([str(found), *lines, *known])


def _own_peak(answer: Answer) -> tuple[str, int | None]:
    """Return the name of the framework's own order and its peak; None if it breaks a rule."""
    from optsched.check.module import check_schedule
    from optsched.formats import own_order
    from optsched.model.module import module_of

    what = answer.planned
    if isinstance(what, FusedGraph):
        from optsched.cli.unfuse import ALL_FUSED
        from optsched.solver.fusion.whole import least_whole

        return ALL_FUSED, least_whole(what, answer.orders).peak
    module = what if isinstance(what, Module) else module_of(what)
    orders = {name: own_order(graph) for name, graph in module.graphs.items()}
    title = orders[module.entry][0]
    try:
        peaks = check_schedule(module, {name: order for name, (_, order) in orders.items()})
    except PlanError:
        return title, None
    return title, peaks[module.entry]


def add_packed(table: PackingTable, record: dict[str, Any], text: str) -> str:
    """Put the bytes of checked offsets into their record; return them before the text.

    What is live at the fullest step is a bound that needs no certificate. Offsets in several pools
    are not compared with it.
    """
    # Pools have a sum of bounds, which is not computed here.
    bound = None if any(table.pools or ()) else table.problem.peak
    found = Saving(Objective.SLAB, "slab", None, record["slab"], bound)
    record["saving"] = found.to_dict()
    return f"{found}\n{text}"
