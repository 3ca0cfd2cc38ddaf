"""What every engine is told and tells: limits, progress, why it stopped, kinds of proof."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from numbers import Real
from typing import Any, SupportsFloat, SupportsIndex, TypedDict, TypeVar

from optsched.errors import UsageError
from optsched.runtime.keywords import keywords


class StopReason(StrEnum):
    """Why the search ended."""

    PROVED = "proved"
    EXHAUSTED = "nothing left to try"
    """The methods that were asked have ended; what is not proved may still have a better answer."""
    TIME_LIMIT = "time limit"
    WORK_LIMIT = "work limit"
    INTERRUPTED = "interrupted"
    DECIDED = "decided"

    @property
    def is_limit(self) -> bool:
        """Whether a limit of the caller ended it, so that more time or work might bring more."""
        return self in (StopReason.TIME_LIMIT, StopReason.WORK_LIMIT)

    def raise_if_interrupted(self) -> None:
        """End the run where an engine was interrupted and has handed over what it found."""
        if self is StopReason.INTERRUPTED:
            raise KeyboardInterrupt


class Objective(StrEnum):
    """What is to be least."""

    SLAB = "slab"
    PEAK = "peak"


class Proof(StrEnum):
    """Which kind of proof stands behind a bound; the rungs are explained in the README."""

    PACKING = "L1"
    """A step of this order whose live bytes equal the slab: the packing of this order is least."""
    BOUND = "L2"
    """An op whose forced live bytes equal the peak: no order has less."""
    SEARCH = "L3"
    """The orders below the peak were searched exhaustively."""
    PACKING_SEARCH = "L4"
    """The packings of this order below the slab were searched exhaustively."""
    JOINT = "L5"
    """The slab equals a proved bound on the peak of every order, or all slabs together one on the
    peaks of the pools, each by itself."""
    JOINT_SEARCH = "L6"
    """The packings of every order below the slab were searched exhaustively."""
    CLAIMED = "claimed"
    """Only a solver's word."""


def optimality_gap(incumbent: int, bound: int) -> float:
    """Return `(incumbent - bound) / max(1, incumbent)`."""
    return (incumbent - bound) / max(1, incumbent)


@dataclass(frozen=True, slots=True)
class Event:
    """Progress of a solver.

    Parameters
    ----------
    seconds
        Since the solver started.
    incumbent
        Best value of the objective so far, or None.
    bound
        Best bound on the objective so far.
    source
        What moved: the name of a heuristic, a bound or an engine.
    """

    seconds: float
    incumbent: int | None
    bound: int
    source: str


OnEvent = Callable[[Event], None]


@keywords
@dataclass(frozen=True, slots=True)
class Limits:
    """How long and with what a solver may work.

    Parameters
    ----------
    seconds
        Wall-clock time, or None (or infinity) for as long as it takes.
    workers
        Threads; one worker without a time limit is deterministic.
    seed
        Of every random choice; from 0 to `2**31 - 1`.
    work
        Units of work instead of seconds, so that runs can be repeated to the byte; with one
        worker. See :class:`optsched.runtime.clock.Clock`.

    Raises
    ------
    UsageError
        If a number makes no sense.
    """

    seconds: float | None = None
    workers: int = 1
    seed: int = 0
    work: int | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.seconds is not None:
            put(self, "seconds", _seconds(self.seconds))
        put(self, "workers", _integer("workers", self.workers, 1))
        put(self, "seed", _integer("seed", self.seed, 0, 2**31))
        if self.work is not None:
            put(self, "work", _integer("work", self.work, 0))
            if self.workers > 1:
                raise UsageError("a limit on work is exact only with one worker")


def _seconds(value: float) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    except OverflowError:
        seconds = float("inf")
    if not seconds >= 0:
        raise UsageError(f"{value!r} is no number of seconds")
    return None if seconds == float("inf") else seconds


def _integer(what: str, value: int, least: int, end: int = 2**62) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{what} must be an integer, got {value!r}") from None
    if not least <= number < end:
        raise UsageError(f"{what} must be at least {least} and below {end}, got {number}")
    return number


DEFAULT_LIMITS = Limits(seconds=60.0)
"""Where a caller sets no limits: some questions have no answer in useful time."""


class LimitKeywords(TypedDict, total=False):
    """The fields of :class:`Limits` as keywords."""

    time_limit: SupportsFloat | None
    """Seconds; 60 by default, `math.inf` for as long as it takes."""
    work: SupportsIndex | None
    """Units of work instead of seconds, for runs that can be repeated."""
    workers: SupportsIndex | None
    """Threads."""
    seed: SupportsIndex | None
    """Of all random choices."""


Given = TypeVar("Given")
Member = TypeVar("Member", bound=StrEnum)


def choose_limits(limits: Given | None, named: LimitKeywords) -> Given | Limits:
    """Return the limits that are given as one object or as keywords, not as both.

    The object is a :class:`Limits`, or a clock that runs already; what keywords do not say
    :data:`DEFAULT_LIMITS` has.
    """
    given: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    if limits is not None:
        if given:
            raise UsageError("give either limits= or time_limit=, work=, workers= and seed=")
        if isinstance(limits, Real | str):
            raise UsageError(f"limits wants a Limits, got {limits!r}: write time_limit={limits!r}")
        return limits
    if "time_limit" in given and "work" in given:
        raise UsageError("give either time_limit or work: one of them ends the search")
    if "time_limit" in given or "work" in given:
        given["seconds"] = given.pop("time_limit", None)
    return replace(DEFAULT_LIMITS, **given)


def choose_member(kind: type[Member], value: str, what: str) -> Member:
    """Return the member of an enumeration that a text names."""
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{what} {value!r} is none of {', '.join(kind)}") from None
