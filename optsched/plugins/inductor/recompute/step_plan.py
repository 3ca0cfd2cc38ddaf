"""The plan of a step of several compiled regions: a split of each, so that all of the step fits.

Regions are compiled one after another, so the first step runs each within the peak alone. The next
step is measured (:mod:`optsched.plugins.inductor.running.step_calls`). If it needs more than the
peak, `torch.compiler.reset()` makes torch compile the regions again, and before the first of them
is compiled a split of each is chosen (:mod:`optsched.solver.recompute.step_choice`). That step is
measured as well; if it needs more than the peak, the choice is made again by both measurements.

Example: a step calls a region four times, each call saves 1 MB, and the peak is 3 MB. A split that
saves 0.5 MB is chosen for all calls, as all of them run the same code.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from optsched.plugins.inductor.asked import LEAST, share_of
from optsched.plugins.inductor.recompute.joint_graph import Modules, saved_inputs, waiting_bytes
from optsched.plugins.inductor.recompute.joint_step import JointStep, PeakSettings
from optsched.plugins.inductor.recompute.step_file import read_splits, write_splits
from optsched.plugins.inductor.recompute.step_points import Chosen, SplitPoint, split_points
from optsched.plugins.inductor.running.step_calls import Span, StepWatch
from optsched.plugins.records import note_step
from optsched.runtime.text import counted
from optsched.solver.recompute.step_choice import Moment, StepChoice, StepProblem, choose_points

MOST_CHOICES = 3
"""Most choices for one step, each followed by a measured step."""
Shape = tuple[tuple[tuple[str, bool] | None, tuple[tuple[str, int], ...]], ...]
"""The calls of a step in turn, each with those that wait, by which the step is known again."""


@dataclass
class _Compiled:
    """A region as it is compiled now, and its splits once they are known."""

    step: JointStep
    saved: int
    """Bytes that a call saves."""
    extra: int
    """Cost of what runs again in a call."""
    kept: frozenset[str]
    """Inputs that the first split saves: they count as live for every split."""
    points: Sequence[SplitPoint] = ()
    """PyTorch's default split is the first one."""
    owned: set[str] = field(default_factory=set)
    """Inputs that a backward call was seen to own."""


