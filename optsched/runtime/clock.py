"""The one clock: what is left of a caller's limits, in seconds or in units of work.

Every loop that may run long asks a :class:`Clock`. By default it reads the time, less what was
spent on compiling kernels: that is no part of a search, and happens once. Where the caller set
`Limits.work` it counts instead what the engines say they did (:meth:`Clock.spend`), so the same
input stops at the same place on every machine, however fast.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.kernel import compile_seconds
from optsched.runtime.limits import Limits, StopReason


@dataclass
class _Meter:
    """Reads the time, or the work done so far by all who share it."""

    by_work: bool
    work: int = 0

    def now(self) -> float:
        if self.by_work:
            return float(self.work)
        return time.monotonic() - compile_seconds()


@dataclass
class Clock:
    """Limits that are running: their seconds or work count from now."""

    limits: Limits
    _meter: _Meter = field(default_factory=lambda: _Meter(by_work=False), repr=False)
    _started: float = field(init=False, repr=False)
    _begun: float = field(init=False, repr=False)
    _end: float | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._started, self._begun = time.monotonic(), self._meter.now()
        limit = self.limits.work if self._meter.by_work else self.limits.seconds
        self._end = None if limit is None else self._begun + limit

    @classmethod
    def of(cls, limits: Limits | Clock) -> Clock:
        """Return a clock that starts now, or the caller's own that runs already."""
        if isinstance(limits, Clock):
            return limits
        return cls(limits, _Meter(by_work=limits.work is not None))

    def seconds(self) -> float:
        """Return wall-clock seconds since the start, for people."""
        return time.monotonic() - self._started

    def now(self) -> float:
        """Return a reading; differences are seconds, or work where that is what is limited."""
        return self._meter.now()

    def left(self) -> float | None:
        """Return what may still be spent, in the unit of :meth:`now`; None without a limit."""
        return None if self._end is None else max(0.0, self._end - self.now())

    def expired(self) -> bool:
        """Whether the limit is reached; raises an interrupt that waits."""
        take_interrupt()
        return self._end is not None and self.now() >= self._end

    def limit_reason(self) -> StopReason:
        """Return what is said of a run that this clock has ended."""
        return StopReason.WORK_LIMIT if self._meter.by_work else StopReason.TIME_LIMIT

    def stop(self) -> None:
        """Let nothing be left: an interrupt has come, and what is known is put together."""
        self._end = self.now()

    def extend(self, more: float) -> None:
        """Put the end off."""
        if self._end is not None:
            self._end += more

    def spend(self, work: int) -> None:
        """Count work: states, nodes, placements, whatever a loop goes round by."""
        self._meter.work += work

    def spent(self, share: float) -> bool:
        """Whether this share of the whole limit is over."""
        if self._end is None:
            return False
        return self.now() >= self._begun + share * (self._end - self._begun)

    def share(self, part: float, reserve: float = 0.0) -> Clock:
        """Return a clock for a part of what is left, and never for the last `reserve` of it."""
        left = self.left()
        made = Clock(self.limits, self._meter)
        made._end = (
            None if left is None else self.now() + max(0.0, min(left * part, left - reserve))
        )
        return made
