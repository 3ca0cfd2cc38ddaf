"""The parts of a report that are words and tables, as HTML; every name is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from optsched.compare import OUR_METHOD, Comparison
from optsched.reports.colours import BOUND, LIVE, OTHER, PEAK, VIRIDIS, Painting
from optsched.reports.tables import Cell, as_html, make_table, safe
from optsched.reports.view import View, both, thinned
from optsched.reports.words import bottleneck, percent, verdicts
from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Event, optimality_gap
from optsched.runtime.text import readable
from optsched.solver.result import Result

AT_MOST = 300
"""Rows that a table has at most."""


def facts(result: Result, shown: View) -> str:
    """Return the figures that people look for first."""
    gap = optimality_gap(shown.slab, result.slab_bound)
    rows = [
        ("slab", format_bytes(shown.slab), f"{shown.slab:,} bytes"),
        ("peak memory", format_bytes(shown.peak), f"{shown.peak:,} bytes"),
        ("proven bound", format_bytes(result.slab_bound), "no slab is smaller"),
        ("optimality gap", percent(gap), "of this slab" if gap else "proved minimum"),
        ("fragmentation", format_bytes(shown.slab - shown.peak), "slab less peak"),
        ("size", shown.subject.counts.split(" and ")[0], shown.subject.counts.split(" and ")[-1]),
    ]
    items = "".join(
        f"<li><span>{escape(what)}</span><b>{escape(value)}</b><span>{escape(note)}</span></li>"
        for what, value, note in rows
    )
    return f"<ul class=facts>{items}</ul>"


def _key(items: Sequence[tuple[str, str, str]], attributes: str = "") -> str:
    """Return a legend: for each item the class of its mark, the mark's style, and HTML."""
    marks = "".join(
        f'<li><i class="{c}" style="{style}"></i>{says}</li>' for c, style, says in items
    )
    return f"<ul class=key{attributes}>{marks}</ul>"


def colour_keys(paint: Painting) -> str:
    """Return what colours say: the scale of sizes and the list of types."""
    ramp = f"background:linear-gradient(90deg,{','.join(VIRIDIS)})"
    sizes = f"{format_bytes(paint.darkest)} or less to {format_bytes(paint.largest)}, logarithmic"
    own = [(kind, colour) for kind, colour in paint.kinds.items() if colour != OTHER]
    chips = [("", f"background:{colour}", safe(kind)) for kind, colour in own]
    if rest := len(paint.kinds) - len(own):
        chips.append(("", f"background:{OTHER}", f"{rest} more types"))
    return _key([("ramp", ramp, sizes)], " data-key=by_size") + _key(
        chips, " data-key=by_kind hidden"
    )


def slab_key(result: Result, shown: View) -> str:
    """Return what the lines in the picture of a slab are."""
    rows = [("line", f"color:{PEAK}", "the step of the peak")]
    if len(shown.slabs) == 1:
        says = f"proven bound on the slab {format_bytes(result.slab_bound)}"
        rows.append(("line dashed", f"color:{BOUND}", says))
    return _key(rows)


def live_key(result: Result, shown: View) -> str:
    """Return what line, dot and dashes of the live bytes are."""
    at = safe(shown.step_text(shown.peak_step), 300)
    bound = f"proven bound on the peak {format_bytes(result.peak_bound)}"
    return _key(
        [
            ("line", f"color:{LIVE}", "live bytes"),
            ("dot", f"background:{PEAK}", f"peak {format_bytes(shown.peak)}: {at}"),
            ("line dashed", f"color:{BOUND}", bound),
        ]
    )


def left_out(shown: View) -> str:
    """Return what a picture does not show, if anything."""
    lines = []
    for slab in shown.slabs:
        drawn, share = thinned(shown, slab)
        if rest := len(slab.buffers) - len(drawn.buffers):
            lines.append(
                f"<p class=soft>Drawn are the {len(drawn.buffers):,} buffers that are live at the "
                f"peak or largest (bytes times steps); {rest:,} others, {percent(share)} of the "
                "area, are not.</p>"
            )
    return "".join(lines)


def live_table(shown: View) -> str:
    """Return who is live at the peak, largest first."""
    subject, size = shown.subject, shown.subject.sizes
    rows = []
    for b in shown.live[:AT_MOST]:
        share = int(size[b]) / max(1, shown.peak)
        bar = f'<i class=share style="width:{max(0.05, 4 * share):.2f}rem"></i>'
        name = subject.buffers[b]
        button = f"<button type=button data-buffer={b} aria-pressed=false>{safe(name)}</button>"
        rows.append(
            (
                Cell(name, button),
                format_bytes(int(size[b])),
                Cell(percent(share), bar + percent(share)),
                subject.makers[b] if subject.makers else "",
                shown.lifetime(b),
            )
        )
    count, live = len(shown.live), int(size[list(shown.live)].sum())
    says = f"{count:,} buffers, {both(live)}"
    if live > shown.peak:
        says += f", of which {both(live - shown.peak)} lie in a dying input (in place)"
    more = ""
    if count > AT_MOST:
        rest = int(size[list(shown.live[AT_MOST:])].sum())
        more = f" ({count - AT_MOST:,} still smaller, {format_bytes(rest)}, are not listed)"
    table = make_table(("buffer", "bytes", "share", "made by", "live"), "snsts", rows, says)
    return as_html(table, more=more)


