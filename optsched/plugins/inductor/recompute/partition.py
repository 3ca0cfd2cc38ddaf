"""The partitioner that Inductor calls: forward and backward graphs whose peak is at most a budget.

It reads the joint graph (:mod:`optsched.plugins.inductor.recompute.joint_step`), plans the cheapest
repeats with which the simulated peak fits (:mod:`optsched.plugins.inductor.recompute.search`), and
takes the cheapest split that fits (:mod:`optsched.plugins.inductor.recompute.answer`). PyTorch's
own split is kept if it is as good, if no plan is found, and for graphs with what the plan does not
know: effects, symbolic sizes without an upper end, mutations in the backward graph. With user
checkpoint tags it is one of PyTorch's splits, which keep to them. Where a graph has collectives,
the first rank makes the plan of all (:mod:`optsched.plugins.inductor.recompute.ranks`). An answer
is kept for later processes (:mod:`optsched.plugins.inductor.recompute.step_file`).

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx import GraphModule

from optsched.errors import OptschedError
from optsched.plugins.inductor.asked import LEAST
from optsched.plugins.inductor.recompute.answer import Answer, answer, take_theirs
from optsched.plugins.inductor.recompute.joint_graph import (
    Modules,
    is_on_cpu,
    joint_digest,
    saved_bytes,
    size_ends,
)
from optsched.plugins.inductor.recompute.joint_step import JointStep, PeakSettings
from optsched.plugins.inductor.recompute.least_bytes import UNKNOWN, ImpossiblePeakError, LeastBytes
from optsched.plugins.inductor.recompute.least_split import least_record, least_split
from optsched.plugins.inductor.recompute.ranks import (
    RanksError,
    joint_structure,
    longest,
    require_equal,
    team_of,
)
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.inductor.recompute.search import SplitSearch, search_clock, search_wall
from optsched.plugins.inductor.recompute.step_file import read_answer, write_answer
from optsched.plugins.inductor.recompute.step_plan import StepPlan
from optsched.plugins.inductor.recompute.step_points import Chosen, take_chosen
from optsched.plugins.inductor.regions import Region, current_region, set_region
from optsched.plugins.records import CompiledGraph, remember
from optsched.plugins.sources import sources_digest
from optsched.runtime.clock import Clock, counted_seconds

logger = logging.getLogger("optsched.plugins.inductor")


@dataclass(frozen=True)
class PeakPartitioner(PeakSettings, CustomPartitionerFn):  # type: ignore[misc]
    """Splits joint graphs so that forward and backward need at most `peak` bytes.

    Its parameters are those of :class:`PeakSettings`.
    """

    def uuid(self) -> str:
        """Return a text of all settings, so that PyTorch's caches keep compiled steps apart."""
        # Once a joint graph is split, its graphs are asked for: their split decides, and a later
        # process may take them from the cache.
        region = current_region()
        plan = "" if region is None else region.plan
        settings = sources_digest() + repr(astuple(self)) + (plan or _plan_of(self).digest())
        return hashlib.sha256(settings.encode()).hexdigest()

    def __call__(self, gm: GraphModule, joint_inputs: Sequence[Any], **how: Any) -> Modules:
        """Return forward and backward graph; never fail where PyTorch would not."""
        start = time.perf_counter()
        name = f"{torch._guards.CompileContext.current_compile_id() or 'graph'} joint"
        # The plan changes the graph, and PyTorch's own split needs it unchanged if no plan is made.
        original = copy.deepcopy(gm)
        try:
            given = _Given(name, gm, joint_inputs, how)
            split = self._split(_plan_of(self), given, original)
            split.recipe.recall()
            found, record = split.modules, split.record
        except RanksError:
            # The other ranks may have split the graph otherwise, and would wait in a collective.
            raise
        except Exception as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            level = logging.INFO if isinstance(error, OptschedError) else logging.WARNING
            logger.log(level, "%s: split left to PyTorch: %s", name, reason)
            record = CompiledGraph("inductor", name, len(original.graph.nodes), reason=reason)
            set_region(Region(plan="left to PyTorch"))
            found = min_cut_rematerialization_partition(original, joint_inputs, **how)
        remember(replace(record, seconds=time.perf_counter() - start))
        return found

    def _split(self, plan: StepPlan, given: _Given, original: GraphModule) -> Answer:
        """Return the split that the plan of the step has for a joint graph, or one for it alone.

        `original` is the joint graph once more, as splits change it.
        """
        joint, how = given.joint, given.how
        team, on_cpu = team_of(joint), is_on_cpu(joint)
        structure = joint_structure(joint, how, repr(astuple(self)))
        key = joint_digest(joint, how) if team is None else structure.key
        if team is not None:
            plan.share(team, key)
        chosen = plan.find(key) if on_cpu else None
        work = list[_Work]()

        def decide(rows: list[Any]) -> list[Any]:
            if team is not None:
                require_equal(rows, team.ranks)
            work.append(self._work(plan, key, chosen, given, original))
            return work[0].data

        if team is None:
            decide([])
        else:
            most = longest(self.time_limit, search_wall(self.time_limit, len(joint.graph.nodes)))
            found = team.settle("joint graph", structure, decide, work=most)
            if not work:
                work.append(_taken_from_first(plan, key, given, found))
        (made,) = work
        # The bytes that are live between calls are measured on the CPU alone, and of one size.
        is_fixed = not size_ends(joint)
        region = Region(key, plan.watch if on_cpu and is_fixed else None, owned=plan.owned(key))
        expected = made.answer.owned if is_fixed else None
        set_region(replace(region, limits=made.limits, expected=expected, plan=made.digest(key)))
        return made.answer

    def _work(
        self,
        plan: StepPlan,
        key: str,
        chosen: Chosen | None,
        given: _Given,
        original: GraphModule,
    ) -> _Work:
        """Return the split that is chosen for the step, one that is kept, or one made now."""
        if chosen is not None:
            return _Work(take_chosen(chosen, *given), chosen.limits)
        digest = joint_digest(given.joint, given.how)
        kept = read_answer(self, digest)
        if kept is not None:
            later = cache(partial(JointStep, self, *given._replace(joint=original)))
            return _taken(plan, key, given, kept, later)
        made = self._search(plan, key, given)
        write_answer(self, digest, made.data)
        return made

    def _search(self, plan: StepPlan, key: str, given: _Given) -> _Work:
        """Return the split of a joint graph that is found for it alone."""
        name, joint, inputs, how = given
        nodes = len(joint.graph.nodes)
        # Other processes must not decide what is found.
        with counted_seconds(search_wall(self.time_limit, nodes)):
            clock = search_clock(self.time_limit, nodes)
            try:
                step = JointStep(self, *given)
            except ImpossiblePeakError as error:
                found = _refused(str(error), given)
                plan.add(key, name, found, how, 0, error.least, self.peak)
                return _Work(found, (self.peak,) * 2, 0, error.least)
            limits = (step.settings.peak,) * 2
            if self.ask == LEAST:
                stock = step.settings.peak
                least = least_split(step, clock)
                limits = least.limits
                found = take_chosen(least, name, copy.deepcopy(step.joint), inputs, how)
                record = least_record(step, stock, least, found.record)
                found = found._replace(record=record)
            else:
                found = search_split(step, clock)
            limit = max(limits)
            plan.add(key, name, found, how, step.problem.total, step.least, limit, lambda: step)
            return _Work(found, limits, step.problem.total, step.least)


