"""Splits of one region of a step, from many bytes saved to few, each lowered and simulated.

While other regions of a step run, a region that waits holds what it saves. So plans are made for
few saved bytes, with an op between the loss and the backward ops that needs a workspace: of a
budget of workspace plus s bytes at most s are left for what is saved. Plans for a smaller peak of
the region alone, PyTorch's splits at its budgets, and the compiled split are splits as well.
A choice for the step may then ask for a split between two that are known.

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
from optsched.plugins.inductor.recompute.models import Model
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.inductor.recompute.search import search_clock
from optsched.plugins.inductor.recompute.step_points import SplitPoint
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.recompute.solve import Planner
from optsched.solver.recompute.step_choice import RegionPoint

SAVED_SHARES = (0.45, 0.8, 0.3, 0.6, 0.15)
"""Bytes to save, in parts of those live after the loss with PyTorch's default split."""
PEAK_SHARES = (0.7, 0.85, 0.55)
"""Peaks of the region alone, in parts of that of PyTorch's default split."""
TORCH_SHARE, FIRST_SHARE = 0.2, 0.4
"""Parts of the limit after which no split of PyTorch's is simulated, and no plan is made for the
shares above; the rest is for splits between them."""
PART = 0.85
"""Part of the time of a search for the region alone."""
ROUNDS = 3
"""Most plans for one split that is asked for."""
HOLD = "between loss and backward ops"


class _Planned(NamedTuple):
    """A plan that was simulated: its peak and the bytes after the loss as ops, and its figures."""

    peak: int
    live: int
    figures: RegionPoint


