"""Small instances on which a method is as bad as possible, shrunk to a core and proved."""

from __future__ import annotations

from optsched.counterexamples.loss import Loss, LossObjective
from optsched.counterexamples.run import Find, Hunt, HuntTarget, hunt, hunt_from
from optsched.counterexamples.search import HuntProgress

__all__ = [
    "Find",
    "Hunt",
    "HuntProgress",
    "HuntTarget",
    "Loss",
    "LossObjective",
    "hunt",
    "hunt_from",
]
