"""The partitioner that Inductor calls: forward and backward graphs whose peak is at most a budget.

It reads the joint graph (:mod:`optsched.plugins.inductor.recompute.joint_step`), plans the cheapest
repeats with which the simulated peak fits (:mod:`optsched.plugins.inductor.recompute.search`), and
takes the cheapest split that fits (:mod:`optsched.plugins.inductor.recompute.answer`). PyTorch's
own split is kept if it is as good, if no plan is found, and for graphs with what the plan does not
know: effects, symbolic sizes, mutations in the backward graph. With user checkpoint tags it is one
of PyTorch's splits, which keep to them. Where a graph has collectives, rank 0 makes the plan of
all ranks (:mod:`optsched.plugins.inductor.recompute.ranks`).

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx import GraphModule

from optsched.errors import OptschedError
from optsched.plugins.inductor.asked import LEAST
from optsched.plugins.inductor.recompute.answer import TAKE_BACK_LIMITS, Answer, answer
from optsched.plugins.inductor.recompute.joint_graph import (
    ImpossiblePeakError,
    Modules,
    is_on_cpu,
    joint_digest,
    saved_bytes,
)
from optsched.plugins.inductor.recompute.joint_step import JointStep, PeakSettings
from optsched.plugins.inductor.recompute.ranks import RanksError, agree, has_collectives
from optsched.plugins.inductor.recompute.recipe import Recipe
from optsched.plugins.inductor.recompute.search import LAST, SplitSearch, search_clock
from optsched.plugins.inductor.recompute.step_plan import StepPlan
from optsched.plugins.inductor.recompute.step_points import (
    least_point,
    least_record,
    split_points,
    take_chosen,
)
from optsched.plugins.inductor.regions import Region, set_region
from optsched.plugins.records import CompiledGraph, remember
from optsched.plugins.sources import sources_digest
from optsched.runtime.clock import BUSY, Clock, processor_time

MOST_LIMITS = BUSY * (LAST + TAKE_BACK_LIMITS + 2)
"""Wall time that rank 0 may take for a plan, in time limits, which count processor time."""
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
            found, record, *_ = self._split(_plan_of(self), name, gm, joint_inputs, how)
        except RanksError:
            # The other ranks may have split the graph otherwise, and would wait in a collective.
            raise
        except Exception as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            level = logging.INFO if isinstance(error, OptschedError) else logging.WARNING
            logger.log(level, "%s: split left to PyTorch: %s", name, reason)
            refusal = reason if isinstance(error, ImpossiblePeakError) else ""
            ops = len(original.graph.nodes)
            record = CompiledGraph("inductor", name, ops, reason=reason, answer=refusal)
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
        if has_collectives(joint):
            return self._split_on_all_ranks(name, joint, inputs, how)
        key, on_cpu = joint_digest(joint, how), is_on_cpu(joint)
        # Other processes must not decide what is found.
        with processor_time():
            chosen = plan.find(key) if on_cpu else None
            if chosen is None:
                clock = search_clock(self.time_limit)
                step = JointStep(self, name, joint, inputs, how)
                if self.ask == LEAST:
                    chosen = least_point(split_points(step))
                    found = take_chosen(chosen, name, copy.deepcopy(step.joint), inputs, how)
                    found = found._replace(record=least_record(step, chosen, found.record))
                else:
                    found = search_split(step, clock)
                plan.add(key, step, found.modules, found.extra)
            else:
                found = take_chosen(chosen, name, joint, inputs, how)
        region = Region(key, plan.watch if on_cpu else None, owned=plan.owned(key))
        if chosen is not None:
            region = replace(region, limits=chosen.limits, expected=chosen.point.owned)
        elif self.ask:
            region = replace(region, limits=(step.settings.peak,) * 2)
        # The bytes that are live between calls are measured on the CPU alone.
        set_region(region)
        return found

    def _split_on_all_ranks(
        self, name: str, joint: GraphModule, inputs: Sequence[Any], how: dict[str, Any]
    ) -> Answer:
        """Return the split that rank 0 has made for a joint graph with collectives."""
        made: list[Answer] = []

        def plan() -> list[Any]:
            with processor_time():
                clock = search_clock(self.time_limit)
                step = JointStep(self, name, copy.deepcopy(joint), inputs, how)
                found = search_split(step, clock)
            made.append(found)
            return [list(found.recipe), asdict(found.record), found.extra]

        settings = repr(astuple(self))
        (recipe, record, extra), _ = agree(joint, settings, plan, MOST_LIMITS * self.time_limit)
        if made:
            return made[0]
        budget, runs, forward = recipe
        again = Recipe(budget, tuple((node, bool(n)) for node, n in runs), tuple(forward))
        front = tuple((peak, share) for peak, share in record.pop("front"))
        text = CompiledGraph(**{**record, "name": name}, front=front)
        return Answer(again.split(joint, inputs, how), text, extra, again)


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
