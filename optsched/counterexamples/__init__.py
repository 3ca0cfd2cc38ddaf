"""Search for small instances on which a method is as bad as possible, shrunk and proved."""

from __future__ import annotations

from optsched.counterexamples.run import Counterexample, Hunt, hunt, hunt_from
from optsched.counterexamples.search import HuntProgress
from optsched.counterexamples.target import HuntTarget, Loss, LossObjective

__all__ = [
    "Counterexample",
    "Hunt",
    "HuntProgress",
    "HuntTarget",
    "Loss",
    "LossObjective",
    "hunt",
    "hunt_from",
]
