"""A comparison on a terminal: a line a method, a line a graph, and what is worth saying beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optsched.compare import Study
from optsched.reports.study_tables import (
    graph_table,
    graphs,
    method_table,
    methods_with_columns,
    study_summary,
    troubles,
)
from optsched.reports.tables import Table, for_console
from optsched.runtime.text import plain, readable

if TYPE_CHECKING:
    from rich.console import Console

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
        Where to; tables keep to its width, and say which columns that left out.
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
        _print_line(console, f"{count}: excess over the optimum in %, geometric mean and worst")
        _print_table(console, method_table(study, grouped=True), "--markdown has them")
    which = f"The {graphs(top)} of largest loss: excess" if some else "Excess"
    _print_line(console, f"{which} over the optimum in % (orders: peak; others: slab)")
    table = graph_table(
        study,
        methods_with_columns(study) if shown is None else shown,
        top=top if some else 0,
        short=True,
    )
    _print_table(console, table, "--columns LIST chooses, --markdown has all")
    for line in _remarks(study, top if some else 0):
        _print_line(console, line)


def _print_line(console: Console, line: str) -> None:
    # As it is: names may hold brackets, and whoever copies a line wants it whole.
    console.print(plain(line), soft_wrap=True, markup=False)


def _print_table(console: Console, table: Table, hint: str) -> None:
    drawn, hidden = for_console(table, console)
    console.print(drawn)
    if hidden:
        _print_line(console, f"(no room for {', '.join(hidden)}: {hint})")
    console.print()


def _remarks(study: Study, top: int) -> list[str]:
    found = [study_summary(study)]
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
