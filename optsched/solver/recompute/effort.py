"""Settings of the recompute planner."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecomputeEffort:
    """Settings: work of each part. No number decides whether an answer is right."""

    nodes_per_turn: int = 6
    """Nodes whose rows are added before the master is asked again."""
    turns: int = 40
    order_seconds: float = 3.0
    """Seconds for one order search, and for one run of the master."""
    choose_seconds: float = 2.0
    orders: int = 8
    """Orders of first runs that plans by eviction start from."""
    evictions: int = 15
    """Plans by eviction of one order."""
    lower: tuple[float, ...] = (0.97, 0.9, 0.8)
    """Parts of the peak below which orders of a plan are searched to evict from."""
    idle: int = 6
    """Such orders in a row without a better plan, after which no more are searched."""
    repairs: int = 60
    """Cuts of one repair."""
    improvements: int = 10
    """Cuts of the repair of a plan without one of its repeats."""
    improved: int = 3
    """Plans, the cheapest ones, that are improved so."""
    programs: int = 20_000
    """Linear programs of a proof."""
    small: int = 8192
    """Storages below the peak without repeats, divided by this number, are left out of the rows."""
    shrink: tuple[float, ...] = (0.99, 0.97, 0.93, 0.87, 0.8)
    """Smaller peaks at which the master is asked for repeats to start a repair from."""


EFFORT = RecomputeEffort()
