"""What is hunted, and how bad a method is on one instance, compared exactly."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from heuristics import ORDERINGS, PACKINGS
from optsched.counterexamples.small_graph import MAX_OPS
from optsched.errors import UsageError


class LossObjective(StrEnum):
    """What a hunt makes as large as it can."""

    RATIO = "ratio"
    """The method's bytes over the rival's."""
    DIFFERENCE = "difference"
    """The method's bytes less the rival's."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A method's bytes beside its rival's: the optimum, or another method."""

    value: int
    rival: int
    objective: LossObjective = LossObjective.RATIO
    """How two losses are compared."""

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


@dataclass(frozen=True, slots=True)
class HuntTarget:
    """What is hunted, and for how long."""

    method: str
    """An ordering, a packer, or `ordering+packer`."""
    versus: str | None = None
    """A method of the same kind that is to do better; None for the optimum."""
    objective: LossObjective = LossObjective.RATIO
    """What is made large."""
    max_ops: int = 10
    """Or buffers, for a packer."""
    max_bytes: int = 100
    """Of a buffer."""
    seconds: float | None = 60.0
    tries: int | None = None
    """Where these end the hunt, and not the seconds, the same seed gives the same find."""
    seed: int = 0
    """Of the random changes."""
    at_least: Fraction | None = None
    """In a shrinking: the loss that is kept; that of the given graph if None."""

    def __post_init__(self) -> None:
        kinds = {kind_of(name) for name in (self.method, self.versus) if name is not None}
        if len(kinds) > 1:
            raise UsageError(f"{self.method} and {self.versus} are methods of different kinds")
        if self.versus == self.method:
            raise UsageError(f"{self.method} can not lose to itself")
        if not 2 <= self.max_ops <= MAX_OPS:
            raise UsageError(f"a hunt takes 2 to {MAX_OPS} ops, got {self.max_ops}")


def kind_of(method: str) -> str:
    """Return `ordering`, `packing` or `pair`; :class:`UsageError` if there is no such method."""
    if method in ORDERINGS:
        return "ordering"
    if method in PACKINGS:
        return "packing"
    ordering, packing = split(method)
    if ordering in ORDERINGS and packing in PACKINGS:
        return "pair"
    known = ", ".join((*ORDERINGS, *PACKINGS))
    raise UsageError(f"unknown method {method!r}; known are ordering+packing, and {known}")


def split(method: str) -> tuple[str, str]:
    """Return ordering and packer of a pair."""
    ordering, _, packing = method.partition("+")
    return ordering, packing
