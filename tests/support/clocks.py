"""Clocks that run out when a test wants them to."""

from __future__ import annotations

from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits


class ExpiringClock(Clock):
    """A clock that expires after a number of looks at it."""

    def __init__(self, looks: int, workers: int = 1) -> None:
        super().__init__(Limits(workers=workers))
        self.looks = looks

    def expired(self) -> bool:
        """Return True if it was looked at often enough."""
        self.looks -= 1
        return self.looks < 0


class InterruptingClock(ExpiringClock):
    """A clock at which a Ctrl-C comes after a number of looks."""

    def expired(self) -> bool:
        """Raise if it was looked at often enough."""
        if super().expired():
            raise KeyboardInterrupt
        return False
