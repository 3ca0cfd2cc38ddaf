"""The split of least peak of a joint graph: the search for a peak, with ever smaller ones.

First a peak is asked for that no split has, which is what every split needs. The next one lies in
the middle between the least peak that was found and the largest one that was not.

Example: every split needs 4 MB, and plans for 4 MB reach 14 MB. A plan for 9 MB is found, and none
for 6.5 MB. The next one is asked for 7.8 MB.

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

NARROW = 32
"""Part of the least peak below which a smaller one is not worth a search."""
PART = 0.4
"""Part of the rest of the work for each peak."""


def least_split(step: JointStep, clock: Clock) -> Chosen:
    """Return the split of least peak that is found."""
    low = max(x.size for x in step.least)
    # Splits are simulated with the cuts that save most.
    step.settings = replace(step.settings, peak=low)
    search, is_open = SplitSearch(step, clock.share(PART)), True
    while is_open:
        search.run()
        # PyTorch's splits that are likely to fit are simulated here.
        search.torch_split()
        least = min(_splits(search), key=_rank)
        peak, _ = _rank(least)
        if peak > search.budget:
            low = search.budget
        search.budget, search.clock = (low + peak) // 2, clock.share(PART)
        is_open = peak - low > peak // NARROW and not clock.expired()
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
