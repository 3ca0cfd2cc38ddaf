"""hunt(): search, shrink, prove; hunt_from(): the same from a graph that a user has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Any, Generic, TypeVar

from heuristics import ORDERINGS, PACKINGS
from heuristics.kernels.place import run_place
from heuristics.kernels.skyline import run_skyline
from heuristics.kernels.sweep import run_sweep
from optsched.counterexamples.judges import (
    Judge,
    Optimum,
    OrderJudge,
    PackingJudge,
    PairJudge,
    split,
)
from optsched.counterexamples.loss import Loss, Objective
from optsched.counterexamples.search import Clock, OnProgress, Progress, Search
from optsched.counterexamples.shrink import Shrinker
from optsched.counterexamples.spaces import LiveRanges, PairWirings, Space, Wirings, make_problem
from optsched.counterexamples.wiring import MOST_OPS, Wiring
from optsched.errors import UsageError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.memory_model import refuse_inplace
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan

T = TypeVar("T")
P = TypeVar("P")

SEARCH_SHARE = 0.85
"""Of the time, for the search; the rest is for shrinking."""
QUESTION_SECONDS = 10.0
"""At most, for one question of a shrinking; what is open then counts as no."""
PROOF_SECONDS = 30.0
"""At least, for the proof of the find."""
HURRIED_SECONDS = 5.0
"""The same after an interrupt."""
OPTIMUM = "optimum"
"""Names the plan that is best, among the plans of methods."""


@dataclass(frozen=True, slots=True)
class Quarry:
    """What is hunted, and for how long.

    Parameters
    ----------
    method
        An ordering, a packer, or `ordering+packer`.
    versus
        A method of the same kind that is to do better; None for the optimum.
    objective
        What is made large.
    max_ops, max_bytes
        Ops (or buffers, for a packer) and bytes of a buffer, at most.
    seconds, tries
        Limits; with a limit on tries that ends first, the same seed gives the same find.
    seed
        Of the random changes.
    at_least
        In a shrinking: the loss that is kept; that of the given graph if None.
    """

    method: str
    versus: str | None = None
    objective: Objective = Objective.RATIO
    max_ops: int = 10
    max_bytes: int = 100
    seconds: float | None = 60.0
    tries: int | None = None
    seed: int = 0
    at_least: Fraction | None = None

    def __post_init__(self) -> None:
        kinds = {kind_of(name) for name in (self.method, self.versus) if name is not None}
        if len(kinds) > 1:
            raise UsageError(f"{self.method} and {self.versus} are methods of different kinds")
        if self.versus == self.method:
            raise UsageError(f"{self.method} can not lose to itself")
        if not 2 <= self.max_ops <= MOST_OPS:
            raise UsageError(f"a hunt takes 2 to {MOST_OPS} ops, got {self.max_ops}")


@dataclass(frozen=True, slots=True)
class Find(Generic[T, P]):
    """An instance on which the method loses, with the plans that show it.

    Parameters
    ----------
    quarry
        What was wanted.
    item
        The instance.
    loss
        The method's bytes and its rival's.
    optimum
        The best plan, and its proof.
    plans
        Plans by method; the best one under :data:`OPTIMUM`.
    minimal
        Whether no op, edge or buffer can go without making the loss smaller than the one kept.
    """

    quarry: Quarry
    item: T
    loss: Loss
    optimum: Optimum[P]
    plans: Mapping[str, P]
    minimal: bool

    @property
    def rival(self) -> str:
        """The name under which the better plan stands."""
        return self.quarry.versus or OPTIMUM


class GraphFind(Find[Graph, Plan]):
    """A graph on which an ordering, or a pair, loses."""


class PackingFind(Find[PackingProblem, IntArray]):
    """Live ranges on which a packer loses."""


AnyFind = GraphFind | PackingFind


@dataclass(frozen=True, slots=True)
class Hunt:
    """How a hunt went.

    Parameters
    ----------
    find
        The worst instance, or None where the method never lost.
    exhausted
        What was enumerated to the end, in words.
    scope
        What holds of all of it.
    tried
        Instances judged, those of the shrinking left out.
    seconds
        All in all.
    interrupted
        Whether the user ended it.
    """

    find: AnyFind | None
    exhausted: tuple[str, ...]
    scope: str
    tried: int
    seconds: float
    interrupted: bool


def kind_of(method: str) -> str:
    """Return `ordering`, `packing` or `pair`.

    Raises
    ------
    UsageError
        If there is no such method.
    """
    if method in ORDERINGS:
        return "ordering"
    if method in PACKINGS:
        return "packing"
    ordering, packing = split(method)
    if ordering in ORDERINGS and packing in PACKINGS:
        return "pair"
    known = ", ".join((*ORDERINGS, *PACKINGS))
    raise UsageError(f"unknown method {method!r}; known are ordering+packing, and {known}")


def hunt(quarry: Quarry, *, name: str = "found", on_progress: OnProgress | None = None) -> Hunt:
    """Find a small instance on which a method is as bad as possible.

    All instances of the smallest sizes are enumerated, then others are changed at random; the
    worst is shrunk, and its optimum proved in two ways. Ctrl-C keeps the worst so far.
    """
    space, judge = _tools(quarry)
    _compile(space, on_progress)
    clock = Clock(quarry.seconds, quarry.tries)
    within = Clock(_share(quarry.seconds, SEARCH_SHARE), quarry.tries)
    search = Search(space, within, quarry.seed, on_progress)
    interrupted = False
    try:
        search.run()
    except KeyboardInterrupt:
        interrupted = True
    find = None
    if search.best is not None and search.loss is not None:
        item = _named(search.best, name)
        find, again = _close_in(quarry, judge, item, search.loss, clock, interrupted, on_progress)
        interrupted = interrupted or again
    return Hunt(
        find, tuple(search.exhausted), space.scope, search.tried, clock.elapsed(), interrupted
    )


def hunt_from(
    item: Graph | PackingProblem, quarry: Quarry, *, on_progress: OnProgress | None = None
) -> Hunt:
    """Shrink an instance to a minimal core on which the method still loses as much.

    Raises
    ------
    UsageError
        If the instance is not of the method's kind, is in-place, or loses less than is wanted.
    """
    if isinstance(item, PackingProblem) != (kind_of(quarry.method) == "packing"):
        wanted = "live ranges (a MiniMalloc CSV)" if isinstance(item, Graph) else "a graph"
        raise UsageError(f"{quarry.method} is judged on {wanted}")
    if isinstance(item, Graph):
        refuse_inplace(item, "hunts")
    _, judge = _tools(quarry)
    clock = Clock(quarry.seconds, None)
    if on_progress is not None:
        on_progress(Progress(0.0, 0, f"the loss of {item.name}", None))
    loss = _loss_of(quarry, judge, item, _seconds(quarry, clock))
    if quarry.at_least is not None:
        wanted_loss = _at_least(quarry)
        if not loss.loses or not loss.reaches(wanted_loss):
            raise UsageError(
                f"{quarry.method} has a {quarry.objective} of {loss.score:.4g} on {item.name}, "
                f"less than {float(quarry.at_least):.4g}"
            )
        loss = wanted_loss
    if not loss.loses:
        return Hunt(None, (), "", 0, clock.elapsed(), False)
    find, interrupted = _close_in(quarry, judge, item, loss, clock, False, on_progress, True)
    return Hunt(find, (), "", 0, clock.elapsed(), interrupted)


def _compile(space: Space[Any], on_progress: OnProgress | None) -> None:
    """Use every kernel once, so that compiling them takes no time of the hunt.

    Once they are there, packers and orderings prefer compiled kernels to their twins.
    """
    if on_progress is not None:
        on_progress(Progress(0.0, 0, "compiling (once)", None))
    for kernel in (run_place, run_sweep, run_skyline):
        assert kernel.compiled
    rng = Random(0)
    space.loss(space.change(space.random(rng), rng), 0.0)
    for _, items in space.stages(lambda: None):
        for item in items:
            space.loss(item, 0.0)
            return


def _tools(quarry: Quarry) -> tuple[Space[Any], Judge[Any, Any]]:
    makers: dict[str, tuple[Any, Any]] = {
        "ordering": (Wirings, OrderJudge),
        "packing": (LiveRanges, PackingJudge),
        "pair": (PairWirings, PairJudge),
    }
    space, judge = makers[kind_of(quarry.method)]
    method = quarry.method, quarry.versus, quarry.objective
    return space(*method, quarry.max_ops, quarry.max_bytes), judge(*method)


def _close_in(
    quarry: Quarry,
    judge: Judge[T, P],
    item: T,
    target: Loss,
    clock: Clock,
    interrupted: bool,
    on_progress: OnProgress | None,
    given: bool = False,
) -> tuple[Any, bool]:
    """Shrink what has a loss, and prove it; what was given by a user keeps its names."""

    def keeps(smaller: T) -> bool:
        if on_progress is not None:
            parts = sum(1 for _ in judge.ways.parts(shrinker.item))
            on_progress(Progress(clock.elapsed(), parts, "shrinking, parts left", target))
        seconds = QUESTION_SECONDS if quarry.seconds is None else quarry.seconds - clock.elapsed()
        return judge.reaches(smaller, target, min(QUESTION_SECONDS, max(0.0, seconds)))

    shrinker = Shrinker(item, judge.ways, keeps, lambda: clock.is_over(0))
    if not interrupted:
        try:
            shrinker.run()
        except KeyboardInterrupt:
            interrupted = True
    core: Any = shrinker.item if given else _relettered(shrinker.item)
    optimum = judge.optimum(core, HURRIED_SECONDS if interrupted else _seconds(quarry, clock))
    names = [quarry.method] if quarry.versus is None else [quarry.method, quarry.versus]
    made = {name: judge.plan(core, name) for name in names}
    rival = optimum.value if quarry.versus is None else made[quarry.versus][0]
    plans = {name: plan for name, (_, plan) in made.items()} | {OPTIMUM: optimum.plan}
    loss = Loss(made[quarry.method][0], rival, quarry.objective)
    minimal = shrinker.minimal and not judge.undecided
    kind: Any = PackingFind if isinstance(core, PackingProblem) else GraphFind
    return kind(quarry, core, loss, optimum, plans, minimal), interrupted


def _loss_of(quarry: Quarry, judge: Judge[T, P], item: T, seconds: float) -> Loss:
    value, _ = judge.plan(item, quarry.method)
    if quarry.versus is None:
        return Loss(value, judge.best(item, seconds), quarry.objective)
    return Loss(value, judge.plan(item, quarry.versus)[0], quarry.objective)


def _at_least(quarry: Quarry) -> Loss:
    wanted = quarry.at_least or Fraction(1)
    if quarry.objective is Objective.DIFFERENCE:
        return Loss(-(-wanted.numerator // wanted.denominator), 0, quarry.objective)
    return Loss(wanted.numerator, wanted.denominator, quarry.objective)


def _relettered(item: Any) -> Any:
    """Return the same with buffers, and ops, called a, b, c, ... in the order of their letters."""
    if isinstance(item, PackingProblem):
        return replace(item, names=tuple(chr(ord("a") + i) for i in range(len(item))))
    names = {op.name: chr(ord("a") + v) for v, op in enumerate(item.ops)}
    return replace(
        item,
        ops=tuple(replace(op, name=names[op.name]) for op in item.ops),
        buffers=tuple(replace(buffer, name=names[buffer.name]) for buffer in item.buffers),
    )


def _named(item: Any, name: str) -> Graph | PackingProblem:
    return item.graph(name) if isinstance(item, Wiring) else make_problem(item, name)


def _share(seconds: float | None, share: float) -> float | None:
    return None if seconds is None else share * seconds


def _seconds(quarry: Quarry, clock: Clock) -> float:
    """Seconds for a proof: what is left, but enough."""
    left = PROOF_SECONDS if quarry.seconds is None else quarry.seconds - clock.elapsed()
    return max(PROOF_SECONDS, left)
