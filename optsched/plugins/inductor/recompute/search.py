"""The search for a split that fits: which budgets are planned, and when enough were.

ATen ops are fused after the split, so the compiled step needs other bytes than planned. The search
plans ATen ops, and ATen ops joined to likely kernels (:mod:`optsched.solver.recompute.kernels`). It
lowers each split without generating code, simulates its memory
(:mod:`optsched.plugins.inductor.recompute.calibrate`), and moves the planned budget until the
simulated step fits, at most five times: by what the steps need without cuts of fused nodes, and, if
cuts lower any or had no plan small enough for it, by what they need with them, which comes first
where cuts are cheap. If nothing
fits, longer plans are made, and the split of least peak is simulated with the limits of the
compilation. PyTorch's splits that are likely to fit are simulated first, the others only if
nothing fits.

All of it is limited in work that is counted as seconds (:mod:`optsched.runtime.clock`), in
proportion to the nodes of the joint graph: no plan begins after :data:`LONGEST` of it, or after
:data:`ENOUGH` once a split fits, and no split of PyTorch's is simulated after :data:`LAST`. The
rest is for repeats that are taken back (:mod:`optsched.plugins.inductor.recompute.answer`).

Example: budget 10 MB. The first plan is made for 10 MB of ATen ops and simulated with 11 MB after
fusion. The next plan aims at a smaller number of bytes, until the simulated step fits.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from optsched.plugins.inductor.recompute.calibrate import StepMemory
from optsched.plugins.inductor.recompute.joint_step import JointStep
from optsched.plugins.inductor.recompute.models import Model, TorchSplit, Tried
from optsched.plugins.inductor.scheduler_pass import WALL
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.result import RecomputeResult

logger = logging.getLogger("optsched.plugins.inductor")
ROUNDS = 5
"""Most splits of each planned graph that are lowered and simulated."""
LEAST_TURNS = 3
"""Plans of each graph that are made also where this takes the time of the others."""
PARTS = (1 / 3, 1)
"""Parts of the time limit for one plan, as several rounds share it; the second where none fits."""
NEAR = 1.25
"""Most bytes of the ATen ops of a PyTorch split that may fit, in parts of the budget."""
CLOSE = 0.97
"""A simulated peak between this part of the budget and all of it is aimed at."""
LIMIT_NODES, LEAST_LIMITS = 220, 0.8
"""Nodes for which a search has a time limit, and time limits that it has in any case."""
CHEAP = 0.01
"""Cuts of this part of the cost of a step count as cheap."""
LIKELY = 0.5
"""Part of the time for plans after which they begin."""
ENOUGH, LONGEST, LAST = 0.85, 0.9, 0.95
"""Parts of the search after which no plan begins once a split fits, no plan begins at all, and no
split of PyTorch's is simulated."""


def search_seconds(time_limit: float, nodes: int) -> float:
    """Return the counted seconds of a search for a joint graph of some nodes."""
    return time_limit * (LEAST_LIMITS + nodes / LIMIT_NODES)


def search_wall(time_limit: float, nodes: int) -> float:
    """Return the seconds of the wall's clock that end the search for some nodes."""
    return WALL * search_seconds(time_limit, nodes)


def search_clock(time_limit: float, nodes: int) -> Clock:
    """Return the clock of a search, which starts before the joint graph is read."""
    return Clock.of(Limits(seconds=search_seconds(time_limit, nodes)))


