"""Small instances on which a method is as bad as possible, shrunk to a core and proved."""

from __future__ import annotations

from optsched.counterexamples.loss import Loss, LossObjective
from optsched.counterexamples.run import (
    AnyFind,
    GraphFind,
    Hunt,
    HuntTarget,
    PackingFind,
    hunt,
    hunt_from,
)
from optsched.counterexamples.search import HuntProgress

__all__ = [
    "AnyFind",
    "GraphFind",
    "Hunt",
    "HuntProgress",
    "HuntTarget",
    "Loss",
    "LossObjective",
    "PackingFind",
    "hunt",
    "hunt_from",
]
