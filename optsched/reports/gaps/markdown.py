"""A comparison as Markdown: methods, performance profile, graphs, what was skipped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from optsched.compare import TAUS, Study, profile, rows_against_optimum, summarise
from optsched.reports.gaps.choice import cell, columns, percent, proofs, troubles
from optsched.reports.gaps.terminal import KINDS, gap_summary
from optsched.reports.record import versions
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import readable


def study_markdown(study: Study) -> str:
    """Return the text; every table is complete but for the columns of the last."""
    against, rows = rows_against_optimum(study.comparisons)
    parts = ["# How far each method is from the proven bound"]
    if study.comparisons:
        parts += [
            f"{gap_summary(study.comparisons)}; {against:,} of {rows:,} rows measured against a "
            "proved optimum.",
            "## Methods",
            "Ratios are `value / least known`. `optimal`: graphs on which the value is proved "
            "least; `proved`: by the method itself; `best`: on which none of its kind is better.",
            _method_table(study),
            "## Performance profile",
            "Share of graphs in percent on which a method is within a factor of the least known.",
            _profile_table(study),
            "## Graphs",
            "Gap to the proven bound in percent.",
            graph_table(study, columns(study)),
        ]
    lines = [f"- {name}, {f.method}: {f.trouble}: {f.reason}" for name, f in troubles(study)]
    lines += [f"- {s.path}: skipped: {s.reason}" for s in study.skipped]
    if lines:
        parts += ["## Without figures", "\n".join(map(_escape, lines))]
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    return "\n\n".join([*parts, f"Made with {used}."]) + "\n"


def graph_table(study: Study, shown: Sequence[str]) -> str:
    """Return one line a graph: gaps of the methods shown, least peak and slab, proof, seconds."""
    heads = ["graph", "ops", *shown, "least peak", "least slab", "proof", "seconds"]
    rows = [
        [
            c.graph.name,
            str(len(c.graph.ops)),
            *(cell(c, method) for method in shown),
            format_bytes(c.best_peak),
            format_bytes(c.best_slab),
            proofs(c),
            f"{c.result.runtime:.2f}",
        ]
        for c in study.comparisons
    ]
    return _table(heads, rows)


def _method_table(study: Study) -> str:
    heads = ["method", "judged", "graphs", "mean", "worst", "on", "mean gap %", "worst gap %"]
    heads += ["optimal", "proved", "best", "seconds"]
    rows = [
        [
            s.method,
            KINDS[s.kind],
            str(s.measured),
            f"{s.mean:.4f}",
            f"{s.worst:.4f}",
            s.worst_instance,
            percent(s.mean_gap),
            percent(s.worst_gap),
            str(s.at_optimum),
            str(s.proved),
            str(s.wins),
            f"{s.seconds:.2f}",
        ]
        for s in summarise(study.comparisons, study.methods)
    ]
    return _table(heads, rows)


def _profile_table(study: Study) -> str:
    curves = profile(study.comparisons, study.methods)
    rows = [[name, *(f"{100 * x:.1f}" for x in shares)] for name, shares in curves.items()]
    return _table(["method", *(f"{tau:g}" for tau in TAUS)], rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(_escape, line)) + " |" for line in lines)


def _escape(text: str) -> str:
    """Keep a name from ending a cell or a line, or starting a tag."""
    text = readable(text, 1000)
    return re.sub("<(?=[A-Za-z/!])", "&lt;", text.replace("|", "\\|"))
