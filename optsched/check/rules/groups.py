"""Rule: the buffers of a must-share group start at the same byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optsched.check.facts import PlanFacts
from optsched.errors import PlanError


def check(facts: PlanFacts) -> None:
    """Check that the members of each group that need bytes have one offset."""
    # Names are only needed for messages about groups.
    names = [buffer.name for buffer in facts.graph.buffers] if facts.graph.must_share else []
    for group in facts.graph.must_share:
        check_same_offset([b for b in group if b in facts.placed], facts.placed, names)


def check_same_offset(
    group: Sequence[int], place: Sequence[int] | Mapping[int, int], names: Sequence[str]
) -> None:
    """Check that the buffers of a group have the same offset in `place`."""
    for i in group[1:]:
        if place[i] != place[group[0]]:
            raise PlanError(
                f"buffers {names[group[0]]!r} at {place[group[0]]} and {names[i]!r} at {place[i]} "
                "must share an offset"
            )
