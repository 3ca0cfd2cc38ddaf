"""Interface types of all engines: limits, progress events, stop reasons, proofs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from numbers import Real
from typing import Any, SupportsFloat, SupportsIndex, TypedDict, TypeVar

from optsched.errors import UsageError
from optsched.runtime.integers import as_integer
from optsched.runtime.keywords import keywords


class StopReason(StrEnum):
    """Reason why a search ended.

    Examples
    --------
    >>> from optsched import StopReason
    >>> StopReason.TIME_LIMIT.value, StopReason.TIME_LIMIT.is_limit
    ('time limit', True)
    """

    PROVED = "proved"
    EXHAUSTED = "nothing left to try"
    """The selected methods have ended. A better result may exist unless optimality is proved."""
    TIME_LIMIT = "time limit"
    WORK_LIMIT = "work limit"
    INTERRUPTED = "interrupted"
    DECIDED = "decided"

    @property
    def is_limit(self) -> bool:
        """Return True if a limit of the caller ended the search, so that more time might help."""
        return self in (StopReason.TIME_LIMIT, StopReason.WORK_LIMIT)

    def raise_if_interrupted(self) -> None:
        """Raise KeyboardInterrupt if an engine was interrupted and has returned what it found."""
        if self is StopReason.INTERRUPTED:
            raise KeyboardInterrupt


class Objective(StrEnum):
    """Quantity to minimize first: bytes, or the cost of running ops again within a budget of bytes.

    Examples
    --------
    >>> from optsched import Objective
    >>> [objective.value for objective in Objective]
    ['slab', 'peak', 'cost']
    """

    SLAB = "slab"
    PEAK = "peak"
    COST = "cost"


SIZES = (Objective.SLAB, Objective.PEAK)
"""Objectives that are numbers of bytes, which orders and offsets without repeats answer."""


class Proof(StrEnum):
    """Kind of proof of a bound; `docs/proofs.md` explains the kinds.

    Files have the short code, tables have it with a legend, sentences have the name.

    Examples
    --------
    >>> from optsched import Proof
    >>> Proof.SEARCH.value, Proof.SEARCH.words, Proof.SEARCH.with_code
    ('L3', 'order search', 'order search (L3)')
    """

    PACKING = "L1"
    """The slab equals the live bytes of a step of this order, so the packing is optimal for the
    order.
    """
    BOUND = "L2"
    """The peak equals the bytes that are live at some op in every order, so no order has a smaller
    peak.
    """
    SEARCH = "L3"
    """The orders with a peak below this one were searched exhaustively."""
    PACKING_SEARCH = "L4"
    """The packings of this order with a smaller slab were searched exhaustively."""
    JOINT = "L5"
    """The slab equals a proved lower bound on the peak of every order. With several pools, the sum
    of the slabs equals a lower bound on the sum of the separate peaks of the pools.
    """
    JOINT_SEARCH = "L6"
    """The packings of every order with a smaller slab were searched exhaustively."""
    CLAIMED = "claimed"
    """Reported by a solver, without a proof that can be checked."""

    @property
    def words(self) -> str:
        """Name of the kind, such as `order search`."""
        return _PROOF_NAMES.get(self, str(self))

    @property
    def with_code(self) -> str:
        """Name and short code, such as `order search (L3)`."""
        return f"{self.words} ({self})" if self in _PROOF_NAMES else str(self)


_PROOF_NAMES = {
    Proof.PACKING: "packing bound",
    Proof.BOUND: "order bound",
    Proof.SEARCH: "order search",
    Proof.PACKING_SEARCH: "packing search",
    Proof.JOINT: "joint bound",
    Proof.JOINT_SEARCH: "joint search",
}


def proof_legend(proofs: Iterable[Proof | None]) -> str:
    """Return the names of the codes in a table: `proofs: L3 order search, L5 joint bound`."""
    shown = sorted({proof for proof in proofs if proof in _PROOF_NAMES})
    return f"proofs: {', '.join(f'{p} {p.words}' for p in shown if p)}" if shown else ""


def optimality_gap(incumbent: int, bound: int) -> float:
    """Return the relative gap `(incumbent - bound) / max(1, incumbent)`."""
    return (incumbent - bound) / max(1, incumbent)


@dataclass(frozen=True, slots=True)
class Event:
    """Progress report of a solver."""

    seconds: float
    """Seconds since the solver started."""
    incumbent: int | None
    """Best value of the objective so far, or None."""
    bound: int
    """Best bound on the objective so far."""
    source: str
    """Name of the heuristic, bound or engine that improved one of them."""


OnEvent = Callable[[Event], None]


@keywords
@dataclass(frozen=True, slots=True)
class Limits:
    """Limits and resources of a solver.

    Parameters
    ----------
    seconds
        Wall-clock time in seconds; None or infinity for no limit.
    workers
        Number of threads; with one worker and without a time limit, results are deterministic.
    seed
        Seed of all random choices, from 0 to `2**31 - 1`.
    work
        Units of work, as a limit in place of seconds. Runs can then be repeated exactly, with one
        worker. See :class:`optsched.runtime.clock.Clock`.

    Raises
    ------
    UsageError
        If a number is out of range or has the wrong type.

    Examples
    --------
    >>> from optsched import Limits
    >>> Limits(seconds=5, seed=7)
    Limits(seconds=5.0, workers=1, seed=7, work=None)
    """

    seconds: float | None = None
    workers: int = 1
    seed: int = 0
    work: int | None = None

    def __post_init__(self) -> None:
        # The class is frozen, so a converted value goes around it.
        put = object.__setattr__
        if self.seconds is not None:
            put(self, "seconds", _seconds(self.seconds))
        put(self, "workers", parse_integer("workers", self.workers, 1))
        put(self, "seed", parse_integer("seed", self.seed, 0, 2**31))
        if self.work is not None:
            put(self, "work", parse_integer("work", self.work, 0))
            # Threads race, so the work of two would not be repeatable, which is what the limit is
            # for.
            if self.workers > 1:
                raise UsageError("a work limit requires workers=1")


def _seconds(value: float) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    # An integer too large for a float is as good as no limit.
    except OverflowError:
        seconds = float("inf")
    # Written so that NaN is refused too: it compares as false.
    if not seconds >= 0:
        raise UsageError(f"{value!r} is not a number of seconds")
    return None if seconds == float("inf") else seconds


def parse_integer(what: str, value: SupportsIndex, least: int, end: int = 2**62) -> int:
    """Return an integer of any type as an `int`.

    Raise `UsageError` if the value is not an integer in `[least, end)`; `what` is its name in the
    message.
    """
    number = as_integer(value)
    if number is None:
        raise UsageError(f"{what} must be an integer, got {value!r}")
    if number < least:
        raise UsageError(f"{what} must be at least {least}, got {number}")
    # Kernels have 64-bit integers; the rest of the range keeps sums from overflow.
    if number >= end:
        raise UsageError(f"{what} must be below {end}, got {number}")
    return number


DEFAULT_LIMITS = Limits(seconds=60.0)
"""Limits if the caller does not set any; some problems cannot be solved in useful time."""


class LimitKeywords(TypedDict, total=False):
    """The fields of :class:`Limits` as keyword arguments."""

    time_limit: SupportsFloat | None
    """Seconds (default: 60); `math.inf` for no limit."""
    work: SupportsIndex | None
    """Units of work, as a limit in place of seconds, for repeatable runs."""
    workers: SupportsIndex | None
    """Number of threads."""
    seed: SupportsIndex | None
    """Seed of all random choices."""


Given = TypeVar("Given")
Member = TypeVar("Member", bound=StrEnum)


def choose_limits(limits: Given | None, named: LimitKeywords) -> Given | Limits:
    """Return the limits given either as one object or as keywords.

    The object is a :class:`Limits` or a running clock. Values missing among the keywords are those
    of :data:`DEFAULT_LIMITS`.

    Raise `UsageError` if both forms or both kinds of limits are given.
    """
    given: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    if limits is not None:
        if given:
            raise UsageError("give either limits= or time_limit=, work=, workers= and seed=")
        # A frequent mistake: solve(graph, 10).
        if isinstance(limits, Real | str):
            raise UsageError(
                f"limits must be a Limits, got {limits!r}: write time_limit={limits!r}"
            )
        if not hasattr(limits, "seconds"):
            raise UsageError(f"limits must be a Limits, got {type(limits).__name__}")
        return limits
    if "time_limit" in given and "work" in given:
        raise UsageError("give either time_limit or work, not both")
    # A work limit alone means no limit in seconds, not the default of 60.
    if "time_limit" in given or "work" in given:
        given["seconds"] = given.pop("time_limit", None)
    return replace(DEFAULT_LIMITS, **given)


def choose_size(value: str) -> Objective:
    """Return the objective of a planner of orders and offsets: slab or peak."""
    found = choose_member(Objective, value, "objective", SIZES)
    if found not in SIZES:
        raise UsageError(f"objective {value!r} is for recompute(): expected slab or peak")
    return found


def choose_member(
    kind: type[Member], value: str, what: str, known: Sequence[Member] | None = None
) -> Member:
    """Return the member of an enumeration with the given value; an error lists the known ones."""
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(kind if known is None else known)
        raise UsageError(f"unknown {what} {value!r}, expected one of {names}") from None
