"""Constants that control how a hunt spends its time, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HuntEffort:
    """Shares and limits of the time and tries of a hunt."""

    search_share: float = 0.85
    """Share of the time for the search; the rest is for shrinking."""
    enumeration_share: float = 0.25
    """Share of the search's time and tries for enumerating the smallest instances."""
    run_length: int = 6_000
    """Instances tried in one run of random changes."""
    temperature: float = 0.08
    """Temperature: share of its score that a run gives up at first to accept a change; it
    falls to 0 in the last third of the run."""
    question_seconds: float = 10.0
    """Maximum seconds for one question during shrinking; a question left open counts as no."""
    proof_seconds: float = 30.0
    """Minimum seconds for proving the result, if it is small."""
    small: int = 30
    """Maximum number of ops or buffers of a small instance: most are proved within a second."""
    question_share: float = 0.3
    """Share of the time left for the loss of a given instance, and for its proof, if not small."""
    shrink_share: float = 0.7
    """Share of the limit after which an instance that is not small is not shrunk further."""
    seconds_after_interrupt: float = 5.0
    """Seconds for proving the result after an interrupt."""
    changes: int = 3
    """Maximum number of random moves in one change."""
    tabled_ops: int = 12
    """Maximum number of ops for which the optimum comes from a table over all orders."""
    enumerated_ops: int = 5
    enumerated_bytes: int = 3
    """Graphs with at most this many ops and bytes per buffer are all tried, if time allows."""
    enumerated_buffers: int = 3
    enumerated_steps: int = 4
    """Packings with at most this many buffers and steps are all tried, if time allows."""
    searched_buffers: int = 12
    """Maximum number of buffers without constraints for a second proof by trying all packings."""
    packing_seconds: float = 5.0
    """Seconds for packing an order that a method returned."""
    reduced_packing: float = 0.02
    """Share of these seconds for an instance that is not small: its offsets decide nothing."""


EFFORT = HuntEffort()
"""Default effort."""
