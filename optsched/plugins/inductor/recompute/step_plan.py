"""The plan of a step of several compiled regions: a split of each, so that all of the step fits.

Regions are compiled one after another, so the first step runs each within the peak alone. The next
step is measured (:mod:`optsched.plugins.inductor.running.step_calls`). If it needs more than the
peak, `torch.compiler.reset()` makes torch compile the regions again, and before the first of them
is compiled a split of each is chosen (:mod:`optsched.solver.recompute.step_choice`). That step is
measured as well; if it needs more than the peak, the choice is made again by both measurements. A
step of one call is chosen again only where it holds bytes that its plan does not count.

A peak below what a moment of the measured step needs with every split is refused at once, and the
step stays as it is (:mod:`optsched.plugins.inductor.recompute.step_measured`). The ranks of a
program with collectives choose together (:mod:`optsched.plugins.inductor.recompute.step_team`).

Example: a step calls a region four times, each call saves 1 MB, and the peak is 3 MB. A split that
saves 0.5 MB is chosen for all calls, as all of them run the same code.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from optsched.plugins.gain import worth_it
from optsched.plugins.inductor.asked import LEAST, share_of
from optsched.plugins.inductor.recompute.answer import Answer
from optsched.plugins.inductor.recompute.joint_graph import held_bytes, saved_inputs, waiting_bytes
from optsched.plugins.inductor.recompute.joint_step import JointStep, PeakSettings
from optsched.plugins.inductor.recompute.least_bytes import LeastBytes
from optsched.plugins.inductor.recompute.ranks import Team, has_ranks, longest
from optsched.plugins.inductor.recompute.search import search_wall
from optsched.plugins.inductor.recompute.step_file import (
    chosen_data,
    read_chosen,
    read_splits,
    write_splits,
)
from optsched.plugins.inductor.recompute.step_front import SplitFront
from optsched.plugins.inductor.recompute.step_measured import (
    CompiledRegion,
    MeasuredSteps,
    Shape,
    calls_of,
    shape_of,
)
from optsched.plugins.inductor.recompute.step_points import Chosen, SplitPoint
from optsched.plugins.inductor.recompute.step_team import StepTeam
from optsched.plugins.inductor.running.step_calls import Span, StepWatch
from optsched.plugins.records import note_step
from optsched.runtime.clock import counted_seconds
from optsched.runtime.text import counted
from optsched.solver.recompute.step_choice import RegionPoint, StepChoice, choose_closely, room

MOST_CHOICES = 3
"""Most choices for one step, each followed by a measured step."""


class StepPlan:
    """The regions that are compiled with equal settings, and the splits chosen for them.

    Parameters
    ----------
    settings
        The settings; their peak is that of the step.
    """

    def __init__(self, settings: PeakSettings) -> None:
        self.settings, self.watch = settings, StepWatch(self._on_step)
        self.measured, self.team = MeasuredSteps(), StepTeam()
        self._kept = read_splits(settings)
        self.chosen = dict(self._kept.chosen)
        self._token = uuid4().hex
        self._choice: StepChoice | None = None
        # Steps that were measured since the last compilation.
        self._seen: set[Shape] = set()
        self._asked: int | None = None if settings.ask else settings.peak
        self._held = self._choices = 0
        self._is_due = self._is_over = False
        # What makes the peak impossible, the fullest moment of the choice, and the line of a step
        # planned by another process.
        self._blocker = self._fullest = self._line = ""
        self._lock = threading.RLock()

    def digest(self) -> str:
        """Return a text of all splits that were chosen, for PyTorch's cache of joint graphs."""
        # Joint graphs out of this cache do not come to the partitioner, so their calls are not
        # observed. Of several ranks all must come, not only those without a cache.
        is_own = self._is_due or self.chosen or self._kept.chosen or has_ranks()
        token = self._token if is_own else ""
        known = token, self._is_due, sorted(self.chosen.items())
        return hashlib.sha256(repr(known).encode()).hexdigest()

    def share(self, team: Team, key: str) -> None:
        """Note that a region calls collectives, so that its ranks choose together."""
        with self._lock:
            self.team.share(team, key)

    def add(
        self,
        key: str,
        name: str,
        answer: Answer,
        how: Mapping[str, Any],
        total: int,
        least: tuple[LeastBytes, LeastBytes],
        limit: int,
        step: Callable[[], JointStep] | None = None,
    ) -> None:
        """Add a region that is compiled within the peak alone.

        Parameters
        ----------
        key
            Its digest.
        name
            Its name in the records.
        answer
            Its split.
        how
            Arguments of the partitioner.
        total
            Cost of a call without repeats.
        least
            Bytes that its forward and its backward call need with every split.
        limit
            Bytes that its calls may need.
        step
            Function that returns the region, to be planned for the step; None where another rank
            plans it, or nobody does.
        """
        with self._lock:
            if key not in self.measured.regions:
                # Another model, or a part of the step that was not measured.
                self.watch.done, self._choice, self._blocker = False, None, ""
                self._held = self._choices = 0
                self.team.add(key)
                self.measured.steps.clear()
                self._seen.clear()
            outputs, modules = int(how["num_fwd_outputs"]), answer.modules
            static = how.get("static_lifetime_input_indices") or ()
            saved, peak = waiting_bytes(modules, outputs), answer.record.after or 0
            figures = RegionPoint(answer.extra, saved, peak, peak)
            shared = held_bytes(modules, outputs, static) - saved
            point = SplitPoint(figures, answer.recipe, answer.owned or 0, shared)
            kept = frozenset(saved_inputs(modules, outputs, static))
            name = name.removesuffix(" joint")
            nodes = sum(len(module.graph.nodes) for module in modules)
            found = CompiledRegion(name, step, nodes, least, limit, total, point, kept)
            self.measured.regions[key] = found

    def owned(self, key: str) -> set[str]:
        """Return the inputs that a backward call of a region is seen to own, to be added to."""
        regions = self.measured.regions
        return regions[key].owned if key in regions else set()

    def find(self, key: str) -> Chosen | None:
        """Return the split chosen for a region; choose first if a measured step asks for it."""
        with self._lock:
            self.watch.note_compiled()
            if self._is_due:
                self._is_due = False
                self._choose_together()
            if key in self.measured.calls or key in self.team.shared:
                self._note()
            return self.chosen.get(key)

    def _on_step(self, spans: list[Span], is_measured: bool) -> None:
        """Note a measured step, and have the regions compiled again if it needs too much."""
        with self._lock:
            self._is_over = False
            if self.team.begin({span.running[0] for span in spans if span.running}):
                self._see_together(spans if is_measured else [])
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

    def _see_together(self, spans: list[Span]) -> None:
        """Take from the first rank what follows from a step that all ranks have ended."""
        if self.team.is_settled:
            return

        def told() -> list[Any]:
            return [self.watch.done, self._is_due, self._is_over, self._text()]

        found = self.team.see(spans, self._see, told) or [True, False, False, self._line]
        self.watch.done, self._is_due, self._is_over, self._line = found
        self.watch.done |= bool(self.team.trouble)
        self.team.is_settled = self.watch.done
        if self._is_over:
            self.chosen.clear()

    def _see(self, spans: list[Span]) -> None:
        self._line = ""
        shape = shape_of(spans)
        # One that comes again ends the measurements: all kinds of steps were seen.
        self.watch.done = shape in self._seen
        self._seen.add(shape)
        calls = calls_of(shape)
        if self.watch.done or self._is_as_said(calls, spans):
            return
        if not calls.keys() <= self.measured.regions.keys():
            self._see_kept(calls, max(span.most for span in spans))
            return
        self.measured.note(spans)
        self._held = max(self._held, *(span.most for span in spans))
        if self._is_refused():
            self.watch.done = True
        elif self._exceeds() and self._choices < MOST_CHOICES:
            self._is_due = True
            self._seen.clear()

    def _is_as_said(self, calls: Counter[str], spans: Sequence[Span]) -> bool:
        """Return True for a single call that was planned alone, unless it holds more than it may.

        It does where the program holds its results, or kernels take bytes that no plan counts.
        A graph that was compiled with more than it may need says so itself.
        """
        held, planned = max(x.most for x in spans), max(x.planned for x in spans)
        if calls.total() > 1 or any(key in self.chosen for key in calls):
            return False
        found = [self.measured.regions[key] for key in calls if key in self.measured.regions]
        if self.settings.ask == LEAST:
            # The loss is beside all plans.
            known = (max(planned, x.limit) for x in found)
            return not any(worth_it(held, size, self.settings.min_gain) for size in known)
        return all(held <= x.limit or planned > x.limit for x in found)

    def _is_refused(self) -> bool:
        """Return True if the step needs more than is asked for with every split."""
        self._blocker = "" if self._asked is None else self.measured.blocker(self._asked)
        return bool(self._blocker)

    def _exceeds(self) -> bool:
        """Return True if the step holds more than it may, or if a choice must tell that."""
        if self._choice is None:
            return self._asked is None or self._held > self._asked
        return self._held > max(self._choice.peak, self._asked or 0)

    def _see_kept(self, calls: Counter[str], held: int) -> None:
        """Note a step with splits of an earlier process; start again if it needs more than planned.

        The step may be another one, such as of a model with more layers of the same kind.
        """
        if not calls.keys() <= self.chosen.keys() | self.measured.regions.keys():
            return
        limit = max(self._kept.peak, self._asked or 0)
        self._is_over = held > limit
        asked = self.settings.ask or f"{self.settings.peak:,} bytes"
        text = f"{_step_of(calls)}: asked {asked}, held {held:,} as measured"
        self._line = f"{text}, with the splits that an earlier process chose"
        if self._is_over:
            self.chosen.clear()
            self._seen.clear()

    def _choose_together(self) -> None:
        """Choose a split of each region that was measured; the first of several ranks does."""
        regions = self.measured.regions.values()
        wall = sum(search_wall(self.settings.time_limit, region.nodes) for region in regions)

        def decide() -> list[Any]:
            # Other processes must not decide what is found.
            with counted_seconds(wall):
                self._choose()
            return [chosen_data(self.chosen), self._text()]

        if not self.team.is_common:
            decide()
            return
        limit = longest(self.settings.time_limit, wall)
        rows, self._line = self.team.choose(decide, limit)
        if not self.team.leads:
            self.chosen = read_chosen(rows)

    def _choose(self) -> None:
        """Choose a split of each region that was measured."""
        keys = [*self.measured.calls]
        for key in keys:
            self._fill(key)
        problem = self.measured.problem(keys)
        if self.settings.ask and self.settings.ask != LEAST:
            self._asked = share_of(self.settings.ask, problem.peak((0,) * len(keys)))
        self._choices, self._held = self._choices + 1, 0

        problem, choice = choose_closely(problem, self._asked, _Plans(self.measured, keys))
        self._choice = choice
        self._fullest = self.measured.fullest(problem, keys, choice.points)
        for r, (key, i) in enumerate(zip(keys, choice.points, strict=True)):
            region = self.measured.regions[key]
            region.point = region.points[i]
            # A graph may need more than its peak where the step leaves it.
            may = room(problem, choice.points, r, max(choice.peak, self._asked or 0))
            figures = region.point.figures
            limits = max(figures.forward, may.forward), max(figures.backward, may.backward)
            self.chosen[key] = Chosen(region.point, limits)
        write_splits(self.settings, self.chosen, choice.peak)

    def _fill(self, key: str) -> None:
        """Find the splits of a region, if they are not known."""
        region = self.measured.regions[key]
        if region.points:
            return
        # Only ranks that choose get here, and these can plan all of their regions.
        assert region.step is not None
        with unset_fake_temporarily():
            step = region.step()
            # The inputs of a first call are live before the step is counted.
            given = step.joint.graph.find_nodes(op="placeholder")
            kept = region.kept if key in self.measured.late else {node.name for node in given}
            front = SplitFront(step, region.owned, kept)
            front.fill(region.point)
        region.front, region.points = front, front.points

    def _note(self) -> None:
        """Put the line on the step among the records."""
        text = self._text()
        if trouble := self.team.trouble:
            text += f"{'; ' if text else ''}its ranks make no common choice: {trouble}"
        if text:
            note_step(self.settings, text)

    def _text(self) -> str:
        """Return the bytes asked and held, and the price with its bound, in one line."""
        if self._line or not self.measured.steps:
            return self._line
        choice, ask = self._choice, self.settings.ask
        asked = f"{self._asked or 0:,} bytes"
        asked = f"{ask} ({asked})" if ask and self._asked is not None else ask or asked
        held = f"held {self._held:,} as measured"
        if choice is not None and not self._held:
            held = f"planned {choice.peak:,}"
        text = f"{_step_of(self.measured.calls)}: asked {asked}, {held}"
        if self._blocker:
            return f"{text}, as no choice of splits fits: {self._blocker}"
        text += f", for {self._share(self.measured.extra):.2%} more compute"
        if choice is None:
            return text
        least = f"the least peak of their splits is {choice.least:,} bytes"
        if choice.bound is not None:
            text += f" (at least {self._share(choice.bound):.2%} with their splits)"
        # Planned bytes may be above those that are held.
        elif not 0 < self._held <= (self._asked or 0):
            text += ", as no choice of their splits fits"
        if choice.bound is None or ask == LEAST:
            least += f", {self._fullest}"
        return f"{text}; {least}"

    def _share(self, cost: int) -> float:
        """Return a cost as a part of that of a step without repeats."""
        return cost / max(1, self.measured.total)


class _Plans(NamedTuple):
    """Plans of the regions of some keys."""

    measured: MeasuredSteps
    keys: Sequence[str]

    def planned(self, region: int, chosen: RegionPoint, is_over: bool) -> list[RegionPoint]:
        """Return estimated figures of plans."""
        # Another graph is compiled now, and tensors of two fake modes cannot meet.
        with unset_fake_temporarily():
            return self._front(region).planned(chosen, is_over)

    def simulate(self, region: int, planned: RegionPoint) -> list[RegionPoint]:
        """Return the figures of a plan as simulated."""
        with unset_fake_temporarily():
            return self._front(region).simulate(planned)

    def _front(self, region: int) -> SplitFront:
        front = self.measured.regions[self.keys[region]].front
        assert front is not None
        return front


def _step_of(calls: Counter[str]) -> str:
    return f"step of {counted(calls.total(), 'call')} of {counted(len(calls), 'graph')}"
