"""The parts of a report that are words and tables, as HTML; every name is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from optsched.compare import OUR_METHOD, Comparison
from optsched.model.graph import Graph
from optsched.reports.colours import BOUND, LIVE, OTHER, PEAK, VIRIDIS
from optsched.reports.figures import Painting
from optsched.reports.record import versions
from optsched.reports.view import View, both, lifetime, maker, thinned
from optsched.reports.words import bottleneck, percent, verdicts
from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Event, optimality_gap
from optsched.runtime.text import LONGEST, readable
from optsched.solver.result import Result

AT_ONCE, AT_MOST = 12, 300
"""Rows of a table that are open to begin with, and those it has at all."""


# The browser itself refuses whatever is not in the file.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:"
)


def text(words: str, longest: int = LONGEST) -> str:
    """Return words from outside, safe and fit to be shown."""
    return escape(readable(words, longest))


def asset(name: str) -> str:
    """Return a file of the folder `assets`."""
    return files("optsched.reports").joinpath("assets", name).read_text("utf-8")


def document(title: str, body: str) -> str:
    """Return a page that may load nothing from anywhere."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{text(title)}</title>'
        f"<style>{asset('page.css')}</style></head><body>{body}</body></html>"
    )


def table(heads: Sequence[str], classes: str, rows: Iterable[Sequence[str]], says: str = "") -> str:
    """Return a table of cells that are HTML already.

    Parameters
    ----------
    heads
        Of the columns.
    classes
        One letter a column: `n` for numbers, `s` for what stays on one line, `t` for other text.
    rows
        Cells; a row that is a :class:`_Best` is set off.
    says
        Caption.
    """
    body = "".join(
        f"<tr{' class=best' if isinstance(row, _Best) else ''}>"
        + "".join(f"<td class={c}>{x}</td>" for c, x in zip(classes, row, strict=True))
        + "</tr>"
        for row in rows
    )
    head = "".join(
        f"<th scope=col class={c}>{escape(x)}</th>" for c, x in zip(classes, heads, strict=True)
    )
    named = f"<caption>{escape(says)}</caption>" if says else ""
    return (
        f"<div class=scroll><table>{named}<thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


class _Best(tuple[str, ...]):
    """A row that is set off."""

    __slots__ = ()


def _folded(
    heads: Sequence[str], classes: str, rows: Sequence[Sequence[str]], says: str, more: str = ""
) -> str:
    """Return a table whose first rows are open and whose others unfold."""
    open_rows = table(heads, classes, rows[:AT_ONCE], says)
    if len(rows) <= AT_ONCE:
        return open_rows
    inside = table(heads, classes, rows[AT_ONCE:])
    summary = escape(f"{len(rows) - AT_ONCE:,} smaller ones{more}")
    return f"{open_rows}<details><summary>{summary}</summary>{inside}</details>"


def facts(graph: Graph, result: Result, shown: View) -> str:
    """Return the figures that people look for first."""
    gap = optimality_gap(shown.slab, result.slab_bound)
    rows = [
        ("slab", format_bytes(shown.slab), f"{shown.slab:,} bytes"),
        ("peak memory", format_bytes(shown.peak), f"{shown.peak:,} bytes"),
        ("proven bound", format_bytes(result.slab_bound), "no slab is smaller"),
        ("optimality gap", percent(gap), "of this slab" if gap else "proved least"),
        ("fragmentation", format_bytes(shown.slab - shown.peak), "slab less peak"),
        ("graph", f"{len(graph.ops):,} ops", f"{len(graph.buffers):,} buffers"),
    ]
    items = "".join(
        f"<li><span>{escape(what)}</span><b>{escape(value)}</b><span>{escape(note)}</span></li>"
        for what, value, note in rows
    )
    return f"<ul class=facts>{items}</ul>"


def keys(paint: Painting) -> str:
    """Return what colours say: the scale of sizes and the list of types."""
    ramp = f"linear-gradient(90deg,{','.join(VIRIDIS)})"
    own = {kind: colour for kind, colour in paint.kinds.items() if colour != OTHER}
    chips = "".join(f'<li><i style="background:{c}"></i>{text(k)}</li>' for k, c in own.items())
    if rest := len(paint.kinds) - len(own):
        chips += f'<li><i style="background:{OTHER}"></i>{rest} more</li>'
    return (
        f"<ul class=key data-key=by_size><li>up to {format_bytes(paint.darkest)}"
        f'<i class=ramp style="background:{ramp}"></i>'
        f"{format_bytes(paint.largest)}, on a logarithmic scale</li></ul>"
        f"<ul class=key data-key=by_kind hidden>{chips}</ul>"
    )


def live_key(graph: Graph, shown: View, result: Result) -> str:
    """Return what line, dot and dashes of the live bytes are."""
    at = f"step {shown.peak_step:,}"
    if graph.ops:
        at += f", while op {text(graph.ops[shown.plan.order[shown.peak_step]].name)} runs"
    return (
        f'<ul class=key><li><i class=line style="color:{LIVE}"></i>live bytes</li>'
        f'<li><i class=dot style="background:{PEAK}"></i>peak {format_bytes(shown.peak)}: {at}</li>'
        f'<li><i class="line dashed" style="color:{BOUND}"></i>proven bound on the peak '
        f"{format_bytes(result.peak_bound)}</li></ul>"
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


def live_table(graph: Graph, shown: View) -> str:
    """Return who is live at the peak, largest first."""
    size = graph.arrays.size
    rows = []
    for b in shown.live[:AT_MOST]:
        share = int(size[b]) / max(1, shown.peak)
        rows.append(
            (
                f"<button type=button data-buffer={b} aria-pressed=false>"
                f"{text(graph.buffers[b].name)}</button>",
                format_bytes(int(size[b])),
                f'<i class=share style="width:{max(0.05, 4 * share):.2f}rem"></i>{percent(share)}',
                escape(maker(graph, b)),
                escape(lifetime(graph, shown, b)),
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
    return _folded(("buffer", "bytes", "share", "made by", "live"), "snsts", rows, says, more)


def plan_table(result: Result, views: Sequence[View]) -> str:
    """Return plans beside one another; the first one is what the others are measured by."""
    first = views[0]
    rows = []
    for number, shown in enumerate(views):
        change = "" if not number else f"{100 * (shown.slab / max(1, first.slab) - 1):+.1f} %"
        rows.append(
            (
                text(shown.name),
                _exactly(shown.peak),
                percent(optimality_gap(shown.peak, result.peak_bound)),
                _exactly(shown.slab),
                percent(optimality_gap(shown.slab, result.slab_bound)),
                _exactly(shown.slab - shown.peak),
                change,
            )
        )
    heads = ("plan", "peak", "gap", "slab", "gap", "fragmentation", "slab against the first")
    return table(heads, "tnnnnnn", rows)


def _exactly(count: int) -> str:
    return f"{format_bytes(count)}<br><small>{count:,}</small>"


def gap_section(comparison: Comparison) -> str:
    """Return how far each method is from the proven bound."""
    rows: list[Sequence[str]] = []
    for row in comparison.rows:
        cells = (
            text(row.method),
            text(row.kind),
            format_bytes(row.peak),
            percent(row.peak_gap),
            format_bytes(row.slab),
            percent(row.slab_gap),
            percent(row.excess),
            f"{row.runtime:.3f}",
        )
        rows.append(_Best(cells) if row.method == OUR_METHOD else cells)
    rows += [
        (text(row.method), text(row.kind), text(row.reason), "", "", "", "", f"{row.runtime:.3f}")
        for row in comparison.failed
    ]
    heads = ("method", "kind", "peak", "gap", "slab", "gap", "excess", "seconds")
    return (
        "<p>gap = (value - bound) / value; excess = value / best known - 1, of the peak for orders "
        "and of the slab else. Orders are packed greedily, packings take the best order.</p>"
        + table(heads, "stnnnnnn", rows)
    )


def proof_section(
    result: Result, views: Sequence[View], explained: Mapping[str, Any] | None
) -> str:
    """Return why no plan needs less: the verdicts, the op, and the buffers that it holds live."""
    peaks = [x for x in (result.peak, *(view.peak for view in views)) if x is not None]
    slabs = [x for x in (result.slab, *(view.slab for view in views)) if x is not None]
    lines = verdicts(result, min(peaks), min(slabs))
    parts = [f"<p>{escape(line)}</p>" for line in lines]
    if explained is None:
        return "".join(parts)
    named = {**explained, "op": explained["op"] and readable(explained["op"])}
    parts.append(f"<p>{escape(bottleneck(named, result.peak_bound))}</p>")
    rows = [
        (
            text(row["name"]) + ("" if row["in_every_order"] else " *"),
            format_bytes(row["size"]),
            text(row["producer"]) if row["producer"] else "graph input",
            _holders(row),
        )
        for row in explained["buffers"][:AT_MOST]
    ]
    parts.append(_folded(("buffer", "bytes", "made by", "held by"), "sntt", rows, "Live then"))
    if not all(row["in_every_order"] for row in explained["buffers"]):
        parts.append(
            "<p class=soft>* not live then in every order, but others of as many bytes are in its "
            "stead</p>"
        )
    for row in explained["written_in_place"]:
        parts.append(
            f"<p class=soft>{text(row['output'])} is written into {text(row['input'])}, which "
            f"saves {both(row['saves'])}.</p>"
        )
    return "".join(parts)


def _holders(row: dict[str, Any]) -> str:
    shown = ", ".join(text(name) for name in row["held_by"][:3])
    more = len(row["held_by"]) - 3
    parts = [shown + (f" and {more:,} more" if more > 0 else "")] if shown else []
    return "; ".join([*parts, *(["live to the end"] if row["output"] else [])])


def trace_table(trace: Sequence[Event]) -> str:
    """Return the events of a search."""
    rows = [
        (
            f"{event.seconds:.4f}",
            "-" if event.incumbent is None else f"{event.incumbent:,}",
            f"{event.bound:,}",
            text(event.source),
        )
        for event in trace[:AT_MOST]
    ]
    heads = ("seconds", "best plan, bytes", "bound, bytes", "by")
    inside = table(heads, "nnnt", rows)
    return f"<details><summary>{len(trace):,} events</summary>{inside}</details>"


def origin() -> str:
    """Return the versions."""
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    return f"<p>Made with {escape(used)}.</p>"
