"""The tables of a comparison, as every medium shows them: methods, performance profile, graphs.

The one percentage of a method is its *excess*: `value / optimum - 1`, or `/ best known` where no
optimum is proved; of the peak for orders, of the slab for everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.compare import (
    OUR_METHOD,
    TAUS,
    Comparison,
    Failed,
    Kind,
    MethodRow,
    Study,
    Summary,
    Trouble,
    profile,
    rows_against_optimum,
    summarise,
)
from optsched.reports.tables import Cell, Column, Table, make_table, safe
from optsched.reports.words import percent
from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Proof

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
"""Methods with a column in the table of graphs where more ran than it can show, and headings."""
MOST_COLUMNS = 12
"""Up to this many methods all have a column."""
FEW_COLUMNS = 4
"""Of more, the well-known ones have one, if at least so many of these ran."""
EXPENDABLE = ("first_fit_area", "program", "bfs", "dfs", "lpmf", "greedy_by_size")
"""Columns to leave out, in this sequence, where a console is too narrow; then the last ones."""
MOST_METHODS = 16
"""Lines of one kind of method on a terminal; of more, the best are shown."""
KINDS = {
    Kind.ORDER: "orders, by peak",
    Kind.PACKING: "packers of the best order, by slab",
    Kind.PLAN: "order and offsets, by slab",
}
"""What the methods of a kind are judged by."""
PROFILE_SAYS = (
    "Share of graphs in percent on which a method is within a factor of the optimum or best known."
)
_MARKS = {Trouble.ABSENT: "-", Trouble.INTERRUPTED: "-", Trouble.TIMED_OUT: "time"}
_LINE = 10
"""Characters of a line in a heading."""
_DARKEST = 0.5
"""The excess from which on a cell is not coloured any deeper."""


def method_table(study: Study, *, grouped: bool = False) -> Table:
    """Return one line a method, by kind, best first.

    With `grouped`, for a terminal, the kinds are titles of their own, counts of graphs are shares,
    and of many methods the best are shown.
    """
    count = len(study.comparisons)
    lines = summarise(study.comparisons, study.methods)
    near = profile(study.comparisons, study.methods, (1.01, 1.1))
    rows: list[Sequence[Cell | str]] = []
    for kind, title in KINDS.items():
        own = [line for line in lines if line.kind is kind]
        if grouped and own:
            more = f" ({len(own) - MOST_METHODS} more)" if len(own) > MOST_METHODS else ""
            rows.append((f"{title}{more}",))
        for line in own[: MOST_METHODS if grouped else None]:
            missing = f" (on {line.measured})" if grouped and line.measured < count else ""
            rows.append(
                (
                    f"{'  ' if grouped else ''}{line.method}{missing}",
                    *(() if grouped else (title, str(line.measured))),
                    heat(line.mean_excess),
                    heat(line.worst_excess),
                    line.worst_instance,
                    *_counts(line, near[line.method], as_shares=grouped),
                    f"{line.seconds:.{1 if grouped else 2}f}",
                )
            )
    columns = (
        Column("method", "t"),
        *(() if grouped else (Column("judged", "t"), Column("graphs"))),
        Column("mean" if grouped else "mean excess %"),
        Column("worst" if grouped else "worst excess %"),
        Column("on", "s", rank=3),
        Column("optimal"),
        Column("in 1 %", rank=2),
        Column("in 10 %", rank=2),
        Column("best", rank=1),
        Column("proved", rank=5),
        Column("s" if grouped else "seconds", rank=4),
    )
    return Table(columns, rows)


def _counts(line: Summary, near: Sequence[float], *, as_shares: bool) -> list[str]:
    """Return on how many graphs a method is optimal, near, best, and proved so by itself."""
    counts = (line.at_optimum, *(x * line.asked for x in near), line.wins, line.proved)
    return [_share(x / line.asked) if as_shares else f"{round(x):,}" for x in counts]


def _share(share: float) -> str:
    # All and none are said only where they are true.
    whole = round(100 * share)
    if (whole == 100 and share < 1) or (whole == 0 and share > 0):
        return f"{100 * share:.1f} %"
    return f"{whole} %"


METHODS_SAY = (
    "Excess is `value / optimum - 1`, or `/ best known` where no optimum is proved: the geometric "
    "mean and the worst over the graphs. `optimal`, `in 1 %`, `in 10 %`: on how many graphs a "
    "method is that near to the minimum; `best`: on which none of its kind is better; `proved`: "
    "by the method itself."
)


def profile_table(study: Study) -> Table:
    """Return the performance profile in percent."""
    curves = profile(study.comparisons, study.methods)
    rows = [(name, *(f"{100 * x:.1f}" for x in shares)) for name, shares in curves.items()]
    return make_table(("method", *(f"{tau:g}" for tau in TAUS)), "s" + "n" * len(TAUS), rows)


def graph_table(
    study: Study, shown: Sequence[str], *, top: int = 0, short: bool = False, links: bool = False
) -> Table:
    """Return one line a graph: excess of the methods shown, minimum peak and slab, proof, seconds.

    Parameters
    ----------
    study
        What to show.
    shown
        Methods with a column.
    top
        How many graphs, those of largest loss first; 0 for all.
    short
        For a terminal: headings in short lines, and a last line of the worst.
    links
        Whether names link to the sections of an HTML page.
    """
    numbers = {id(c): number for number, c in enumerate(study.comparisons)}
    lines = by_loss(study.comparisons, shown)[:top] if top else list(study.comparisons)
    rows: list[Sequence[Cell | str]] = []
    for c in lines:
        name = Cell(c.graph.name)
        if links:
            link = f'<a href="#graph-{numbers[id(c)]}">{safe(c.graph.name)}</a>'
            name = Cell(c.graph.name, link)
        rows.append(
            (
                name,
                str(len(c.graph.ops)),
                *(cell(c, method) for method in shown),
                format_bytes(c.best_peak),
                format_bytes(c.best_slab),
                f"{c.result.peak_proof or '-'} {c.result.slab_proof or '-'}",
                f"{c.result.runtime:.2f}",
            )
        )
    if short and len(study.comparisons) > 1:
        worst = [_worst(study, method) for method in shown]
        rows.append((f"worst of {len(study.comparisons)}", "", *worst, "", "", "", ""))
    turn = [name for name in (*EXPENDABLE, *reversed(shown)) if name in shown]
    ranks = {name: len(shown) - turn.index(name) for name in shown}
    columns = (
        Column("graph", "t"),
        Column("ops"),
        *(Column(heading(name) if short else name, rank=ranks[name]) for name in shown),
        Column("min peak", rank=len(shown) + 1),
        Column("min slab"),
        Column("proof"),
        Column("s" if short else "seconds"),
    )
    return Table(columns, rows)


def _worst(study: Study, method: str) -> Cell:
    rows = [row for c in study.comparisons if (row := c.row(method)) is not None]
    return heat(max((row.excess for row in rows), default=0.0))


def methods_with_columns(study: Study) -> list[str]:
    """Return the methods that the table of graphs shows: all if they are few, else known ones.

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
    """Return graphs by the mean excess of the methods shown, largest first."""

    def mean(c: Comparison) -> float:
        found = [row.excess for row in c.rows if row.method in shown]
        return sum(found) / max(1, len(found))

    return sorted(comparisons, key=mean, reverse=True)


