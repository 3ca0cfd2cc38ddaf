"""The one loop of every driver: stages in turn, each with a share of the clock, while it pays.

`solve` and `pack` differ in their stages and in what they keep: an :class:`Incumbent` of a graph
holds plan, orders and bounds, that of a packing problem offsets and a bound. What a stage cannot
do it declares, and is asked once, here.

`run_stages(incumbent, (Stage(heuristics), Stage(search, share=0.6), Stage(model, most=60)))` gives
the search six tenths of the time that is left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Generic, TypeVar

from optsched.errors import expect_function
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts, take_interrupt
from optsched.runtime.kernel import compile_seconds
from optsched.runtime.limits import Event, Limits, OnEvent, StopReason


class Feature(Flag):
    """What a question may have that a stage has to know about."""

    NONE = 0
    INPLACE = auto()
    """Ops may write into dying inputs."""
    POOLS = auto()
    """Several slabs."""
    PEAK = auto()
    """The peak is asked for, and offsets decide nothing."""
    MOVES = auto()
    """Only so many ops of a baseline may be moved."""


class Incumbent(ABC):
    """The best answer and bound so far of one question, on one clock.

    Limits count from now. `capacity` are bytes that would be enough, None where the minimum is
    asked for; `on_event` is told of every better answer and bound.
    """

    features = Feature.NONE
    size = 0
    """Ops or buffers; a stage may take only so many."""

    def __init__(
        self, limits: Limits | Clock, capacity: int | None, on_event: OnEvent | None
    ) -> None:
        expect_function("on_event", on_event)
        self.clock, self.capacity, self.on_event = Clock.of(limits), capacity, on_event
        self.trace: list[Event] = []
        self.told: int | None = None
        self.interrupted = False
        self.reserve = 0.0
        self.compiled_before = compile_seconds()

    @abstractmethod
    def value(self) -> int | None:
        """Return the objective of the best answer; None without one."""

    @abstractmethod
    def bound(self) -> int:
        """Return the proved lower bound on the objective."""

    @abstractmethod
    def done(self) -> bool:
        """Whether the question is answered."""

    def has_time(self) -> bool:
        """Whether there is time for one more answer, if it takes as long as the last."""
        left = self.clock.left()
        return left is None or left > self.reserve

    def part(self, share: float = 1.0) -> Clock:
        """Return a clock for a share of the time left, less what making an answer of it takes."""
        return self.clock.share(share, self.reserve)

    def compile_seconds(self) -> float:
        """Return the seconds of this run that kernels took to compile, which no limit counts."""
        return compile_seconds() - self.compiled_before

    def report(self, source: str, bound: int = 0, value: int | None = None) -> None:
        """Tell the caller what is known now, or what an engine knows if that is more."""
        known = [x for x in (self.told, self.value(), value) if x is not None]
        self.told = min(known, default=None)
        event = Event(self.clock.seconds(), self.told, max(self.bound(), bound), source)
        self.trace.append(event)
        if self.on_event is not None:
            self.on_event(event)

    def stop_reason(self) -> StopReason:
        """Return why it ended."""
        if self.done():
            return StopReason.PROVED if self.capacity is None else StopReason.DECIDED
        if self.interrupted:
            return StopReason.INTERRUPTED
        return StopReason.EXHAUSTED if self.has_time() else self.clock.limit_reason()


Asked = TypeVar("Asked", bound=Incumbent)


@dataclass(frozen=True, slots=True)
class Stage(Generic[Asked]):
    """One engine's turn."""

    run: Callable[[Asked, Clock], bool | None]
    """Takes the incumbent and a clock for its share. One that is repeated returns whether more time
    might bring more."""
    share: float = 1.0
    """Part of the time left."""
    needs: Feature = Feature.NONE
    lacks: Feature = Feature.NONE
    """Features it is made for, and those it cannot take."""
    most: int | None = None
    """Ops or buffers it takes at most."""
    named: bool = False
    """Asked for by the caller: it has its say even where the question is answered."""

    def serves(self, asked: Asked) -> bool:
        """Whether it can take the question."""
        if self.lacks & asked.features or self.needs & ~asked.features:
            return False
        return self.most is None or asked.size <= self.most


def run_stages(
    asked: Asked, stages: Sequence[Stage[Asked]], repeated: Sequence[Stage[Asked]] = ()
) -> None:
    """Run stages in turn, and then others round by round while one of these may bring more.

    Without a limit there is one such round, so that there is an end.
    """
    try:
        with held_interrupts():
            for stage in stages:
                _run_stage(asked, stage)
            while sum([_run_stage(asked, stage) for stage in repeated]):
                # Without a plan stages have their say beyond the limit, but for one round only.
                if asked.clock.left() is None or asked.clock.expired():
                    return
                # A stage that has hardly any work left ends at once: rounds must count as well.
                asked.clock.spend(asked.size)
    except KeyboardInterrupt:
        asked.interrupted = True


def _run_stage(asked: Asked, stage: Stage[Asked]) -> bool:
    take_interrupt()
    late = asked.value() is not None and asked.clock.expired()
    if late or not stage.serves(asked) or (asked.done() and not stage.named):
        return False
    return bool(stage.run(asked, asked.part(stage.share)))
