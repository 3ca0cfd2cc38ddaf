"""A fleet in the terminal: a live line while it is tuned, and a table at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optsched.fleet import Fleet, FleetGraph, FleetStanding, FleetState
from optsched.reports.progress import PausedLine
from optsched.reports.tables import Column, Table, percent, print_line, print_table
from optsched.runtime.bytes import format_bytes
from optsched.runtime.facts import machine, versions
from optsched.runtime.limits import Objective, optimality_gap
from optsched.runtime.text import counted, readable

if TYPE_CHECKING:
    from rich.console import Console

MOST_TROUBLES = 20
"""Lines about graphs that failed."""


class FleetProgress(PausedLine):
    """Where a run is: a live line on a terminal, else a line now and then."""

    def show(self, standing: FleetStanding) -> None:
        """Show where the run is."""
        self.say_or_pause(standing_text(standing))


def standing_text(standing: FleetStanding) -> str:
    """Return in a line graphs seen and proved, gap left, time left and bytes saved.

    What matters least comes last: a narrow terminal cuts it off.
    """
    failed = f", {standing.failed:,} failed" if standing.failed else ""
    left = "" if standing.left is None else f"  {duration(standing.left)} left"
    return (
        f"[{standing.seen:,}/{standing.total:,} seen, {standing.proved:,} proved{failed}]"
        f"  gap {_bytes(standing.gap)}{left}  saved {_bytes(standing.saved)}  {standing.latest}"
    )


def duration(seconds: float) -> str:
    """Write seconds as hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _bytes(count: float) -> str:
    sign = "-" if count < 0 else ""
    return sign + format_bytes(int(abs(count)))


def print_fleet(fleet: Fleet, console: Console, *, top: int) -> None:
    """Print the graphs of largest gap, the sums, and what failed; `top` 0 prints all graphs."""
    planned = [graph for graph in fleet.graphs if graph.peak is not None]
    shown = _largest(planned, top, fleet.settings.objective) if top else planned
    if len(shown) < len(planned):
        open_ = any(graph.gap(fleet.settings.objective) for graph in shown)
        which = "of largest gap" if open_ else "that save most"
        print_line(console, f"The {counted(len(shown), 'graph')} {which}")
    if shown:
        print_table(console, fleet_table(fleet, shown), "--csv has all")
        console.print()
    left_out = len(planned) - len(shown)
    more = f"; {counted(left_out, 'graph')} more: --top 0 prints them" if left_out else ""
    print_line(console, f"{summary(fleet)}{more}")
    for line in _troubles(fleet):
        print_line(console, line)


def _largest(planned: list[FleetGraph], top: int, objective: Objective) -> list[FleetGraph]:
    def rank(graph: FleetGraph) -> tuple[float, float]:
        return -graph.weight * graph.gap(objective), -graph.weight * graph.saved(objective)

    return sorted(planned, key=rank)[:top] if top < len(planned) else planned


def _troubles(fleet: Fleet) -> list[str]:
    """Say of each graph why it has no more, of the first ones, and which workers were refused."""
    failed = [graph for graph in fleet.graphs if graph.reason]
    lines = []
    for graph in failed[:MOST_TROUBLES]:
        # Readers name the file themselves.
        named = graph.reason.startswith(f"{graph.label}:")
        where = "" if named else f"{readable(graph.label, 300)}: "
        lines.append(f"{where}{readable(graph.reason, 1000)}")
    if len(failed) > MOST_TROUBLES:
        lines.append(f"{counted(len(failed) - MOST_TROUBLES, 'more such line')}: --json has all")
    for worker, version in fleet.refused.items():
        lines.append(f"refused: worker {worker} has optsched {version}")
    return lines


def fleet_table(fleet: Fleet, shown: list[FleetGraph]) -> Table:
    """Return one line a graph."""
    return Table(
        (
            Column("graph", "t"),
            Column("ops", rank=3),
            Column("weight", rank=2),
            Column("unplanned", rank=4),
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
        format_bytes(graph.baseline),
        format_bytes(value),
        format_bytes(bound),
        "-" if value is None else percent(optimality_gap(value, bound)),
        _bytes(graph.saved(objective)),
        f"{graph.state}{proof}",
    ]


def summary(fleet: Fleet) -> str:
    """Return the sums in a sentence."""
    totals = fleet.totals()
    counts = ((fleet.count(state), state) for state in FleetState)
    states = ", ".join(f"{count:,} {state}" for count, state in counts if count)
    lost = f"; {fleet.lost:,} lost with their process and done again" if fleet.lost else ""
    return (
        f"{counted(len(fleet.graphs), 'graph')}: {states}; saved {_bytes(totals['saved'])}, "
        f"gap left {_bytes(totals['gap'])}; {counted(fleet.units, 'unit')} in "
        f"{duration(fleet.seconds)}{lost}"
    )


def fleet_record(fleet: Fleet) -> dict[str, Any]:
    """Return what `optsched tune --json` prints."""
    return {
        "rows": fleet.rows(),
        "totals": fleet.totals(),
        "interrupted": fleet.interrupted,
        "units": fleet.units,
        "lost": fleet.lost,
        "refused": dict(fleet.refused),
        "seconds": fleet.seconds,
        "settings": {**fleet.settings.record(), "machine": machine()},
        "versions": versions(),
    }
