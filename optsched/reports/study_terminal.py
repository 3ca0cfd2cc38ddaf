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
from optsched.reports.tables import print_line, print_table
from optsched.runtime.text import readable

if TYPE_CHECKING:
    from rich.console import Console

MOST_TROUBLES = 8
"""Lines about methods that had trouble."""


def print_study(
    study: Study, console: Console, *, top: int, shown: Sequence[str] | None = None
) -> None:
    """Print a study; tables keep to the console's width, and say which columns that left out.

    `top` graphs are shown, those of largest loss; of 0 all, in their own order. `shown` are the
    methods with a column in the table of graphs, chosen by what ran if None.
    """
    count = len(study.comparisons)
    if not count:
        return
    top = top if count > top else 0
    if count > 1:
        says = f"{graphs(count)}: excess over the optimum in %, geometric mean and worst"
        print_line(console, says)
        print_table(console, method_table(study, grouped=True), "--markdown has them")
        console.print()
    which = f"The {graphs(top)} of largest loss: excess" if top else "Excess"
    columns = methods_with_columns(study) if shown is None else shown
    table = graph_table(study, columns, top=top, short=True)
    print_line(console, f"{which} over the optimum in % (orders: peak; others: slab)")
    print_table(console, table, "--columns LIST chooses, --markdown has all")
    console.print()
    more = f"; {graphs(count - top)} more: --top 0 prints them" if top else ""
    print_line(console, f"{study_summary(study)}{more}")
    ran = {row.method for c in study.comparisons for row in c.rows}
    if none := [m.name for m in study.methods if m.name not in ran]:
        print_line(console, f"no figures on any graph: {', '.join(none)}")
    for line in _trouble_lines(study):
        print_line(console, line)


def _trouble_lines(study: Study) -> list[str]:
    """Return one line for each method and kind of trouble: on how many graphs, the first reason."""
    met: dict[tuple[str, str], list[str]] = {}
    for name, failed in troubles(study):
        reasons = met.setdefault((failed.method, failed.trouble), [])
        reasons.append(readable(f"{name}: {failed.reason}", 1000))
    lines = [
        f"{method} {trouble} on {graphs(len(reasons))}, first {reasons[0]}"
        for (method, trouble), reasons in met.items()
    ]
    more = len(lines) - MOST_TROUBLES
    rest = [f"{more} more methods had trouble: --csv has the reasons"] if more > 0 else []
    return lines[:MOST_TROUBLES] + rest