def cell(comparison: Comparison, method: str) -> Cell:
    """Return a method's excess on a graph in percent, or a mark that says why there is none."""
    row = comparison.row(method)
    if row is not None:
        return heat(row.excess)
    failed = comparison.failure(method)
    return Cell("-" if failed is None else _MARKS.get(failed.trouble, "fail"))


def heat(excess: float) -> Cell:
    """Return an excess in percent, in HTML on a ground that is the deeper the larger it is."""
    words, depth = percent(excess, ""), min(max(excess, 0.0), _DARKEST) / _DARKEST
    style = f"--heat:{0.75 * depth:.2f}"
    return Cell(words, f'<span class=heat style="{style}">{safe(words)}</span>')


def outcomes(study: Study, comparison: Comparison) -> list[MethodRow | Failed]:
    """Return the rows of a graph, with and without figures, in the order of the methods."""
    found: dict[str, MethodRow | Failed] = {row.method: row for row in comparison.rows}
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


def trouble_lines(study: Study) -> list[str]:
    """Return a line for each failure, and for each file that was skipped."""
    lines = [f"{name}, {f.method}: {f.trouble}: {f.reason}" for name, f in troubles(study)]
    return lines + [f"{s.path}: skipped: {s.reason}" for s in study.skipped]


def graphs(count: int) -> str:
    """Write a number of graphs."""
    return f"{count:,} graph" if count == 1 else f"{count:,} graphs"


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


def study_summary(study: Study) -> str:
    """Return one sentence: on how many graphs peak and slab are proved minimum, and of how much."""
    comparisons = study.comparisons
    slabs = sum(c.best_slab == c.slab_bound for c in comparisons)
    peaks = sum(c.best_peak == c.peak_bound for c in comparisons)
    equal = sum(c.result.slab_proof is Proof.JOINT for c in comparisons)
    model = ", in-place" if any(c.graph.in_place for c in comparisons) else ""
    against, rows = rows_against_optimum(comparisons)
    return (
        f"{graphs(len(comparisons))}{model}: minimum slab proved on {slabs}, on {equal} of them "
        f"equal to the minimum peak; minimum peak proved on {peaks}; {against:,} of {rows:,} rows "
        "measured against a proved optimum"
    )
