"""One self-contained HTML file about the plans of a graph; it asks the network for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.compare import Comparison
from optsched.formats import write_bytes
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.reports import sections
from optsched.reports.figures import (
    Painting,
    painting,
    plan_figures,
    progress_figure,
    require_bokeh,
)
from optsched.reports.sections import text
from optsched.reports.view import View, view
from optsched.reports.words import percent, summary
from optsched.runtime.bytes import format_bytes, unit_of
from optsched.runtime.limits import Event
from optsched.solver.result import Result

if TYPE_CHECKING:
    from bokeh.plotting import figure

MANY_OPS = 20_000
"""Beyond this many ops the one that forces the bound is not looked for: it would take minutes."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a report is about.

    Parameters
    ----------
    graph
        The graph.
    result
        Of our own solver: the bounds that all plans are measured by, and their proofs.
    views
        The plans to show; the first one is what the others are compared with.
    comparison
        Heuristics against the bound, if asked for.
    explained
        What :func:`optsched.reports.explain.explain_record` says of the graph, if it is known.
    traces
        How incumbent and bound moved, by the name of the search.
    """

    graph: Graph
    result: Result
    views: Sequence[View]
    comparison: Comparison | None = None
    explained: Mapping[str, Any] | None = None
    traces: Mapping[str, Sequence[Event]] = field(default_factory=dict)


def make_report(
    graph: Graph,
    result: Result,
    plans: Sequence[tuple[str, Plan, Sequence[Event]]],
    comparison: Comparison | None = None,
) -> Report:
    """Check plans and make a report of them.

    Parameters
    ----------
    graph, result
        The graph, and what our own solver says of it.
    plans
        Name, plan, and how incumbent and bound moved while it was made, as far as known.
    comparison
        Heuristics against the bound, if asked for.

    Raises
    ------
    PlanError
        If a plan breaks a rule.
    """
    explained = None
    if len(graph.ops) <= MANY_OPS:
        from optsched.explanation import explain_op
        from optsched.reports.explain import explain_record

        explained = explain_record(graph, explain_op(graph))
    traces = {f"the search for {name}": trace for name, _, trace in plans}
    return Report(
        graph,
        result,
        [view(graph, plan, name) for name, plan, _ in plans],
        comparison,
        explained,
        {**traces, "the proof": result.trace},
    )


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

    paint = painting(report.graph, report.views)
    drawn = plan_figures(paint, report.views, report.result.peak_bound)
    traces = {name: list(trace) for name, trace in report.traces.items() if trace}
    moved = [progress_figure(trace, *_trace_unit(trace)) for trace in traces.values()]
    figures = [*(fig for row in drawn for fig in row), *moved]
    script, divs = components(figures)
    places = dict(zip((fig.id for fig in figures), divs, strict=True))
    library = Resources(mode="inline", log_level="warn", components=["bokeh"]).render_js()
    body = _body(report, paint, drawn, places)
    body += "".join(
        f"<h2>How {text(name)} went</h2>{_figure(fig, places, _TRACE_SAYS)}"
        f"{sections.trace_table(trace)}"
        for (name, trace), fig in zip(traces.items(), moved, strict=True)
    )
    model = text(report.graph.model_name, 1000)
    body += f"<h2>Memory model and versions</h2><p>Memory model: {model}.</p>{sections.origin()}"
    script += f"<script>{sections.asset('page.js')}</script>"
    return sections.document(
        f"{report.graph.name}: memory plan", f"<main>{body}</main>{library}{script}"
    )


_NOT_LOOKED_FOR = (
    f"Which op forces the bound is not looked for in graphs of more than {MANY_OPS:,} ops; "
    "`optsched explain` does."
)
_TRACE_SAYS = "Best plan (line) and proven bound (dashes) over the seconds of the search."


def _trace_unit(trace: Sequence[Event]) -> tuple[str, int]:
    return unit_of(max(max(event.incumbent or 0, event.bound) for event in trace))


def _body(
    report: Report,
    paint: Painting,
    drawn: Sequence[Sequence[figure]],
    places: Mapping[str, str],
) -> str:
    graph, result, first = report.graph, report.result, report.views[0]
    several = len(report.views) > 1
    parts = [
        f"<h1>{text(graph.name)}</h1><p class=lead>{_lead(report)}</p>",
        "<noscript><p>The pictures need JavaScript; the tables do not.</p></noscript>",
        sections.facts(graph, result, first) if not several else "",
        sections.plan_table(result, report.views) if several else "",
        f"<h2>The packed slab{'s' if several else ''}</h2>",
        _CONTROLS,
        sections.keys(paint),
        "<div class=plans>",
        *(_plan(report, v, row, places) for v, row in zip(report.views, drawn, strict=True)),
        "</div>",
    ]
    if report.comparison is not None:
        parts.append(
            "<h2>How far each method is from the bound</h2>"
            + sections.gap_section(report.comparison)
        )
    parts.append(
        "<h2>Why no plan needs less</h2>"
        + sections.proof_section(result, report.views, report.explained)
    )
    return "".join(parts)


def _lead(report: Report) -> str:
    first, last = report.views[0], report.views[-1]
    words = text(summary(report.graph, report.result, last))
    if len(report.views) == 1:
        return words
    change = last.slab - first.slab
    how = "larger" if change > 0 else "smaller"
    much = f"{format_bytes(abs(change))} ({percent(abs(change) / max(1, first.slab))}) {how} than"
    before, after = (f"\u201c{text(shown.name)}\u201d" for shown in (first, last))
    than = f"{much} that of" if change else "as large as that of"
    return f"The slab of {after} is {than} {before}. {after}: {words}"


_CONTROLS = """<div class=controls><fieldset><legend>Colour by</legend>
<label><input type=radio name=colour value=by_size checked> size</label>
<label><input type=radio name=colour value=by_kind> op type</label></fieldset>
<label>Find <input type=search id=find placeholder="buffer or op"></label>
<output id=found for=find></output>
<span class=hint>Wheel zooms, drag moves, hover tells; the round arrow goes back.</span></div>"""


def _plan(report: Report, shown: View, row: Sequence[figure], places: Mapping[str, str]) -> str:
    graph = report.graph
    parts = [f"<section><h3>{text(shown.name)}</h3>" if len(report.views) > 1 else "<section>"]
    for slab, fig in zip(shown.slabs, row, strict=False):
        pool = f" in pool {slab.pool}" if slab.pool else ""
        says = f"Packed slab{pool} of {format_bytes(slab.size)}: steps to the right, addresses up."
        parts.append(_figure(fig, places, says))
    parts.append(sections.left_out(shown))
    says = f"Live bytes while each step runs; the peak is {format_bytes(shown.peak)}."
    parts.append(_figure(row[-1], places, says))
    parts.append(sections.live_key(graph, shown, report.result))
    parts.append("<h3>Who is live at the peak</h3>" + sections.live_table(graph, shown))
    return "".join(parts) + "</section>"


def _figure(fig: figure, places: Mapping[str, str], says: str) -> str:
    label = text(says)
    return (
        f'<figure><div role="img" aria-label="{label}">{places[fig.id]}</div>'
        f"<figcaption>{label}</figcaption></figure>"
    )
