"""Tables of a comparison for every medium: methods, performance profile, graphs.

Methods are judged by their *excess*: `value / optimum - 1`, or `/ best known` where no optimum is
proved. The value is the peak for orders, and the slab for all other methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from optsched.compare import (
    OUR_METHOD,
    TAUS,
    Comparison,
    Failed,
    Kind,
    Study,
    Trouble,
    profile,
    rows_against_optimum,
    summarize,
)
from optsched.compare.saving import comparison_saving, stock_row
from optsched.model.saving import Saving
from optsched.reports.saving import print_headline
from optsched.reports.tables import Cell, Column, Table, make_table, print_line, print_table, safe
from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import proof_legend
from optsched.runtime.text import counted, listed, percent, readable

if TYPE_CHECKING:
    from rich.console import Console

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
"""Methods preferred as columns of the table of graphs if there are too many, with headings."""
MOST_COLUMNS = 12
"""Maximum number of methods for which every method gets a column."""
FEW_COLUMNS = 4
"""Minimum number of preferred methods that must have run to show only these."""
EXPENDABLE = ("first_fit_area", "program", "bfs", "dfs", "lpmf", "greedy_by_size")
"""Columns to drop first, in this sequence, if a console is too narrow; the last ones follow."""
MOST_METHODS = 16
"""Maximum number of lines per kind of method on a terminal; the best methods are shown."""
MOST_TROUBLES = 8
"""Maximum number of lines about failed methods."""
KINDS = {
    Kind.ORDER: "orders, by peak",
    Kind.PACKING: "packers of best order, by slab",
    Kind.PLAN: "order and offsets, by slab",
}
"""Titles by kind of method, with the value that it is judged by."""
_MARKS = {Trouble.ABSENT: "-", Trouble.INTERRUPTED: "-", Trouble.TIMED_OUT: "time"}
_LINE = 10
"""Maximum number of characters per line of a heading."""
_DARKEST = 0.5
"""Excess at which the color of a cell is deepest."""


def method_table(study: Study, *, grouped: bool = False) -> Table:
    """Return the table of methods, one per line, by kind, best first.

    With `grouped`, for a terminal, kinds are title rows, numbers of graphs are shares, and only the
    best of many methods are shown.
    """
    lines = summarize(study.comparisons, study.methods)
    near = profile(study.comparisons, study.methods, (1.01, 1.1))
    rows: list[Sequence[Cell | str]] = []
    for kind, title in KINDS.items():
        own = [line for line in lines if line.kind is kind]
        # On a terminal only the best ones of a kind, with the number of the others.
        if grouped and own:
            more = f"; {len(own) - MOST_METHODS} more" if len(own) > MOST_METHODS else ""
            rows.append((f"{title}{more}",))
        for line in own[: MOST_METHODS if grouped else None]:
            on = [x * line.asked for x in near[line.method]]
            counts = (line.at_optimum, *on, line.wins, line.proved)
            excess = heat(line.mean_excess), heat(line.worst_excess), line.worst_graph
            if grouped:
                # A method without figures on some graphs is marked, as its mean is of the others.
                some = line.measured < len(study.comparisons)
                name = f"  {line.method} (on {line.measured})" if some else f"  {line.method}"
                shares = [percent(x / line.asked, 0) for x in counts]
                rows.append((name, *excess, *shares, f"{line.seconds:.1f}"))
            else:
                numbers = [f"{round(x):,}" for x in counts]
                judged = (title, str(line.measured))
                rows.append((line.method, *judged, *excess, *numbers, f"{line.seconds:.2f}"))
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


def profile_table(study: Study) -> Table:
    """Return the performance profile in percent."""
    curves = profile(study.comparisons, study.methods)
    rows = [(name, *(percent(x, unit="") for x in shares)) for name, shares in curves.items()]
    return make_table(("method", *(f"{tau:g}" for tau in TAUS)), "s" + "n" * len(TAUS), rows)


def graph_table(
    study: Study, shown: Sequence[str], *, top: int = 0, short: bool = False, fixed: bool = False
) -> Table:
    """Return the table of graphs: excess of the `shown` methods, minima, proofs and seconds.

    In HTML, the names of graphs link to their sections. With `top`, only the graphs of largest mean
    excess are shown, at most this many. With `short`, for a terminal, headings are wrapped, and the
    last row has the worst excess. With `fixed`, the methods' columns are not dropped for lack of
    room.
    """

    def loss(comparison: Comparison) -> float:
        # Interesting graphs are those on which the shown methods lose.
        found = [row.excess for row in comparison.rows if row.method in shown]
        return sum(found) / max(1, len(found))

    lines = list(enumerate(study.comparisons))
    if top:
        lines = sorted(lines, key=lambda line: -loss(line[1]))[:top]
    has_stock = any(stock_row(c) is not None for c in study.comparisons)
    rows: list[Sequence[Cell | str]] = [
        (
            Cell(c.graph.name, f'<a href="#graph-{number}">{safe(c.graph.name)}</a>'),
            str(len(c.graph.ops)),
            *([_stock_excess(c)] if has_stock else []),
            *(_excess(c, method) for method in shown),
            format_bytes(c.best_peak),
            format_bytes(c.best_slab),
            f"{c.result.peak_proof or '-'} {c.result.slab_proof or '-'}",
            f"{c.result.runtime:.2f}",
        )
        for number, c in lines
    ]
    if short and len(study.comparisons) > 1:
        found = [[row for c in study.comparisons if (row := c.find_row(name))] for name in shown]
        worst = [heat(max((row.excess for row in rows_of), default=0.0)) for rows_of in found]
        if has_stock:
            own = [row.excess for c in study.comparisons if (row := stock_row(c)) is not None]
            worst = [heat(max(own)), *worst]
        rows.append((f"worst of {len(study.comparisons)}", "", *worst, "", "", "", ""))
    # Dropped in this sequence; the most instructive methods stay longest.
    turn = [name for name in (*EXPENDABLE, *reversed(shown)) if name in shown]
    columns = (
        Column("graph", "t"),
        Column("ops"),
        *([Column("framework")] if has_stock else []),
        *(
            Column(
                heading(name) if short else name,
                # Rank 0 columns are never dropped.
                rank=0 if fixed else len(shown) - turn.index(name),
            )
            for name in shown
        ),
        Column("min peak", rank=len(shown) + 1),
        Column("min slab"),
        Column("proof"),
        Column("s" if short else "seconds"),
    )
    return Table(columns, rows)


def methods_with_columns(study: Study) -> list[str]:
    """Return the methods with a column in the table of graphs: all if few, else preferred ones.

    If too few of the preferred methods ran, the best methods of each kind come first.
    """
    ran = {row.method for c in study.comparisons for row in c.rows}
    listed = [m.name for m in study.methods if m.name in ran and m.name != OUR_METHOD]
    if len(listed) <= MOST_COLUMNS:
        return listed
    known = [name for name in SHOWN if name in ran]
    # Few preferred methods say little about a study of others.
    if len(known) >= FEW_COLUMNS:
        return known
    best = [s.method for s in summarize(study.comparisons, study.methods)]
    return [name for name in best if name != OUR_METHOD][:MOST_COLUMNS]


def _excess(comparison: Comparison, method: str) -> Cell:
    """Return a method's excess on a graph in percent, or a mark for the reason of its absence."""
    row = comparison.find_row(method)
    if row is not None:
        return heat(row.excess)
    failed = comparison.failure(method)
    return Cell("-" if failed is None else _MARKS.get(failed.trouble, "fail"))


