"""Target of a hunt, and exact comparison of how bad a method is on an instance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from types import NoneType

from heuristics import ORDERINGS, PACKINGS
from optsched.counterexamples.small_graph import MAX_OPS
from optsched.errors import UsageError, expect
from optsched.runtime.limits import parse_integer
from optsched.runtime.text import nearest


class LossObjective(StrEnum):
    """The quantity that a hunt maximizes."""

    RATIO = "ratio"
    """The method's bytes divided by the rival's."""
    DIFFERENCE = "difference"
    """The method's bytes minus the rival's."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Bytes of a method and of its rival: the optimum or another method."""

    value: int
    rival: int
    objective: LossObjective = LossObjective.RATIO
    """Quantity by which losses are compared."""

    def __str__(self) -> str:
        return f"{self.value:,} bytes against {self.rival:,}"

    @property
    def score(self) -> float:
        """Value of the objective as a float; 1 (ratio) or 0 (difference) if nothing is lost."""
        if self.objective is LossObjective.DIFFERENCE:
            return float(self.value - self.rival)
        return self.value / self.rival if self.rival else 1.0

    @property
    def loses(self) -> bool:
        """True if the method needs more bytes than the rival."""
        return self.value > self.rival

    def reaches(self, other: Loss) -> bool:
        """Return True if this loss is at least `other`, which is positive; exact in integers."""
        # Multiplied out: value/rival >= other.value/other.rival without division.
        return self.rival <= other.rival_limit(self.value)

    def rival_limit(self, value: int) -> int:
        """Return the most bytes of a rival for which a method with `value` bytes loses as much."""
        if self.objective is LossObjective.DIFFERENCE:
            return value - (self.value - self.rival)
        # Rounded down: one byte more would be a smaller loss.
        return value * self.rival // self.value if self.value else value


@dataclass(frozen=True, slots=True)
class HuntTarget:
    """Method, rival and limits of a hunt."""

    method: str
    """Name of an ordering, a packer, or `ordering+packer`."""
    versus: str | None = None
    """Method of the same kind to lose to; None for the optimum."""
    objective: LossObjective = LossObjective.RATIO
    """Quantity to maximize."""
    max_ops: int = 10
    """Maximum number of ops (buffers for a packer)."""
    max_bytes: int = 100
    """Maximum size of a buffer."""
    seconds: float | None = 60.0
    tries: int | None = None
    """Maximum number of instances; if it ends the hunt before the time limit, results repeat by
    seed."""
    seed: int = 0
    """Seed of the random changes."""
    at_least: Fraction | None = None
    """Loss to keep while shrinking an instance; None for the loss of the given instance."""

    def __post_init__(self) -> None:
        expect("method", self.method, str)
        expect("versus", self.versus, str, NoneType)
        put = object.__setattr__
        put(self, "max_ops", parse_integer("max_ops", self.max_ops, 0))
        put(self, "max_bytes", parse_integer("max_bytes", self.max_bytes, 1))
        kinds = {kind_of(name) for name in (self.method, self.versus) if name is not None}
        # Methods of two kinds are judged by different quantities.
        if len(kinds) > 1:
            raise UsageError(f"methods {self.method!r} and {self.versus!r} are of different kinds")
        if self.versus == self.method:
            raise UsageError(f"method {self.method!r} cannot be compared with itself")
        if not 2 <= self.max_ops <= MAX_OPS:
            raise UsageError(f"max_ops must be from 2 to {MAX_OPS}, got {self.max_ops}")
        if self.tries is not None:
            put(self, "tries", parse_integer("max_tries", self.tries, 0))


def kind_of(method: str) -> str:
    """Return `ordering`, `packing` or `pair`; raise :class:`UsageError` for an unknown method."""
    if method in ORDERINGS:
        return "ordering"
    if method in PACKINGS:
        return "packing"
    ordering, packing = split(method)
    if ordering in ORDERINGS and packing in PACKINGS:
        return "pair"
    wrong = ordering if packing and ordering not in ORDERINGS else packing or ordering
    raise UsageError(f"unknown method {wrong!r}{nearest(wrong, (*ORDERINGS, *PACKINGS))}")


def split(method: str) -> tuple[str, str]:
    """Return the ordering and the packer of a pair `ordering+packer`."""
    ordering, _, packing = method.partition("+")
    return ordering, packing