def plan_table(result: Result, views: Sequence[View]) -> str:
    """Return plans beside one another; the first one is what the others are measured by."""
    first = views[0].slab
    best_peak = min(x for x in (result.peak, *(v.peak for v in views)) if x is not None)
    best_slab = min(x for x in (result.slab, *(v.slab for v in views)) if x is not None)
    rows = [
        (
            shown.name,
            _exactly(shown.peak),
            percent(shown.peak / max(1, best_peak) - 1),
            _exactly(shown.slab),
            percent(shown.slab / max(1, best_slab) - 1),
            _exactly(shown.slab - shown.peak),
            f"{100 * (shown.slab / max(1, first) - 1):+.1f} %" if number else "",
        )
        for number, shown in enumerate(views)
    ]
    heads = ("plan", "peak", "excess", "slab", "excess", "fragmentation", "slab against the first")
    return f"<p>{_EXCESS}.</p>" + as_html(make_table(heads, "tnnnnnn", rows))


_EXCESS = "excess = value / optimum - 1, or / best known where no optimum is proved"


def _exactly(count: int) -> Cell:
    return Cell(str(count), f"{format_bytes(count)}<br><small>{count:,}</small>")


def method_section(comparison: Comparison) -> str:
    """Return how far each method is from the optimum."""
    rows: list[Sequence[str]] = [
        (
            row.method,
            row.kind,
            format_bytes(row.peak),
            percent(row.peak_excess),
            format_bytes(row.slab),
            percent(row.slab_excess),
            f"{row.runtime:.3f}",
        )
        for row in comparison.rows
    ]
    rows += [
        (row.method, row.kind, row.reason, "", "", "", f"{row.runtime:.3f}")
        for row in comparison.failed
    ]
    heads = ("method", "kind", "peak", "excess", "slab", "excess", "seconds")
    table = make_table(heads, "stnnnnn", rows)
    ours = [number for number, row in enumerate(comparison.rows) if row.method == OUR_METHOD]
    says = f"{_EXCESS}. Orders are packed greedily, packings take the best order."
    return f"<p>{says}</p>" + as_html(replace(table, best=ours[0] if ours else None))


def proof_section(
    result: Result, views: Sequence[View], explained: Mapping[str, Any] | None
) -> str:
    """Return why no plan needs less: the verdicts, the op, and the buffers that it holds live."""
    peaks = [x for x in (result.peak, *(view.peak for view in views)) if x is not None]
    slabs = [x for x in (result.slab, *(view.slab for view in views)) if x is not None]
    lines = verdicts(result, min(peaks), min(slabs), given=views[0].subject.is_packing)
    parts = [f"<p>{escape(line)}</p>" for line in lines]
    if explained is None:
        return "".join(parts)
    named = {**explained, "op": explained["op"] and readable(explained["op"])}
    parts.append(f"<p>{escape(bottleneck(named, result.peak_bound))}</p>")
    rows = [
        (
            row["name"] + ("" if row["in_every_order"] else " *"),
            format_bytes(row["size"]),
            row["producer"] or "graph input",
            _holders(row),
        )
        for row in explained["buffers"][:AT_MOST]
    ]
    heads = ("buffer", "bytes", "made by", "held by")
    parts.append(as_html(make_table(heads, "sntt", rows, "Live then")))
    if not all(row["in_every_order"] for row in explained["buffers"]):
        parts.append(
            "<p class=soft>* not live then in every order, but others of as many bytes are in its "
            "stead</p>"
        )
    for row in explained["written_in_place"]:
        parts.append(
            f"<p class=soft>{safe(row['output'])} is written into {safe(row['input'])}, which "
            f"saves {both(row['saves'])}.</p>"
        )
    return "".join(parts)


def _holders(row: dict[str, Any]) -> Cell:
    shown = ", ".join(safe(name) for name in row["held_by"][:3])
    more = len(row["held_by"]) - 3
    parts = [shown + (f" and {more:,} more" if more > 0 else "")] if shown else []
    return Cell("", "; ".join([*parts, *(["live to the end"] if row["output"] else [])]))


def trace_table(trace: Sequence[Event]) -> str:
    """Return the events of a search."""
    rows = [
        (
            f"{event.seconds:.4f}",
            "-" if event.incumbent is None else f"{event.incumbent:,}",
            f"{event.bound:,}",
            event.source,
        )
        for event in trace[:AT_MOST]
    ]
    heads = ("seconds", "best plan, bytes", "bound, bytes", "by")
    inside = as_html(make_table(heads, "nnnt", rows))
    return f"<details><summary>{len(trace):,} events</summary>{inside}</details>"
