"""The split that is taken among those that were tried, and what is recorded of it.

A plan that fits is taken in an order near to the joint graph's
(:mod:`optsched.plugins.inductor.recompute.near_order`) if it still fits as simulated. A plan whose
repeats are free is first made again for the bytes that it leaves, as it may need fewer repeats.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from optsched.check.runs import check_runs
from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.calibrate import StepMemory
from optsched.plugins.inductor.recompute.joint_graph import Modules
from optsched.plugins.inductor.recompute.joint_step import JointStep
from optsched.plugins.inductor.recompute.models import Model, TorchSplit, Tried
from optsched.plugins.inductor.recompute.near_order import near_order
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.inductor.recompute.search import CLOSE, SplitSearch
from optsched.plugins.inductor.recompute.take_back import take_back
from optsched.plugins.records import CompiledGraph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.runtime.text import counted
from optsched.solver.recompute.result import RecomputeResult

TAKEN_BACK, LOOKED_AT = 12, 200
"""Most splits with fewer repeats that are lowered and simulated, and most that are measured as
ops."""
UNLIKELY = 1.1
"""Part of the budget above which a plan with fewer repeats is not simulated: its bytes by the ratio
of simulated to planned bytes of the plan that fits."""


class Answer(NamedTuple):
    """A split, its record, the cost of what it runs again, and how to make it.

    `owned` is the number of bytes of inputs that its backward call is expected to own.
    """

    modules: Modules
    record: CompiledGraph
    extra: int
    recipe: Recipe
    owned: int | None = None


def answer(search: SplitSearch) -> Answer:
    """Return the cheapest split that fits, be it PyTorch's, or the one of the least peak.

    Raises
    ------
    KeptOrderError
        If there was no plan.
    """
    step, theirs = search.step, search.torch_split()
    if theirs is None and not search.tried:
        # Where the user has set checkpoint tags, there are only splits of PyTorch's.
        known = [split for split in step.splits if split.modules in step.simulated]
        theirs = min(known, key=lambda x: step.simulated[x.modules].used, default=None)
    if theirs is not None:
        return take_theirs(step, theirs)
    if not search.tried:
        raise KeptOrderError(f"no plan within {search.budget:,} bytes: {search.blocker}")
    return _take_ours(search)


def take_theirs(step: JointStep, split: TorchSplit) -> Answer:
    """Return a split of PyTorch's as the answer."""
    memory = step.memory(split.modules)
    simulated = None if memory is None else memory.used
    share = 100 * split.extra / max(1, step.problem.total)
    text = f"recompute: asked {step.settings.peak:,} bytes, a split of PyTorch's, simulated "
    text += f"{simulated:,}, extra {share:.2f} %{_cuts(step, split.modules)} "
    text += f"({step.graph.cost_unit})"
    how = f"PyTorch's own split at an activation memory budget of {split.budget:g}"
    extra = f"for {share:.2f} % more compute ({how})"
    recipe = Recipe(split.budget).as_simulated(memory)
    record = _record(step, text, memory, extra)
    return Answer(split.modules, record, split.extra, recipe, _owned(memory))


def _take_ours(search: SplitSearch) -> Answer:
    step, budget, tried = search.step, search.budget, search.tried
    own = step.peak(step.default)
    fits = [row for row in tried if row.fits(budget)]
    if fits:
        chosen = _settle(search, min(fits, key=lambda row: row.price))
    else:
        chosen = min(tried, key=lambda row: row.peak() or 0)
    simulated = None if chosen.memory is None else chosen.memory.used
    share = 100 * chosen.price[0] / max(1, chosen.result.total)
    repeats = counted(chosen.price[1], "op")
    extra = f"for {share:.2f} % more compute ({repeats} run again)"
    record = _record(step, _text(step, chosen, simulated), chosen.memory, extra)
    record = replace(record, front=_front(search, own))
    runs = step.runs(_model(search, chosen), chosen.result.sequence or ())
    recipe = Recipe(runs=tuple(runs), forward=tuple(step.forward)).as_simulated(chosen.memory)
    if own is None or simulated is None or simulated <= budget:
        return Answer(chosen.modules, record, chosen.price[0], recipe, _owned(chosen.memory))
    if own <= simulated:
        reason = f"PyTorch's split needs {own:,} bytes as simulated"
        memory = step.memory(step.default)
        refusal = _refusal(step, memory, "PyTorch's own split")
        record = replace(record, after=own, order="", reason=reason, answer=refusal)
        return Answer(step.default, record, 0, Recipe(1.0).as_simulated(memory), _owned(memory))
    note = "; ".join(filter(None, (record.note, "no plan that was tried fits as simulated")))
    record = replace(record, note=note)
    return Answer(chosen.modules, record, chosen.price[0], recipe, _owned(chosen.memory))


def _owned(memory: StepMemory | None) -> int | None:
    return None if memory is None else memory.owned


def _settle(search: SplitSearch, chosen: Tried) -> Tried:
    """Return a split that fits with fewer repeats at no cost, and near to the program's order."""
    # Lowering takes seconds, and without it nothing says that another split fits.
    if chosen.memory is None:
        return chosen
    chosen = _with_fewer_repeats(search, chosen)
    if chosen.memory is None or search.clock.expired():
        return chosen
    if not chosen.price[0] and chosen.price[1]:
        chosen = _take_better(search, chosen, _free_plan(search, chosen, chosen.memory.peak))
    result, names = chosen.result, [node.name for node in search.step.joint.graph.nodes]
    order = near_order(result.graph, result.sequence or (), names)
    return _take_better(search, chosen, replace(result, sequence=order))


