"""A comparison as one self-contained HTML file that needs no extra: tables, and every packed slab.

Zooming and pointing at single buffers is for `optsched report`, a graph at a time; here a browser's
own tooltips do, and the file stays as small as the tables and rectangles are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optsched.compare import TAUS, Comparison, Study, profile, rows_against_optimum, summarise
from optsched.formats import write_bytes
from optsched.reports.gaps.choice import cell, columns, percent, proofs, troubles
from optsched.reports.gaps.terminal import KINDS, gap_summary
from optsched.reports.sections import document, gap_section, origin, table, text
from optsched.reports.svg import slab_picture
from optsched.reports.words import verdicts
from optsched.runtime.bytes import format_bytes

_DARKEST = 0.5
"""The gap from which on a cell is not coloured any deeper."""


def write_report(path: str | Path, study: Study) -> None:
    """Write the report of a comparison; it loads nothing from anywhere."""
    write_bytes(path, study_html(study).encode())


def study_html(study: Study) -> str:
    """Return the report as a string."""
    against, rows = rows_against_optimum(study.comparisons)
    numbered = list(enumerate(study.comparisons))
    body = [
        "<h1>How far each method is from the proven bound</h1>",
        f"<p class=lead>{text(gap_summary(study.comparisons), 1000)}; {against:,} of {rows:,} rows "
        "measured against a proved optimum.</p>",
        "<h2>Methods</h2><p>Ratios are value / least known. At the optimum: graphs on which the "
        "value is proved least. Best: graphs on which none of its kind is better.</p>",
        _method_table(study),
        "<h2>Performance profile</h2><p>Share of graphs on which a method is within a factor of "
        "the least known.</p>",
        _profile_table(study),
        "<h2>Graphs</h2><p>Gap to the proven bound in percent: of the peak for orders, of the slab "
        "for packers. The proofs are those of peak and slab.</p>",
        _graph_table(study, numbered),
        _without_figures(study),
        *(_graph(number, comparison) for number, comparison in numbered),
        f"<footer>{origin()}</footer>",
    ]
    return document("optsched: how far from the bound", "".join(body))


def _method_table(study: Study) -> str:
    rows = [
        (
            text(s.method),
            text(KINDS[s.kind]),
            f"{s.measured:,}",
            f"{s.mean:.3f}",
            f"{s.worst:.3f}",
            text(s.worst_instance),
            _heat(s.mean_gap),
            _heat(s.worst_gap),
            f"{s.at_optimum:,}",
            f"{s.wins:,}",
            f"{s.seconds:.2f}",
        )
        for s in summarise(study.comparisons, study.methods)
    ]
    heads = ("method", "judged", "graphs", "mean", "worst", "on", "mean gap %", "worst gap %")
    return table((*heads, "at the optimum", "best", "seconds"), "stnnntnnnnn", rows)


def _profile_table(study: Study) -> str:
    curves = profile(study.comparisons, study.methods)
    rows = [
        (text(name), *(f"{100 * share:.0f} %" for share in shares))
        for name, shares in curves.items()
    ]
    return table(("method", *(f"{tau:g}" for tau in TAUS)), "s" + "n" * len(TAUS), rows)


def _graph_table(study: Study, numbered: Sequence[tuple[int, Comparison]]) -> str:
    shown = columns(study)
    rows = [
        (
            f'<a href="#graph-{number}">{text(c.graph.name)}</a>',
            f"{len(c.graph.ops):,}",
            *(_gap(c, method) for method in shown),
            format_bytes(c.best_peak),
            format_bytes(c.best_slab),
            text(proofs(c)),
            f"{c.result.runtime:.2f}",
        )
        for number, c in numbered
    ]
    heads = ("graph", "ops", *shown, "least peak", "least slab", "proofs", "seconds")
    return table(heads, "sn" + "n" * len(shown) + "nnnn", rows)


def _gap(comparison: Comparison, method: str) -> str:
    row = comparison.row(method)
    return text(cell(comparison, method)) if row is None else _heat(row.gap)


def _heat(gap: float) -> str:
    """Return a gap in percent, on a ground that is the deeper the larger it is."""
    depth = min(gap, _DARKEST) / _DARKEST
    return f'<span class=heat style="--heat:{0.75 * depth:.2f}">{text(percent(gap))}</span>'


def _without_figures(study: Study) -> str:
    lines = [f"{name}, {f.method}: {f.trouble}: {f.reason}" for name, f in troubles(study)]
    lines += [f"{s.path}: skipped: {s.reason}" for s in study.skipped]
    if not lines:
        return ""
    items = "".join(f"<li>{text(line, 1000)}</li>" for line in lines)
    return f"<h2>Without figures</h2><ul>{items}</ul>"


def _graph(number: int, comparison: Comparison) -> str:
    graph, result = comparison.graph, comparison.result
    picture = "" if result.plan is None else f"<figure>{slab_picture(graph, result.plan)}</figure>"
    known = verdicts(result, comparison.best_peak, comparison.best_slab)
    return (
        f"<section class=graph id=graph-{number}><h2>{text(graph.name)}</h2>"
        f"<p>{len(graph.ops):,} ops, {len(graph.buffers):,} buffers; memory model: "
        f"{text(graph.model_name)}. {text(' '.join(known), 2000)}</p>{picture}"
        f"<details><summary>All methods</summary>{gap_section(comparison)}</details></section>"
    )
