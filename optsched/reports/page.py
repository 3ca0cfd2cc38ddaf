"""One self-contained HTML file about plans, of a graph or of given live ranges.

It asks the network for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from optsched.formats import write_bytes
from optsched.reports import sections
from optsched.reports.colours import Painting, painting
from optsched.reports.figures import plan_figures, progress_figure, require_bokeh
from optsched.reports.html import asset, document, origin
from optsched.reports.report import Report
from optsched.reports.tables import safe
from optsched.reports.view import View
from optsched.reports.words import percent, summary
from optsched.runtime.bytes import format_bytes, unit_of
from optsched.runtime.limits import Event

if TYPE_CHECKING:
    from bokeh.plotting import figure


def write_page(path: str | Path, report: Report) -> None:
    """Write the HTML file."""
    write_bytes(path, report_page(report).encode())


def report_page(report: Report) -> str:
    """Return the HTML.

    Raises
    ------
    MissingDependencyError
        If Bokeh is not installed.
    """
    require_bokeh()
    from bokeh.embed import components
    from bokeh.resources import Resources

    paint, result, subject = painting(report.views), report.result, report.views[0].subject
    drawn = plan_figures(paint, report.views, result.peak_bound, result.slab_bound)
    traces = {name: list(trace) for name, trace in report.traces.items() if trace}
    moved = [progress_figure(trace, *_trace_unit(trace)) for trace in traces.values()]
    figures = [*(fig for row in drawn for fig in row), *moved]
    script, divs = components(figures)
    places = dict(zip((fig.id for fig in figures), divs, strict=True))
    library = Resources(mode="inline", log_level="warn", components=["bokeh"]).render_js()
    body = _body(report, paint, drawn, places)
    body += "".join(
        f"<h2>How {safe(name)} went</h2>{_figure(fig, places, _TRACE_SAYS)}"
        f"{sections.trace_table(trace)}"
        for (name, trace), fig in zip(traces.items(), moved, strict=True)
    )
    model = safe(subject.memory_model, 1000)
    body += f"<h2>Memory model and versions</h2><p>Memory model: {model}.</p>{origin()}"
    script += f"<script>{asset('page.js')}</script>"
    return document(f"{subject.name}: memory plan", f"<main>{body}</main>{library}{script}")


_TRACE_SAYS = "Best plan (line) and proven bound (dashes) over the seconds of the search."


def _trace_unit(trace: Sequence[Event]) -> tuple[str, int]:
    return unit_of(max(max(event.incumbent or 0, event.bound) for event in trace))


def _body(
    report: Report,
    paint: Painting,
    drawn: Sequence[Sequence[figure]],
    places: Mapping[str, str],
) -> str:
    result, views = report.result, report.views
    several = len(views) > 1
    parts = [
        f"<h1>{safe(views[0].subject.name)}</h1><p class=lead>{_lead(report)}</p>",
        "<noscript><p>The pictures need JavaScript; the tables do not.</p></noscript>",
        sections.plan_table(result, views) if several else sections.facts(result, views[0]),
        f"<h2>The packed slab{'s' if several else ''}</h2>",
        _controls(views[0]),
        sections.colour_keys(paint),
        "<div class=plans>",
        *(_plan(report, v, row, places) for v, row in zip(views, drawn, strict=True)),
        "</div>",
    ]
    if report.comparison is not None:
        parts.append(
            "<h2>How far each method is from the optimum</h2>"
            + sections.method_section(report.comparison)
        )
    parts.append(
        "<h2>Why no plan needs less</h2>" + sections.proof_section(result, views, report.explained)
    )
    return "".join(parts)


def _lead(report: Report) -> str:
    first, last = report.views[0], report.views[-1]
    words = safe(summary(report.result, last), 1000)
    if len(report.views) == 1:
        return words
    change = last.slab - first.slab
    how = "larger" if change > 0 else "smaller"
    much = f"{format_bytes(abs(change))} ({percent(abs(change) / max(1, first.slab))}) {how} than"
    before, after = (f"\u201c{safe(shown.name)}\u201d" for shown in (first, last))
    than = f"{much} that of" if change else "as large as that of"
    return f"The slab of {after} is {than} {before}. {after}: {words}"


_COLOURS = """<fieldset><legend>Colour by</legend>
<label><input type=radio name=colour value=by_size checked> size</label>
<label><input type=radio name=colour value=by_kind> op type</label></fieldset>"""


def _controls(shown: View) -> str:
    colours, what = (_COLOURS, "buffer or op") if shown.subject.makers else ("", "buffer")
    return (
        f"<div class=controls>{colours}"
        f'<label>Find <input type=search id=find placeholder="{what}"></label>'
        "<output id=found for=find></output>"
        "<span class=hint>Ctrl and the wheel zoom, drag moves, pointing at a buffer names it; "
        "the round arrow goes back.</span></div>"
    )


def _plan(report: Report, shown: View, row: Sequence[figure], places: Mapping[str, str]) -> str:
    result = report.result
    parts = [f"<section><h3>{safe(shown.name)}</h3>" if len(report.views) > 1 else "<section>"]
    for slab, fig in zip(shown.slabs, row, strict=False):
        pool = f" in pool {slab.pool}" if slab.pool else ""
        says = f"Packed slab{pool} of {format_bytes(slab.size)}: steps to the right, addresses up."
        parts.append(_figure(fig, places, says))
    parts += [sections.slab_key(result, shown), sections.left_out(shown)]
    says = f"Live bytes while each step runs; the peak is {format_bytes(shown.peak)}."
    parts += [_figure(row[-1], places, says), sections.live_key(result, shown)]
    parts.append("<h3>Who is live at the peak</h3>" + sections.live_table(shown))
    return "".join(parts) + "</section>"


def _figure(fig: figure, places: Mapping[str, str], says: str) -> str:
    label = safe(says)
    return (
        f'<figure><div role="img" aria-label="{label}">{places[fig.id]}</div>'
        f"<figcaption>{label}</figcaption></figure>"
    )
