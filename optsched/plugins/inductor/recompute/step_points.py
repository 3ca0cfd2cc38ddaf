"""Splits of one region of a step, from many bytes saved to few, each lowered and simulated.

While other regions of a step run, a region that waits holds what it saves. So plans are made for
few saved bytes, with an op between the loss and the backward ops that needs a workspace: of a
budget of workspace plus s bytes at most s are left for what is saved. Plans for a smaller peak of
the region alone, and PyTorch's splits at its budgets, are splits as well.

Example: with a workspace of 100 bytes a plan within 130 bytes saves at most 30.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch.fx import GraphModule

from optsched.check.runs import check_runs
from optsched.formats.costs import moved_cost
from optsched.model.elements import Buffer, Op
from optsched.model.graph import Graph
from optsched.plugins.inductor.recompute.answer import Answer
from optsched.plugins.inductor.recompute.calibrate import simulate_step
from optsched.plugins.inductor.recompute.joint_graph import (
    Modules,
    held_bytes,
    saved_bytes,
    saved_inputs,
    waiting_bytes,
)
from optsched.plugins.inductor.recompute.joint_step import ORDER_SECONDS, JointStep
from optsched.plugins.inductor.recompute.models import Model
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.inductor.recompute.search import search_clock
from optsched.plugins.records import CompiledGraph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.recompute.solve import Planner
from optsched.solver.recompute.step_choice import RegionPoint

SAVED_SHARES = (0.45, 0.8, 0.3, 0.6, 0.15)
"""Bytes to save, in parts of those live after the loss with PyTorch's default split."""
PEAK_SHARES = (0.7, 0.85, 0.55)
"""Peaks of the region alone, in parts of that of PyTorch's default split."""
TORCH_SHARE = 0.5
"""Part of the limit after which no split of PyTorch's is simulated."""
HOLD = "between loss and backward ops"


class SplitPoint(NamedTuple):
    """A split with its figures.

    `recipe` tells how it is made, `owned` the bytes of inputs that its backward call owns, `shared`
    those of inputs and results that it saves, which are live for another reason as well, and `at`
    the op of both graphs at which most bytes are live.
    """

    figures: RegionPoint
    recipe: Recipe
    owned: int
    shared: int = 0
    at: tuple[str, str] = ("", "")


def split_points(
    step: JointStep, owned: Collection[str] = (), kept: Collection[str] = ()
) -> list[SplitPoint]:
    """Return PyTorch's default split of a region, and the splits that no other one beats.

    Parameters
    ----------
    step
        The region.
    owned
        Inputs that a backward call was seen to own.
    kept
        Inputs that were saved, or are live for another reason, when the step was measured.
    """
    found: list[SplitPoint] = []
    clock = search_clock(step.settings.time_limit / 2, len(step.joint.graph.nodes))
    # The default one first; should the limit end them, splits of all sizes were simulated.
    for row in (*step.splits[::2], *step.splits[1::2]):
        if not found or not clock.spent(TORCH_SHARE):
            found += _simulated(step, row.modules, row.extra, Recipe(row.budget), owned, kept)
    # Ops joined as Inductor is likely to fuse them are nearer to what is compiled.
    for model in step.models()[-1:]:
        found += _planned(step, model, owned, kept, clock)
    # PyTorch's default repeats nothing, and percentages are of it.
    return [found[0], *_undominated(found)]


def _planned(
    step: JointStep, model: Model, owned: Collection[str], kept: Collection[str], clock: Clock
) -> Iterator[SplitPoint]:
    """Yield the splits of plans of a graph until the limit."""
    seen, count = set[tuple[int, ...]](), len(model.ops.members)
    for result in _plans(model, step.settings.time_limit / 3):
        if clock.expired():
            break
        sequence = tuple(v for v in result.sequence or () if v < count)
        if sequence and sequence not in seen:
            seen.add(sequence)
            recipe = Recipe(runs=tuple(step.runs(model, sequence)), forward=tuple(step.forward))
            modules = step.split(model, sequence)
            yield from _simulated(step, modules, result.extra or 0, recipe, owned, kept)


