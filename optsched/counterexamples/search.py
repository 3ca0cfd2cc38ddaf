"""Search of a hunt: enumerate the smallest instances, then change others at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from optsched.counterexamples.effort import EFFORT
from optsched.counterexamples.spaces import HuntSpace
from optsched.counterexamples.target import Loss
from optsched.runtime.clock import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HuntProgress:
    """Progress of a hunt: seconds, instances tried, current phase and worst loss so far."""

    seconds: float
    tried: int
    phase: str
    best: Loss | None


OnProgress = Callable[[HuntProgress], None]


@dataclass
class HuntSearch(Generic[T]):
    """Search for the worst loss in a space; the best instance so far survives an interrupt."""

    space: HuntSpace[T]
    """Space to search; its target also limits the number of tries."""
    clock: Clock
    on_progress: OnProgress | None = None
    best: T | None = None
    loss: Loss | None = None
    tried: int = 0
    exhausted: list[str] = field(default_factory=list)
    reported: float = 0.0

    def run(self) -> None:
        """Enumerate, then change instances at random until time or tries are used up."""
        self.enumerate()
        self.climb()

    def enumerate(self) -> None:
        """Try all instances of the smallest sizes, and record which sizes were completed."""
        for words, items in self.space.stages(lambda: self.loss):
            for item in items:
                if self._is_over(EFFORT.enumeration_share):
                    return
                self.tried += 1
                # The score to beat lets the space skip hopeless instances.
                lowest = 0.0 if self.loss is None else self.loss.score
                self.offer(item, self.space.loss(item, lowest), words)
            self.exhausted.append(words)

    def climb(self) -> None:
        """Run random changes, starting from random instances and from the worst one so far.

        As in simulated annealing, a run accepts slightly smaller losses at first and none at the
        end.
        """
        rng, run = Random(self.space.target.seed), 0
        while not self._is_over():
            # Every third run starts from the worst instance so far, the others afresh.
            at = self.best if run % 3 == 0 and self.best is not None else self.space.random(rng)
            run += 1
            phase = f"changes, run {run}"
            now = self.space.loss(at, 0.0)
            self.tried += 1
            self.offer(at, now, phase)
            for step in range(EFFORT.run_length):
                if self._is_over():
                    return
                score = 0.0 if now is None else now.score
                # The factor 1.5 lets the temperature reach 0 after two thirds of the run.
                temperature = EFFORT.temperature * max(0.0, 1 - 1.5 * step / EFFORT.run_length)
                # A random floor: mostly small losses of score are accepted, seldom larger ones.
                floor = score * (1 - temperature * rng.random())
                item = self.space.change(at, rng)
                self.tried += 1
                loss = self.space.loss(item, floor)
                if loss is not None and loss.score >= floor:
                    at, now = item, loss
                    self.offer(item, loss, phase)

    def offer(self, item: T, loss: Loss | None, phase: str) -> None:
        """Keep an instance with a larger loss than the best one, or equal loss and less weight."""
        if self.on_progress is not None and self.clock.seconds() - self.reported > 0.1:
            self.reported = self.clock.seconds()
            self.on_progress(HuntProgress(self.reported, self.tried, phase, self.loss))
        if loss is None or not loss.loses:
            return
        if self.best is None or self.loss is None:
            self.best, self.loss = item, loss
        # Equal losses: the smaller instance explains more.
        elif loss.reaches(self.loss):
            same = self.loss.reaches(loss)
            if not same or self.space.weight(item) < self.space.weight(self.best):
                self.best, self.loss = item, loss

    def _is_over(self, share: float = 1.0) -> bool:
        """Return True if a share of time or tries is used up; raise a pending interrupt."""
        tries = self.space.target.tries
        if tries is not None and self.tried >= share * tries:
            return True
        return self.clock.expired() or self.clock.spent(share)
