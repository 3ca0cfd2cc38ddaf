"""The split of least peak of a joint graph: the search for a peak, with ever smaller ones.

First a peak is asked for that no split has: all splits are simulated with the cuts that save most.
Then a little less than the least one is asked for, until no plan has it or the work is done.

Example: plans for the least bytes of all reach 9 MB. One for 8.4 MB is found, and none for 7.9 MB.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from optsched.plugins.inductor.recompute.joint_graph import Modules, waiting_bytes
from optsched.plugins.inductor.recompute.joint_step import JointStep
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.inductor.recompute.search import SplitSearch
from optsched.plugins.inductor.recompute.step_points import Chosen, SplitPoint
from optsched.plugins.records import CompiledGraph
from optsched.runtime.clock import Clock
from optsched.solver.recompute.step_choice import RegionPoint

PARTS = (16, 32)
"""The next peak that is asked for is this part below the least one; a smaller part if none fits."""
PART = 0.4
"""Part of the rest of the work for each peak."""


def least_split(step: JointStep, clock: Clock) -> Chosen:
    """Return the split of least peak that is found."""
    step.settings = replace(step.settings, peak=max(x.size for x in step.least))
    search, least, parts = SplitSearch(step, clock.share(PART)), None, [*PARTS]
    while least is None or (parts and not clock.expired()):
        search.run()
        # PyTorch's splits that are likely to fit are simulated here.
        search.torch_split()
        found = min(_splits(search), key=_rank)
        if least is not None and _rank(found) >= _rank(least):
            del parts[0]
        least = found if least is None else min(found, least, key=_rank)
        peak, _ = _rank(least)
        search.budget = peak - peak // (parts[0] if parts else 1)
        search.clock = clock.share(PART)
    # An order below the least peak may be found where one below all of them is not.
    point = least.point
    step.settings = replace(step.settings, peak=_rank(least)[0] - 1)
    step.memory(least.modules, closely=True)
    again = _point(step, least.modules, point.figures.extra, point.recipe)
    point = min(point, again, key=_peak)
    return Chosen(point, (point.figures.forward, point.figures.backward))


class _Split(NamedTuple):
    """A split that was simulated, and its graphs."""

    point: SplitPoint
    modules: Modules


def _splits(search: SplitSearch) -> Iterator[_Split]:
    """Yield the splits that were simulated."""
    step = search.step
    for split in step.splits:
        if split.modules in step.simulated:
            extra = split.extra + step.cut_cost(split.modules)
            point = _point(step, split.modules, extra, Recipe(split.budget))
            yield _Split(point, split.modules)
    for row in search.tried:
        model = next(x for x in search.models if x.what == row.what)
        runs = tuple(step.runs(model, row.result.sequence or ()))
        recipe = Recipe(runs=runs, forward=tuple(step.forward))
        yield _Split(_point(step, row.modules, row.price[0], recipe), row.modules)


def _point(step: JointStep, modules: Modules, extra: int, recipe: Recipe) -> SplitPoint:
    memory = step.simulated[modules]
    figures = RegionPoint(extra, waiting_bytes(modules, step.outputs), *memory.graphs)
    return SplitPoint(figures, recipe.as_simulated(memory), memory.owned, at=memory.at)


def _peak(point: SplitPoint) -> int:
    return max(point.figures[2:])


def _rank(split: _Split) -> tuple[int, RegionPoint]:
    return _peak(split.point), split.point.figures


def least_record(
    step: JointStep, stock: int, least: Chosen, record: CompiledGraph
) -> CompiledGraph:
    """Return the record of a split of least peak, with what it costs; `stock`: PyTorch's peak."""
    share = least.point.figures.extra / max(1, step.problem.total)
    text = f"least peak of the splits that are known: {max(least.limits):,} bytes"
    answer = f"{text} instead of {stock:,}, for {share:.2%} more compute"
    return replace(record, before=stock, answer=answer)