def _stock_excess(comparison: Comparison) -> Cell:
    """Return the excess of the framework's own method, or a mark if it did not run."""
    row = stock_row(comparison)
    return Cell("-") if row is None else heat(row.excess)


def heat(excess: float) -> Cell:
    """Return an excess in percent; in HTML, a larger excess has a deeper background color."""
    words, depth = percent(excess, unit=""), min(max(excess, 0.0), _DARKEST) / _DARKEST
    style = f"--heat:{0.75 * depth:.2f}"
    return Cell(words, f'<span class=heat style="{style}">{safe(words)}</span>')


def troubles(study: Study) -> list[tuple[str, Failed]]:
    """Return the unexpected failures of methods, each with its graph's name."""
    quiet = (Trouble.ABSENT, Trouble.INTERRUPTED)
    failed = [(c.graph.name, failed) for c in study.comparisons for failed in c.failed]
    return [(name, failure) for name, failure in failed if failure.trouble not in quiet]


def trouble_lines(study: Study) -> list[str]:
    """Return one line per failure and per skipped file."""
    lines = [f"{name}, {f.method}: {f.trouble}: {f.reason}" for name, f in troubles(study)]
    return lines + [f"skipped: {skipped}" for skipped in study.skipped]


def heading(method: str) -> str:
    """Return a method's name wrapped to short lines."""
    if method in SHOWN:
        return SHOWN[method]
    lines = [""]
    # Names are wrapped at underscores and before + and :.
    for part in method.replace("+", "_+").replace(":", "_:").split("_"):
        joint = "" if part[:1] in ("+", ":") or not lines[-1] else "_"
        if lines[-1] and len(lines[-1]) + len(joint) + len(part) > _LINE:
            lines.append(joint + part)
        else:
            lines[-1] += joint + part
    return "\n".join(lines)