class Chosen(NamedTuple):
    """A split that was chosen for a region, and the bytes that its two graphs may need."""

    point: SplitPoint
    limits: tuple[int, int]


def take_chosen(
    chosen: Chosen,
    name: str,
    joint: GraphModule,
    inputs: Sequence[Any],
    how: Mapping[str, Any],
) -> Answer:
    """Return the split of a joint graph that was chosen for the step."""
    modules = chosen.point.recipe.split(joint, inputs, how)
    figures = chosen.point.figures
    saved = saved_bytes(modules, int(how["num_fwd_outputs"]))
    record = CompiledGraph(
        "inductor",
        name,
        len(joint.graph.nodes),
        after=max(figures.forward, figures.backward),
        order=f"recompute: split chosen for the step, saves {saved:,} bytes",
        saved=saved,
    )
    return Answer(modules, record, figures.extra, chosen.point.recipe, chosen.point.owned)


def least_point(points: Sequence[SplitPoint]) -> Chosen:
    """Return the split of least peak of a region alone."""
    least = min(points, key=lambda x: (max(x.figures[2:]), x.figures))
    return Chosen(least, (least.figures.forward, least.figures.backward))


def least_record(step: JointStep, least: Chosen, record: CompiledGraph) -> CompiledGraph:
    """Return the record of a split of least peak, with what it costs."""
    share = least.point.figures.extra / max(1, step.problem.total)
    text = f"least peak of the splits that are known: {max(least.limits):,} bytes"
    answer = f"{text} instead of {step.settings.peak:,}, for {share:.2%} more compute"
    return replace(record, before=step.settings.peak, answer=answer)


def _simulated(
    step: JointStep,
    modules: Modules,
    extra: int,
    recipe: Recipe,
    owned: Collection[str],
    kept: Collection[str],
) -> Iterator[SplitPoint]:
    """Yield a split as simulated without cuts of fused nodes, and with them if they save bytes."""
    settings, inputs = step.settings, saved_inputs(modules, step.outputs, step.static)
    new = {name: size for name, size in inputs.items() if name not in kept}
    saved = waiting_bytes(modules, step.outputs) + sum(new.values())
    memory = simulate_step(
        modules,
        min(settings.time_limit, ORDER_SECONDS),
        step.outputs,
        step.static,
        split=settings.split and "peak",
        min_gain=settings.min_gain,
        owned={*owned, *new},
    )
    recipe = recipe.as_simulated(memory)
    rest = max(0, held_bytes(modules, step.outputs, step.static) - saved)
    figures = RegionPoint(extra, saved, *memory.uncut)
    yield SplitPoint(figures, recipe, memory.owned, rest, memory.at)
    if memory.graphs != memory.uncut:
        cost = extra + moved_cost(memory.traffic, settings.cost)
        figures = RegionPoint(cost, saved, *memory.graphs)
        yield SplitPoint(figures, recipe, memory.owned, rest, memory.at)


def _undominated(points: Sequence[SplitPoint]) -> list[SplitPoint]:
    kept: list[SplitPoint] = []
    for point in sorted(points, key=lambda x: x.figures):
        rows = (zip(other.figures, point.figures, strict=True) for other in kept)
        if not any(all(a <= b for a, b in row) for row in rows):
            kept.append(point)
    return kept


def _plans(model: Model, seconds: float) -> Iterator[RecomputeResult]:
    """Yield plans for few saved bytes, then for a small peak of the region."""
    if not model.known:
        return
    ops, planner = model.ops, model.planner
    peak = check_runs(planner.graph, planner.known[0]).peak
    behind = _backward_ops(model)
    graph = with_hold(planner.graph, ops.loss, behind, peak)
    known = [_held(graph, ops.loss, behind, row) for row in planner.known]
    live = check_runs(graph, known[0]).peak - peak
    holding = Planner(graph, ops.loss, known, early=False)
    for share in SAVED_SHARES:
        yield holding.plan(peak + int(share * live), Clock.of(Limits(seconds=seconds)))
    for share in PEAK_SHARES:
        yield planner.plan(int(share * peak), Clock.of(Limits(seconds=seconds)))


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