class SplitSearch:
    """Splits of one joint graph that were tried.

    `step`: the joint graph. `clock`: its time, from :func:`search_clock`.
    """

    def __init__(self, step: JointStep, clock: Clock) -> None:
        self.step, self.clock = step, clock
        self.budget, self.models = step.settings.peak, step.models()
        self.tried: list[Tried] = []
        self.blocker = "the time was too short"
        if not self.models:
            self.blocker = "no split of PyTorch's fits, and its user has set checkpoint tags"

    def run(self) -> None:
        """Try plans of each planned graph."""
        plans = self.clock.share(LONGEST)
        self._simulate_likely(plans)
        for part in PARTS:
            self._try_models(part, plans)
            # Longer plans take long, and are made only if no step fits so far.
            if self.least() is not None:
                break
        self._look_closely()

    def _simulate_likely(self, plans: Clock) -> None:
        """Simulate PyTorch's split of the nearest peak, then cheaper ones that are likely to fit.

        Plans aim by them, and must cost less than the cheapest one that fits.
        """
        most = NEAR * self.budget if self.step.settings.calibrated else 0
        known = [row for model in self.models[:1] for row in model.known if row[0] <= most]
        if known:
            _, modules = min(known, key=lambda row: abs(row[0] - self.budget))
            self.step.memory(modules)
        while (rows := self._torch_splits()) and not plans.spent(LIKELY):
            if rows[0][0] > self.budget:
                break
            self.step.memory(rows[0][1].modules)

    def _try_models(self, part: float, plans: Clock) -> None:
        """Try plans of each planned graph, with a part of the time limit for each plan."""
        # Steered by peaks after cuts alone, plans can lie where they cost more than without cuts:
        # a plan that just fits after cuts lies beside one that no cuts lower.
        for cuts in (True, False) if self._cuts_are_cheap() else (False, True):
            # Where no cut lowered a peak, the same plans would be tried again.
            if cuts and not self._may_cut():
                break
            for i, model in enumerate(self.models):
                if self.least() == 0 or self._has_enough(cuts):
                    return
                rest = len(self.models) * (1 + (not cuts and self._may_cut())) - i
                self._approach(model, cuts, part, plans, plans.share(1 / rest))

    def _cuts_are_cheap(self) -> bool:
        """Return True if cuts cost little beside what they save, in all splits that they lower."""
        lower = [x for x in self.step.simulated.items() if x[1].peak < x[1].whole]
        dear = CHEAP * self.step.problem.total
        return bool(lower) and all(self.step.cut_cost(modules) <= dear for modules, _ in lower)

    def _look_closely(self) -> None:
        """Simulate the split of least peak as long as it will be compiled, if nothing fits."""
        near = min(self.tried, key=lambda row: row.peak() or 0, default=None)
        if near is not None and self.least() is None and not any(self._fitting_splits(cuts=True)):
            memory = self.step.memory(near.modules, closely=True)
            self.tried.append(near._replace(memory=memory, cuts=self.step.cut_cost(near.modules)))

    def _may_cut(self) -> bool:
        """Return True if cuts lowered a peak, or had no plan small enough to make it fit."""
        lower = any(memory.peak < memory.whole for memory in self.step.simulated.values())
        return lower or self._are_untried()

    def _are_untried(self) -> bool:
        small = any((row.result.peak or 0) <= self.budget for row in self.tried)
        return bool(self.step.settings.split) and not small

    def least(self) -> int | None:
        """Return the extra cost of the cheapest plan that fits as simulated."""
        return min((row.price[0] for row in self.tried if row.fits(self.budget)), default=None)

    def _approach(self, model: Model, cuts: bool, part: float, plans: Clock, clock: Clock) -> None:
        """Plan and simulate with other budgets until the simulated step fits closely.

        Whether it does is asked of its peak with cuts or without. `clock` is the part of `plans`
        for this model.
        """
        budget, rounds = self.budget, len(self.tried) + ROUNDS
        planned, low, high, dark = self._ratio_aim(model, cuts), 0, 0, 0
        if cuts and self._are_untried():
            # Cut back to single ops, a step needs about the planned bytes.
            planned = budget
        seconds = self.step.settings.time_limit * part
        for turn in range(2 * ROUNDS):
            # A single plan says little: the next ones use what the first one has shown.
            if (plans if turn < LEAST_TURNS else clock).expired():
                break
            result = model.planner.plan(planned, plans.limited(seconds))
            if result.sequence is None:
                self.blocker = result.blocker or "no plan was found in time"
                if not self.step.settings.calibrated:
                    break
                # Fused kernels may need less than the ops that were planned. What is proved to be
                # impossible is left in small steps: a plan far above it helps nobody.
                known = None if result.blocker else model.planner.next_peak(planned)
                aim = known or planned * 5 // 4
                # A plan that was not found in time may exist.
                dark, seconds = max(dark, planned), 2 * seconds
            elif self._is_too_dear(result, cuts):
                # What a smaller budget costs is not less, so its bytes need not be known.
                low, aim = planned, max(planned * 21 // 20, self._ratio_aim(model, cuts))
            else:
                row = self._try(model, result)
                simulated = row.peak(cuts)
                logger.debug("%s: planned %s, simulated %s", self.step.name, planned, row.memory)
                # What costs nothing and fits cannot cost less with a larger budget.
                if simulated is None or (row.fits(budget) and not result.extra):
                    break
                # Of a plan that needs less than it may, so much is what does not fit.
                needed = min(planned, result.peak or 0)
                aim = int(needed * budget * (1 + CLOSE) / 2 / max(1, simulated))
                if simulated > budget:
                    high = needed if needed > low else planned
                    # By its ratio, no plan of more bytes than one that was not found fits.
                    if CLOSE * simulated * dark > budget * needed:
                        break
                else:
                    low = max(low, planned)
            is_narrow = 0 < high - low < low // 100
            if len(self.tried) >= rounds or is_narrow or self._has_enough(cuts):
                break
            planned = next_budget(aim, max(low, dark), high)

    def _has_enough(self, cuts: bool) -> bool:
        is_late = self.clock.spent(ENOUGH)
        return is_late and any(row.fits(self.budget, cuts) for row in self.tried)

    def _is_too_dear(self, result: RecomputeResult, cuts: bool) -> bool:
        """Return True if a plan costs as much as one that fits, or more than PyTorch's."""
        extra = result.extra or 0
        fits = [row.price[0] for row in self.tried if row.fits(self.budget, cuts)]
        same = any(row.result.sequence == result.sequence for row in self.tried)
        # Of equal cost ours is taken.
        fits += [cost + 1 for cost, _ in self._fitting_splits(cuts)]
        return not same and extra >= min(fits, default=extra + 1)

    def _fitting_splits(self, cuts: bool) -> Iterator[tuple[int, TorchSplit]]:
        """Yield PyTorch's splits that fit as simulated, with their cost, that of cuts included."""
        for split in self.step.splits:
            memory = self.step.simulated.get(split.modules)
            if memory is not None and (memory.peak if cuts else memory.whole) <= self.budget:
                cost = self.step.cut_cost(split.modules) if cuts else 0
                yield split.extra + cost, split

    def _try(self, model: Model, result: RecomputeResult) -> Tried:
        """Split and simulate a plan, unless it is known."""
        same = (row for row in self.tried if row.what == model.what)
        known = next((row for row in same if row.result.sequence == result.sequence), None)
        if known is None:
            modules = self.step.split(model, result.sequence or ())
            memory, cuts = self.step.memory(modules), self.step.cut_cost(modules)
            known = Tried(memory, result, modules, model.what, cuts)
            self.tried.append(known)
        return known

    def _ratio_aim(self, model: Model, cuts: bool) -> int:
        """Return the bytes to plan by the ratio of planned to simulated bytes of a known split.

        It is the plan of the nearest peak. Before the first plan of a graph it is one of the other
        graph, whose repeats are nearer to those that follow than PyTorch's.
        """
        own = [row for row in self.tried if row.what == model.what]
        rows = self._simulated_peaks(model) if own or not self.tried else []
        rows += [
            (row.result.peak or 0, row.memory)
            for row in own or self.tried
            if row.memory is not None
        ]
        if not rows:
            return self.budget
        if not own and self.tried:
            # Bytes of another graph's plans are compared as simulated.
            peak, memory = min(rows, key=lambda row: abs(_simulated(row[1], cuts) - self.budget))
        else:
            peak, memory = min(rows, key=lambda row: abs(row[0] - self.budget))
        # The ratio of planned to simulated bytes changes little between plans of one graph.
        return int(self.budget * peak / max(1, _simulated(memory, cuts)))

    def _simulated_peaks(self, model: Model) -> list[tuple[int, StepMemory]]:
        """Return peaks of PyTorch's splits that were simulated, as ops and as simulated."""
        rows = [(peak, self.step.simulated.get(modules)) for peak, modules in model.known]
        return [(peak, memory) for peak, memory in rows if memory is not None]

    def torch_split(self) -> TorchSplit | None:
        """Return PyTorch's split of least extra cost that fits as simulated, if it is below ours.

        Of equal cost ours is taken.
        """
        while (rows := self._torch_splits()) and not self.clock.spent(LAST):
            # Those that are likely to need more are simulated only if nothing else fits.
            if self.least() is not None and rows[0][0] * 20 > self.budget * 21:
                break
            self.step.memory(rows[0][1].modules)
        fits, least = list(self._fitting_splits(cuts=True)), self.least()
        cost, best = min(fits, key=lambda row: row[0], default=(0, None))
        return best if least is None or cost < least else None

    def _torch_splits(self) -> list[tuple[int, TorchSplit]]:
        """Return PyTorch's splits that may be better, with the bytes that they are likely to need.

        Of those that are likely to fit the cheapest is first, then those of fewer bytes.
        """
        if not self.step.settings.calibrated:
            return []
        prices = [cost for cost, _ in self._fitting_splits(cuts=True)]
        prices += [cost for cost in (self.least(),) if cost is not None]
        rows = [
            (self._likely_bytes(split), split)
            for split in self.step.splits
            # Lowering takes seconds, and what is saved alone tells of many that they do not fit.
            if split.modules not in self.step.simulated and split.saved <= self.budget
            if not prices or split.extra < min(prices)
        ]
        large = self.budget
        return sorted(rows, key=lambda row: (max(row[0], large), row[1].extra))

    def _likely_bytes(self, split: TorchSplit) -> int:
        """Return the bytes of a split by the ratio of the split of the nearest peak."""
        first = self.models[:1]
        peaks = {modules: peak for model in first for peak, modules in model.known}
        # PyTorch may repeat what a plan must not; of such a split only what it saves is known.
        peak = peaks.get(split.modules, split.saved)
        rows = [row for model in first for row in self._simulated_peaks(model)]
        if not rows:
            return peak
        near, memory = min(rows, key=lambda row: abs(row[0] - peak))
        return peak * memory.peak // max(1, near)


def _simulated(memory: StepMemory, cuts: bool) -> int:
    return memory.peak if cuts else memory.whole


def next_budget(aim: int, low: int, high: int) -> int:
    """Return the next budget to plan: the aim, between budgets known to be too low and too high."""
    if low < high and low:
        # An aim outside the range says nothing, so bisect.
        return aim if low < aim < high else (low + high) // 2
    if high > low:
        return min(aim, high * 19 // 20)
    return max(aim, low + low // 64 + 1)
