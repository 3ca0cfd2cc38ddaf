"""Agreements of the ranks of a program with collectives on a step: its measurement, the choice.

The first rank gets the measurements of all, decides by the largest, and tells the others
(:mod:`optsched.plugins.inductor.recompute.ranks`).

Example: ranks 0 and 1 hold 40 and 45 bytes in a step that may hold 42. Both compile their graphs
again after the same step, and take the splits that rank 0 has chosen.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.ranks import RanksError, Team, all_ranks
from optsched.plugins.inductor.running.step_calls import Span

STEP_SECONDS = 60.0
"""Time in which all ranks must end a step that is measured."""
MOST_UNMEASURED = 8
"""Steps without a measurement of all ranks, after which they give up."""


class StepTeam:
    """The ranks that call regions together, and what keeps them from a common choice."""

    def __init__(self) -> None:
        self.team: Team | None = None
        self.shared: set[str] = set()
        """Regions that call collectives."""
        self.is_common = False
        """True if the last step called such regions."""
        self.is_settled = False
        """True if the ranks measure no further step together."""
        self.trouble = ""
        self._unmeasured = 0

    def share(self, team: Team, key: str) -> None:
        """Note that a region calls collectives, so that its ranks choose together."""
        if self.team is not None and self.team.ranks != team.ranks:
            team = all_ranks()
        self.team = team
        self.shared.add(key)

    def add(self, key: str) -> None:
        """Note that a region is compiled for the first time."""
        self._unmeasured = 0
        self.is_settled &= key not in self.shared

    def begin(self, called: Collection[str]) -> bool:
        """Return True if a step that has called some regions is one of all ranks."""
        self.is_common = self.team is not None and not self.shared.isdisjoint(called)
        return self.is_common

    def see(
        self,
        spans: Sequence[Span],
        see: Callable[[list[Span]], None],
        told: Callable[[], list[Any]],
    ) -> list[Any] | None:
        """Return what the first rank tells of a step that all ranks have ended.

        `spans`: those of this rank, none if it was not measured. `see`: function that gets those
        of all ranks, the largest figures of each, on the first rank. `told`: function that returns
        what it tells then, data for JSON. The result is None if the ranks settle nothing.
        """
        assert self.team is not None
        ranks = self.team.ranks

        def decide(rows: list[Any]) -> list[Any]:
            found = self.largest(spans, rows, ranks)
            if found:
                see(found)
            return [self.trouble, told()]

        try:
            settled = self.team.settle("measured step", spans, decide, wait=STEP_SECONDS)
        except (RanksError, KeptOrderError) as error:
            # The step goes on: each graph is within the peak alone.
            self.trouble = str(error)
            return None
        self.trouble, found = settled
        return list(found)

    def largest(self, spans: Sequence[Span], rows: list[Any], ranks: Sequence[int]) -> list[Span]:
        """Return the spans with the largest figures of all ranks; none for another step."""
        shapes = [[span[:2] for span in row] for row in rows]
        missing = [rank for rank, row in zip(ranks, rows, strict=True) if not row]
        if missing:
            self._unmeasured += 1
            if self._unmeasured == MOST_UNMEASURED:
                self.trouble = f"rank {missing[0]} measures no step"
            return []
        other = [rank for rank, x in zip(ranks, shapes, strict=True) if x != shapes[0]]
        if other:
            self.trouble = f"rank {ranks[0]} and rank {other[0]} call other graphs in a step"
            return []
        # What lives beside the planned bytes is taken from the rank that holds most.
        beside = [max(most - planned for *_, planned, most in x) for x in zip(*rows, strict=True)]
        pairs = zip(spans, beside, strict=True)
        return [span._replace(most=span.planned + size) for span, size in pairs]

    def choose(self, decide: Callable[[], list[Any]], seconds: float) -> list[Any]:
        """Return what the first rank has chosen; it takes at most some seconds."""
        assert self.team is not None
        found = self.team.settle("choice for the step", None, lambda _: decide(), work=seconds)
        return list(found)

    @property
    def leads(self) -> bool:
        """True on the rank that chooses."""
        return self.team is not None and self.team.leads
