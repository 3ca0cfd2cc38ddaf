"""Text and tables of a report as HTML; every name is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

from optsched.compare import OUR_METHOD, Comparison
from optsched.explanation.words import NOT_ALWAYS
from optsched.model.saving import change
from optsched.reports.colors import BOUND, LIVE, OTHER, PEAK, VIRIDIS, Painting
from optsched.reports.report import Report, among
from optsched.reports.tables import Cell, as_html, make_table, safe
from optsched.reports.view import DRAWN, View, both, thinned
from optsched.runtime.bytes import format_bytes, spelled_bytes
from optsched.runtime.limits import Event, Proof
from optsched.runtime.text import counted, listed, most_less, percent, readable
from optsched.solver.result import Result

AT_MOST = 300
"""Maximum number of rows of a table."""
PROOFS = {
    Proof.PACKING: "L1 (packing bound): the live bytes of one step fill the slab, so no packing "
    "of this order is smaller",
    Proof.BOUND: "L2 (order bound): an op, or the last or first op of a set, forces this many live "
    "bytes in every order",
    Proof.SEARCH: "L3 (order search): an exhaustive search found no order with a lower peak",
    Proof.PACKING_SEARCH: "L4 (packing search): an exhaustive search found no smaller packing of "
    "this order",
    Proof.JOINT: "L5 (joint bound): the slab equals a proved bound on the peak of every order, and "
    "no slab is smaller than the peak",
    Proof.JOINT_SEARCH: "L6 (joint search): an exhaustive search of packings in every order found "
    "no smaller one",
}
"""Meaning of each kind of proof; a solver's claim is not a proof."""
_POOLS = (
    "L5 (joint bound): the sum of the slabs equals a proved bound, for every order, on the sum of "
    "the pools' own peaks"
)
"""Meaning of a joint proof if the sum of several slabs is above the peak of all pools."""
_EXCESS = "excess = value / optimum - 1, or / best known where no optimum is proved"


def facts(result: Result, shown: View) -> str:
    """Return the list of key figures."""
    rows = [
        ("slab", format_bytes(shown.slab), f"{shown.slab:,} bytes"),
        ("peak memory", format_bytes(shown.peak), f"{shown.peak:,} bytes"),
        ("proven bound", format_bytes(result.slab_bound), f"no slab is smaller{among(result)}"),
        (
            "optimality gap",
            most_less(shown.slab, result.slab_bound),
            "of this slab" if shown.slab > result.slab_bound else f"minimum{among(result)}",
        ),
        ("fragmentation", format_bytes(shown.slab - shown.peak), "slab less peak"),
        ("size", shown.subject.counts.split(" and ")[0], shown.subject.counts.split(" and ")[-1]),
    ]
    items = "".join(
        f"<li><span>{escape(what)}</span><b>{escape(value)}</b><span>{escape(note)}</span></li>"
        for what, value, note in rows
    )
    return f"<ul class=facts>{items}</ul>"


def _key(*items: tuple[str, str, str], attributes: str = "") -> str:
    """Return a legend: for each item the class of its mark, the mark's style, and HTML."""
    marks = "".join(
        f'<li><i class="{c}" style="{style}"></i>{label}</li>' for c, style, label in items
    )
    return f"<ul class=key{attributes}>{marks}</ul>"


def color_keys(paint: Painting) -> str:
    """Return the legends of colors: the scale of sizes and the list of types."""
    ramp = f"background:linear-gradient(90deg,{','.join(VIRIDIS)})"
    sizes = f"{format_bytes(paint.darkest)} or less to {format_bytes(paint.largest)}, logarithmic"
    # Types beyond the palette share one color and one line.
    own = [(kind, color) for kind, color in paint.kinds.items() if color != OTHER]
    chips = [("", f"background:{color}", safe(kind)) for kind, color in own]
    if rest := len(paint.kinds) - len(own):
        chips.append(("", f"background:{OTHER}", counted(rest, "more type")))
    by_size = _key(("ramp", ramp, sizes), attributes=" data-key=by_size")
    return by_size + _key(*chips, attributes=" data-key=by_kind hidden")


