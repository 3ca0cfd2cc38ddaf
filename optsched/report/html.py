"""One self-contained HTML file: the gap table and a picture of every packed slab."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from optsched.compare import OUR_METHOD, Comparison
from optsched.formats import write_bytes
from optsched.report.bytes import format_bytes
from optsched.report.record import versions
from optsched.report.svg import slab_picture
from optsched.result import optimality_gap

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
       color: #1c1e21; background: #fff; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
tr.ours { font-weight: 600; background: #eef6ee; }
svg { width: 100%; height: auto; border: 1px solid #ccc; background: #fafafa; }
section { margin-top: 2.5rem; } .note { color: #555; }
"""


def write_report(path: str | Path, comparisons: Sequence[Comparison]) -> None:
    """Write the report of a comparison; it loads nothing from anywhere."""
    write_bytes(path, report_html(comparisons).encode())


def report_html(comparisons: Sequence[Comparison]) -> str:
    """Return the report as a string."""
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>optsched report</title><style>{_STYLE}</style></head><body>"
        "<h1>How far each method is from the proven bound</h1>"
        "<p>gap = (value - bound) / value; excess = value / best known - 1. "
        "L2: an op forces the bound in every order. L3: all orders below were searched. "
        "L5: the slab equals a proved bound on the peak of every order.</p>"
        + "".join(_section(c) for c in comparisons)
        + f'<p class="note">Made with {escape(used)}.</p></body></html>'
    )


def _section(comparison: Comparison) -> str:
    graph, result = comparison.graph, comparison.result
    rows = "".join(
        f"<tr{' class=ours' if row.method == OUR_METHOD else ''}>"
        + "".join(
            f"<td>{escape(cell)}</td>"
            for cell in (
                row.method,
                row.kind,
                f"{row.peak:,}",
                _percent(row.peak_gap),
                f"{row.slab:,}",
                _percent(row.slab_gap),
                _percent(row.excess),
                f"{row.runtime:.4f}",
            )
        )
        + "</tr>"
        for row in comparison.rows
    )
    heads = ("method", "kind", "peak", "gap", "slab", "gap", "excess", "seconds")
    picture = "" if result.plan is None else slab_picture(graph, result.plan)
    return (
        f"<section><h2>{escape(graph.name)}</h2><p>{len(graph.ops):,} ops, "
        f"{len(graph.buffers):,} buffers; memory model: {escape(graph.memory_model)}.<br>"
        f"{escape(_verdict(comparison))}</p>{picture}<table><thead><tr>"
        + "".join(f"<th>{head}</th>" for head in heads)
        + f"</tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _verdict(comparison: Comparison) -> str:
    result = comparison.result
    parts = []
    for what, value, bound, proof in (
        ("peak", result.peak, result.peak_bound, result.peak_proof),
        ("slab", result.slab, result.slab_bound, result.slab_proof),
    ):
        if value is None:
            continue
        state = f"proof {proof}" if proof else f"gap {_percent(optimality_gap(value, bound))}"
        parts.append(f"Least {what} found {format_bytes(value)} ({value:,} bytes), {state}.")
    return " ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
