"""The loop that all solvers share: stages in turn, each with a share of the time that is left.

`solve` and `pack` differ in their stages and in the state of their search: :class:`Known` of a
graph has a plan, orders and bounds, :class:`KnownPacking` of live ranges has offsets and a bound.
A stage declares which questions it can answer, and yields findings; the state merges them.

`run_stages(known, resume, (Stage(heuristics), Stage(search, share=0.6), Stage(model, most=60)))`
gives the search six tenths of the time that is left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from optsched.errors import expect_function
from optsched.runtime.clock import Clock
from optsched.runtime.interrupt import held_interrupts, take_interrupt
from optsched.runtime.limits import Event, Limits, OnEvent, StopReason
from optsched.solver.features import Feature
from optsched.solver.finding import Finding


class Knowledge(ABC):
    """State of a search: the best answer and bound of a question so far, and the time left.

    `limits`: limits, which count from now, or a running clock. `capacity`: bytes that are enough;
    None if the minimum is asked for. `on_event`: called with every better answer and bound.
    """

    features = Feature.NONE
    """Features of the question."""
    size = 0
    """Number of ops or buffers."""

    def __init__(
        self, limits: Limits | Clock, capacity: int | None, on_event: OnEvent | None
    ) -> None:
        expect_function("on_event", on_event)
        self.clock, self.capacity, self.on_event = Clock.of(limits), capacity, on_event
        self.trace: list[Event] = []
        self.interrupted = False
        # Seconds that making and checking one more plan takes, measured at the last one.
        self.reserve = 0.0

    @abstractmethod
    def value(self) -> int | None:
        """Return the objective of the best answer; None without one."""

    @abstractmethod
    def bound(self) -> int:
        """Return the proved lower bound on the objective."""

    @abstractmethod
    def done(self) -> bool:
        """Return True if the question is answered."""

    @abstractmethod
    def merge(self, finding: Finding[Any]) -> None:
        """Check the plans of a finding, and keep those that improve the state."""

    def has_time(self) -> bool:
        """Return True if the time left is enough for one more answer, judging by the last one."""
        # A limit on work leaves time open.
        left = self.clock.left()
        return left is None or left > self.reserve

    def part(self, share: float = 1.0) -> Clock:
        """Return a clock for a share of the time left, without the time to make a last answer."""
        return self.clock.share(share, self.reserve)

    def report(self, source: str, bound: int = 0, value: int | None = None) -> None:
        """Report the best value and bound to the caller, or an engine's own if they are better."""
        reported = self.trace[-1].incumbent if self.trace else None
        # An engine may report a value before its plan is merged, so earlier events count as well.
        values = [x for x in (reported, self.value(), value) if x is not None]
        best = min(values, default=None)
        event = Event(self.clock.seconds(), best, max(self.bound(), bound), source)
        self.trace.append(event)
        if self.on_event is not None:
            self.on_event(event)

    def stop_reason(self) -> StopReason:
        """Return the reason why the search ended."""
        if self.done():
            # With a capacity the question is a decision, which says nothing about the minimum.
            return StopReason.PROVED if self.capacity is None else StopReason.DECIDED
        if self.interrupted:
            return StopReason.INTERRUPTED
        return StopReason.EXHAUSTED if self.has_time() else self.clock.limit_reason()


State = TypeVar("State", bound=Knowledge)
Run = Callable[[State, Any, Clock], Iterator[Finding[Any]]]
"""A stage's function. It reads the state, yields findings, and changes only its own part of the
second argument, the :class:`optsched.solver.resume.Resume` of the search."""


@dataclass(frozen=True, slots=True)
class Stage(Generic[State]):
    """One engine's turn in a search."""

    run: Run[State]
    share: float = 1.0
    """Part of the time left."""
    needs: Feature = Feature.NONE
    """Features that a question must have."""
    lacks: Feature = Feature.NONE
    """Features that the stage cannot handle."""
    most: int | None = None
    """Maximum number of ops or buffers."""
    named: bool = False
    """True to run it even if the question is answered, since the caller asked for it."""
    repeat: bool = False
    """True to run it in rounds after the other stages, while it may find more."""

    def serves(self, known: State) -> bool:
        """Return True if the stage can answer the question."""
        if self.lacks & known.features or self.needs & ~known.features:
            return False
        # The size limit guards against stages whose models take too long to build.
        return self.most is None or known.size <= self.most


def run_stages(known: State, resume: Any, stages: Sequence[Stage[State]]) -> bool:
    """Run each stage once, then those that repeat in rounds, while one of them may find more.

    Without a limit there is one such round, so that the search ends.

    Return True if a stage that ran once was stopped by its share of the time.
    """
    more = False
    repeated = [stage for stage in stages if stage.repeat]
    try:
        # An interrupt is raised only between findings, so that no finding is lost half merged.
        with held_interrupts():
            for stage in stages:
                more |= not stage.repeat and run_stage(known, resume, stage)
            # The list makes every stage run in every round; a generator within `any` would stop
            # early.
            while sum([run_stage(known, resume, stage) for stage in repeated]):
                # Without a plan, stages may exceed the limit, for one round only.
                if known.clock.left() is None or known.clock.expired():
                    break
                # A stage without work left ends at once, so that rounds must count as work too.
                known.clock.spend(known.size)
    except KeyboardInterrupt:
        known.interrupted = True
    return more


def run_stage(known: State, resume: Any, stage: Stage[State]) -> bool:
    """Run a stage and merge its findings; return True if it may find more.

    A stage ends itself once the question is answered, and some do not: the bound that comes with a
    plan that fits the capacity says how much less may be enough.
    """
    take_interrupt()
    # Without an answer the stages go over the limit: a heuristic plan is better than an empty
    # result.
    late = known.value() is not None and known.clock.expired()
    if late or not stage.serves(known) or (known.done() and not stage.named):
        return False
    more = False
    for finding in stage.run(known, resume, known.part(stage.share)):
        known.merge(finding)
        more |= finding.more
    return more
