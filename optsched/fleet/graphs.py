"""The graphs of a fleet: what is known of each, and which is worth searching next."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from optsched.fleet.settings import FleetSettings
from optsched.fleet.turns import Turns
from optsched.fleet.unit import Earlier, Found, Unit, UnitFailed
from optsched.model.graph import Graph
from optsched.runtime.limits import Limits, Objective, Proof, optimality_gap
from optsched.runtime.text import counted

_Message = Found | UnitFailed


class FleetState(StrEnum):
    """What is known of a graph."""

    WAITING = "waiting"
    """It has no plan yet."""
    OPEN = "open"
    """It has a plan that may not be the best."""
    PROVED = "proved"
    FAILED = "failed"
    """It could not be read, or its search took its process with it."""
    SKIPPED = "skipped"
    """A file of a folder that is no graph, but something else that is known."""


@dataclass(slots=True)
class FleetGraph:
    """One graph of a fleet.

    Parameters
    ----------
    number, source
        Its place, and the file or the graph itself.
    label
        The file's path, or the graph's name.
    weight
        How much its bytes count.
    size
        Bytes of the file, or buffers: small ones come first.
    named
        Whether it was asked for by name: what is no graph is then an error.
    name, ops, buffers, baseline
        Of the graph, once it was read; what it needs without a planner.
    peak, slab, peak_bound, slab_bound, proof
        Of the best plan.
    state, reason
        What is known of it, and why it has no more.
    slices
        Units that searched it, those of earlier runs as well.
    seconds, processor_seconds
        Of this run's units.
    settled
        Whether it is to have no more units in this run.
    losses
        Units in a row that took their process with them.
    equals
        All graphs that are equal to it but for names and numbers, this included; the first of
        them is searched on.
    earlier
        For the next unit.
    """

    number: int
    source: str | Graph
    label: str
    weight: float = 1.0
    size: int = 0
    named: bool = True
    name: str = ""
    ops: int = 0
    buffers: int = 0
    baseline: int | None = None
    peak: int | None = None
    slab: int | None = None
    peak_bound: int = 0
    slab_bound: int = 0
    proof: Proof | None = None
    state: FleetState = FleetState.WAITING
    reason: str = ""
    slices: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    settled: bool = False
    losses: int = 0
    equals: list[FleetGraph] = field(default_factory=list, repr=False, compare=False)
    earlier: Earlier | None = field(default=None, repr=False)

    def value(self, objective: Objective) -> int | None:
        """Bytes of the best plan."""
        return self.slab if objective is Objective.SLAB else self.peak

    def bound(self, objective: Objective) -> int:
        """Bytes that no plan is below."""
        return self.slab_bound if objective is Objective.SLAB else self.peak_bound

    def gap(self, objective: Objective) -> int:
        """Bytes between plan and bound: what more search may bring at most."""
        value = self.value(objective)
        return 0 if value is None else max(0, value - self.bound(objective))

    def saved(self, objective: Objective) -> int:
        """Bytes below the baseline."""
        value = self.value(objective)
        return 0 if value is None or self.baseline is None else self.baseline - value

    def accept(self, found: Found, objective: Objective) -> None:
        """Take in what a unit found; neither plan nor bound ever gets worse."""
        self.name, self.ops, self.buffers = found.name, found.ops, found.buffers
        self.baseline = self.baseline if found.baseline is None else found.baseline
        self.seconds += found.seconds
        self.processor_seconds += found.processor_seconds
        self.slices, self.losses = max(self.slices, found.slices), 0
        self._agree(found, objective)
        for other in self.equals:
            self._agree(other, objective)
            other._agree(self, objective)
        self.settled |= found.settled
        self.earlier = None if self.settled else found.earlier

    def _agree(self, found: Found | FleetGraph, objective: Objective) -> None:
        """Take the better plan and the higher bounds."""
        known, new = self.value(objective), found.value(objective)
        if new is not None and (known is None or new <= known):
            self.peak, self.slab = found.peak, found.slab
        self.peak_bound = max(self.peak_bound, found.peak_bound)
        self.slab_bound = max(self.slab_bound, found.slab_bound)
        if self.peak is None:
            return
        if self.gap(objective):
            self.state = FleetState.OPEN
        else:
            self.state, self.settled = FleetState.PROVED, True
            self.proof = found.proof or self.proof

    def fail(self, failed: UnitFailed) -> None:
        """Give it up for this run, and what is equal to it; a plan that is there stays."""
        if failed.name:
            self.name, self.ops, self.buffers = failed.name, failed.ops, failed.buffers
        for graph in self.equals or [self]:
            graph.reason, graph.settled = failed.reason, True
            if graph.peak is not None:
                graph.state, graph.proof = FleetState.OPEN, None
            else:
                graph.state = FleetState.FAILED if failed.is_graph else FleetState.SKIPPED

    def record(self, objective: Objective) -> dict[str, Any]:
        """Return a row of the table; nothing in it depends on time or place."""
        value, bound = self.value(objective), self.bound(objective)
        return {
            "path": self.label,
            "graph": self.name,
            "ops": self.ops,
            "buffers": self.buffers,
            "weight": self.weight,
            "state": self.state.value,
            "baseline": self.baseline,
            "peak": self.peak,
            "slab": self.slab,
            "peak_bound": self.peak_bound,
            "slab_bound": self.slab_bound,
            "proof": None if self.proof is None else self.proof.value,
            "gap": None if value is None else optimality_gap(value, bound),
            "saved": self.saved(objective),
            "reason": self.reason,
        }


class UnitChoice:
    """Chooses the next unit: graphs that nobody has looked at, small ones first; then by gain.

    The gain of a unit is the most that it may bring, bytes of the gap times the weight, for each
    second or unit of work that it may take. Units of a graph grow, so one on which nothing moves
    has to wait longer and longer, and easy graphs are proved before hard ones are dug into.

    Of graphs that are equal but for names and numbers one is searched on. Where work is limited
    that is the first in the order of size: finds of first units are taken in that order
    (:meth:`in_turn`), and what a later one of equal graphs found meanwhile does not count, so the
    table does not depend on which came in first.

    Parameters
    ----------
    graphs
        The fleet.
    settings
        Of the run.
    left
        Returns the seconds that are left for the fleet, None without a limit.
    look
        Whether the store may know some of them.
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
        self.unseen = sorted(waiting, key=lambda graph: (-graph.size, -graph.number))
        self.turns = Turns[tuple[Unit, _Message]]()
        self.ready: list[tuple[float, int, int]] = []
        self.returned: list[Unit] = []
        self.equals: dict[str, list[FleetGraph]] = {}

    @property
    def by_work(self) -> bool:
        """Whether the table must not depend on what comes in first."""
        return self.settings.work is not None

    def take(self) -> Unit | None:
        """Return the unit that is worth most, None if there is none for now or no time."""
        left = self.left()
        if left is not None and left <= 0:
            return None
        if self.returned:
            return self.returned.pop()
        if self.unseen and self.turns.has_room:
            graph, limits = self.unseen.pop(), self.settings.slice(0, left)
            if self.by_work:
                self.turns.begin(graph.number)
            return self._unit(graph, limits, first=True)
        while self.ready:
            graph = self.graphs[heapq.heappop(self.ready)[-1]]
            limits = self.settings.slice(graph.slices, left)
            if limits is not None and graph is graph.equals[0]:
                return self._unit(graph, limits, first=False)
        return None

    def in_turn(self, unit: Unit, message: _Message) -> Iterator[tuple[Unit, _Message]]:
        """Yield what is to be taken in now that a unit has ended, the first given out first."""
        if unit.first and self.by_work:
            return self.turns.end(unit.number, (unit, message))
        return iter([(unit, message)])

    def accept(self, unit: Unit, found: Found) -> bool:
        """Take in what a unit found; return whether it counts.

        Its graph may have more units, unless it is settled.
        """
        graph = self.graphs[unit.number]
        if unit.first:
            self._place(graph, found.digest)
        counts = graph is graph.equals[0] or not self.by_work or found.prepared is None
        graph.accept(found if counts else found.without_search(), self.settings.objective)
        limits = self.settings.slice(graph.slices, None)
        if not graph.settled and limits is not None and graph is graph.equals[0]:
            heapq.heappush(self.ready, (-self._gain(graph, limits), graph.size, graph.number))
        return counts

    def again(self, unit: Unit) -> None:
        """Have a unit done by somebody else."""
        self.returned.append(unit)

    def fail(self, unit: Unit, failed: UnitFailed) -> None:
        """Give up the graph of a unit."""
        self.graphs[unit.number].fail(failed)

    def lose(self, unit: Unit, reason: str) -> Unit | UnitFailed:
        """Return a unit whose process was lost, to be done again, unless that was once too often.

        What kills every process that works on it is not tried for ever.
        """
        graph = self.graphs[unit.number]
        graph.losses += 1
        if graph.losses < self.settings.effort.losses:
            return unit
        return UnitFailed(f"{reason}, {counted(graph.losses, 'time')}")

    def _place(self, graph: FleetGraph, digest: str) -> None:
        """Put a graph that was looked at beside those that are equal to it."""
        graph.equals = self.equals.setdefault(digest, [])
        graph.equals.append(graph)
        # Where some are equal, the store may know others by now.
        self.look |= len(graph.equals) > 1

    def _unit(self, graph: FleetGraph, limits: Limits | None, *, first: bool) -> Unit:
        look = self.look or not first
        return Unit(graph.number, graph.source, limits, first, graph.named, look, graph.earlier)

    def _gain(self, graph: FleetGraph, limits: Limits) -> float:
        if graph.peak is None:
            return math.inf
        cost = limits.work if limits.seconds is None else limits.seconds
        return graph.weight * graph.gap(self.settings.objective) / max(1e-9, cost or 0.0)
