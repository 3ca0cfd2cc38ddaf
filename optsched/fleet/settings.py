"""What a fleet is tuned by: limits of all, the length of a unit of work, the memory of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from optsched.errors import UsageError, expect
from optsched.formats.reading import AS_RECORDED, GraphReading
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.limits import Limits, Objective, choose_member

BASELINE = "program+greedy_by_size"
"""What plans are compared with: the order of the program, packed as most compilers do."""


@dataclass(frozen=True, slots=True)
class FleetEffort:
    """How the search of one graph is cut into units; each goes on from the one before.

    A unit that is lost is all that a kill costs, and what it repeats of the units before grows
    with its own length: so they are short at first, and each is some times longer than the last.
    """

    first_seconds: float = 1.0
    """Of the first unit: long enough for the proof of an easy graph."""
    first_work: int = 20_000
    """The same where work is limited."""
    growth: int = 4
    """By which factor each later unit of a graph is longer."""
    most_seconds: float = 240.0
    """Of one unit."""
    losses: int = 3
    """Processes that one unit may take with it before its graph is given up."""
    refusals: int = 8
    """Units in a row that workers of another version may refuse before the run ends."""
    overhead_seconds: float = 60.0
    """For reading and storing a graph, before a unit counts as hanging."""


EFFORT = FleetEffort()
"""What is used where nothing else is given."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """What a run depends on, beside graphs, store and code.

    Parameters
    ----------
    budget
        Seconds for the whole fleet, None for as long as it takes.
    work
        Units of work for each graph instead, so that a run can be repeated to the byte, whatever
        engine does it and however often it was killed.
    seed
        Of all random choices.
    objective
        What is to be least.
    reading
        How graphs are read, and in which memory model.
    memory
        Bytes that the search of one graph may take, None for what there is.
    effort
        How the search is cut into units.

    Raises
    ------
    UsageError
        If both a budget and work are given, or a number makes no sense.
    """

    budget: float | None = None
    work: int | None = None
    seed: int = 0
    objective: Objective = Objective.SLAB
    reading: GraphReading = AS_RECORDED
    memory: int | None = None
    effort: FleetEffort = EFFORT

    def __post_init__(self) -> None:
        expect("reading", self.reading, GraphReading)
        expect("effort", self.effort, FleetEffort)
        object.__setattr__(self, "objective", choose_member(Objective, self.objective, "objective"))
        if self.memory is not None:
            object.__setattr__(self, "memory", parse_bytes(self.memory))
        if self.budget is not None and self.work is not None:
            raise UsageError("give either budget or work: one of them ends the search")
        if self.memory is not None and self.memory < 1:
            raise UsageError(f"memory must be at least one byte, got {self.memory}")
        Limits(seconds=self.budget, work=self.work, seed=self.seed)

    def slice(self, number: int, left: float | None) -> Limits | None:
        """Return the limits of unit `number` of a graph, None if it is to have no more.

        Parameters
        ----------
        number
            Units that were searched before.
        left
            Seconds left for the whole fleet.
        """
        effort, seed = self.effort, (self.seed + number) % 2**31
        if self.work is not None:
            spent = sum(self._work(i) for i in range(number))
            most = min(self._work(number), self.work - spent)
            return Limits(work=most, seed=seed) if most > 0 else None
        seconds = min(effort.first_seconds * effort.growth**number, effort.most_seconds)
        if left is not None:
            seconds = min(seconds, left)
        return Limits(seconds, seed=seed) if seconds > 0 else None

    def _work(self, number: int) -> int:
        return int(self.effort.first_work * self.effort.growth**number)

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON shows them."""
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