def line_keys(result: Result, shown: View) -> tuple[str, str]:
    """Return the legends of lines in the pictures of a slab and of the live bytes."""
    at = safe(shown.step_text(shown.peak_step), 300)
    peak, dashes = ("line", f"color:{PEAK}"), ("line dashed", f"color:{BOUND}")
    of = safe(among(result), 1000)
    slab_bound = (*dashes, f"proven bound on the slab {format_bytes(result.slab_bound)}{of}")
    return (
        _key((*peak, "the step of the peak"), *([slab_bound] if len(shown.slabs) == 1 else [])),
        _key(
            ("line", f"color:{LIVE}", "live bytes"),
            ("dot", f"background:{PEAK}", f"peak {format_bytes(shown.peak)}: {at}"),
            (*dashes, f"proven bound on the peak {format_bytes(result.peak_bound)}{of}"),
        ),
    )


def left_out(shown: View, most: int = DRAWN) -> str:
    """Return a note on the buffers that a picture of `most` per slab leaves out, if any."""
    lines = []
    for slab in shown.slabs:
        # A browser draws some thousand rectangles without delay; the largest tell the story.
        drawn, share = thinned(shown, slab, most)
        if rest := len(slab.buffers) - len(drawn.buffers):
            lines.append(
                f"<p class=soft>The picture shows the {counted(len(drawn.buffers), 'buffer')} that "
                "are live at the peak or largest (bytes times steps); it leaves out "
                f"{rest:,} more, {percent(share)} of the area.</p>"
            )
    return "".join(lines)


def live_table(shown: View) -> str:
    """Return the table of buffers live at the peak, largest first."""
    subject, size = shown.subject, shown.subject.sizes
    rows = []
    for b in shown.live[:AT_MOST]:
        share = int(size[b]) / max(1, shown.peak)
        # At least a hair's breadth, so that every row shows a bar.
        bar = f'<i class=share style="width:{max(0.05, 4 * share):.2f}rem"></i>'
        name = subject.buffers[b]
        button = f"<button type=button data-buffer={b} aria-pressed=false>{safe(name)}</button>"
        rows.append(
            (
                Cell(name, button),
                format_bytes(int(size[b])),
                Cell(percent(share), bar + percent(share)),
                shown.lifetime(b),
                subject.makers[b] if subject.makers else "",
            )
        )
    count, live = len(shown.live), int(size[list(shown.live)].sum())
    label = f"{counted(count, 'buffer')}, {both(live)}"
    # In place, two live buffers share bytes, so their sum may exceed the peak.
    if live > shown.peak:
        label += f", {both(live - shown.peak)} of it in memory of a dying input (in place)"
    more = ""
    if count > AT_MOST:
        rest = int(size[list(shown.live[AT_MOST:])].sum())
        more = f" ({count - AT_MOST:,} even smaller ones, {format_bytes(rest)}, are not listed)"
    table = make_table(("buffer", "bytes", "share", "live", "made by"), "snsst", rows, label)
    return as_html(table, "Buffers live at the peak", more=more)


def plan_table(result: Result, views: Sequence[View]) -> str:
    """Return the table of plans; slabs are compared with that of the first plan."""
    first = views[0].slab
    peak, slab = _best_known(result, views)
    rows = [
        (
            shown.name,
            _exactly(shown.peak),
            percent(shown.peak / max(1, peak) - 1),
            _exactly(shown.slab),
            percent(shown.slab / max(1, slab) - 1),
            _exactly(shown.slab - shown.peak),
            change(first, shown.slab) if number else "",
        )
        for number, shown in enumerate(views)
    ]
    heads = ("plan", "peak", "excess", "slab", "excess", "fragmentation", "slab against the first")
    return f"<p>{_EXCESS}.</p>" + as_html(make_table(heads, "tnnnnnn", rows), "Plans")


def _exactly(count: int) -> Cell:
    return Cell(str(count), f"{format_bytes(count)}<br><small>{count:,}</small>")


def _best_known(result: Result, views: Sequence[View]) -> tuple[int, int]:
    """Return the smallest known peak and slab, in bytes."""
    peaks = [x for x in (result.peak, *(view.peak for view in views)) if x is not None]
    slabs = [x for x in (result.slab, *(view.slab for view in views)) if x is not None]
    return min(peaks), min(slabs)


