"""Headline of studies and fleets: the sum of savings, and the graphs that save most."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from optsched.compare.saving import total_saving
from optsched.model.saving import Saving, change
from optsched.reports.tables import Column, Table, print_line, print_table
from optsched.runtime.text import counted

if TYPE_CHECKING:
    from rich.console import Console

LARGEST = 10
"""Number of graphs listed, those that save most bytes."""


def saving_table(found: Mapping[str, Saving]) -> Table:
    """Return the table of the graphs that save most, at most :data:`LARGEST`, best first."""
    ranked = sorted(found.items(), key=lambda item: -(item[1].saved or 0))
    columns = (
        Column("saves most", "t"),
        Column("before", rank=1),
        Column("after"),
        Column("change"),
        Column("proof", "t", rank=2),
    )
    return Table(columns, [_row(name, saving) for name, saving in ranked[:LARGEST] if saving.saved])


def _row(name: str, saving: Saving) -> list[str]:
    before, after = saving.before or 0, saving.after or 0
    return [name, f"{before:,}", f"{after:,}", change(before, after), saving.verdict]


def headline(found: Mapping[str, Saving], equal: Collection[str] = ()) -> str:
    """Return the saving of a graph, or the sum over several graphs, in one line.

    It is empty if there is nothing to compare the plans with. `equal` are the names of the graphs
    that equal another one.
    """
    if len(found) == 1:
        return str(next(iter(found.values())))
    total = total_saving(list(found.values()))
    if total is None:
        return ""
    # Graphs without a plan of the framework have no saving.
    known = [name for name, saving in found.items() if saving.saved is not None]
    return f"{counted_graphs(len(known), len({*known}.intersection(equal)))}: {total}"


def counted_graphs(count: int, equal: int) -> str:
    """Return a number of graphs in words, and how many of them equal another one.

    Examples
    --------
    >>> counted_graphs(2, 0), counted_graphs(196, 19)
    ('2 graphs', '196 graphs, 19 of them equal to another')
    """
    same = f", {equal:,} of them equal to another" if equal else ""
    return f"{counted(count, 'graph')}{same}"


def print_headline(
    found: Mapping[str, Saving],
    console: Console,
    *,
    listed: bool = True,
    equal: Collection[str] = (),
) -> None:
    """Print the headline and, if `listed`, the largest savings of several graphs."""
    if line := headline(found, equal):
        print_line(console, line)
    table = saving_table(found)
    if listed and len(found) > 1 and table.rows:
        print_table(console, table, "--json has them")
        console.print()


def savings_record(found: Mapping[str, Saving]) -> dict[str, Any]:
    """Return the sum of savings, and the saving of each graph by name, for JSON."""
    total = total_saving(list(found.values()))
    graphs = {name: saving.to_dict() for name, saving in found.items()}
    return {"total": None if total is None else total.to_dict(), "graphs": graphs}
