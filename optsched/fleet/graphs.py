"""The graphs of a fleet: the state of each, and the choice of the next one to search."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from optsched.compare.saving import saving
from optsched.fleet.settings import FleetSettings
from optsched.fleet.turns import Turns
from optsched.fleet.unit import Figures, Found, Unit, UnitFailed
from optsched.model.graph import Graph
from optsched.model.saving import Saving
from optsched.runtime.limits import Limits, Objective, optimality_gap
from optsched.runtime.text import counted

_Message = Found | UnitFailed


class FleetState(StrEnum):
    """State of a graph in a fleet."""

    WAITING = "waiting"
    """The graph has no plan yet."""
    OPEN = "open"
    """The graph has a plan that is not proved optimal."""
    PROVED = "proved"
    FAILED = "failed"
    """The graph could not be read, or its search crashed its process."""
    SKIPPED = "skipped"
    """The file, found in a folder, contains something other than a graph."""


@dataclass
class FleetGraph(Figures):
    """One graph of a fleet; after a run no two have one name, as the path is part of it then."""

    number: int
    source: str | Graph
    """`number` and `source`: index in the fleet; the file's path or the graph itself."""
    label: str
    """The file's path or the graph's name in the log, for weights and for reasons."""
    weight: float = 1.0
    """Factor by which the bytes of this graph count."""
    size: int = 0
    """Bytes of the file, or number of buffers; small graphs come first."""
    named: bool = True
    """True if the user named the file; it is then an error if it does not contain a graph."""
    key: str = ""
    """Equal for graphs that differ only in names; finds the graph in a store."""
    state: FleetState = FleetState.WAITING
    reason: str = ""
    """`state` and `reason`: state of the graph; reason if it gets no more units."""
    losses: int = 0
    """Number of units in a row that crashed their process."""
    equals: list[FleetGraph] = field(default_factory=list, repr=False, compare=False)
    """All graphs that are equal except for names and numbering, including this one; only the first
    is searched further."""

    @property
    def path(self) -> str:
        """Path of the graph's file; empty if it has none."""
        return self.source if isinstance(self.source, str) else ""

    @property
    def equal_to(self) -> FleetGraph | None:
        """The first graph of the fleet that equals this one except for names, if it is another."""
        first = min(self.equals, key=lambda graph: graph.number, default=self)
        return None if first is self else first

    def bound(self, objective: Objective) -> int:
        """Return the objective's lower bound in bytes."""
        return self.slab_bound if objective is Objective.SLAB else self.peak_bound

    def gap(self, objective: Objective) -> int:
        """Return the bytes between plan and bound, the most that further search can save."""
        value = self.value(objective)
        return 0 if value is None else max(0, value - self.bound(objective))

    def saved(self, objective: Objective) -> int:
        """Return the bytes saved relative to the framework's own plan; 0 if one is unknown."""
        return self.saving(objective).saved or 0

    def saving(self, objective: Objective) -> Saving:
        """Return the saving of the best plan against the framework's own."""
        return saving(
            self.before,
            peak=self.peak,
            slab=self.slab,
            bounds=(self.peak_bound, self.slab_bound),
            objective=objective,
            among=self.among,
            held=self.held,
        )

    def accept(self, found: Found, objective: Objective) -> None:
        """Merge a unit's result; plan and bounds never get worse."""
        self.name, self.ops, self.buffers = found.name, found.ops, found.buffers
        self.before = self.before if found.before is None else found.before
        self.among = found.among or self.among
        self.seconds += found.seconds
        self.processor_seconds += found.processor_seconds
        # A result resets the count of crashed processes.
        self.slices, self.losses = max(self.slices, found.slices), 0
        self._agree(found, objective)
        # Graphs that differ in names only have the same answer.
        for other in self.equals:
            self._agree(other, objective)
            other._agree(self, objective)
        self.settled |= found.settled
        self.earlier = None if self.settled else found.earlier

    def _agree(self, found: Figures, objective: Objective) -> None:
        """Keep the better plan and the higher bounds of both."""
        known, new = self.value(objective), found.value(objective)
        # Equal is accepted as well: a later plan may have the smaller peak.
        if new is not None and (known is None or new <= known):
            self.peak, self.slab, self.held = found.peak, found.slab, found.held
        self.peak_bound = max(self.peak_bound, found.peak_bound)
        self.slab_bound = max(self.slab_bound, found.slab_bound)
        if self.peak is None:
            return
        if self.gap(objective):
            self.state = FleetState.OPEN
        # No gap: proved, by either bound.
        else:
            self.state, self.settled = FleetState.PROVED, True
            self.proof = found.proof or self.proof

    def fail(self, failed: UnitFailed) -> None:
        """Stop searching this graph and its equals in this run; a plan found so far is kept."""
        if failed.name:
            self.name, self.ops, self.buffers = failed.name, failed.ops, failed.buffers
        for graph in self.equals or [self]:
            graph.reason, graph.settled = failed.reason, True
            if graph.peak is not None:
                graph.state, graph.proof = FleetState.OPEN, None
            else:
                graph.state = FleetState.FAILED if failed.is_graph else FleetState.SKIPPED

    def record(self, objective: Objective) -> dict[str, Any]:
        """Return the graph's row of the table, which does not depend on time or place."""
        value, bound = self.value(objective), self.bound(objective)
        saving, equal, figures = self.saving(objective), self.equal_to, self.figures()
        # In the sequence of the columns.
        proof = figures.pop("proof")
        return {
            "path": self.path,
            "graph": self.name,
            "equals": "" if equal is None else equal.name,
            "ops": self.ops,
            "buffers": self.buffers,
            "weight": self.weight,
            "state": self.state.value,
            "before": saving.before,
            "saved": saving.saved,
            **figures,
            "among": self.among,
            "proof": proof,
            "gap": None if value is None else optimality_gap(value, bound),
            "key": self.key,
            "reason": self.reason,
        }