def method_section(comparison: Comparison) -> str:
    """Return the table of the excess of each method over the optimum."""
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
    # Our own row is highlighted.
    ours = [number for number, row in enumerate(comparison.rows) if row.method == OUR_METHOD]
    table = replace(make_table(heads, "stnnnnn", rows), best=ours[0] if ours else None)
    label = f"{_EXCESS}. Orders are packed greedily, packings take the best order."
    return f"<p>{label}</p>" + as_html(table, "Methods")


def verdicts(
    result: Result, best_peak: int, best_slab: int, *, given: bool = False, of: str = ""
) -> list[str]:
    """Return one sentence on the peak and one on the slab: the bound and its proof.

    `result` is our own solver's. `best_peak` and `best_slab` are the fewest bytes known from any
    method. If live ranges are `given`, no order can change the peak. `of` are words on the plans
    that the bounds are about, unless the result has them.
    """
    lines, of = [], of or among(result)
    for what, found, value, bound, proof in (
        ("peak", result.peak, best_peak, result.peak_bound, result.peak_proof),
        ("slab", result.slab, best_slab, result.slab_bound, result.slab_proof),
    ):
        minimum = spelled_bytes(bound)
        if given and what == "peak":
            lines.append(f"The live ranges are given; at their fullest step, {minimum} are live.")
        # Above the bound: a gap remains.
        elif value > bound:
            lines.append(
                f"No {what}{of} is below {minimum} (proved). The smallest one found is "
                f"{format_bytes(value)}, which leaves a gap of {most_less(value, bound)}."
            )
        elif found == value and proof is not None and proof in PROOFS:
            # Several pools are bounded by the sum of their own peaks.
            pooled = proof is Proof.JOINT and bound > result.peak_bound
            lines.append(
                f"The minimum {what}{of} is {minimum}. {_POOLS if pooled else PROOFS[proof]}."
            )
        else:
            lines.append(f"The minimum {what}{of} is {minimum}: a plan meets the proven bound.")
    if result.claimed_bound is not None:
        lines.append(
            f"A solver claims a bound of {result.claimed_bound:,} bytes, which was not checked."
        )
    return lines


def proof_section(report: Report) -> str:
    """Return why no plan needs less: the verdicts, the bottleneck op and the buffers live there."""
    result, views, explained = report.result, report.views, report.explained
    given = views[0].subject.is_packing
    lines = verdicts(result, *_best_known(result, views), given=given)
    parts = [f"<p>{escape(line)}</p>" for line in lines]
    if explained is None:
        return "".join(parts)
    found, op = explained["bound"], explained["op"]
    where = f"at the {explained['at']}" if op is None else f"while op {readable(op)} runs"
    orders = "in every order" if not among(result) else f"in all {result.restriction}"
    words = f"At least {spelled_bytes(found)} are live {where}, {orders}"
    if rest := max(0, result.peak_bound - found):
        words += f". Searching the orders raises this bound by {rest:,} bytes."
    else:
        words += "; that is the bound on the peak."
    parts.append(f"<p>{escape(words)}</p>")
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
    count = len(explained["buffers"])
    then = f"Live then, the largest {AT_MOST} of {count:,}" if count > AT_MOST else "Live then"
    parts.append(as_html(make_table(heads, "sntt", rows, then), "Why they are live"))
    if not all(row["in_every_order"] for row in explained["buffers"]):
        parts.append(f"<p class=soft>{NOT_ALWAYS}</p>")
    parts += [
        f"<p class=soft>{safe(row['output'])} overwrites {safe(row['input'])}, which "
        f"saves {both(row['saves'])}.</p>"
        for row in explained["written_in_place"]
    ]
    return "".join(parts)


def _holders(row: dict[str, Any]) -> Cell:
    held, kept = listed([safe(name) for name in row["held_by"]], 3), "live to the end"
    return Cell("", "; ".join(filter(None, (held, kept if row["output"] else ""))))


def trace_table(trace: Sequence[Event]) -> str:
    """Return the table of the events of a search."""
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
    inside = as_html(make_table(heads, "nnnt", rows), "Events of the search")
    first = f", the first {AT_MOST:,} of them" if len(trace) > AT_MOST else ""
    return f"<details><summary>{counted(len(trace), 'event')}{first}</summary>{inside}</details>"
