"""Hunts: search for an instance on which a method loses, shrink it, prove its optimum.

:func:`hunt` searches small instances; :func:`hunt_from` shrinks an instance of the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from typing import Any

from heuristics.kernels.place import run_place
from heuristics.kernels.skyline import run_skyline
from heuristics.kernels.sweep import run_sweep
from optsched.counterexamples.effort import EFFORT
from optsched.counterexamples.judges import Judge, Optimum, OrderingJudge, PackingJudge, PairJudge
from optsched.counterexamples.search import HuntProgress, HuntSearch, OnProgress
from optsched.counterexamples.shrink import Shrinker
from optsched.counterexamples.small_graph import SmallGraph
from optsched.counterexamples.spaces import (
    GraphSpace,
    HuntSpace,
    PackingSpace,
    PairSpace,
    make_problem,
)
from optsched.counterexamples.target import HuntTarget, Loss, LossObjective, kind_of
from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.runtime.shown import Told

OPTIMUM = "optimum"
"""Key of the best plan among the plans of methods."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """An instance on which the method loses, with the plans that show it."""

    target: HuntTarget
    """Method, rival and limits of the hunt."""
    item: Any
    """Graph for an ordering or a pair; live ranges for a packer."""
    loss: Loss
    """Bytes of the method and of its rival."""
    optimum: Optimum[Any]
    """Best plan and its proof."""
    plans: Mapping[str, Any]
    """Plans, or offsets for live ranges, by method name; the best one under :data:`OPTIMUM`."""
    minimal: bool
    """True if removing any single op, edge or buffer makes the loss smaller than the one kept, both
    with and without the removal of buffers that then lose their last reader."""

    @property
    def rival(self) -> str:
        """Key of the better plan in `plans`."""
        return self.target.versus or OPTIMUM


@dataclass(frozen=True, slots=True)
class Hunt(Told):
    """The result of a hunt."""

    target: HuntTarget
    """Method, rival and limits of the hunt."""
    counterexample: Counterexample | None
    """The worst instance found, or None if the method never lost."""
    exhausted: tuple[str, ...]
    """Descriptions of the sets of instances that were fully enumerated."""
    scope: str
    """Description of the limits that all these sets share."""
    tried: int
    """Number of instances judged, without those of the shrinking."""
    seconds: float
    """Total run time in seconds."""
    interrupted: bool
    """True if the user interrupted the hunt."""

    def __repr__(self) -> str:
        found = "nothing found" if self.counterexample is None else f"{self.counterexample.loss}"
        return f"Hunt({self.target.method!r}, {found}, {self.tried:,} tried)"


def hunt(target: HuntTarget, *, name: str = "found", on_progress: OnProgress | None = None) -> Hunt:
    """Search for a small instance on which a method is as bad as possible.

    All instances of the smallest sizes are enumerated, and larger ones are changed at random. The
    worst instance is then shrunk, and its optimum proved. After Ctrl-C, the worst instance so far
    is shrunk no further and proved in a shorter time.
    """
    space_kind, judge_kind = _KINDS[kind_of(target.method)]
    space, judge = space_kind(target), judge_kind(target)
    # Compiling is done once and does not count.
    _compile(space, on_progress)
    clock = Clock.of(Limits(seconds=target.seconds))
    search = HuntSearch(space, clock.share(EFFORT.search_share), on_progress)
    closing = _Closing(judge, clock, on_progress)
    try:
        search.run()
    except KeyboardInterrupt:
        closing.interrupted = True
    example, best = None, search.best
    if best is not None and search.loss is not None:
        item = best.graph(name) if isinstance(best, SmallGraph) else make_problem(best, name)
        example = closing.run(item, search.loss)
    exhausted, seconds = tuple(search.exhausted), clock.seconds()
    return Hunt(target, example, exhausted, space.scope, search.tried, seconds, closing.interrupted)


def hunt_from(
    item: Graph | PackingProblem, target: HuntTarget, *, on_progress: OnProgress | None = None
) -> Hunt:
    """Shrink an instance to a minimal core on which the method still loses as much.

    Raise `UsageError` if the instance is of the wrong kind for the method, has in-place ops or
    several streams, or loses less than `target.at_least`.
    """
    # Orderings need graphs, packers live ranges.
    if isinstance(item, PackingProblem) != (kind_of(target.method) == "packing"):
        kind = "live ranges (a MiniMalloc CSV)" if isinstance(item, Graph) else "a graph"
        raise UsageError(f"method {target.method!r} needs {kind}")
    if isinstance(item, Graph):
        # The judges' tables do not have in-place pairs or streams.
        item.refuse_inplace("hunts")
        item.refuse_streams("hunts")
    judge = _KINDS[kind_of(target.method)][1](target)
    clock = Clock.of(Limits(seconds=target.seconds))
    closing = _Closing(judge, clock, on_progress)
    if on_progress is not None:
        on_progress(HuntProgress(0.0, 0, f"the loss of {item.name}", None))
    loss = judge.loss(item, closing.proof_seconds(item))
    if (least := target.at_least) is not None:
        wanted = Loss(least.numerator, least.denominator, target.objective)
        if target.objective is LossObjective.DIFFERENCE:
            # A difference of d bytes is d against 0.
            wanted = Loss(ceil(least), 0, target.objective)
        if not loss.loses or not loss.reaches(wanted):
            raise UsageError(
                f"{target.method} has a {target.objective} of {loss.score:.4g} on {item.name}, "
                f"less than {float(least):.4g}"
            )
        loss = wanted
    example = closing.run(item, loss, keep_names=True) if loss.loses else None
    return Hunt(target, example, (), "", 0, clock.seconds(), closing.interrupted)


def _compile(space: HuntSpace[Any], on_progress: OnProgress | None) -> None:
    """Compile every kernel before the clock of the hunt starts.

    Packers and orderings use their compiled kernels, if loaded, instead of reference
    implementations.
    """
    if on_progress is not None:
        on_progress(HuntProgress(0.0, 0, "compiling (once)", None))
    for kernel in (run_place, run_sweep, run_skyline):
        assert kernel.compiled
    rng = Random(0)
    space.loss(space.change(space.random(rng), rng), 0.0)
    for _, items in space.stages(lambda: None):
        for item in items:
            space.loss(item, 0.0)
            return


_KINDS: dict[str, tuple[type[HuntSpace[Any]], type[Judge[Any, Any]]]] = {
    "ordering": (GraphSpace, OrderingJudge),
    "packing": (PackingSpace, PackingJudge),
    "pair": (PairSpace, PairJudge),
}
"""Search space and judge by kind of method."""


@dataclass
class _Closing:
    """Final part of a hunt: shrink an instance and prove its optimum."""

    judge: Judge[Any, Any]
    clock: Clock
    on_progress: OnProgress | None
    interrupted: bool = False

    def run(self, item: Any, wanted: Loss, *, keep_names: bool = False) -> Counterexample:
        """Return the result; rename ops and buffers to letters unless `keep_names` is True."""
        target = self.judge.target
        shrinker: Shrinker[Any] = Shrinker(
            item,
            self.judge.moves,
            lambda smaller: self._keeps(smaller, shrinker.item, wanted),
            lambda: self._is_over(shrinker.item),
        )
        if not self.interrupted:
            try:
                shrinker.run()
            except KeyboardInterrupt:
                self.interrupted = True
        # Names of the search are numbers; letters are easier to talk about.
        core = shrinker.item if keep_names else _relettered(shrinker.item)
        seconds = EFFORT.seconds_after_interrupt if self.interrupted else self.proof_seconds(core)
        optimum = self.judge.optimum(core, seconds)
        names = filter(None, (target.method, target.versus))
        made = {name: self.judge.plan(core, name) for name in names}
        rival = optimum.value if target.versus is None else made[target.versus][0]
        plans = {name: plan for name, (_, plan) in made.items()} | {OPTIMUM: optimum.plan}
        loss = Loss(made[target.method][0], rival, target.objective)
        # A question left open may hide a part that could go.
        minimal = shrinker.minimal and not self.judge.undecided
        return Counterexample(target, core, loss, optimum, plans, minimal)

    def _is_over(self, item: Any) -> bool:
        """Return True if the time to shrink an instance is up."""
        # The plans and the proof of a large result take seconds.
        is_near = not _is_small(item) and self.clock.spent(EFFORT.shrink_share)
        return is_near or self.clock.expired()

    def proof_seconds(self, item: Any) -> float:
        """Return the seconds for a proof: the time left, for a small instance the minimum."""
        left = self.clock.left()
        if left is None or _is_small(item):
            return max(EFFORT.proof_seconds, left or 0.0)
        # Shrinking, and a proof of its result, need the other part.
        return EFFORT.question_share * left

    def _keeps(self, smaller: Any, item: Any, wanted: Loss) -> bool:
        if self.on_progress is not None:
            parts = sum(1 for _ in self.judge.moves.parts(item))
            progress = HuntProgress(self.clock.seconds(), parts, "shrinking, parts left", wanted)
            self.on_progress(progress)
        # One question must not take all the time that is left.
        left, most = self.clock.left(), EFFORT.question_seconds
        return self.judge.reaches(smaller, wanted, most if left is None else min(most, left))


def _is_small(item: Any) -> bool:
    return len(getattr(item, "ops", item)) <= EFFORT.small


def _relettered(item: Any) -> Any:
    """Return a copy in which buffers and ops are called a, b, c, ... in listing order."""
    if isinstance(item, PackingProblem):
        return replace(item, names=tuple(chr(ord("a") + i) for i in range(len(item))))
    names = {op.name: chr(ord("a") + v) for v, op in enumerate(item.ops)}
    return replace(
        item,
        ops=tuple(replace(op, name=names[op.name]) for op in item.ops),
        buffers=tuple(replace(buffer, name=names[buffer.name]) for buffer in item.buffers),
    )
