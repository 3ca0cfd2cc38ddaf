"""A fleet in the terminal: a live line while it is tuned, and a table at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optsched.fleet import Fleet, FleetGraph, FleetStanding, FleetState
from optsched.reports.progress import PausedLine
from optsched.reports.study_tables import graphs
from optsched.reports.tables import Column, Table, percent, print_line, print_table
from optsched.runtime.bytes import format_bytes
from optsched.runtime.facts import machine, versions
from optsched.runtime.limits import Objective, optimality_gap
from optsched.runtime.text import readable

if TYPE_CHECKING:
    from rich.console import Console


class FleetProgress(PausedLine):
    """Where a run is: a live line on a terminal, else a line now and then."""

    def show(self, standing: FleetStanding) -> None:
        """Show where the run is."""
        self.say_or_pause(standing_text(standing))


def standing_text(standing: FleetStanding) -> str:
    """Return graphs done and proved, bytes saved, gap left and time left in a line."""
    failed = f", {standing.failed:,} failed" if standing.failed else ""
    left = "" if standing.left is None else f"  {duration(standing.left)} left"
    return (
        f"[{standing.seen:,}/{standing.total:,} done, {standing.proved:,} proved{failed}]"
        f"  saved {_bytes(standing.saved)}  gap {_bytes(standing.gap)}{left}  {standing.latest}"
    )


def duration(seconds: float) -> str:
    """Write seconds as hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _bytes(count: float) -> str:
    sign = "-" if count < 0 else ""
    return sign + format_bytes(int(abs(count)))


def print_fleet(fleet: Fleet, console: Console, *, top: int) -> None:
    """Print the graphs of largest gap, those that failed, and the sums; `top` 0 prints all."""
    shown = [graph for graph in fleet.graphs if graph.peak is not None]
    count = top if 0 < top < len(shown) else len(shown)
    if count < len(shown):
        objective = fleet.settings.objective
        shown = sorted(shown, key=lambda graph: -graph.weight * graph.gap(objective))[:count]
    if shown:
        print_table(console, fleet_table(fleet, shown), "--csv has all")
        console.print()
    print_line(console, summary(fleet))
    for graph in fleet.graphs:
        if graph.reason:
            reason = graph.reason.removeprefix(f"{graph.label}: ")
            print_line(console, f"{readable(graph.label, 300)}: {readable(reason, 1000)}")
    for worker, version in fleet.refused.items():
        print_line(console, f"refused: worker {worker} has optsched {version}")


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
        f"{graphs(len(fleet.graphs))}: {states}; saved {_bytes(totals['saved'])}, "
        f"gap left {_bytes(totals['gap'])}; {fleet.units:,} units in "
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