class SplitFront:
    """Simulated splits of a region.

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
        """PyTorch's default split, which repeats nothing, is the first one."""
        self._clock = search_clock(PART * step.settings.time_limit, len(step.joint.graph.nodes))
        self._left = 0.0
        # Ops joined as Inductor is likely to fuse them are nearer to what is compiled.
        self._models = [model for model in step.models()[::-1] if model.known]
        self._tried: dict[tuple[str, tuple[int, ...]], _Planned] = {}
        self._planners: dict[tuple[str, int], Planner] = {}

    def fill(self, compiled: SplitPoint | None = None) -> None:
        """Find splits from many bytes saved to few; one may be compiled and measured already."""
        points, known = self.points, None if compiled is None else compiled.recipe.budget
        first, *rest = self.step.splits
        # Without plans there are only these splits.
        torch_share = TORCH_SHARE if self._models else 1.0
        # The one of fewest bytes next; should the limit end them, all sizes were simulated.
        for row in (first, *rest[-1:], *rest[:-1:2], *rest[1:-1:2]):
            if compiled is not None and row.budget == known:
                self._add(row.ops, compiled)
            elif len(points) < 2 or not self._clock.spent(torch_share):
                self._add(row.ops, *self._simulate(row.modules, row.extra, Recipe(row.budget)))
        if compiled is not None and compiled.recipe.runs:
            ids = self.step.graph.op_ids
            names = (name for name, _ in compiled.recipe.runs)
            self._add([ids[name] for name in names if name in ids], compiled)
        for model in self._models[:1]:
            for target in self._first_targets(model):
                if not self._clock.spent(FIRST_SHARE):
                    self._try(model, self._plan(model, *target))
        # PyTorch's default repeats nothing, and percentages are of it.
        points[:] = [points[0], *(x for x in _undominated(points) if x is not points[0])]
        self._left = self._clock.left() or 0.0

    def _add(self, ops: Sequence[int], *points: SplitPoint) -> None:
        """Add a split that runs some ops, as simulated without cuts and with them."""
        self.points += points
        for model in self._models:
            # PyTorch may repeat what a plan must not.
            with suppress(PlanError):
                self._note(model, tuple(model.ops.sequence(ops)), points[-1].figures)

    def _note(self, model: Model, sequence: tuple[int, ...], figures: RegionPoint) -> _Planned:
        made = _Planned(*self._figures(model, sequence), figures)
        self._tried[model.what, sequence] = made
        return made

    def _first_targets(self, model: Model) -> Iterator[tuple[int, int]]:
        """Yield peaks of ops and bytes to save: few saved bytes, then a small peak."""
        peak, live = self._figures(model, model.planner.known[0])
        yield from ((peak + int(share * live), int(share * live)) for share in SAVED_SHARES)
        yield from ((int(share * peak), int(share * peak)) for share in PEAK_SHARES)

    def within(self, most: RegionPoint) -> list[RegionPoint]:
        """Search a split that saves and needs at most some bytes; return figures of new ones."""
        # Time that other regions took in between does not count.
        self._clock = Clock.of(Limits(seconds=self._left))
        count, peak = len(self.points), max(most.forward, most.backward)
        for model in self._usable[:1] if min(most) >= 0 else []:
            near = self._nearest(model, most.saved, peak)
            planned = peak * near.peak // max(1, *near.figures[2:])
            live = most.saved + near.live - near.figures.saved
            for _ in range(ROUNDS):
                if self._clock.expired() or live < 0:
                    break
                made = self._try(model, self._plan(model, planned, min(live, planned)))
                if made is None:
                    break
                found = made.figures
                over = found.saved - most.saved, max(found[2:]) - peak
                if max(over) <= 0:
                    break
                # Of a plan that needs less than it may, so much is what does not fit.
                live = min(live, made.live) - max(0, over[0])
                planned = min(planned, made.peak) * peak // max(1, peak + max(0, over[1]))
        self._left = self._clock.left() or 0.0
        return [x.figures for x in self.points[count:]]

    @property
    def _usable(self) -> list[Model]:
        """Graphs to plan with a simulated plan, by which others aim."""
        return [x for x in self._models if any(what == x.what for what, _ in self._tried)]

    def _nearest(self, model: Model, saved: int, peak: int) -> _Planned:
        """Return the simulated plan whose bytes are nearest to some."""
        rows = [made for (what, _), made in self._tried.items() if what == model.what]
        return min(
            rows,
            key=lambda x: (
                abs(x.figures.saved - saved) / max(1, saved)
                + abs(max(x.figures[2:]) - peak) / max(1, peak)
            ),
        )

    def _plan(self, model: Model, peak: int, live: int) -> RecomputeResult:
        """Return a plan of ops within a peak that leaves at most some bytes after the loss."""
        room = max(0, peak - live)
        if room and (model.what, room) not in self._planners:
            graph, loss, behind = model.planner.graph, model.ops.loss, _backward_ops(model)
            graph = with_hold(graph, loss, behind, room)
            tried = (sequence for what, sequence in self._tried if what == model.what)
            known = [_held(graph, loss, behind, x) for x in tried]
            self._planners[model.what, room] = Planner(graph, loss, known, early=False)
        planner = self._planners[model.what, room] if room else model.planner
        return planner.plan(peak, self._clock.limited(self.step.settings.time_limit / 3))

    def _try(self, model: Model, result: RecomputeResult) -> _Planned | None:
        """Split and simulate a plan; return what it needs, None without a new one."""
        count = len(model.ops.members)
        sequence = tuple(v for v in result.sequence or () if v < count)
        if not sequence or (model.what, sequence) in self._tried:
            return None
        runs, forward = tuple(self.step.runs(model, sequence)), tuple(self.step.forward)
        modules, recipe = self.step.split(model, sequence), Recipe(runs=runs, forward=forward)
        found = self._simulate(modules, result.extra or 0, recipe)
        self.points += found
        return self._note(model, sequence, found[-1].figures)

    def _figures(self, model: Model, sequence: Sequence[int]) -> tuple[int, int]:
        """Return the peak of a plan of ops, and the bytes that are live after the loss."""
        graph, loss, behind = model.planner.graph, model.ops.loss, _backward_ops(model)
        peak = check_runs(graph, sequence).peak
        held = with_hold(graph, loss, behind, peak)
        return peak, check_runs(held, _held(held, loss, behind, sequence)).peak - peak

    def _simulate(self, modules: Modules, extra: int, recipe: Recipe) -> list[SplitPoint]:
        """Return a split simulated without cuts of fused nodes, and with them if they save."""
        step, settings = self.step, self.step.settings
        inputs = saved_inputs(modules, step.outputs, step.static)
        new = {name: size for name, size in inputs.items() if name not in self.kept}
        saved = waiting_bytes(modules, step.outputs) + sum(new.values())
        memory = simulate_step(
            modules,
            min(settings.time_limit, ORDER_SECONDS),
            step.outputs,
            step.static,
            split=settings.split and "peak",
            min_gain=settings.min_gain,
            owned={*self.owned, *new},
        )
        rest = max(0, held_bytes(modules, step.outputs, step.static) - saved)
        cuts = extra + moved_cost(memory.traffic, settings.cost)
        how = recipe.as_simulated(memory), memory.owned, rest, memory.at
        found = [SplitPoint(RegionPoint(extra, saved, *memory.uncut), *how)]
        if memory.graphs != memory.uncut:
            found.append(SplitPoint(RegionPoint(cuts, saved, *memory.graphs), *how))
        return found


def _undominated(points: Sequence[SplitPoint]) -> list[SplitPoint]:
    kept: list[SplitPoint] = []
    for point in sorted(points, key=lambda x: x.figures):
        rows = (zip(other.figures, point.figures, strict=True) for other in kept)
        if not any(all(a <= b for a, b in row) for row in rows):
            kept.append(point)
    return kept


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
