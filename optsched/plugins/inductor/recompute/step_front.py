"""Splits of one region of a step: plans from many bytes saved to few, and simulations of some.

While other regions of a step run, a region that waits holds what it saves. So plans are made for
few saved bytes, with an op between the loss and the backward ops that needs a workspace: of a
budget of workspace plus s bytes at most s are left for what is saved. Plans for a smaller peak of
the region alone, and PyTorch's splits at its budgets, are splits as well.

To lower a split takes ten times as long as to plan it. Its extra cost and what it saves are known
without that, and its peaks are estimated by a simulated split near to it. A choice for the step
takes of the plans those that seem best, and these are simulated.

Example: with a workspace of 100 bytes a plan within 130 bytes saves at most 30.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from optsched.check.runs import check_runs
from optsched.errors import PlanError
from optsched.formats.costs import moved_cost
from optsched.model.elements import Buffer, Op
from optsched.model.graph import Graph
from optsched.plugins.inductor.recompute.calibrate import simulate_step
from optsched.plugins.inductor.recompute.joint_graph import (
    Modules,
    held_bytes,
    saved_inputs,
    waiting_bytes,
)
from optsched.plugins.inductor.recompute.joint_step import ORDER_SECONDS, JointStep
from optsched.plugins.inductor.recompute.models import Model, TorchSplit
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.inductor.recompute.search import search_clock
from optsched.plugins.inductor.recompute.step_points import SplitPoint
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.solve import Planner
from optsched.solver.recompute.step_choice import RegionPoint

SAVED_SHARES = (0.45, 0.8, 0.3, 0.6, 0.15, 0.9, 0.7, 0.37, 0.22, 0.52)
"""Bytes to save, in parts of those live after the loss with PyTorch's default split."""
PEAK_SHARES = (0.7, 0.85, 0.55)
"""Peaks of the region alone, in parts of that of PyTorch's default split."""
FIRST_SHARE = 0.4
"""Part of the limit after which no plan is made for the shares above."""
PART = 0.85
"""Part of the time of a search for the region alone."""
APART, LOWER = 50, 12
"""Plans between two known ones are made unless their bytes differ by less than the first part;
where no choice fits, also for bytes that are lower by the second part."""
HOLD = "between loss and backward ops"


class _Plan(NamedTuple):
    """A plan: its peak and the bytes after the loss as ops, and what it costs and saves.

    `split` has its graphs and how to make them.
    """

    peak: int
    live: int
    extra: int
    saved: int
    split: tuple[Modules, Recipe]