class StepPlan:
    """The regions that are compiled with equal settings, and the splits chosen for them.

    Parameters
    ----------
    settings
        The settings; their peak is that of the step.
    """

    def __init__(self, settings: PeakSettings) -> None:
        self.settings, self.watch = settings, StepWatch(self._on_step)
        self.regions: dict[str, _Compiled] = {}
        self._kept = read_splits(settings)
        self.chosen = dict(self._kept.chosen)
        self._token = uuid4().hex
        self._choice: StepChoice | None = None
        # By step that was measured: the bytes of each moment that no choice changes.
        self._steps: dict[Shape, list[int]] = {}
        # Steps that were measured since the last compilation.
        self._seen: set[Shape] = set()
        self._asked: int | None = None if settings.ask else settings.peak
        self._held = self._choices = 0
        self._is_due = self._is_over = False
        self._lock = threading.RLock()

    def digest(self) -> str:
        """Return a text of all splits that were chosen, for the keys of PyTorch's caches."""
        # Graphs out of a cache are not observed, and those from before a choice are not its own.
        token = self._token if self._is_due or self.chosen or self._kept.chosen else ""
        known = token, self._is_due, sorted(self.chosen.items())
        return hashlib.sha256(repr(known).encode()).hexdigest()

    def add(self, key: str, step: JointStep, modules: Modules, extra: int) -> None:
        """Add a region that is compiled within the peak alone."""
        with self._lock:
            if key not in self.regions:
                # Another model, or a part of the step that was not measured.
                self.watch.done, self._choice = False, None
                self._held = self._choices = 0
                self._steps.clear()
                self._seen.clear()
            saved = waiting_bytes(modules, step.outputs)
            kept = frozenset(saved_inputs(modules, step.outputs, step.static))
            self.regions[key] = _Compiled(step, saved, extra, kept)

    def owned(self, key: str) -> set[str]:
        """Return the inputs that a backward call of a region is seen to own, to be added to."""
        return self.regions[key].owned if key in self.regions else set()

    def find(self, key: str) -> Chosen | None:
        """Return the split chosen for a region; choose first if a measured step asks for it."""
        with self._lock:
            if self._is_due:
                self._is_due = False
                self._choose()
            if key in _calls(self._steps):
                self._note()
            return self.chosen.get(key)

    def _on_step(self, spans: list[Span]) -> None:
        """Note a measured step, and have the regions compiled again if it needs too much."""
        with self._lock:
            self._is_over = False
            self._see(spans)
            is_due = self._is_due or self._is_over
        if is_due:
            # In the middle of a step: the code that runs now stays until its call ends.
            torch.compiler.reset()
        with self._lock:
            self._note()

    def _see(self, spans: list[Span]) -> None:
        shape = tuple((span.running, span.waiting) for span in spans)
        # One that comes again ends the measurements: all kinds of steps were seen.
        self.watch.done = shape in self._seen
        self._seen.add(shape)
        calls = _calls([shape])
        # A single graph is within the peak already.
        if self.watch.done or calls.total() < 2:
            return
        if not calls.keys() <= self.regions.keys():
            self._see_kept(calls, max(span.most for span in spans))
            return
        self._note_bases(shape, spans)
        self._held = max(self._held, *(span.most for span in spans))
        limit = self._limit
        if (limit is None or self._held > limit) and self._choices < MOST_CHOICES:
            self._is_due = True
            self._seen.clear()

    def _see_kept(self, calls: Counter[str], held: int) -> None:
        """Note a step with splits of an earlier process; start again if it needs more than planned.

        The step may be another one, such as of a model with more layers of the same kind.
        """
        if not calls.keys() <= self.chosen.keys() | self.regions.keys():
            return
        limit = max(self._kept.peak, self._asked or 0)
        self._is_over = held > limit
        asked = self.settings.ask or f"{self.settings.peak:,} bytes"
        count = f"{counted(calls.total(), 'call')} of {counted(len(calls), 'graph')}"
        text = f"step of {count}: asked {asked}, held {held:,} as measured"
        note_step(self.settings, f"{text}, with the splits that an earlier process chose")
        if self._is_over:
            self.chosen.clear()
            self._seen.clear()

    @property
    def _limit(self) -> int | None:
        """Bytes that the step may hold; None if a choice must tell."""
        if self._choice is None:
            return self._asked
        return max(self._choice.peak, self._asked or 0)

    def _note_bases(self, shape: Shape, spans: Sequence[Span]) -> None:
        bases = []
        for span in spans:
            waiting = sum(n * self.regions[key].saved for key, n in span.waiting)
            bases.append(span.most - waiting - span.planned)
        # Of two measurements of one moment, with other splits, the larger one counts.
        known = self._steps.get(shape, bases)
        self._steps[shape] = [max(pair) for pair in zip(bases, known, strict=True)]

    def _choose(self) -> None:
        """Choose a split of each region that was measured."""
        keys = [*_calls(self._steps)]
        late = {running[0] for x in self._steps for running, waiting in x if running and waiting}
        for key in keys:
            region = self.regions[key]
            # The inputs of a first call are live before the step is counted.
            given = region.step.joint.graph.find_nodes(op="placeholder")
            kept = region.kept if key in late else {node.name for node in given}
            # Another graph is compiled now, and tensors of two fake modes cannot meet.
            with unset_fake_temporarily():
                points = region.points or split_points(region.step, region.owned, kept)
            region.points = points
        problem = self._problem(keys)
        if self.settings.ask and self.settings.ask != LEAST:
            self._asked = share_of(self.settings.ask, problem.peak((0,) * len(keys)))
        self._choices, self._held = self._choices + 1, 0
        self._choice = choice = choose_points(problem, self._asked)
        for r, (key, i) in enumerate(zip(keys, choice.points, strict=True)):
            region = self.regions[key]
            point = region.points[i]
            _, _, *peaks = point.figures
            forward, behind = (
                peak + _spare(problem, choice, (r, is_behind), self._limit or 0)
                for peak, is_behind in zip(peaks, (False, True), strict=True)
            )
            region.saved, region.extra = point.figures.saved, point.figures.extra
            self.chosen[key] = Chosen(point, (forward, behind))
        write_splits(self.settings, self.chosen, choice.peak)

    def _problem(self, keys: Sequence[str]) -> StepProblem:
        calls, place = _calls(self._steps), {key: r for r, key in enumerate(keys)}
        moments = []
        for shape, bases in self._steps.items():
            for (running, waiting), base in zip(shape, bases, strict=True):
                runs = None if running is None else (place[running[0]], running[1])
                moments.append(Moment(base, tuple((place[key], n) for key, n in waiting), runs))
        fronts = [[point.figures for point in self.regions[key].points] for key in keys]
        return StepProblem(fronts, [calls[key] for key in keys], moments)

    def _note(self) -> None:
        """Put the line on the step among the records."""
        if self._steps:
            note_step(self.settings, self._text())

    def _text(self) -> str:
        """Return the bytes asked and held, and the price with its bound, in one line."""
        calls, choice, ask = _calls(self._steps), self._choice, self.settings.ask
        asked = f"{self._asked or 0:,} bytes"
        asked = f"{ask} ({asked})" if ask and self._asked is not None else ask or asked
        held = f"held {self._held:,} as measured"
        if choice is not None and not self._held:
            held = f"planned {choice.peak:,}"
        cost = self._share(sum(n * self.regions[key].extra for key, n in calls.items()))
        count = f"{counted(calls.total(), 'call')} of {counted(len(calls), 'graph')}"
        text = f"step of {count}: asked {asked}, {held}, for {cost:.2%} more compute"
        if choice is None:
            return text
        if choice.bound is None:
            text += ", as no choice of their splits fits"
        else:
            text += f" (at least {self._share(choice.bound):.2%} with their splits)"
        return f"{text}; the least peak of their splits is {choice.least:,} bytes"

    def _share(self, cost: int) -> float:
        """Return a cost as a part of that of a step without repeats."""
        calls = _calls(self._steps)
        total = sum(n * self.regions[key].step.problem.total for key, n in calls.items())
        return cost / max(1, total)


def _calls(shapes: Iterable[Shape]) -> Counter[str]:
    """Return how often each region runs forward and back."""
    runs = (running for shape in shapes for running, _ in shape if running is not None)
    return Counter(key for key, is_backward in runs if is_backward)


def _spare(problem: StepProblem, choice: StepChoice, running: tuple[int, bool], limit: int) -> int:
    """Return the bytes that a graph may need beyond its peak at all moments at which it runs."""
    moments = [moment for moment in problem.moments if moment.running == running]
    most = (moment.bytes(problem.fronts, choice.points) for moment in moments)
    return max(0, limit - max(most, default=limit))
