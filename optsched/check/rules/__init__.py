"""The rules of a plan, one module each.

A rule is a module with a function `check(facts)` that raises :class:`PlanError` and names what
breaks the rule. To add a rule, write its module and list it in :data:`RULES`. Rules are checked in
this sequence, and a rule may rely on the ones before it.
"""

from __future__ import annotations

from typing import Protocol

from optsched.check.facts import PlanFacts
from optsched.check.rules import (
    capacities,
    groups,
    near,
    order,
    overlap,
    pairs,
    places,
    streams,
    views,
)


class Rule(Protocol):
    """A module with a rule."""

    def check(self, facts: PlanFacts, /) -> None:
        """Raise :class:`PlanError` if the plan breaks the rule."""


RULES: tuple[Rule, ...] = (
    places,
    views,
    groups,
    pairs,
    overlap,
    streams,
    order,
    near,
    capacities,
)
