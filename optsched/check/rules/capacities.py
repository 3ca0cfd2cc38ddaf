"""Rule: the slab of each pool is within the capacity that the question gives the pool."""

from __future__ import annotations

from collections.abc import Mapping

from optsched.check.facts import PlanFacts
from optsched.errors import PlanError


def check(facts: PlanFacts) -> None:
    """Check the slabs of the question's pools."""
    pools = facts.question.pools
    check_capacities(facts.slabs, {p.name: p.capacity for p in pools if p.capacity is not None})


def check_capacities(slabs: Mapping[str, int], capacities: Mapping[str, int]) -> None:
    """Check slabs against capacities in bytes, both by pool; an unlisted slab has no bytes."""
    for pool, capacity in capacities.items():
        if slabs.get(pool, 0) > capacity:
            raise PlanError(
                f"slab of {slabs[pool]} bytes in pool {pool!r} exceeds its capacity of {capacity}"
            )
