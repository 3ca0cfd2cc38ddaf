"""The clock of a run: the rest of the caller's limits, in seconds or in units of work.

Every loop that may run long checks a :class:`Clock`. By default it measures time, minus the time
spent on compiling kernels, which is needed only once and is not part of a search. Somebody who
waits for the answer sets an end to that (:meth:`Clock.watched`). If the caller has
set `Limits.work`, it counts the work that engines report (:meth:`Clock.spend`) instead. The same
input then stops at the same place on every machine, regardless of its speed. So it does where
seconds are counted from that work (:func:`counted_seconds`).

>>> clock = Clock.of(Limits(work=10))
>>> clock.spend(4)
>>> clock.left(), clock.expired()
(6.0, False)
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from optsched.runtime import kernel
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.kernel import compile_seconds
from optsched.runtime.limits import Limits, StopReason

COMPILING_SHARE = 0.1
"""Part of a limit that compiling adds to it at most, if somebody waits for the answer."""


EACH = 1e-5
"""Seconds for which a unit of work counts by default, where work is counted as seconds."""


@dataclass
class _Meter:
    """Meter of the time, or of the work done by all clocks that share it."""

    by_work: bool = False
    work: int = 0
    seconds: float = 0.0
    """Work as seconds."""
    wall_end: float | None = None
    """Time of `time.monotonic` that ends a meter of counted seconds; None for other meters."""

    def now(self) -> float:
        if self.by_work:
            return float(self.work)
        return self.seconds if self.wall_end is not None else time.monotonic() - compile_seconds()


_counted: ContextVar[_Meter | None] = ContextVar("_counted", default=None)


@contextmanager
def counted_seconds(wall: float) -> Iterator[None]:
    """Have limits in seconds that begin in the body count work, at a price for each unit.

    Then an answer does not depend on the machine and on what else it does. What does not report
    its work takes no time. All such limits end `wall` seconds of the wall's clock from now. A body
    inside another one counts the work, and has the end, of that one.
    """
    known = _counted.get()
    token = _counted.set(known or _Meter(wall_end=time.monotonic() + wall))
    try:
        yield
    finally:
        _counted.reset(token)


def count_work(work: int, each: float) -> None:
    """Count work that no clock limits, if seconds are counted; `each`: seconds of a unit."""
    meter = _counted.get()
    if meter is not None:
        meter.seconds += work * each


@dataclass
class Clock:
    """Limits with a start: their seconds or their work count from now on."""

    limits: Limits
    _meter: _Meter = field(default_factory=lambda: _counted.get() or _Meter(), repr=False)
    _started: float = field(init=False, repr=False)
    _begun: float = field(init=False, repr=False)
    # End in the unit of the meter; None without a limit.
    _end: float | None = field(init=False, repr=False)
    _compiled: float = field(init=False, repr=False)
    # Time of `time.monotonic` that ends it, however much of it went into compiling.
    _latest: float = field(init=False, repr=False, default=math.inf)

    def __post_init__(self) -> None:
        # Two starts: wall-clock seconds for display, and the meter's reading for the limit.
        self._started, self._begun = time.monotonic(), self._meter.now()
        self._compiled = compile_seconds()
        limit = self.limits.work if self._meter.by_work else self.limits.seconds
        self._end = None if limit is None else self._begun + limit
        if self._meter.wall_end is not None:
            self._latest = self._meter.wall_end

    @classmethod
    def of(cls, limits: Limits | Clock) -> Clock:
        """Return a clock that starts now, or the given clock if it is running already."""
        if isinstance(limits, Clock):
            return limits
        return cls(limits) if limits.work is None else cls(limits, _Meter(by_work=True))

    @classmethod
    def watched(cls, limits: Limits) -> Clock:
        """Return a clock that starts now, for somebody who waits for the answer.

        Kernels that are not on disk yet add at most :data:`COMPILING_SHARE` of the seconds to the
        limit. The first stages still get their shares without compiling, so it is the last ones
        that find less than with compiled kernels.
        """
        clock, kernel.policy.deadline = cls.of(limits), math.inf
        if limits.seconds is not None and limits.work is None:
            most = (1 + COMPILING_SHARE) * limits.seconds
            clock._latest = kernel.policy.deadline = clock._started + most
        return clock

    def seconds(self) -> float:
        """Return the wall-clock seconds since the start, for display."""
        return time.monotonic() - self._started

    def compile_seconds(self) -> float:
        """Return the seconds of compiling kernels since the start, which no limit counts."""
        return compile_seconds() - self._compiled

    @property
    def limit(self) -> float | None:
        """The full limit, in the unit of :meth:`now`; None without a limit."""
        return None if self._end is None else self._end - self._begun

    def now(self) -> float:
        """Return a reading; differences are seconds, or units of work if work is limited."""
        return self._meter.now()

    def left(self) -> float | None:
        """Return the remaining limit in the unit of :meth:`now`; None without a limit."""
        if self._end is None:
            return None
        left = self._end - self.now()
        if self._meter.wall_end is not None:
            # Seconds of two kinds: the wall's clock ends all, and shortens nothing.
            return max(0.0, left) if self._real_left() > 0 else 0.0
        return max(0.0, min(left, self._real_left()))

    def expired(self) -> bool:
        """Return True if the limit is reached; raise a pending interrupt."""
        # Every loop that may run long comes by here, so this is where Ctrl-C takes effect.
        take_interrupt()
        return self._end is not None and (self.now() >= self._end or self._real_left() <= 0)

    def limit_reason(self) -> StopReason:
        """Return the stop reason of a run that this clock has ended."""
        return StopReason.WORK_LIMIT if self._meter.by_work else StopReason.TIME_LIMIT

    def stop(self) -> None:
        """Set the remaining limit to zero, for example to collect results after an interrupt."""
        self._end = self.now()

    def extend(self, more: float) -> None:
        """Extend the limit by `more`."""
        if self._end is not None:
            self._end += more

    @property
    def counts(self) -> bool:
        """True if work is counted, as units or as seconds, so that runs can be repeated."""
        return self._meter.by_work or self._meter.wall_end is not None

    @property
    def is_over(self) -> bool:
        """True if the wall's clock has ended it, for solvers in which no Ctrl-C is looked for."""
        return self._real_left() <= 0

    def spend(self, work: int, each: float = EACH) -> None:
        """Add units of work: states, nodes, placements, or any other unit that a loop counts.

        `each`: seconds that a unit takes, about.
        """
        self._meter.work += work
        if self._meter.by_work:
            count_work(work, each)
        else:
            self._meter.seconds += work * each

    def spent(self, share: float) -> bool:
        """Return True if the given share of the full limit is used up."""
        if self._end is None:
            return False
        return self.now() >= self._begun + share * (self._end - self._begun)

    def share(self, part: float, reserve: float = 0.0) -> Clock:
        """Return a clock for a part of the remaining limit, without its last `reserve`."""
        # The same meter: what the part spends, the whole has spent as well.
        left = self.left()
        # Its own end replaces the one computed from the limits.
        made = Clock(self.limits, self._meter)
        made._end = (
            None if left is None else self.now() + max(0.0, min(left * part, left - reserve))
        )
        if self._meter.wall_end is None:
            real = self._real_left()
            made._latest = time.monotonic() + max(0.0, min(real * part, real - reserve))
        return made

    def limited(self, seconds: float) -> Clock:
        """Return a clock for at most some seconds of the remaining limit, if there is one.

        Under a limit on work a unit counts as :data:`EACH` seconds.
        """
        left = self.seconds_left()
        if left is None:
            return self.share(1.0)
        return self.share(min(1.0, seconds / left) if left > 0 else 1.0)

    def seconds_left(self) -> float | None:
        """Return the remaining limit in seconds; a unit of work has :data:`EACH` of them."""
        left = self.left()
        return left if left is None or not self._meter.by_work else left * EACH

    def _real_left(self) -> float:
        """Return the remaining seconds with all compiling counted; infinite unless watched."""
        return self._latest - time.monotonic()
