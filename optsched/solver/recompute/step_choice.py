"""A split of each region of a training step, so that every moment of the step fits a peak.

A step runs several regions, each a forward and a backward graph. For each region there are splits
that save fewer bytes for more extra compute. What a region saves is live while other regions run,
so the splits are chosen together, by CP-SAT: first the least peak of all choices, then the least
extra compute within the peak that is asked for.

Example: regions 0 and 1 each save 10 bytes, or nothing for a cost of 5. While the backward graph of
region 1 runs with 20 bytes, region 0 waits: with a peak of 25 region 0 must save nothing, and
region 1 may save.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from optsched.joint.cpsat.hinted import HintedModel
from optsched.joint.cpsat.solver import EFFORT, SolverThread
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

Choice = tuple[int, ...]
"""By region: the number of its split."""
NEAR = 100
"""Splits are simulated if they would save this part of the extra cost, or of the peak."""
MOST_TURNS = 16
"""Most times that splits are simulated for a choice."""
WORK = 1_000_000
"""Units of work for each of both searches, some ten seconds; small steps take a hundredth."""


class RegionPoint(NamedTuple):
    """A split of a region: extra cost of a call, bytes saved, and peaks of both of its graphs."""

    extra: int
    saved: int
    forward: int
    backward: int


class Moment(NamedTuple):
    """A stretch of a step.

    Parameters
    ----------
    base
        Most bytes that no choice changes; negative if a simulated peak is above the measured one.
    waiting
        Regions with calls that have saved bytes and not run back, and how many calls.
    running
        The region whose graph runs and True for its backward graph; None between calls.
    """

    base: int
    waiting: tuple[tuple[int, int], ...] = ()
    running: tuple[int, bool] | None = None

    def parts(self, fronts: Sequence[Sequence[RegionPoint]]) -> list[tuple[int, int, int]]:
        """Return region, point and bytes that the point adds."""
        found = [
            (region, i, calls * point.saved)
            for region, calls in self.waiting
            for i, point in enumerate(fronts[region])
        ]
        if self.running is not None:
            region, is_backward = self.running
            peaks = [x.backward if is_backward else x.forward for x in fronts[region]]
            found += [(region, i, peak) for i, peak in enumerate(peaks)]
        return found

    def bytes(self, fronts: Sequence[Sequence[RegionPoint]], choice: Choice) -> int:
        """Return the bytes that are live for a choice."""
        return self.base + sum(size for r, i, size in self.parts(fronts) if choice[r] == i)


class StepChoice(NamedTuple):
    """The chosen splits.

    Parameters
    ----------
    points
        By region: the number of its split.
    peak, extra
        Bytes of the step, and its extra cost.
    bound
        No choice within the peak asked for has a smaller extra cost; None if none was found.
    least
        Least peak that was found.
    least_bound
        No choice has a smaller peak.
    """

    points: Choice
    peak: int
    extra: int
    bound: int | None
    least: int
    least_bound: int


@dataclass(frozen=True)
class StepProblem:
    """Fronts of the regions, calls of each in a step, and all moments of the step."""

    fronts: Sequence[Sequence[RegionPoint]]
    calls: Sequence[int]
    moments: Sequence[Moment]

    @property
    def most(self) -> int:
        """Bytes that no choice exceeds."""
        sums = [x.base + sum(size for _, _, size in x.parts(self.fronts)) for x in self.moments]
        return max((0, *sums))

    def peak(self, choice: Choice) -> int:
        """Return the most bytes at any moment."""
        return max((0, *(x.bytes(self.fronts, choice) for x in self.moments)))

    def extra(self, choice: Choice) -> int:
        """Return the extra cost of a step."""
        rows = zip(self.fronts, self.calls, choice, strict=True)
        return sum(calls * front[i].extra for front, calls, i in rows)


def room(problem: StepProblem, choice: Choice, region: int, limit: int) -> RegionPoint:
    """Return what a split of a region may save and need within a limit, the others as chosen.

    Its calls that wait at one moment share the bytes that are left. Numbers are below those of the
    chosen split where the limit is.
    """
    extra, *figures = problem.fronts[region][choice[region]]
    most = [problem.most] * 3
    for moment in problem.moments:
        rest = limit - moment.bytes(problem.fronts, choice)
        waiting = sum(calls for r, calls in moment.waiting if r == region)
        if waiting:
            most[0] = min(most[0], figures[0] + rest // waiting)
        if moment.running is not None and moment.running[0] == region:
            place = 1 + moment.running[1]
            most[place] = min(most[place], figures[place] + rest)
    return RegionPoint(extra, *most)


class _Model(HintedModel[Choice]):
    """One boolean per split; the peak is a variable, at most a limit if one is given."""

    def __init__(self, problem: StepProblem, limit: int | None) -> None:
        super().__init__()
        self.picks = [
            [self.boolean("pick", _is_picked, r, i) for i in range(len(front))]
            for r, front in enumerate(problem.fronts)
        ]
        for row in self.picks:
            self.model.add_exactly_one(row)
        most = problem.most if limit is None else limit
        peak = self.integer(0, most, "peak", problem.peak)
        for moment in problem.moments:
            parts = moment.parts(problem.fronts)
            self.model.add(
                moment.base + sum(size * self.picks[r][i] for r, i, size in parts) <= peak
            )
        if limit is None:
            self.model.minimize(peak)
        else:
            rows = zip(self.picks, problem.fronts, problem.calls, strict=True)
            self.model.minimize(
                sum(
                    calls * point.extra * pick
                    for row, front, calls in rows
                    for pick, point in zip(row, front, strict=True)
                )
            )

    def read(self, value: Callable[[object], int]) -> Choice:
        """Return the choice of a solution."""
        return tuple(next(i for i, pick in enumerate(row) if value(pick)) for row in self.picks)


def _is_picked(choice: Choice, region: int, point: int) -> int:
    return int(choice[region] == point)


def choose_points(problem: StepProblem, peak: int | None) -> StepChoice:
    """Return the splits of least extra cost within a peak, or of the least peak.

    Parameters
    ----------
    problem
        The step; every region has at least one split.
    peak
        Bytes; None, or fewer than any choice needs, for the least peak that was found.
    """
    low, least_bound = _solve(problem, None, problem.peak)
    least = problem.peak(low)
    is_below = peak is not None and peak < least
    # Where nothing fits, the answer is the least peak, at the least cost with which it is reached.
    limit = least if peak is None or is_below else peak
    best, bound = _solve(problem, limit, problem.extra, low)
    return StepChoice(
        best,
        problem.peak(best),
        problem.extra(best),
        None if is_below else bound,
        least,
        least_bound,
    )


class Plans(Protocol):
    """Splits of the regions that are planned, and not simulated yet."""

    def planned(self, region: int, chosen: RegionPoint, is_over: bool) -> list[RegionPoint]:
        """Return estimated figures; new plans may be made near to the chosen split of a region.

        `is_over`: True if splits of fewer bytes than the chosen one are asked for.
        """

    def simulate(self, region: int, planned: RegionPoint) -> list[RegionPoint]:
        """Simulate the plan of some estimated figures, and return what it needs."""


def choose_closely(
    problem: StepProblem, peak: int | None, plans: Plans
) -> tuple[StepProblem, StepChoice]:
    """Choose splits, with further ones that are only planned.

    The best choice is made with the plans, by their estimated figures. Those that it takes are
    simulated, and the choice is made again. It ends where it would hardly save anything.

    Parameters
    ----------
    problem, peak
        As for :func:`choose_points`.
    plans
        The plans.

    Returns
    -------
    tuple
        The step with all splits that are simulated then, and the choice.
    """
    choice = choose_points(problem, peak)
    for _ in range(MOST_TURNS):
        is_over = peak is None or choice.peak > peak
        rows = [
            [*front, *plans.planned(r, front[i], is_over)]
            for r, (front, i) in enumerate(zip(problem.fronts, choice.points, strict=True))
        ]
        best = choose_points(replace(problem, fronts=rows), peak)
        if not _is_better(best, choice, peak):
            break
        fronts = [
            front if i < len(front) else [*front, *plans.simulate(r, row[i])]
            for r, (front, row, i) in enumerate(zip(problem.fronts, rows, best.points, strict=True))
        ]
        problem = replace(problem, fronts=fronts)
        choice = choose_points(problem, peak)
    return problem, choice


def _is_better(best: StepChoice, choice: StepChoice, peak: int | None) -> bool:
    """Return True if a choice would save enough for a simulation, or would fit as none does."""
    if peak is not None and best.peak <= peak:
        return choice.peak > peak or best.extra < choice.extra - choice.extra // NEAR
    return best.peak < choice.peak - choice.peak // NEAR


def _solve(
    problem: StepProblem,
    limit: int | None,
    value: Callable[[Choice], int],
    start: Choice | None = None,
) -> tuple[Choice, int]:
    """Return the best choice and a bound on its value, which it equals if it is proved."""
    known = start or tuple(0 for _ in problem.fronts)
    model = _Model(problem, limit)
    model.add_hint(known)
    clock = Clock.of(Limits(work=WORK))
    run = SolverThread(model, value, clock, EFFORT).run(lambda _: None)
    best = known if run.best is None else min(known, run.best, key=value)
    return best, value(best) if run.finished else run.bound or 0
