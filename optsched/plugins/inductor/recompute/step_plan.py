"""The plan of a step of several compiled regions: a split of each, so that all of the step fits.

Regions are compiled one after another, so the first step runs each within the peak alone. The next
step is measured (:mod:`optsched.plugins.inductor.running.step_calls`). If it needs more than the
peak, `torch.compiler.reset()` makes torch compile the regions again, and before the first of them
is compiled a split of each is chosen (:mod:`optsched.solver.recompute.step_choice`). That step is
measured as well; if it needs more than the peak, the choice is made again by both measurements.

The ranks of a program with collectives choose together: the first one gets the measurements of all
and decides by the largest (:mod:`optsched.plugins.inductor.recompute.ranks`).

Example: a step calls a region four times, each call saves 1 MB, and the peak is 3 MB. A split that
saves 0.5 MB is chosen for all calls, as all of them run the same code.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from optsched.plugins.inductor.asked import LEAST, share_of
from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.joint_graph import Modules, saved_inputs, waiting_bytes
from optsched.plugins.inductor.recompute.joint_step import JointStep, PeakSettings
from optsched.plugins.inductor.recompute.ranks import (
    MOST_LIMITS,
    RanksError,
    Team,
    all_ranks,
    has_ranks,
)
from optsched.plugins.inductor.recompute.step_file import (
    chosen_data,
    read_chosen,
    read_splits,
    write_splits,
)
from optsched.plugins.inductor.recompute.step_points import Chosen, SplitPoint, split_points
from optsched.plugins.inductor.running.step_calls import Span, StepWatch
from optsched.plugins.records import note_step
from optsched.runtime.text import counted
from optsched.solver.recompute.step_choice import Moment, StepChoice, StepProblem, choose_points

MOST_CHOICES = 3
"""Most choices for one step, each followed by a measured step."""
STEP_SECONDS = 60.0
"""Time in which all ranks must end a step that is measured."""
MOST_UNMEASURED = 8
"""Steps without a measurement of all ranks, after which they give up."""
Shape = tuple[tuple[tuple[str, bool] | None, tuple[tuple[str, int], ...]], ...]
"""The calls of a step in turn, each with those that wait, by which the step is known again."""


@dataclass
class _Compiled:
    """A region as it is compiled now, and its splits once they are known."""

    step: JointStep | None
    """None where another rank has planned it."""
    total: int
    """Cost of a call without repeats."""
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
        # The ranks that call these regions together, and what keeps them from a common choice.
        self._team: Team | None = None
        self._shared: set[str] = set()
        self._is_common = False
        self._unmeasured, self._is_settled, self._trouble, self._line = 0, False, "", ""
        self._lock = threading.RLock()

    def digest(self) -> str:
        """Return a text of all splits that were chosen, for the keys of PyTorch's caches."""
        # Graphs out of a cache are not observed, and those from before a choice are not its own.
        # Of several ranks, all must come to the partitioner, not only those without a cache.
        is_own = self._is_due or self.chosen or self._kept.chosen or has_ranks()
        token = self._token if is_own else ""
        known = token, self._is_due, sorted(self.chosen.items())
        return hashlib.sha256(repr(known).encode()).hexdigest()

    def share(self, team: Team, key: str) -> None:
        """Note that a region calls collectives, so that its ranks choose together."""
        with self._lock:
            if self._team is not None and self._team.ranks != team.ranks:
                team = all_ranks()
            self._team = team
            self._shared.add(key)

    def add(
        self,
        key: str,
        modules: Modules,
        extra: int,
        how: Mapping[str, Any],
        total: int,
        step: JointStep | None = None,
    ) -> None:
        """Add a region that is compiled within the peak alone.

        Parameters
        ----------
        key
            Its digest.
        modules, extra
            Its split, and the cost of what runs again.
        how
            Arguments of the partitioner.
        total
            Cost of a call without repeats.
        step
            The region; None where another rank has planned it.
        """
        with self._lock:
            if key not in self.regions:
                # Another model, or a part of the step that was not measured.
                self.watch.done, self._choice = False, None
                self._held = self._choices = self._unmeasured = 0
                self._is_settled &= key not in self._shared
                self._steps.clear()
                self._seen.clear()
            outputs = int(how["num_fwd_outputs"])
            static = how.get("static_lifetime_input_indices") or ()
            saved = waiting_bytes(modules, outputs)
            kept = frozenset(saved_inputs(modules, outputs, static))
            self.regions[key] = _Compiled(step, total, saved, extra, kept)

    def owned(self, key: str) -> set[str]:
        """Return the inputs that a backward call of a region is seen to own, to be added to."""
        return self.regions[key].owned if key in self.regions else set()

    def find(self, key: str) -> Chosen | None:
        """Return the split chosen for a region; choose first if a measured step asks for it."""
        with self._lock:
            if self._is_due:
                self._is_due = False
                self._choose_together()
            if key in _calls(self._steps) or key in self._shared:
                self._note()
            return self.chosen.get(key)

    def _on_step(self, spans: list[Span], is_measured: bool) -> None:
        """Note a measured step, and have the regions compiled again if it needs too much."""
        with self._lock:
            self._is_over = False
            called = {span.running[0] for span in spans if span.running}
            self._is_common = self._team is not None and bool(called & self._shared)
            if self._team is not None and self._is_common:
                self._see_together(self._team, spans if is_measured else [])
            elif is_measured:
                self._see(spans)
            else:
                return
            is_due = self._is_due or self._is_over
        if is_due:
            # In the middle of a step: the code that runs now stays until its call ends.
            torch.compiler.reset()
        with self._lock:
            self._note()

    def _see_together(self, team: Team, spans: list[Span]) -> None:
        """Take from the first rank what follows from a step that all ranks have ended."""
        if self._is_settled:
            return

        def decide(rows: list[Any]) -> list[Any]:
            self._see_rows(spans, rows, team.ranks)
            text = self._text() if self._steps else self._line
            return [self.watch.done, self._is_due, self._is_over, self._trouble, text]

        try:
            found = team.settle("measured step", spans, decide, wait=STEP_SECONDS)
        except (RanksError, KeptOrderError) as error:
            # The step goes on: each graph is within the peak alone.
            found = [True, False, False, str(error), self._line]
        self.watch.done, self._is_due, self._is_over, self._trouble, self._line = found
        self._is_settled = self.watch.done
        if self._is_over:
            self.chosen.clear()

    def _see_rows(self, spans: list[Span], rows: list[Any], ranks: Sequence[int]) -> None:
        """Note a step by the spans of all ranks, those of this one first."""
        shapes = [[span[:2] for span in row] for row in rows]
        missing = [rank for rank, row in zip(ranks, rows, strict=True) if not row]
        if missing:
            self._unmeasured += 1
            if self._unmeasured == MOST_UNMEASURED:
                self.watch.done, self._trouble = True, f"rank {missing[0]} measures no step"
        elif other := [rank for rank, x in zip(ranks, shapes, strict=True) if x != shapes[0]]:
            self.watch.done = True
            self._trouble = f"rank {ranks[0]} and rank {other[0]} call other graphs in a step"
        else:
            # What lives beside the planned bytes is taken from the rank that holds most.
            beside = [
                max(most - planned for *_, planned, most in x) for x in zip(*rows, strict=True)
            ]
            pairs = zip(spans, beside, strict=True)
            self._see([span._replace(most=span.planned + size) for span, size in pairs])

    def _see(self, spans: list[Span]) -> None:
        self._line = ""
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
        self._line = f"{text}, with the splits that an earlier process chose"
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

    def _choose_together(self) -> None:
        """Choose a split of each region that was measured; the first of several ranks does."""
        if self._team is None or not self._is_common:
            self._choose()
            return

        def decide(_: list[Any]) -> list[Any]:
            self._choose()
            return [chosen_data(self.chosen), self._text()]

        work = MOST_LIMITS * self.settings.time_limit * max(1, len(self.regions))
        rows, line = self._team.settle("choice for the step", None, decide, work=work)
        self._line = line
        if not self._team.leads:
            self.chosen = read_chosen(rows)

    def _choose(self) -> None:
        """Choose a split of each region that was measured."""
        keys = [*_calls(self._steps)]
        late = {running[0] for x in self._steps for running, waiting in x if running and waiting}
        for key in keys:
            region = self.regions[key]
            # The inputs of a first call are live before the step is counted.
            # Only ranks that choose get here, and these have planned all of their regions.
            assert region.step is not None
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
        text = self._line or (self._text() if self._steps else "")
        if self._trouble:
            text += f"{'; ' if text else ''}its ranks make no common choice: {self._trouble}"
        if text:
            note_step(self.settings, text)

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
        total = sum(n * self.regions[key].total for key, n in calls.items())
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
