"""Small instances on which a method is as bad as possible, shrunk to a core and proved."""

from __future__ import annotations

from optsched.counterexamples.loss import Loss, Objective
from optsched.counterexamples.run import (
    AnyFind,
    GraphFind,
    Hunt,
    PackingFind,
    Quarry,
    hunt,
    hunt_from,
)
from optsched.counterexamples.search import Progress

__all__ = [
    "AnyFind",
    "GraphFind",
    "Hunt",
    "Loss",
    "Objective",
    "PackingFind",
    "Progress",
    "Quarry",
    "hunt",
    "hunt_from",
]