def study_summary(study: Study) -> str:
    """Return one sentence: numbers of proved minima, and of rows measured against an optimum."""
    comparisons = study.comparisons
    slabs = sum(c.best_slab == c.slab_bound for c in comparisons)
    peaks = sum(c.best_peak == c.peak_bound for c in comparisons)
    equal = sum(c.best_slab == c.peak_bound for c in comparisons)
    model = ", in-place" if any(c.graph.in_place for c in comparisons) else ""
    against, rows = rows_against_optimum(comparisons)
    # With patterns, each graph has rules of its own.
    if among := list(dict.fromkeys(c.among for c in comparisons if c.among)):
        model += f", only {listed(among, 1)}"
    return (
        f"{counted(len(comparisons), 'graph')}{model}: minimum slab proved on {slabs}, on {equal} "
        f"of them equal to the minimum peak; minimum peak proved on {peaks}; {against:,} of "
        f"{counted(rows, 'row')} measured against a proved optimum"
    )


def study_savings(study: Study) -> dict[str, Saving]:
    """Return the saving of every graph against its framework's own plan, by name."""
    found = {c.graph.name: comparison_saving(c) for c in study.comparisons}
    if not study.settings.reading.has_rules:
        return found
    # The framework's method had to keep the order rules, too.
    ruled = "under the same order rules"
    return {
        name: replace(each, against=f"{each.against}, {ruled}") if each.against else each
        for name, each in found.items()
    }


def print_study(
    study: Study,
    console: Console,
    *,
    top: int,
    shown: Sequence[str] | None = None,
    fixed: bool = False,
) -> None:
    """Print a study; tables fit the console's width, and dropped columns are named.

    At most `top` graphs are shown, those of largest loss first; 0 shows all in their own order.
    `shown` are the methods with a column in the table of graphs; None chooses them by
    :func:`methods_with_columns`. With `fixed`, their columns are kept in every width.
    """
    count = len(study.comparisons)
    if not count:
        return
    top = top if count > top else 0
    print_headline(study_savings(study), console, equal=study.equals)
    if count > 1:
        label = f"{counted(count, 'graph')}: excess over the optimum in %, geometric mean and worst"
        print_line(console, label)
        print_table(console, method_table(study, grouped=True), "--markdown has them")
        console.print()
    which = f"The {counted(top, 'graph')} of largest loss: excess" if top else "Excess"
    columns = methods_with_columns(study) if shown is None else shown
    table = graph_table(study, columns, top=top, short=True, fixed=fixed)
    print_line(console, f"{which} over the optimum in % (orders: peak; others: slab)")
    print_table(console, table, "--columns LIST chooses, --markdown has all")
    console.print()
    more = f"; {counted(count - top, 'graph')} more: --top 0 prints them" if top else ""
    print_line(console, f"{study_summary(study)}{more}")
    results = [c.result for c in study.comparisons]
    if legend := proof_legend(p for r in results for p in (r.peak_proof, r.slab_proof)):
        print_line(console, legend)
    ran = {row.method for c in study.comparisons for row in c.rows}
    if none := [m.name for m in study.methods if m.name not in ran]:
        print_line(console, f"no figures on any graph: {', '.join(none)}")
    for line in _first_troubles(study):
        print_line(console, line)


def _first_troubles(study: Study) -> list[str]:
    """Return one line per method and kind of trouble: number of graphs, and first reason."""
    # A method that fails on one graph often fails on hundreds: one line tells of all.
    met: dict[tuple[str, str], list[str]] = {}
    for name, failed in troubles(study):
        reasons = met.setdefault((failed.method, failed.trouble), [])
        reasons.append(readable(f"{name}: {failed.reason}", 1000))
    lines = [
        f"{method} {trouble} on {counted(len(reasons), 'graph')}, first {reasons[0]}"
        for (method, trouble), reasons in met.items()
    ]
    more = len(lines) - MOST_TROUBLES
    rest = f"{counted(more, 'more method')} failed: --csv lists the reasons"
    return [*lines[:MOST_TROUBLES], rest] if more > 0 else lines


TITLE = "Distance of each method from the optimum"
FLEET_TITLE = "Memory plans of a fleet"
PROFILE = "Performance profile"
METHODS_SAY = (
    "Excess is `value / optimum - 1`, or `/ best known` where no optimum is proved: the geometric "
    "mean and the worst over the graphs. `optimal`, `in 1 %`, `in 10 %`: number of graphs on which "
    "a method is that close to the minimum; `best`: number on which no method of its kind is "
    "better; `proved`: number on which the method itself proves its result minimal."
)
PROFILE_SAYS = (
    "Share of graphs in percent on which a method is within a factor of the optimum or best known."
)
GRAPHS_SAY = (
    "Excess over the optimum in percent: of the peak for orders, of the slab for packers. The "
    "column `proof` has the proofs of peak and slab: L1 packing bound, L2 order bound, L3 order "
    "search, L4 packing search, L5 joint bound, L6 joint search."
)


def study_sections(study: Study) -> list[tuple[str, str, Table]]:
    """Return title, introduction and table of each section of a study."""
    return [
        ("Methods", METHODS_SAY, method_table(study)),
        (PROFILE, PROFILE_SAYS, profile_table(study)),
        ("Graphs", GRAPHS_SAY, graph_table(study, methods_with_columns(study))),
    ]
