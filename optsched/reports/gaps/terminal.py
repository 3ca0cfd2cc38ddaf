"""A comparison on a terminal: a line a method, a line a graph, and what is worth saying beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optsched.compare import (
    Comparison,
    Kind,
    Study,
    Summary,
    profile,
    rows_against_optimum,
    summarise,
)
from optsched.reports.gaps.choice import (
    by_loss,
    cell,
    columns,
    graphs,
    heading,
    percent,
    proofs,
    troubles,
)
from optsched.runtime.bytes import format_bytes
from optsched.runtime.limits import Proof
from optsched.runtime.text import plain, readable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

KINDS = {
    Kind.ORDER: "orders, by peak",
    Kind.PACKING: "packers of the best order, by slab",
    Kind.PLAN: "order and offsets, by slab",
}
"""What the methods of a kind are judged by."""
EXPENDABLE = ("first_fit_area", "program", "bfs", "dfs", "lpmf", "greedy_by_size")
"""Columns to leave out, in this sequence, where the console is too narrow; then the last ones."""
MOST_METHODS = 16
"""Lines of one kind of method; of more, the best are shown."""
MOST_TROUBLES = 8
"""Lines about methods that had trouble."""


def print_study(
    study: Study, console: Console, *, top: int, shown: Sequence[str] | None = None
) -> None:
    """Print a study.

    Parameters
    ----------
    study
        What to print.
    console
        Where to; tables keep to its width.
    top
        How many graphs to show, those of largest loss; 0 for all, in their own order.
    shown
        Methods with a column in the table of graphs; chosen by what ran if None.
    """
    if not study.comparisons:
        return
    some = bool(top) and len(study.comparisons) > top
    if len(study.comparisons) > 1:
        count = graphs(len(study.comparisons))
        _print_line(
            console,
            f"{count}: value / least known, geometric mean and worst; share of the graphs",
        )
        console.print(method_table(study, console))
        console.print()
    which = f"The {graphs(top)} of largest loss: gap" if some else "Gap"
    _print_line(console, f"{which} to the proven bound in % (orders: peak; others: slab)")
    console.print(graph_table(study, console, top if some else 0, shown))
    console.print()
    for line in _remarks(study, top if some else 0):
        _print_line(console, line)


def _print_line(console: Console, line: str) -> None:
    # As it is: names may hold brackets, and whoever copies a line wants it whole.
    console.print(plain(line), soft_wrap=True, markup=False)


def _name(name: str) -> str:
    """Return a name as a cell: without brackets that would be taken for a style."""
    from rich.markup import escape

    return escape(readable(name))


def method_table(study: Study, console: Console) -> Table:
    """Return one line a method, by kind, best first; fewer columns on a narrow console."""
    lines = summarise(study.comparisons, study.methods)
    near = profile(study.comparisons, study.methods, (1.01, 1.1))
    tables = [_method_table(study, lines, near, wide) for wide in (4, 3, 2, 1)]
    return _first_that_fits(tables, console)


def _method_table(
    study: Study, lines: Sequence[Summary], near: dict[str, tuple[float, ...]], wide: int
) -> Table:
    from rich import box
    from rich.table import Table

    count = len(study.comparisons)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("method", no_wrap=True, overflow="ellipsis")
    for name in ("mean", "worst"):
        table.add_column(name, justify="right", no_wrap=True)
    if wide >= 2:
        table.add_column("on", no_wrap=True, overflow="ellipsis", max_width=30)
    table.add_column("optimal", justify="right", no_wrap=True)
    if wide >= 3:
        for name in ("in 1 %", "in 10 %"):
            table.add_column(name, justify="right", no_wrap=True)
    if wide >= 4:
        for name in ("best", "s"):
            table.add_column(name, justify="right", no_wrap=True)
    for kind, title in KINDS.items():
        own = [line for line in lines if line.kind is kind]
        if own:
            hidden = len(own) - MOST_METHODS
            more = f" ({hidden} more)" if hidden > 0 else ""
            table.add_row(f"[dim]{title}{more}[/dim]")
            for line in own[:MOST_METHODS]:
                table.add_row(*_method_cells(line, near[line.method], count, wide))
    return table


def _method_cells(line: Summary, near: tuple[float, ...], count: int, wide: int) -> list[str]:
    missing = f" (on {line.measured})" if line.measured < count else ""
    cells = [f"  {_name(line.method)}{missing}", f"{line.mean:.3f}", f"{line.worst:.2f}"]
    if wide >= 2:
        cells.append(_name(line.worst_instance))
    cells.append(_share(line.at_optimum / line.asked))
    if wide >= 3:
        cells += map(_share, near)
    if wide >= 4:
        cells += [_share(line.wins / line.asked), f"{line.seconds:.1f}"]
    return cells


def _share(share: float) -> str:
    # All and none are said only where they are true.
    whole = round(100 * share)
    if (whole == 100 and share < 1) or (whole == 0 and share > 0):
        return f"{100 * share:.1f} %"
    return f"{whole} %"


def graph_table(
    study: Study, console: Console, top: int = 0, shown: Sequence[str] | None = None
) -> Table:
    """Return one line a graph: gaps of methods, then our slab and its proof.

    Parameters
    ----------
    study
        What to show.
    console
        How wide it may be; columns that do not fit are left out.
    top
        How many graphs, those of largest loss first; 0 for all.
    shown
        Methods with a column; chosen by what ran if None.
    """
    shown = columns(study) if shown is None else shown
    lines = by_loss(study.comparisons, shown)[:top] if top else list(study.comparisons)
    narrower = [list(shown)]
    for method in (*EXPENDABLE, *reversed(shown)):
        left = [name for name in narrower[-1] if name != method]
        if left and left != narrower[-1]:
            narrower.append(left)
    tables = [_graph_table(study, lines, left) for left in narrower]
    return _first_that_fits(tables, console)


def _graph_table(study: Study, lines: Sequence[Comparison], shown: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("graph", no_wrap=True)
    table.add_column("ops", justify="right", no_wrap=True)
    for method in shown:
        title = map(_name, heading(method).splitlines())
        table.add_column("\n".join(title), justify="right", no_wrap=True)
    for name in ("least slab", "proof", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for c in lines:
        table.add_row(
            _name(c.graph.name),
            str(len(c.graph.ops)),
            *(cell(c, method) for method in shown),
            format_bytes(c.best_slab),
            proofs(c),
            f"{c.result.runtime:.2f}",
        )
    if len(study.comparisons) > 1:
        worst = [_worst_gap(study, method) for method in shown]
        table.add_row(f"[dim]worst of {len(study.comparisons)}[/dim]", "", *worst)
    return table


def _worst_gap(study: Study, method: str) -> str:
    rows = [row for c in study.comparisons if (row := c.row(method)) is not None]
    return percent(max((row.gap for row in rows), default=0.0))


def _first_that_fits(tables: Sequence[Table], console: Console) -> Table:
    anyhow = console.options.update(max_width=1000)
    fits = (t for t in tables if console.measure(t, options=anyhow).maximum <= console.width)
    return next(fits, tables[-1])


def _remarks(study: Study, top: int) -> list[str]:
    found = [gap_summary(study.comparisons)]
    against, rows = rows_against_optimum(study.comparisons)
    found.append(f"{against:,} of {rows:,} rows measured against a proved optimum")
    if top:
        found[-1] += f"; {graphs(len(study.comparisons) - top)} more: --top 0 prints them"
    ran = {row.method for c in study.comparisons for row in c.rows}
    none = [m.name for m in study.methods if m.name not in ran]
    if none:
        found.append(f"no figures on any graph: {', '.join(none)}")
    return found + _trouble_lines(study)


def _trouble_lines(study: Study) -> list[str]:
    """Return one line for each method and kind of trouble: on how many graphs, the first reason."""
    met: dict[tuple[str, str], list[str]] = {}
    for name, failed in troubles(study):
        met.setdefault((failed.method, failed.trouble), []).append(
            readable(f"{name}: {failed.reason}", 1000)
        )
    lines = [
        f"{method} {trouble} on {graphs(len(reasons))}, first {reasons[0]}"
        for (method, trouble), reasons in met.items()
    ]
    more = len(lines) - MOST_TROUBLES
    rest = [f"{more} more methods had trouble: --csv has the reasons"] if more > 0 else []
    return lines[:MOST_TROUBLES] + rest


def gap_summary(comparisons: Sequence[Comparison]) -> str:
    """Return one sentence over all graphs: on how many peak and slab are proved least."""
    slabs = sum(c.best_slab == c.slab_bound for c in comparisons)
    peaks = sum(c.best_peak == c.peak_bound for c in comparisons)
    equal = sum(c.result.slab_proof is Proof.JOINT for c in comparisons)
    model = ", in-place" if any(c.graph.in_place for c in comparisons) else ""
    return (
        f"{graphs(len(comparisons))}{model}: least slab proved on {slabs}, "
        f"on {equal} of them equal to the least peak; least peak proved on {peaks}"
    )
