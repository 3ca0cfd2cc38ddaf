"""What of a large comparison is worth a line or a column, and how its figures are written."""

from __future__ import annotations

from collections.abc import Sequence

from optsched.compare import OUR_METHOD, Comparison, Failed, Row, Study, Trouble, summarise

SHOWN = {
    "program": "program",
    "lpmf": "lpmf",
    "bfs": "bfs",
    "dfs": "dfs",
    "inductor": "inductor",
    "xla_default": "xla",
    "greedy_by_size": "greedy",
    "first_fit_area": "first fit",
}
"""Methods with a column in the gap table where more ran than it can show, and their headings."""
MOST_COLUMNS = 12
"""Up to this many methods all have a column."""
FEW_COLUMNS = 4
"""Of more, the well-known ones have one, if at least so many of these ran."""
_MARKS = {Trouble.ABSENT: "-", Trouble.INTERRUPTED: "-", Trouble.TIMED_OUT: "time"}

_LINE = 10
"""Characters of a line in a heading."""


def columns(study: Study) -> list[str]:
    """Return the methods that the gap table shows: all if they are few, else well-known ones.

    Where hardly any of those ran, the best of each kind come first.
    """
    ran = {row.method for c in study.comparisons for row in c.rows}
    listed = [m.name for m in study.methods if m.name in ran and m.name != OUR_METHOD]
    if len(listed) <= MOST_COLUMNS:
        return listed
    known = [name for name in SHOWN if name in ran]
    if len(known) >= FEW_COLUMNS:
        return known
    best = [s.method for s in summarise(study.comparisons, study.methods)]
    return [name for name in best if name != OUR_METHOD][:MOST_COLUMNS]


def by_loss(comparisons: Sequence[Comparison], shown: Sequence[str]) -> list[Comparison]:
    """Return graphs by the mean gap of the methods shown, largest first."""
    return sorted(comparisons, key=lambda c: -_mean_gap(c, shown))


def _mean_gap(comparison: Comparison, shown: Sequence[str]) -> float:
    gaps = [row.gap for row in comparison.rows if row.method in shown]
    return sum(gaps) / max(1, len(gaps))


def cell(comparison: Comparison, method: str) -> str:
    """Return a method's gap on a graph in percent, or a mark that says why there is none."""
    row = comparison.row(method)
    if row is not None:
        return percent(row.gap)
    failed = comparison.failure(method)
    return "-" if failed is None else _MARKS.get(failed.trouble, "fail")


def outcomes(study: Study, comparison: Comparison) -> list[Row | Failed]:
    """Return the rows of a graph, with and without figures, in the order of the methods."""
    found: dict[str, Row | Failed] = {row.method: row for row in comparison.rows}
    found |= {failed.method: failed for failed in comparison.failed}
    return [found[m.name] for m in study.methods if m.name in found]


def troubles(study: Study) -> list[tuple[str, Failed]]:
    """Return graph and failure of every method that should have given figures but did not."""
    quiet = (Trouble.ABSENT, Trouble.INTERRUPTED)
    return [
        (c.graph.name, failed)
        for c in study.comparisons
        for failed in c.failed
        if failed.trouble not in quiet
    ]


def graphs(count: int) -> str:
    """Write a number of graphs."""
    return f"{count:,} graph" if count == 1 else f"{count:,} graphs"


def percent(share: float) -> str:
    """Write a share of 1 in percent, with a digit after the point: 0 only where it is 0."""
    return "0" if share == 0 else f"{100 * share:.1f}" if share >= 0.0005 else "<0.1"


def proofs(comparison: Comparison) -> str:
    """Write what stands behind our peak and slab: two rungs, `-` for none."""
    result = comparison.result
    return f"{result.peak_proof or '-'} {result.slab_proof or '-'}"


def heading(method: str) -> str:
    """Write a method's name in short lines."""
    if method in SHOWN:
        return SHOWN[method]
    lines = [""]
    for part in method.replace("+", "_+").replace(":", "_:").split("_"):
        joint = "" if part[:1] in ("+", ":") or not lines[-1] else "_"
        if lines[-1] and len(lines[-1]) + len(joint) + len(part) > _LINE:
            lines.append(joint + part)
        else:
            lines[-1] += joint + part
    return "\n".join(lines)
