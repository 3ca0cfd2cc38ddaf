"""Rule: a view lies where its root lies."""

from __future__ import annotations

from optsched.check.facts import PlanFacts
from optsched.errors import PlanError


def check(facts: PlanFacts) -> None:
    """Check that each view has the offset of its root."""
    for b, root in enumerate(facts.graph.roots):
        if facts.offsets[b] != facts.offsets[root]:
            raise PlanError(
                f"buffer {facts.name(b)} at {facts.offsets[b]} is a view of "
                f"{facts.name(root)} at {facts.offsets[root]}"
            )