class UnitChoice:
    """Choice of the next unit: unseen graphs first, small before large; then the largest gain.

    The gain of a unit is the most that it can bring, the gap in bytes times the weight, divided by
    the seconds or the work that it may take. Units of a graph grow, so a graph without progress
    waits longer and longer, and easy graphs are proved before hard ones take much time.

    Among graphs that are equal except for names and numbering, only one is searched. If work is
    limited, this is the first by size: results of first units are processed in that order
    (:meth:`in_turn`), and later results of equal graphs are ignored. The table then does not depend
    on which result arrives first.

    `graphs`: graphs of the fleet. `settings`: settings of the run. `left`: function that returns
    the seconds left for the fleet; None without a limit. `look`: True if the store may contain
    results of some graphs.
    """

    def __init__(
        self,
        graphs: Sequence[FleetGraph],
        settings: FleetSettings,
        left: Callable[[], float | None],
        *,
        look: bool = True,
    ) -> None:
        self.graphs, self.settings, self.left, self.look = graphs, settings, left, look
        waiting = [graph for graph in graphs if not graph.settled]
        # In reverse, as the list is a stack: small graphs come first.
        self.unseen = sorted(waiting, key=lambda graph: (-graph.size, -graph.number))
        self.turns = Turns[tuple[Unit, _Message]]()
        self.ready: list[tuple[float, int, int]] = []
        self.returned: list[Unit] = []
        self.equals: dict[str, list[FleetGraph]] = {}

    @property
    def by_work(self) -> bool:
        """True if the table must not depend on the order in which results arrive."""
        return self.settings.work is not None

    def take(self) -> Unit | None:
        """Return the most valuable unit; None if no unit is ready or the time is up."""
        left = self.left()
        if left is not None and left <= 0:
            return None
        # Returned units first: they began earlier, and results of later units may wait for theirs.
        if self.returned:
            return self.returned.pop()
        if self.unseen and self.turns.has_room:
            graph, limits = self.unseen.pop(), self.settings.slice(0, left)
            # Noted at the start, since results are taken in the order of starts.
            if self.by_work:
                self.turns.begin(graph.number)
            return self._unit(graph, limits, first=True)
        while self.ready:
            graph = self.graphs[heapq.heappop(self.ready)[-1]]
            # Equal graphs are searched once, by the first of them.
            limits = self.settings.slice(graph.slices, left)
            if limits is not None and graph is graph.equals[0]:
                return self._unit(graph, limits, first=False)
        return None

    def in_turn(self, unit: Unit, message: _Message) -> Iterator[tuple[Unit, _Message]]:
        """Yield the results that can be processed after a unit has ended, in order of units."""
        if unit.first and self.by_work:
            return self.turns.end(unit.number, (unit, message))
        return iter([(unit, message)])

    def accept(self, unit: Unit, found: Found) -> bool:
        """Merge a unit's result and return True if it counts.

        The graph stays eligible for more units unless it is settled.
        """
        graph = self.graphs[unit.number]
        if unit.first:
            self._place(graph, found.digest)
        # If work is limited, a result of a second equal graph does not count, as it may come first
        # or second.
        counts = graph is graph.equals[0] or not self.by_work or found.prepared is None
        graph.accept(found if counts else found.without_search(), self.settings.objective)
        limits = self.settings.slice(graph.slices, None)
        if not graph.settled and limits is not None and graph is graph.equals[0]:
            # heapq takes the smallest, so the gain is negated; size and number break ties.
            heapq.heappush(self.ready, (-self._gain(graph, limits), graph.size, graph.number))
        return counts

    def again(self, unit: Unit) -> None:
        """Return a unit so that another worker does it."""
        self.returned.append(unit)

    def fail(self, unit: Unit, failed: UnitFailed) -> None:
        """Give up the graph of a unit."""
        self.graphs[unit.number].fail(failed)

    def lose(self, unit: Unit, reason: str) -> Unit | UnitFailed:
        """Return a unit whose process crashed, to be repeated, or a failure after too many losses.

        A unit that crashes every process is thus not repeated forever.
        """
        graph = self.graphs[unit.number]
        graph.losses += 1
        if graph.losses < self.settings.effort.losses:
            return unit
        return UnitFailed(f"{reason}, {counted(graph.losses, 'time')}")

    def _place(self, graph: FleetGraph, digest: str) -> None:
        """Group a graph with the graphs that are equal to it."""
        graph.key = digest
        graph.equals = self.equals.setdefault(digest, [])
        graph.equals.append(graph)
        # With equal graphs in the fleet, the store may by now know others too.
        self.look |= len(graph.equals) > 1

    def _unit(self, graph: FleetGraph, limits: Limits | None, *, first: bool) -> Unit:
        look = self.look or not first
        return Unit(graph.number, graph.source, limits, first, graph.named, look, graph.earlier)

    def _gain(self, graph: FleetGraph, limits: Limits) -> float:
        if graph.peak is None:
            # A graph without a plan comes before all others.
            return math.inf
        cost = limits.work if limits.seconds is None else limits.seconds
        return graph.weight * graph.gap(self.settings.objective) / max(1e-9, cost or 0.0)
