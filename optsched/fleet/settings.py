"""Settings of a fleet: limits of the run, lengths of units of work, memory per graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from optsched.errors import UsageError, expect
from optsched.formats.reading import AS_RECORDED, GraphReading
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.limits import Limits, Objective, choose_size


@dataclass(frozen=True, slots=True)
class FleetEffort:
    """Division of the search of one graph into units, each continuing the previous one.

    A killed process loses only its current unit, and the work that a unit repeats from earlier
    units grows with its length. Units are therefore short at first, and each is several times
    longer than the one before.
    """

    first_seconds: float = 1.0
    """Seconds of the first unit: enough to prove an easy graph."""
    first_work: int = 20_000
    """Work of the first unit, if work is limited."""
    growth: int = 4
    """Factor by which each later unit of a graph is longer."""
    most_seconds: float = 240.0
    """Maximum seconds of one unit."""
    losses: int = 3
    """Number of processes that units of a graph may crash in a row before the graph is given up."""
    refusals: int = 8
    """Number of units in a row that workers of other versions may reject before the run stops."""
    overhead_seconds: float = 60.0
    """Seconds for reading and storing a graph, after which a unit counts as hanging."""


EFFORT = FleetEffort()
"""Default effort."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """Settings of a run: all that its results depend on besides graphs, store and code.

    Raise `UsageError` if both `budget` and `work` are given, or a number is out of range.
    """

    budget: float | None = None
    """Seconds for the whole fleet; None for no limit."""
    work: int | None = None
    """Work limit per graph, as an alternative to `budget`. The results are then reproducible to the
    byte, regardless of the engine and of how often the run was killed."""
    seed: int = 0
    """Seed of all random choices."""
    objective: Objective = Objective.SLAB
    """Quantity to minimize."""
    reading: GraphReading = AS_RECORDED
    """Options for reading graphs, with the memory model."""
    memory: int | None = None
    """Maximum bytes of memory for the search of one graph; None for no limit."""
    effort: FleetEffort = EFFORT
    """Division of the search into units."""

    def __post_init__(self) -> None:
        expect("reading", self.reading, GraphReading)
        expect("effort", self.effort, FleetEffort)
        object.__setattr__(self, "objective", choose_size(self.objective))
        if self.memory is not None:
            object.__setattr__(self, "memory", parse_bytes(self.memory))
        if self.budget is not None and self.work is not None:
            raise UsageError("budget and work exclude each other; give one of them")
        if self.memory is not None and self.memory < 1:
            raise UsageError(f"memory must be at least 1 byte, got {self.memory}")
        # For its checks of ranges.
        Limits(seconds=self.budget, work=self.work, seed=self.seed)

    def slice(self, number: int, left: float | None) -> Limits | None:
        """Return the limits of unit `number` of a graph, or None if it gets no more units.

        `number`: number of units that the graph has had. `left`: seconds left for the whole fleet.
        """
        # Another seed per unit, so that a unit does not repeat the last one.
        effort, seed = self.effort, (self.seed + number) % 2**31
        if self.work is not None:
            spent = sum(self._work(i) for i in range(number))
            # The last unit takes the rest of the graph's work.
            most = min(self._work(number), self.work - spent)
            return Limits(work=most, seed=seed) if most > 0 else None
        seconds = min(effort.first_seconds * effort.growth**number, effort.most_seconds)
        if left is not None:
            seconds = min(seconds, left)
        return Limits(seconds, seed=seed) if seconds > 0 else None

    def _work(self, number: int) -> int:
        return int(self.effort.first_work * self.effort.growth**number)

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {
            "budget": self.budget,
            "work": self.work,
            "seed": self.seed,
            "objective": self.objective.value,
            "memory": self.memory,
            **self.reading.record(),
        }


class FleetKeywords(TypedDict, total=False):
    """The fields of :class:`FleetSettings` as keywords."""

    budget: float | None
    work: int | None
    seed: int
    objective: Objective | str
    reading: GraphReading
    memory: int | str | None
    effort: FleetEffort
