"""How a hunt spends its time: every number that steers it, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HuntEffort:
    """How the time and tries of a hunt are spent."""

    search_share: float = 0.85
    """Of the time, for the search; the rest is for shrinking."""
    enumeration_share: float = 0.25
    """Of the search's time and tries, for enumerating the smallest instances."""
    run_length: int = 6_000
    """Tries of one run of random changes."""
    heat: float = 0.08
    """Share of its score that a run gives up at first for a change; none in its last third."""
    question_seconds: float = 10.0
    """At most, for one question of the shrinking; what is open then counts as no."""
    proof_seconds: float = 30.0
    """At least, for the proof of the find."""
    hurried_seconds: float = 5.0
    """The same after an interrupt."""
    changes: int = 3
    """Random changes made at once, at most."""
    tabled_ops: int = 12
    """Up to this many ops all orders are tabled, for the optimum."""
    enumerated_ops: int = 5
    enumerated_bytes: int = 3
    """Graphs up to here are all tried, if time allows."""
    enumerated_buffers: int = 3
    enumerated_steps: int = 4
    """Packings up to here are all tried."""
    searched_buffers: int = 12
    """Up to this many plain buffers all packings are searched, for a second proof."""
    packing_seconds: float = 5.0
    """For the packing of an order that a method gave."""


EFFORT = HuntEffort()
"""What is used where nothing else is given."""
