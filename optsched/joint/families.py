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


@dataclass(frozen=True, slots=True)
class PackingFamilies:
    """Families of constraints of the joint model; each can be left out for a measurement.

    The minimum slab is the same without any of them, as long as rectangles or pairs are there.
    """

    rectangles: bool = True
    """Items are rectangles that must not overlap, and together take at most the slab."""
    pairs: bool = True
    """Of two items, one is released first or lies below the other."""
    all_steps: bool = False
    """Loads of ops that allocate nothing, which those of other ops imply."""
    left: bool = True
    """Ops that allocate nothing run as soon as they can."""
    resting: bool = False
    """Every item lies at offset 0 or on another one; without it, more graphs are closed."""
    copies: bool = True
    """Identical ops run in the order of their numbers."""


ALL_PACKING = PackingFamilies()