def _with_fewer_repeats(search: SplitSearch, chosen: Tried) -> Tried:
    """Return the split after those of its repeats that cost something are taken back."""
    best, graph, left = chosen, chosen.result.graph, TAKEN_BACK
    planned, used = chosen.result.peak or 0, 0 if chosen.memory is None else chosen.memory.used

    def fits(sequence: tuple[int, ...]) -> bool:
        nonlocal best, left
        if search.clock.expired() or not left:
            return False
        checked = check_runs(graph, sequence)
        # Lowering takes seconds, and most bytes of ops are bytes of the step as well.
        if checked.peak * used > UNLIKELY * search.budget * planned:
            return False
        left -= 1
        made = replace(best.result, sequence=sequence, extra=checked.extra, peak=checked.peak)
        row = _take_better(search, best, made)
        is_better, best = row is not best, row
        return is_better

    # Few repeats can go where nearly all bytes are used.
    is_near = used >= CLOSE * search.budget
    if chosen.result.extra and not is_near:
        costs = [op.cost for op in graph.ops]
        take_back(chosen.result.sequence or (), costs, fits, LOOKED_AT)
    return best


def _free_plan(search: SplitSearch, chosen: Tried, simulated: int) -> RecomputeResult:
    """Return a plan for all bytes asked for: the search ends once a plan that fits is free."""
    limit = Limits(seconds=search.step.settings.time_limit / 3)
    planned = (chosen.result.peak or 0) + search.budget - simulated
    return _model(search, chosen).planner.plan(planned, Clock.of(limit))


def _take_better(search: SplitSearch, chosen: Tried, result: RecomputeResult) -> Tried:
    """Return the split of another sequence if it still fits and costs no more."""
    step = search.step
    if result.sequence in (None, chosen.result.sequence):
        return chosen
    modules = step.split(_model(search, chosen), result.sequence or ())
    row = Tried(step.memory(modules), result, modules, chosen.what, step.cut_cost(modules))
    return row if row.fits(search.budget) and row.price <= chosen.price else chosen


def _model(search: SplitSearch, chosen: Tried) -> Model:
    return next(model for model in search.models if model.what == chosen.what)


def _text(step: JointStep, chosen: Tried, simulated: int | None) -> str:
    result = chosen.result
    share = 100 / max(1, result.total)
    text = f"recompute: asked {step.settings.peak:,} bytes, planned {result.peak or 0:,}"
    text += "" if simulated is None else f", simulated {simulated:,}"
    text += f", {chosen.price[1]} repeats, extra {share * (result.extra or 0):.2f} %"
    text += _cuts(step, chosen.modules)
    bound = f"bound {share * (result.bound or 0):.2f} % of {chosen.what}"
    return f"{text} ({bound}, {step.graph.cost_unit})"


def _cuts(step: JointStep, modules: Modules) -> str:
    """Return the cost of the bytes that cuts of fused nodes move, in words; empty without any."""
    cost = step.cut_cost(modules)
    return f", cuts {100 * cost / max(1, step.problem.total):.2f} %" if cost else ""


def _front(search: SplitSearch, own: int | None) -> tuple[tuple[int, float], ...]:
    """Return peaks and shares of extra compute of the splits that no other one beats."""
    rows = [
        (row.memory.peak, row.price[0] / max(1, row.result.total))
        for row in search.tried
        if row.memory is not None
    ]
    rows += [] if own is None else [(own, 0.0)]
    kept: list[tuple[int, float]] = []
    for peak, extra in sorted(rows, key=lambda row: (row[1], row[0])):
        if not kept or peak < kept[-1][0]:
            kept.append((peak, extra))
    return tuple(kept)


def _answer_text(step: JointStep, memory: StepMemory | None, extra: str) -> str:
    """Return whether the step fits, and at what price, in a sentence."""
    asked, own = step.settings.peak, step.peak(step.default)
    if memory is None:
        return f"planned for {asked:,} bytes, and not simulated, {extra}"
    if memory.used > asked:
        return _refusal(step, memory, "the split that runs", extra)
    before = "" if own is None else f" instead of {own:,}"
    return f"fits {asked:,} bytes: {memory.used:,}{before}, {extra}"


def _refusal(step: JointStep, memory: StepMemory | None, which: str, extra: str = "") -> str:
    text = f"does not fit {step.settings.peak:,} bytes: no smaller step was found than {which}"
    if memory is None:
        return text
    # Of equal peaks that of the backward graph, which holds the gradients.
    is_backward = memory.uncut[1] >= memory.uncut[0]
    where = (
        f"at op {memory.at[is_backward]!r} of its {'backward' if is_backward else 'forward'} graph"
    )
    text += f", which needs {memory.used:,} {where}"
    return f"{text}, {extra}" if extra else text


def _record(
    step: JointStep, text: str, memory: StepMemory | None, extra: str = ""
) -> CompiledGraph:
    made = CompiledGraph("inductor", step.name, len(step.graph.ops), order=text)
    made = replace(made, answer=_answer_text(step, memory, extra))
    most = 0 if memory is None or memory.used > step.settings.peak else memory.most
    note = f"up to {most:,} bytes if the program holds no input that is saved"
    ends = ", ".join(f"{symbol} = {end:,}" for symbol, end in step.sizes.items())
    ends = f"planned for all sizes up to {ends}" if ends else ""
    return replace(
        made,
        before=step.peak(step.default),
        after=None if memory is None else memory.used,
        note="; ".join(filter(None, (ends, note if most > step.settings.peak else ""))),
    )
