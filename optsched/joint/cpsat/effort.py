"""How CP-SAT is run: every number that steers it, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SAFE: Mapping[str, Any] = {"presolve_inclusion_work_limit": 0}
"""Without this OR-Tools 9.15 is known to return a wrong optimum with a matching bound (OR-Tools
issue 5293)."""


@dataclass(frozen=True, slots=True)
class CpSatEffort:
    """What a run of CP-SAT is given beside its limits.

    Parameters
    ----------
    poll_seconds
        Between two looks at the clock and at a waiting interrupt.
    work_per_second
        Units of `Limits.work` for one second of CP-SAT's own deterministic time.
    parameters
        Names and values of further parameters of CP-SAT.
    """

    poll_seconds: float = 0.1
    work_per_second: int = 100_000
    parameters: Mapping[str, Any] = field(default_factory=lambda: SAFE)


EFFORT = CpSatEffort()
"""What is used where nothing else is given."""
