"""Kernels against the peak: splits of several budgets, the knee among them, and a choice by price.

Half of the saving often costs a single cut, and the last bytes cost many. Each budget between the
whole nodes and the best split gets a split of few kernels.

Example: 181 kernels need 116 MB, 182 need 100 MB, and 240 need 96 MB. The knee is at 182.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from optsched.runtime.clock import Clock
from optsched.runtime.limits import StopReason
from optsched.solver.fusion.oracle import Oracle
from optsched.solver.fusion.price import Shrinker, with_useful_cuts
from optsched.solver.fusion.result import FusionResult, Point

SHARES = (Fraction(1), Fraction(1, 2), Fraction(1, 4), Fraction(3, 4), Fraction(1, 8))
"""Parts of the saving whose price is looked for, the most important one first."""


@dataclass(frozen=True, slots=True)
class Price:
    """Most that cuts may cost: more traffic and more kernels, as parts of those of whole nodes."""

    traffic: Fraction = Fraction(2, 100)
    kernels: Fraction = Fraction(5, 100)

    def allows(self, whole: Point, point: Point) -> bool:
        """Return True if a split costs no more than this."""
        bytes_ = point.traffic - whole.traffic
        count = point.kernels - whole.kernels
        return bytes_ <= self.traffic * whole.traffic and count <= self.kernels * whole.kernels


@dataclass(frozen=True, slots=True)
class Front:
    """Splits between the whole nodes and the best one, fewest kernels first.

    For any two of them, one has fewer kernels and the other one a lower peak.
    """

    points: tuple[Point, ...]
    """The splits."""
    stop_reason: StopReason
    """Reason why the search for them ended; that of the search before, if it needed none."""


def find_front(result: FusionResult, clock: Clock, peaks: Sequence[int] = ()) -> Front:
    """Return splits of few kernels for some peaks, by default those of parts of the saving.

    An interrupt ends the search; the split of least peak is part of the front in any case.
    """
    best = with_useful_cuts(result.fused, result.best, clock.expired)
    found, reason = [result.whole, best], result.stop_reason
    peaks = peaks or [result.whole.peak - int(result.saved * share) for share in SHARES]
    for i, budget in enumerate(peaks):
        if budget == result.whole.peak:
            continue
        if reason is StopReason.INTERRUPTED or clock.expired():
            break
        limit = clock.share(1 / (len(peaks) - i))
        shrinker = Shrinker(Oracle(result.fused, limit), result, budget)
        reason = shrinker.run()
        found.append(shrinker.point())
    return Front(_undominated(found), reason)


def _undominated(found: Iterable[Point]) -> tuple[Point, ...]:
    front: list[Point] = []
    for point in sorted(found, key=lambda x: (x.kernels, x.peak, x.traffic)):
        if not front or point.peak < front[-1].peak:
            front.append(point)
    return tuple(front)


def knee(front: Sequence[Point]) -> Point:
    """Return the point whose part of the saving exceeds its part of the kernels by most."""
    first, last = front[0], front[-1]
    saved, added = max(1, first.peak - last.peak), max(1, last.kernels - first.kernels)

    def above(point: Point) -> Fraction:
        gain = Fraction(first.peak - point.peak, saved)
        return gain - Fraction(point.kernels - first.kernels, added)

    return max(front, key=above)


def cheapest_within(front: Sequence[Point], peak: int) -> Point | None:
    """Return the point within a peak that moves the fewest bytes; None if there is none."""
    fits = [x for x in front if x.peak <= peak]
    return min(fits, key=lambda x: (x.traffic, x.kernels, x.peak), default=None)


def best_within(front: Sequence[Point], whole: Point, price: Price | None) -> Point:
    """Return the point of least peak that the price allows; any price without one."""
    allowed = [x for x in front if price is None or price.allows(whole, x)]
    return min([whole, *allowed], key=lambda x: (x.peak, x.kernels, x.traffic))
