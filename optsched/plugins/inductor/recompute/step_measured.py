"""Regions as they are compiled now, and the bytes of the steps in which they were measured.

A measured call holds what its graph needs as planned, what waiting calls have saved, and bytes
beside the calls that no choice of splits changes.

Example: a backward call was planned with 20 bytes and held 50, while a call that saves 10 waited.
So 20 bytes are beside the calls.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from optsched.plugins.inductor.recompute.joint_step import JointStep
from optsched.plugins.inductor.recompute.least_bytes import LeastBytes
from optsched.plugins.inductor.recompute.step_front import SplitFront
from optsched.plugins.inductor.recompute.step_points import SplitPoint
from optsched.plugins.inductor.running.step_calls import Span
from optsched.solver.recompute.step_choice import Moment, StepProblem

_Calls = tuple[tuple[str, bool] | None, tuple[tuple[str, int], ...]]
Shape = tuple[_Calls, ...]
"""The calls of a step in turn, each with those that wait, by which the step is known again."""


@dataclass
class CompiledRegion:
    """A region as it is compiled now, and its splits once they are known."""

    name: str
    """Its name in the records."""
    step: Callable[[], JointStep] | None
    """Function that returns it to be planned, which takes long the first time; None where another
    rank plans it, or nobody does."""
    nodes: int
    """Nodes of both of its graphs."""
    least: tuple[LeastBytes, LeastBytes]
    """Bytes that its forward and its backward call need with every split."""
    limit: int
    """Bytes that its calls may need."""
    total: int
    """Cost of a call without repeats."""
    point: SplitPoint
    """The split that is compiled."""
    kept: frozenset[str]
    """Inputs that the first split saves: they count as live for every split."""
    front: SplitFront | None = None
    """Further splits; None before a choice."""
    points: Sequence[SplitPoint] = ()
    """Splits of the front. PyTorch's default one is the first."""
    owned: set[str] = field(default_factory=set)
    """Inputs that a backward call was seen to own."""

    def note_planned(self, is_backward: bool, planned: int) -> None:
        """Note the planned peak of a graph of the compiled split."""
        name = "backward" if is_backward else "forward"
        figures = self.point.figures._replace(**{name: planned})
        self.point = self.point._replace(figures=figures)


class _Beside(NamedTuple):
    """Bytes at a moment that no choice changes: the most that were measured, and the least.

    The least are those that are live with every split. A split may save inputs or results of its
    call that are live for another reason, or are not: they count among the most alone.
    """

    most: int
    least: int


class MeasuredSteps:
    """Regions by their key, and the steps that were measured."""

    def __init__(self) -> None:
        self.regions: dict[str, CompiledRegion] = {}
        self.steps: dict[Shape, list[_Beside]] = {}

    def note(self, spans: Sequence[Span]) -> None:
        """Note the bytes beside the calls of a measured step."""
        rows = []
        for span in spans:
            if span.running is not None:
                key, is_backward = span.running
                self.regions[key].note_planned(is_backward, span.planned)
            waiting = [(self.regions[key].point, n) for key, n in span.waiting]
            most = span.most - span.planned - sum(n * x.figures.saved for x, n in waiting)
            if span.running is not None:
                waiting.append((self.regions[span.running[0]].point, 1))
            rows.append(_Beside(most, max(0, most - sum(n * x.shared for x, n in waiting))))
        shape = shape_of(spans)
        known = self.steps.get(shape, rows)
        # Of two measurements of one moment, with other splits, the larger one counts.
        self.steps[shape] = [
            _Beside(max(a.most, b.most), min(a.least, b.least))
            for a, b in zip(rows, known, strict=True)
        ]

    @property
    def calls(self) -> Counter[str]:
        """Numbers of runs, forward and back, by region."""
        return sum((calls_of(shape) for shape in self.steps), Counter[str]())

    @property
    def extra(self) -> int:
        """Cost of what runs again in the steps."""
        return sum(n * self.regions[key].point.figures.extra for key, n in self.calls.items())

    @property
    def total(self) -> int:
        """Cost of the steps without repeats."""
        return sum(n * self.regions[key].total for key, n in self.calls.items())

    @property
    def late(self) -> set[str]:
        """Regions whose calls have inputs that the step has made."""
        return {running[0] for x in self.steps for running, waiting in x if running and waiting}

    def problem(self, keys: Sequence[str]) -> StepProblem:
        """Return the choice of a split of each region."""
        calls, place = self.calls, {key: r for r, key in enumerate(keys)}
        moments = []
        for (running, waiting), beside in self._moments():
            runs = None if running is None else (place[running[0]], running[1])
            moments.append(Moment(beside.most, tuple((place[k], n) for k, n in waiting), runs))
        fronts = [[point.figures for point in self.regions[key].points] for key in keys]
        return StepProblem(fronts, [calls[key] for key in keys], moments)

    def blocker(self, peak: int) -> str:
        """Return what needs more bytes than the peak with every split; empty if nothing does."""
        worst, words = peak, ""
        for (running, _), beside in self._moments():
            size, parts = beside.least, list[str]()
            if running is not None:
                region, is_backward = self.regions[running[0]], running[1]
                least = region.least[is_backward]
                size += least.size
                parts.append(f"in the {graph_words(region.name, is_backward)} {least.words}")
            if size > worst:
                held = [f"{beside.least:,} bytes are held beside the calls"]
                worst, words = size, " and ".join(parts + held * bool(beside.least))
        return words

    def fullest(self, problem: StepProblem, keys: Sequence[str], choice: Sequence[int]) -> str:
        """Return the moment at which the chosen splits need most bytes, and its parts."""
        moment = max(problem.moments, key=lambda x: x.bytes(problem.fronts, tuple(choice)))
        waiting = sum(n * problem.fronts[r][choice[r]].saved for r, n in moment.waiting)
        where, parts = "between two calls", list[str]()
        if moment.running is not None:
            r, is_backward = moment.running
            region = self.regions[keys[r]]
            point = region.points[choice[r]]
            where = f"in the {graph_words(region.name, is_backward)}"
            where += f" at op {point.at[is_backward]!r}" if point.at[is_backward] else ""
            results = region.least[is_backward].results
            what = "gradients" if is_backward else "results"
            own = f"{point.figures[2 + is_backward]:,} bytes of the graph"
            parts.append(f"{own} ({results:,} of them {what})" if results else own)
        parts += [f"{moment.base:,} held beside the calls"] * (moment.base > 0)
        parts += [f"{waiting:,} saved by waiting graphs"] * (waiting > 0)
        return f"{where}: {', '.join(parts)}"

    def _moments(self) -> Iterator[tuple[_Calls, _Beside]]:
        for shape, rows in self.steps.items():
            yield from zip(shape, rows, strict=True)


def shape_of(spans: Sequence[Span]) -> Shape:
    """Return the calls of a step in turn."""
    return tuple((span.running, span.waiting) for span in spans)


def calls_of(shape: Shape) -> Counter[str]:
    """Return how often each region runs forward and back."""
    runs = (running for running, _ in shape if running is not None)
    return Counter(key for key, is_backward in runs if is_backward)


def graph_words(name: str, is_backward: bool) -> str:
    """Return the words for a graph of a region."""
    return f"{'backward' if is_backward else 'forward'} graph of {name}"