class _Given(NamedTuple):
    """Name of a joint graph, the graph, and the other arguments of a partitioner."""

    name: str
    joint: GraphModule
    inputs: Sequence[Any]
    how: dict[str, Any]


class _Work(NamedTuple):
    """A split, bytes that its graphs may need, and the cost of a step without repeats.

    The cost is None for a split that was chosen for the step. `least`: bytes that its calls need
    with every split.
    """

    answer: Answer
    limits: tuple[int, int]
    total: int | None = None
    least: tuple[LeastBytes, LeastBytes] = UNKNOWN

    @property
    def data(self) -> list[Any]:
        """All that other ranks and later processes need of it, as data for JSON."""
        found = self.answer
        row = [found.recipe.data, asdict(found.record), found.extra, found.owned]
        return [*row, self.limits, self.total, self.least]

    def digest(self, key: str) -> str:
        """Return a digest of all that decides how the graphs of a joint graph are compiled."""
        row = key, self.answer.recipe.data, self.answer.owned, self.limits
        return hashlib.sha256(json.dumps(row).encode()).hexdigest()


def _taken(
    plan: StepPlan,
    key: str,
    given: _Given,
    data: list[Any],
    step: Callable[[], JointStep] | None = None,
) -> _Work:
    """Return a split from its data; `step` returns the joint graph, to be planned for the step."""
    row, record, extra, owned, (forward, behind), total, rows = data
    recipe = Recipe.read(row)
    front = tuple((peak, share) for peak, share in record.pop("front"))
    text = CompiledGraph(**{**record, "name": given.name}, front=front)
    made = Answer(recipe.split(*given[1:]), text, extra, recipe, owned)
    first, second = (LeastBytes(*x) for x in rows)
    if total is not None:
        limit = max(forward, behind)
        plan.add(key, given.name, made, given.how, total, (first, second), limit, step)
    return _Work(made, (forward, behind), total, (first, second))


def _taken_from_first(plan: StepPlan, key: str, given: _Given, data: list[Any]) -> _Work:
    """Return the split that the first rank has chosen."""
    try:
        return _taken(plan, key, given, data)
    except Exception as error:
        raise RanksError(f"the split of the first rank does not fit this graph: {error}") from error


def _refused(reason: str, given: _Given) -> Answer:
    """Return PyTorch's default split of a joint graph that no split brings within the peak."""
    name, joint, inputs, how = given
    logger.info("%s: split left to PyTorch: %s", name, reason)
    ops = len(joint.graph.nodes)
    record = CompiledGraph("inductor", name, ops, reason=reason, answer=reason)
    modules: Modules = min_cut_rematerialization_partition(joint, inputs, **how)
    return Answer(modules, record, 0, Recipe(1.0))


@cache
def _plan_of(settings: PeakSettings) -> StepPlan:
    """Return the plan of all graphs that are compiled with equal settings."""
    return StepPlan(settings)


def search_split(step: JointStep, clock: Clock) -> Answer:
    """Return the split of a joint graph that is cheapest within the peak, for it alone."""
    if step.is_free():
        found = take_theirs(step, step.default_split)
    else:
        search = SplitSearch(step, clock)
        search.run()
        found = answer(search)
    saved = saved_bytes(found.modules, step.outputs)
    return found._replace(record=replace(found.record, saved=saved))
