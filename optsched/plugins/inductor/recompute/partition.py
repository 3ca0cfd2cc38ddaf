"""The partitioner that Inductor calls: forward and backward graphs whose peak is at most a budget.

It reads the joint graph (:mod:`optsched.plugins.inductor.recompute.joint_step`), plans the cheapest
repeats with which the simulated peak fits (:mod:`optsched.plugins.inductor.recompute.search`), and
takes the cheapest split that fits (:mod:`optsched.plugins.inductor.recompute.answer`). PyTorch's
own split is kept if it is as good, if no plan is found, and for graphs with what the plan does not
know: effects, symbolic sizes without an upper end, mutations in the backward graph. With user
checkpoint tags it is one of PyTorch's splits, which keep to them. Where a graph has collectives,
the first rank makes the plan of all (:mod:`optsched.plugins.inductor.recompute.ranks`).

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any, NamedTuple

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx import GraphModule

from optsched.errors import OptschedError
from optsched.plugins.inductor.asked import LEAST
from optsched.plugins.inductor.recompute.answer import Answer, answer
from optsched.plugins.inductor.recompute.joint_graph import (
    Modules,
    is_on_cpu,
    joint_digest,
    saved_bytes,
    size_ends,
)
from optsched.plugins.inductor.recompute.joint_step import JointStep, PeakSettings
from optsched.plugins.inductor.recompute.least_bytes import UNKNOWN, ImpossiblePeakError
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
from optsched.plugins.inductor.recompute.step_plan import StepPlan
from optsched.plugins.inductor.recompute.step_points import Chosen, take_chosen
from optsched.plugins.inductor.regions import Region, set_region
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
        settings = sources_digest() + repr(astuple(self)) + _plan_of(self).digest()
        return hashlib.sha256(settings.encode()).hexdigest()

    def __call__(self, gm: GraphModule, joint_inputs: Sequence[Any], **how: Any) -> Modules:
        """Return forward and backward graph; never fail where PyTorch would not."""
        start = time.perf_counter()
        name = f"{torch._guards.CompileContext.current_compile_id() or 'graph'} joint"
        # The plan changes the graph, and PyTorch's own split needs it unchanged if no plan is made.
        original = copy.deepcopy(gm)
        try:
            split = self._split(_plan_of(self), name, gm, joint_inputs, how)
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
            set_region(Region())
            found = min_cut_rematerialization_partition(original, joint_inputs, **how)
        remember(replace(record, seconds=time.perf_counter() - start))
        return found

    def _split(
        self,
        plan: StepPlan,
        name: str,
        joint: GraphModule,
        inputs: Sequence[Any],
        how: dict[str, Any],
    ) -> Answer:
        """Return the split that the plan of the step has for a joint graph, or one for it alone."""
        team, on_cpu = team_of(joint), is_on_cpu(joint)
        structure = joint_structure(joint, how, repr(astuple(self)))
        key = joint_digest(joint, how) if team is None else structure.key
        if team is not None:
            plan.share(team, key)
        chosen = plan.find(key) if on_cpu else None
        work = list[_Work]()
        if team is None:
            work.append(self._work(plan, chosen, key, name, joint, inputs, how))
        else:
            ranks = team.ranks

            def decide(rows: list[Any]) -> list[Any]:
                require_equal(rows, ranks)
                work.append(self._work(plan, chosen, key, name, joint, inputs, how))
                return work[0].data

            most = longest(self.time_limit, search_wall(self.time_limit, joint))
            found = team.settle("joint graph", structure, decide, work=most)
            if not work:
                work.append(_taken(plan, key, name, joint, inputs, how, found))
        (made,) = work
        # The bytes that are live between calls are measured on the CPU alone, and of one size.
        is_fixed = not size_ends(joint)
        region = Region(key, plan.watch if on_cpu and is_fixed else None, owned=plan.owned(key))
        expected = made.answer.owned if is_fixed else None
        set_region(replace(region, limits=made.limits, expected=expected))
        return made.answer

    def _work(
        self,
        plan: StepPlan,
        chosen: Chosen | None,
        key: str,
        name: str,
        joint: GraphModule,
        inputs: Sequence[Any],
        how: dict[str, Any],
    ) -> _Work:
        """Return the split that is chosen for the step, or one that is made now."""
        if chosen is not None:
            return _Work(take_chosen(chosen, name, joint, inputs, how), chosen.limits)
        # Other processes must not decide what is found.
        with counted_seconds(search_wall(self.time_limit, joint)):
            clock = search_clock(self.time_limit, len(joint.graph.nodes))
            try:
                step = JointStep(self, name, joint, inputs, how)
            except ImpossiblePeakError as error:
                found = _refused(str(error), name, joint, inputs, how)
                plan.add(key, name, found, how, 0, error.least)
                return _Work(found, (self.peak,) * 2, 0)
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
            plan.add(key, name, found, how, step.problem.total, step.least, step)
            return _Work(found, limits, step.problem.total)


class _Work(NamedTuple):
    """A split, bytes that its graphs may need, and the cost of a step without repeats.

    The cost is None for a split that was chosen for the step.
    """

    answer: Answer
    limits: tuple[int, int]
    total: int | None = None

    @property
    def data(self) -> list[Any]:
        """All that other ranks need of it, as data for JSON."""
        found = self.answer
        row = [found.recipe.data, asdict(found.record), found.extra, found.owned]
        return [*row, self.limits, self.total]


def _taken(
    plan: StepPlan,
    key: str,
    name: str,
    joint: GraphModule,
    inputs: Sequence[Any],
    how: dict[str, Any],
    data: list[Any],
) -> _Work:
    """Return the split that the first rank has chosen."""
    row, record, extra, owned, (forward, behind), total = data
    try:
        recipe = Recipe.read(row)
        front = tuple((peak, share) for peak, share in record.pop("front"))
        text = CompiledGraph(**{**record, "name": name}, front=front)
        modules = recipe.split(joint, inputs, how)
    except Exception as error:
        raise RanksError(f"the split of the first rank does not fit this graph: {error}") from error
    made = Answer(modules, text, extra, recipe, owned)
    if total is not None:
        plan.add(key, name, made, how, total, UNKNOWN)
    return _Work(made, (forward, behind), total)


def _refused(
    reason: str, name: str, joint: GraphModule, inputs: Sequence[Any], how: dict[str, Any]
) -> Answer:
    """Return PyTorch's default split of a joint graph that no split brings within the peak."""
    logger.info("%s: split left to PyTorch: %s", name, reason)
    ops = len(joint.graph.nodes)
    record = CompiledGraph("inductor", name, ops, reason=reason, answer=reason)
    modules: Modules = min_cut_rematerialization_partition(joint, inputs, **how)
    return Answer(modules, record, 0, Recipe(1.0))


_plans: dict[PeakSettings, StepPlan] = {}


def _plan_of(settings: PeakSettings) -> StepPlan:
    """Return the plan of all graphs that are compiled with equal settings."""
    return _plans.setdefault(settings, StepPlan(settings))


def search_split(step: JointStep, clock: Clock) -> Answer:
    """Return the split of a joint graph that is cheapest within the peak, for it alone."""
    search = SplitSearch(step, clock)
    search.run()
    found = answer(search)
    saved = saved_bytes(found.modules, step.outputs)
    return found._replace(record=replace(found.record, saved=saved))
