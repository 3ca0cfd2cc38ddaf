"""The split that is taken among those that were tried, and what is recorded of it.

A plan that fits is taken in an order near to the joint graph's
(:mod:`optsched.plugins.inductor.recompute.near_order`) if it still fits as simulated.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from dataclasses import replace

from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.joint_graph import Modules
from optsched.plugins.inductor.recompute.joint_step import JointStep
from optsched.plugins.inductor.recompute.models import TorchSplit
from optsched.plugins.inductor.recompute.near_order import near_order
from optsched.plugins.inductor.recompute.search import SplitSearch, Tried
from optsched.plugins.records import CompiledGraph

Answer = tuple[Modules, CompiledGraph]


def answer(search: SplitSearch) -> Answer:
    """Return the cheapest split that fits, be it PyTorch's, or the one of the least peak.

    Raises
    ------
    KeptOrderError
        If there was no plan.
    """
    theirs = search.torch_split()
    if theirs is not None:
        return _take_theirs(search.step, theirs)
    if not search.tried:
        raise KeptOrderError(f"no plan within {search.budget:,} bytes: {search.blocker}")
    return _take_ours(search)


def _take_theirs(step: JointStep, split: TorchSplit) -> Answer:
    simulated = step.peak(split.modules)
    share = 100 * split.extra / max(1, step.problem.total)
    text = f"recompute: asked {step.settings.peak:,} bytes, a split of PyTorch's, simulated "
    text += f"{simulated:,}, extra {share:.2f} %{_cuts(step, split.modules)} "
    text += f"({step.graph.cost_unit})"
    return split.modules, _record(step, text, simulated)


def _take_ours(search: SplitSearch) -> Answer:
    step, budget, tried = search.step, search.budget, search.tried
    own = step.peak(step.default)
    fits = [row for row in tried if row.fits(budget)]
    if fits:
        chosen = _near(search, min(fits, key=lambda row: row.price))
    else:
        chosen = min(tried, key=lambda row: row.peak() or 0)
    simulated = chosen.peak()
    record = _record(step, _text(step, chosen), simulated)
    if own is None or simulated is None or simulated <= budget:
        return chosen.modules, record
    if own <= simulated:
        reason = f"PyTorch's split needs {own:,} bytes as simulated"
        return step.default, replace(record, after=own, order="", reason=reason)
    return chosen.modules, replace(record, note="no plan that was tried fits as compiled")


def _near(search: SplitSearch, chosen: Tried) -> Tried:
    """Return a split that fits with its ops nearer to the joint graph's order, if it still fits."""
    result = chosen.result
    # Lowering takes seconds, and without it nothing says that another order fits.
    if chosen.memory is None or search.clock.expired():
        return chosen
    order = near_order(result.graph, result.sequence or ())
    if order == result.sequence:
        return chosen
    model = next(model for model in search.models if model.what == chosen.what)
    modules = search.step.split(model, order)
    memory, cuts = search.step.memory(modules), search.step.cut_cost(modules)
    near = chosen._replace(memory=memory, modules=modules, cuts=cuts)
    return near if near.fits(search.budget) and near.price <= chosen.price else chosen


def _text(step: JointStep, chosen: Tried) -> str:
    result, simulated = chosen.result, chosen.peak()
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


def _record(step: JointStep, text: str, simulated: int | None) -> CompiledGraph:
    made = CompiledGraph("inductor", step.name, len(step.graph.ops), order=text)
    return replace(made, before=step.peak(step.default), after=simulated)
