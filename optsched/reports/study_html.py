"""A comparison as one self-contained HTML file that needs no extra: tables, and every packed slab.

Zooming and pointing at single buffers is for `optsched report`, a graph at a time; here a browser's
own tooltips do, and the file stays as small as the tables and rectangles are.
"""

from __future__ import annotations

from pathlib import Path

from optsched.compare import Comparison, Study
from optsched.formats import write_bytes
from optsched.reports.html import document, origin
from optsched.reports.sections import method_section
from optsched.reports.study_tables import (
    METHODS_SAY,
    PROFILE_SAYS,
    graph_table,
    method_table,
    methods_with_columns,
    profile_table,
    study_summary,
    trouble_lines,
)
from optsched.reports.svg import slab_picture
from optsched.reports.tables import as_html, safe
from optsched.reports.view import plan_view
from optsched.reports.words import verdicts


def write_report(path: str | Path, study: Study) -> None:
    """Write the report of a comparison; it loads nothing from anywhere."""
    write_bytes(path, study_html(study).encode())


def study_html(study: Study) -> str:
    """Return the report as a string."""
    lines = "".join(f"<li>{safe(line, 1000)}</li>" for line in trouble_lines(study))
    body = [
        "<h1>How far each method is from the optimum</h1>",
        f"<p class=lead>{safe(study_summary(study), 1000)}.</p>",
        f"<h2>Methods</h2><p>{safe(METHODS_SAY.replace('`', ''), 1000)}</p>",
        as_html(method_table(study)),
        f"<h2>Performance profile</h2><p>{safe(PROFILE_SAYS)}</p>{as_html(profile_table(study))}",
        "<h2>Graphs</h2><p>Excess over the optimum in percent: of the peak for orders, of the slab "
        "for packers. The proofs are those of peak and slab.</p>",
        as_html(graph_table(study, methods_with_columns(study), links=True)),
        f"<h2>Without figures</h2><ul>{lines}</ul>" if lines else "",
        *(_graph(number, comparison) for number, comparison in enumerate(study.comparisons)),
        f"<footer>{origin()}</footer>",
    ]
    return document("optsched: how far from the optimum", "".join(body))


def _graph(number: int, comparison: Comparison) -> str:
    graph, result, picture = comparison.graph, comparison.result, ""
    if result.plan is not None:
        shown = plan_view(graph, result.plan, "plan")
        picture = f"<figure>{slab_picture(shown, result.slab_bound)}</figure>"
    known = verdicts(result, comparison.best_peak, comparison.best_slab)
    return (
        f"<section class=graph id=graph-{number}><h2>{safe(graph.name)}</h2>"
        f"<p>{len(graph.ops):,} ops, {len(graph.buffers):,} buffers; memory model: "
        f"{safe(graph.model_name)}. {safe(' '.join(known), 2000)}</p>{picture}"
        f"<details><summary>All methods</summary>{method_section(comparison)}</details></section>"
    )
