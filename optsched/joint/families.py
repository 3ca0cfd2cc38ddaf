"""Families of constraints of the order model, for measurements of what each is worth."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrderFamilies:
    """Families of constraints of the order model; each can be left out for a measurement.

    The minimum is the same without any of them.
    """

    closure: bool = True
    """Transitivity: ops before `u` run before all ops that `u` runs before."""
    positions: bool = True
    """Integer positions make the literals an order; without them clauses on three ops do."""
    triangles: bool = False
    """Clauses on three ops beside the positions."""
    implied: bool = True
    """Precedences that a budget implies become edges."""
    copies: bool = True
    """Identical ops run in the order of their numbers."""
    passed: bool = True
    """States that some order of minimum peak passes split the program."""
    sets: bool = True
    """The bound of the last op of a set of ops, and of the first."""


ALL_FAMILIES = OrderFamilies()
