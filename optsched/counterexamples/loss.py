"""How bad a method is on one instance, compared exactly."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LossObjective(StrEnum):
    """What a hunt makes as large as it can."""

    RATIO = "ratio"
    """The method's bytes over the rival's."""
    DIFFERENCE = "difference"
    """The method's bytes less the rival's."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A method's bytes beside its rival's: the optimum, or another method.

    Parameters
    ----------
    value, rival
        Bytes.
    objective
        How two losses are compared.
    """

    value: int
    rival: int
    objective: LossObjective = LossObjective.RATIO

    def __str__(self) -> str:
        return f"{self.value:,} bytes against {self.rival:,}"

    @property
    def score(self) -> float:
        """The objective, for people and for a search; 1 or 0 where nothing is lost."""
        if self.objective is LossObjective.DIFFERENCE:
            return float(self.value - self.rival)
        return self.value / self.rival if self.rival else 1.0

    @property
    def loses(self) -> bool:
        """Whether the method is worse at all."""
        return self.value > self.rival

    def reaches(self, other: Loss) -> bool:
        """Whether this loss is at least the other, which is one, in exact integers."""
        return self.rival <= other.rival_limit(self.value)

    def rival_limit(self, value: int) -> int:
        """Bytes that a rival of a method with `value` may need at most, for as bad a loss."""
        if self.objective is LossObjective.DIFFERENCE:
            return value - (self.value - self.rival)
        return value * self.rival // self.value if self.value else value
