"""The hunt itself: all instances of the smallest sizes, then runs of random changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from optsched.counterexamples.loss import Loss
from optsched.counterexamples.spaces import Space
from optsched.runtime.interrupt import take_interrupt

T = TypeVar("T")

SHARE = 0.25
"""Of time and tries that enumeration may take."""
RUN = 6_000
"""Tries of one run of changes."""
HEAT = 0.08
"""Share of its score that a run gives up at first for a change; none in its last third."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a hunt is: seconds, instances tried, what it does, the worst loss so far."""

    seconds: float
    tried: int
    phase: str
    best: Loss | None


OnProgress = Callable[[Progress], None]


class Clock:
    """Time and tries that are left.

    Parameters
    ----------
    seconds
        Wall clock, or None for no limit.
    tries
        Instances, or None for no limit.
    """

    def __init__(self, seconds: float | None, tries: int | None) -> None:
        self.started = time.monotonic()
        self.seconds, self.tries = seconds, tries

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def is_over(self, tried: int, share: float = 1.0) -> bool:
        """Whether a share of either is used up; raise an interrupt that waits."""
        take_interrupt()
        if self.tries is not None and tried >= share * self.tries:
            return True
        return self.seconds is not None and self.elapsed() >= share * self.seconds


@dataclass
class Search(Generic[T]):
    """One hunt through a space; what it has found survives an interrupt."""

    space: Space[T]
    clock: Clock
    seed: int = 0
    on_progress: OnProgress | None = None
    best: T | None = None
    loss: Loss | None = None
    tried: int = 0
    exhausted: list[str] = field(default_factory=list)
    said: float = 0.0

    def run(self) -> None:
        """Enumerate, then change at random until time or tries are used up."""
        self.enumerate()
        self.climb()

    def enumerate(self) -> None:
        """Try all instances of the smallest sizes; keep which sizes were finished."""
        for words, items in self.space.stages(lambda: self.loss):
            for item in items:
                if self.clock.is_over(self.tried, SHARE):
                    return
                self.tried += 1
                least = 0.0 if self.loss is None else self.loss.score
                self.offer(item, self.space.loss(item, least), words)
            self.exhausted.append(words)

    def climb(self) -> None:
        """Runs of changes from random instances and from the best, warm at first, then strict."""
        rng = Random(self.seed)
        run = 0
        while not self.clock.is_over(self.tried):
            at = self.best if run % 3 == 0 and self.best is not None else self.space.random(rng)
            run += 1
            phase = f"changes, run {run}"
            now = self.space.loss(at, 0.0)
            self.tried += 1
            self.offer(at, now, phase)
            for step in range(RUN):
                if self.clock.is_over(self.tried):
                    return
                score = 0.0 if now is None else now.score
                floor = score * (1 - HEAT * max(0.0, 1 - 1.5 * step / RUN) * rng.random())
                item = self.space.change(at, rng)
                self.tried += 1
                loss = self.space.loss(item, floor)
                if loss is not None and loss.score >= floor:
                    at, now = item, loss
                    self.offer(item, loss, phase)

    def offer(self, item: T, loss: Loss | None, phase: str) -> None:
        """Keep an instance that is worse than the worst so far, or as bad and lighter."""
        if self.on_progress is not None and self.clock.elapsed() - self.said > 0.1:
            self.said = self.clock.elapsed()
            self.on_progress(Progress(self.said, self.tried, phase, self.loss))
        if loss is None or not loss.loses:
            return
        if self.best is None or self.loss is None:
            self.best, self.loss = item, loss
        elif loss.reaches(self.loss):
            same = self.loss.reaches(loss)
            if not same or self.space.weight(item) < self.space.weight(self.best):
                self.best, self.loss = item, loss
