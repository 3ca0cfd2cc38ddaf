"""Terminal report of a fleet: a live line during the run, and a table at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optsched.fleet import Fleet, FleetGraph, FleetStanding, FleetState
from optsched.fleet.since import Change, What
from optsched.model.saving import Saving, change
from optsched.reports.progress import PausedLine, duration
from optsched.reports.saving import counted_graphs, print_headline, savings_record
from optsched.reports.tables import Column, Table, as_csv, print_line, print_table
from optsched.runtime.bytes import format_bytes
from optsched.runtime.facts import machine, versions
from optsched.runtime.limits import Objective, optimality_gap, proof_legend
from optsched.runtime.text import counted, listed, named, percent, readable

if TYPE_CHECKING:
    from rich.console import Console

MOST_TROUBLES = 20
"""Maximum number of lines about failed graphs."""


class FleetProgress(PausedLine):
    """Progress of a fleet: a live line on a terminal, or periodic lines elsewhere."""

    def show(self, standing: FleetStanding) -> None:
        """Show the progress of the run."""
        self.show_or_pause(standing_text(standing), standing.seen, standing.total)


def standing_text(standing: FleetStanding) -> str:
    """Return a line with graphs seen and proved, gap, rest of the budget and bytes saved.

    The least important parts come last, because a narrow terminal truncates the line.
    """
    failed = f", {standing.failed:,} failed" if standing.failed else ""
    left = "" if standing.left is None else f"  {duration(standing.left)} of the budget"
    return (
        f"[{standing.seen:,}/{standing.total:,} seen, {standing.proved:,} proved{failed}]"
        f"  gap {_bytes(standing.gap)}{left}  saved {_bytes(standing.saved)}  {standing.latest}"
    )


def _bytes(count: float) -> str:
    sign = "-" if count < 0 else ""
    return sign + format_bytes(int(abs(count)))


def print_fleet(fleet: Fleet, console: Console, *, top: int) -> None:
    """Print the `top` graphs with the largest gap (0 for all), the totals and the failures."""
    planned = [graph for graph in fleet.graphs if graph.peak is not None]
    # A gap is what more search could save: open graphs come first.
    is_open = any(graph.gap(fleet.settings.objective) for graph in planned)
    # If nothing is open, the table below lists the graphs that save most.
    savings = fleet_savings(fleet)
    print_headline(savings, console, listed=is_open, equal=fleet.equals)
    shown = _largest(planned, top, fleet.settings.objective) if top else planned
    if len(shown) < len(planned):
        which = "of largest gap" if is_open else "that save most"
        print_line(console, f"The {counted(len(shown), 'graph')} {which}")
    if shown:
        print_table(console, fleet_table(fleet, shown), "--csv has all")
        console.print()
    left_out = len(planned) - len(shown)
    more = f"; {counted(left_out, 'graph')} more: --top 0 prints them" if left_out else ""
    print_line(console, f"{summary(fleet)}{more}")
    if legend := proof_legend(graph.proof for graph in shown):
        print_line(console, legend)
    for among in dict.fromkeys(graph.among for graph in shown if graph.among):
        of = [readable(graph.name) for graph in shown if graph.among == among]
        print_line(console, f"bounds hold only among {among}: {listed(of, 5)}")
    for line in _troubles(fleet):
        print_line(console, line)


def _largest(planned: list[FleetGraph], top: int, objective: Objective) -> list[FleetGraph]:
    def rank(graph: FleetGraph) -> tuple[float, float]:
        # The largest gap times weight is where more search pays most.
        return -graph.weight * graph.gap(objective), -graph.weight * graph.saved(objective)

    return sorted(planned, key=rank)[:top] if top < len(planned) else planned


def _troubles(fleet: Fleet) -> list[str]:
    """Return the reasons of the first failed graphs, and the excluded workers."""
    failed = [graph for graph in fleet.graphs if graph.reason]
    lines = []
    for graph in failed[:MOST_TROUBLES]:
        lines.append(readable(named(graph.label, graph.reason), 1300))
    if len(failed) > MOST_TROUBLES:
        lines.append(f"{counted(len(failed) - MOST_TROUBLES, 'more such line')}: --json lists all")
    for worker, version in fleet.refused.items():
        lines.append(f"refused: worker {worker} has optsched {version}")
    return lines


def fleet_table(fleet: Fleet, shown: list[FleetGraph]) -> Table:
    """Return the table of graphs, one per line."""
    return Table(
        (
            Column("graph", "t"),
            Column("ops", rank=3),
            Column("weight", rank=2),
            Column("before", rank=4),
            Column(fleet.settings.objective.value),
            Column("bound", rank=1),
            Column("gap"),
            Column("saved"),
            Column("state", "s"),
        ),
        [_row(graph, fleet.settings.objective) for graph in shown],
    )


def _row(graph: FleetGraph, objective: Objective) -> list[str]:
    value, bound = graph.value(objective), graph.bound(objective)
    proof = f" {graph.proof}" if graph.proof else ""
    return [
        graph.name,
        f"{graph.ops:,}",
        f"{graph.weight:g}",
        format_bytes(graph.saving(objective).before),
        format_bytes(value),
        format_bytes(bound),
        "-" if value is None else percent(optimality_gap(value, bound)),
        # Unknown without a plan of the framework, which is not the same as nothing.
        "-" if graph.saving(objective).saved is None else _bytes(graph.saved(objective)),
        f"{graph.state}{proof}",
    ]


def summary(fleet: Fleet) -> str:
    """Return the totals in a sentence."""
    totals = fleet.totals()
    counts = ((fleet.count(state), state) for state in FleetState)
    states = ", ".join(f"{count:,} {state}" for count, state in counts if count)
    lost = f"; {fleet.lost:,} lost with their process and repeated" if fleet.lost else ""
    # Sums count the bytes of a graph as often as its weight says.
    weighted = " (times weight)" if any(graph.weight != 1 for graph in fleet.graphs) else ""
    graphs = counted_graphs(len(fleet.graphs), len(fleet.equals))
    return (
        f"{graphs}: {states}; saved {_bytes(totals['saved'])}, "
        f"gap left {_bytes(totals['gap'])}{weighted}; {counted(fleet.units, 'unit')} in "
        f"{duration(fleet.seconds)}{lost}"
    )


def changes_text(fleet: Fleet, changes: Sequence[Change], since: str) -> str:
    """Return how many graphs changed since an earlier run, by kind, in a sentence."""
    counts = Counter(change.what for change in changes)
    kinds = [f"{counts[what]:,} {what}" for what in What if counts[what]]
    planned = sum(graph.peak is not None for graph in fleet.graphs)
    same = planned - sum(change.now is not None for change in changes)
    kinds += [f"{same:,} as before"] if same or not kinds else []
    # A file that never had a plan did not change.
    without = len(fleet.graphs) - planned - counts[What.FAILS]
    kinds += [f"{without:,} without a plan"] if without else []
    return f"since {since}: {', '.join(kinds)}"


def changes_table(changes: Sequence[Change], objective: Objective) -> Table:
    """Return the table of changes since an earlier run, one per line."""
    columns = (
        Column("what", "s"),
        Column("graph", "t"),
        Column(f"{objective.value} before"),
        Column("now"),
        Column("change", rank=1),
    )
    return Table(columns, [_change_row(change) for change in changes])


def _change_row(found: Change) -> list[str]:
    was, now = found.before, found.now
    share = "-" if was is None or now is None else change(was, now)
    figures = ("-" if value is None else f"{value:,}" for value in (was, now))
    return [found.what.value, found.graph, *figures, share]


def fleet_savings(fleet: Fleet) -> dict[str, Saving]:
    """Return the saving of every planned graph against its framework's own plan, by name."""
    objective = fleet.settings.objective
    planned = (graph for graph in fleet.graphs if graph.peak is not None)
    return {graph.name: graph.saving(objective) for graph in planned}


def fleet_csv(fleet: Fleet) -> str:
    """Return the CSV text: the row of each graph."""
    rows = fleet.rows()
    return as_csv(list(rows[0]) if rows else [], rows)


def fleet_record(fleet: Fleet) -> dict[str, Any]:
    """Return the record that `optsched tune --json` prints."""
    return {
        "rows": fleet.rows(),
        "saving": savings_record(fleet_savings(fleet)),
        "totals": fleet.totals(),
        "interrupted": fleet.interrupted,
        "units": fleet.units,
        "lost": fleet.lost,
        "refused": dict(fleet.refused),
        "seconds": fleet.seconds,
        "settings": {**fleet.settings.record(), "machine": machine()},
        "versions": versions(),
    }