class SplitFront:
    """Splits of a region.

    Parameters
    ----------
    step
        The region.
    owned
        Inputs that a backward call was seen to own.
    kept
        Inputs that were saved, or are live for another reason, when the step was measured.
    """

    def __init__(
        self,
        step: JointStep,
        owned: Collection[str] = (),
        kept: Collection[str] = (),
    ) -> None:
        self.step, self.owned, self.kept = step, owned, kept
        self.points: list[SplitPoint] = []
        """Simulated splits. PyTorch's default split, which repeats nothing, is the first one."""
        self._clock = search_clock(PART * step.settings.time_limit, len(step.joint.graph.nodes))
        self._left = 0.0
        # Ops joined as Inductor is likely to fuse them are nearer to what is compiled.
        self._model = next((model for model in step.models()[::-1] if model.known), None)
        self._known: dict[tuple[int, ...], _Plan] = {}
        """Plans by the sequence of their ops."""
        self._simulated: list[tuple[_Plan, RegionPoint]] = []
        self._waiting: list[_Plan] = []
        self._asked: set[tuple[int, int]] = set()
        self._planners: dict[int, Planner] = {}

    def fill(self, compiled: SplitPoint | None = None) -> None:
        """Plan splits from many bytes saved to few; one may be compiled and measured already."""
        budget = None if compiled is None else compiled.recipe.budget
        memory = self.step.simulated.get(self.step.default)
        if memory is not None:
            # In an order for a peak of its own the compiled split may need more than others.
            plan = self._theirs(self.step.splits[0])
            self._simulated.append((plan, RegionPoint(plan.extra, plan.saved, *memory.uncut)))
        for split in self.step.splits:
            plan = self._theirs(split)
            if compiled is not None and split.budget == budget:
                self._note(plan, [compiled])
            elif not self.points or self._model is None:
                self._note(plan, self._simulate(plan))
                continue
            if plan not in self._waiting:
                self._waiting.append(plan)
        if compiled is not None and compiled.recipe.runs and self._model is not None:
            ids = self.step.graph.op_ids
            ops = [ids[name] for name, _ in compiled.recipe.runs if name in ids]
            sequence = tuple(self._model.ops.sequence(ops))
            self._note(self._made(sequence, compiled.figures.extra), [compiled])
        for target in self._first_targets():
            if not self._clock.spent(FIRST_SHARE):
                self._plan(*target)
        self._left = self._clock.left() or 0.0

    def _first_targets(self) -> Iterator[tuple[int, int]]:
        """Yield peaks of ops and bytes to save: no repeats, few saved bytes, then a small peak."""
        if self._model is not None:
            planner = self._model.planner
            peak, live = self._figures(planner.known[0])
            yield (planner.base.peak,) * 2
            yield from ((peak + int(share * live), int(share * live)) for share in SAVED_SHARES)
            yield from ((int(share * peak),) * 2 for share in PEAK_SHARES)

    def planned(self, chosen: RegionPoint, is_over: bool) -> list[RegionPoint]:
        """Return estimated figures of plans, new ones near to a chosen split among them.

        `is_over`: True if plans of fewer bytes are asked for as well.
        """
        # Time that other regions took in between does not count.
        self._clock = Clock.of(Limits(seconds=self._left))
        for target in self._targets(chosen, is_over):
            if not self._clock.expired():
                self._plan(*target)
        self._left = self._clock.left() or 0.0
        return [self._estimate(plan) for plan in self._waiting] if self._left else []

    def simulate(self, planned: RegionPoint) -> list[RegionPoint]:
        """Simulate the plan of some estimated figures; return its figures, with cuts and without.

        The same plan is never returned by :meth:`planned` again.
        """
        self._clock = Clock.of(Limits(seconds=self._left))
        plan = next(x for x in self._waiting if self._estimate(x) == planned)
        self._waiting.remove(plan)
        found = self._simulate(plan)
        self._note(plan, found)
        self._left = self._clock.left() or 0.0
        return [x.figures for x in found]

    def _targets(self, chosen: RegionPoint, is_over: bool) -> Iterator[tuple[int, int]]:
        """Yield peaks of ops and bytes to save of plans beside a chosen split."""
        found = next((plan for plan, figures in self._simulated if figures == chosen), None)
        if self._model is None or found is None or not found.peak:
            return
        room = self._figures(self._model.planner.known[0])[0]
        lives = list[int]()
        for plan in sorted(self._known.values(), key=lambda x: (x.extra, x.live)):
            if plan.peak and (not lives or plan.live < lives[-1]):
                lives.append(plan.live)
        at = sum(live > found.live for live in lives)
        for other in lives[max(0, at - 1) : at + 2]:
            if abs(other - found.live) * APART > found.live:
                live = (other + found.live) // 2
                yield room + live, live
        if is_over:
            live, peak = (x - x // LOWER for x in (found.live, found.peak))
            yield from ((room + live, live), (peak, peak))

    def _estimate(self, plan: _Plan) -> RegionPoint:
        """Return the figures of a plan, its peaks by the ratio of the simulated plan next to it."""
        if not plan.peak:
            return RegionPoint(plan.extra, plan.saved, 0, 0)
        near, figures = min(
            (row for row in self._simulated if row[0].peak),
            key=lambda row: (
                abs(row[0].live - plan.live) / max(1, plan.live)
                + abs(row[0].peak - plan.peak) / plan.peak
            ),
        )
        peaks = (x * plan.peak // near.peak for x in (figures.forward, figures.backward))
        return RegionPoint(plan.extra, plan.saved, *peaks)

    def _note(self, plan: _Plan, found: Sequence[SplitPoint]) -> None:
        self.points += found
        self._simulated += [(plan, point.figures) for point in found]

    def _theirs(self, split: TorchSplit) -> _Plan:
        """Return a split of PyTorch's as a plan; without a peak if no plan may equal it."""
        sequence = () if self._model is None else tuple(self._model.ops.sequence(split.ops))
        peak = live = 0
        # PyTorch may repeat what a plan must not.
        with suppress(PlanError):
            peak, live = self._figures(sequence) if sequence else (0, 0)
        saved, how = self._saved(split.modules), (split.modules, Recipe(split.budget))
        made = _Plan(peak, live, split.extra, saved, how)
        return self._known.setdefault(sequence, made) if peak else made

    def _plan(self, peak: int, live: int) -> None:
        """Plan ops within a peak, with at most some bytes live after the loss."""
        model = self._model
        if model is None or live < 0 or (peak, live) in self._asked:
            return
        self._asked.add((peak, live))
        room, planner = peak - live, model.planner
        if room and room not in self._planners:
            graph, loss, behind = planner.graph, model.ops.loss, _backward_ops(model)
            graph = with_hold(graph, loss, behind, room)
            known = [_held(graph, loss, behind, x) for x, plan in self._known.items() if plan.peak]
            self._planners[room] = Planner(graph, loss, known, early=False)
        planner = self._planners[room] if room else planner
        result = planner.plan(peak, self._clock.limited(self.step.settings.time_limit / 3))
        sequence = tuple(v for v in result.sequence or () if v < len(model.ops.members))
        if sequence and sequence not in self._known:
            self._waiting.append(self._made(sequence, result.extra or 0))

    def _made(self, sequence: tuple[int, ...], extra: int) -> _Plan:
        """Return the plan of a sequence of ops."""
        assert self._model is not None
        runs, forward = self.step.runs(self._model, sequence), tuple(self.step.forward)
        modules = self.step.split(self._model, sequence)
        how = modules, Recipe(runs=tuple(runs), forward=forward)
        made = _Plan(*self._figures(sequence), extra, self._saved(modules), how)
        return self._known.setdefault(sequence, made)

    def _figures(self, sequence: Sequence[int]) -> tuple[int, int]:
        """Return the peak of a plan of ops, and the bytes that are live after the loss."""
        assert self._model is not None
        model = self._model
        graph, loss, behind = model.planner.graph, model.ops.loss, _backward_ops(model)
        peak = check_runs(graph, sequence).peak
        held = with_hold(graph, loss, behind, peak)
        return peak, check_runs(held, _held(held, loss, behind, sequence)).peak - peak

    def _new_inputs(self, modules: Modules) -> dict[str, int]:
        inputs = saved_inputs(modules, self.step.outputs, self.step.static)
        return {name: size for name, size in inputs.items() if name not in self.kept}

    def _saved(self, modules: Modules) -> int:
        """Return the bytes that are live for a split alone while it waits."""
        return waiting_bytes(modules, self.step.outputs) + sum(self._new_inputs(modules).values())

    def _simulate(self, plan: _Plan) -> list[SplitPoint]:
        """Return a split simulated without cuts of fused nodes, and with them if they save."""
        step, settings, (modules, recipe) = self.step, self.step.settings, plan.split
        memory = simulate_step(
            modules,
            min(settings.time_limit, ORDER_SECONDS),
            step.outputs,
            step.static,
            split=settings.split and "peak",
            min_gain=settings.min_gain,
            owned={*self.owned, *self._new_inputs(modules)},
        )
        rest = max(0, held_bytes(modules, step.outputs, step.static) - plan.saved)
        cuts = plan.extra + moved_cost(memory.traffic, settings.cost)
        how = recipe.as_simulated(memory), memory.owned, rest, memory.at
        found = [SplitPoint(RegionPoint(plan.extra, plan.saved, *memory.uncut), *how)]
        if memory.graphs != memory.uncut:
            found.append(SplitPoint(RegionPoint(cuts, plan.saved, *memory.graphs), *how))
        return found


def _backward_ops(model: Model) -> frozenset[int]:
    forward, members = model.ops.problem.forward, model.ops.members
    return frozenset(v for v, nodes in enumerate(members) if nodes[-1] not in forward)


def with_hold(graph: Graph, loss: Sequence[str], behind: Iterable[int], size: int) -> Graph:
    """Return the graph with a last op that needs a workspace between the loss and backward ops."""
    hold, b = len(graph.ops), len(graph.buffers)
    ends = tuple(graph.op_ids[name] for name in loss)
    op = Op(HOLD, writes=(b,), workspace=b, control=ends, once=True)
    made = replace(graph, ops=(*graph.ops, op), buffers=(*graph.buffers, Buffer(HOLD, size)))
    return made.with_control(dict.fromkeys(behind, (hold,)))


def _held(
    graph: Graph, loss: Sequence[str], behind: Collection[int], sequence: Sequence[int]
) -> list[int]:
    """Return a sequence with the last op of a graph put after the loss, and before backward ops."""
    at = 1 + max(sequence.index(graph.op_ids[name]) for name in loss)
    before = sequence[:at]
    # What the loss does not need may run before it all the same.
    early = [v for v in before if v in behind]
    kept = [v for v in before if v not in behind]
    return [*kept, len(graph.ops) - 1, *early, *sequence[at:]]
