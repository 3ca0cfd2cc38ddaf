"""Claims of solvers, and what refutes them.

The bounds of CP-SAT and of a MILP solver are claims: only the solver vouches for them. A
claim that a checked plan or a proved bound contradicts is dropped together with all other claims of
its run, and one line says so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OrderClaim:
    """An order, and a solver's claim about all other orders."""

    order: tuple[int, ...] | None
    """Op ids by step, or None; never worse than the order to start from."""
    value: int | None
    """Peak of the order in bytes, replayed in integers."""
    bound: int
    """Claimed minimum peak in bytes; at least the bound passed in."""
    finished: bool = False
    """True if the claim is complete: no order is claimed to be better."""
    refuted: str = ""
    """Line that says which claim was refuted and dropped, or an empty string."""
    interrupted: bool = False
    """True if the search was stopped by Ctrl-C; the order is the best one until then."""

    @property
    def optimal(self) -> bool:
        """Return True if the order is claimed to be optimal: its peak equals the bound."""
        return self.value is not None and self.value <= self.bound


def refutation(source: str, claimed: int, value: int | None, whose: str = "its own plan") -> str:
    """Return one line that says what refutes a claimed lower bound, or an empty string.

    Examples
    --------
    >>> refutation("milp", 12, 10)
    'milp: claimed that no plan is below 12 bytes, refuted by its own plan of 10 bytes'
    >>> refutation("milp", 10, 10)
    ''
    """
    if value is None or claimed <= value:
        return ""
    return (
        f"{source}: claimed that no plan is below {claimed:,} bytes, "
        f"refuted by {whose} of {value:,} bytes"
    )


def misread(source: str, claimed: int, value: int | None) -> str:
    """Return one line that says that a solver's plan is worse than the solver claims, or nothing.

    Examples
    --------
    >>> misread("milp", 10, 12)
    'milp: claimed a plan of 10 bytes, refuted by replay: it has 12 bytes'
    """
    if value is None or value <= claimed:
        return ""
    return (
        f"{source}: claimed a plan of {claimed:,} bytes, refuted by replay: it has {value:,} bytes"
    )


def report(line: str) -> str:
    """Log the line of a refuted claim, and return it."""
    if line:
        _LOG.warning("%s", line)
    return line
