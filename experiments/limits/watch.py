"""A clock of the processor in place of the wall's, that knows how long nobody looked at it."""

from __future__ import annotations

import sys
import time
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Watch:
    """Observation of the places that look at the clock, and of their times."""

    silence: float = 0.0
    """The longest time between two looks so far, in seconds of the processor."""
    place: str = ""
    """Position of the code at its end."""
    begun: float = field(default_factory=time.process_time)
    last: float = field(default_factory=time.process_time)

    def look(self, first: float) -> float:
        """Continue from a time, as fast as the processor has worked since then."""
        now = time.process_time()
        if now - self.last > self.silence:
            self.silence, self.place = now - self.last, _place(sys._getframe(1))
        self.last = now
        return first + now - self.begun


def _place(frame: FrameType | None) -> str:
    """The innermost two functions of the package."""
    found: list[str] = []
    while frame is not None and len(found) < 3:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT):
            found.append(f"{path.stem}.{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


@contextmanager
def watched() -> Iterator[Watch]:
    """Have all limits of the body counted in seconds of the processor."""
    watch = Watch()
    kept = time.monotonic, time.perf_counter
    # Some modules hold one of the two by name: what that says at first is said here as well.
    time.monotonic = partial(watch.look, time.monotonic())
    # numba, where it is not imported yet, takes its clock from there: compiling is not counted.
    timeit.default_timer = time.perf_counter = partial(watch.look, time.perf_counter())
    try:
        yield watch
        watch.look(0.0)
    finally:
        time.monotonic, time.perf_counter = kept
        timeit.default_timer = kept[1]
