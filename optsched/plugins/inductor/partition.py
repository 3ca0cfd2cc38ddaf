"""The partitioner that Inductor calls: forward and backward graphs whose peak is at most a budget.

It reads the joint graph, plans the cheapest repeats with which the peak fits
(:mod:`optsched.solver.recompute`), and splits the graph accordingly. PyTorch's own split is kept if
it is as good, if no plan is found, and for graphs with what the plan does not know: collectives,
effects, symbolic sizes, user checkpoint tags, mutations in the backward graph.

ATen ops are fused after the split, so the compiled step needs other bytes than planned. The
partitioner therefore lowers each split without generating code, simulates its memory
(:mod:`optsched.plugins.inductor.calibrate`), and moves the planned budget until the simulated step
fits, at most five times. Bounds are those of the plan of ATen ops.

Example: budget 10 MB. The first plan is made for 10 MB of ATen ops and simulated with 11 MB after
fusion. The next plan aims at a smaller number of bytes, until the simulated step fits.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch._functorch import config as functorch_config
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import (
    min_cut_rematerialization_partition,
)
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx import GraphModule

from optsched.check.runs import check_runs
from optsched.errors import OptschedError, PlanError
from optsched.formats.costs import with_costs
from optsched.formats.fx import from_fx
from optsched.model.graph import Graph
from optsched.model.runs import extra_cost
from optsched.plugins.inductor.calibrate import step_peak
from optsched.plugins.inductor.joint_graph import Modules, computed, forward_ends, require_known
from optsched.plugins.inductor.split import split_joint
from optsched.plugins.inductor.support import KeptOrderError
from optsched.plugins.records import CompiledGraph, remember
from optsched.plugins.sources import sources_digest
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.recompute.solve import Planner

logger = logging.getLogger("optsched.plugins.inductor")
ROUNDS = 5
"""Most splits that are lowered and simulated."""
CLOSE = 0.97
"""A simulated peak of at least this part of the budget is not raised further."""
TORCH_BUDGETS = tuple(i / 10 for i in range(10))
"""Activation memory budgets of PyTorch's splits: starts, and the answer where no plan fits."""


@dataclass(frozen=True)
class PeakPartitioner(CustomPartitionerFn):  # type: ignore[misc]
    """Splits joint graphs so that forward and backward need at most `peak` bytes.

    Parameters
    ----------
    peak
        Bytes, without inputs of the step.
    time_limit
        Seconds for all plans of a graph.
    cost
        Cost model of repeats (:mod:`optsched.formats.costs`).
    calibrated
        True if the budget holds for the compiled step, as simulated; False for ATen ops.
    """

    peak: int
    time_limit: float
    cost: str = "kernel"
    calibrated: bool = True

    def uuid(self) -> str:
        """Return a text of all settings, so that PyTorch's caches keep compiled steps apart."""
        settings = repr((self.peak, self.time_limit, self.cost, self.calibrated))
        return hashlib.sha256((sources_digest() + settings).encode()).hexdigest()

    def __call__(self, gm: GraphModule, joint_inputs: Sequence[Any], **how: Any) -> Modules:
        """Return forward and backward graph; never fail where PyTorch would not."""
        start = time.perf_counter()
        name = f"{torch._guards.CompileContext.current_compile_id() or 'graph'} joint"
        try:
            # The partition changes the graph, and PyTorch's own split needs it unchanged if this
            # one fails.
            original = copy.deepcopy(gm)
            found, record = _Partition(self, name, gm, joint_inputs, how).run()
        except Exception as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            level = logging.INFO if isinstance(error, OptschedError) else logging.WARNING
            logger.log(level, "%s: split left to PyTorch: %s", name, reason)
            record = CompiledGraph("inductor", name, len(gm.graph.nodes), reason=reason)
            found = min_cut_rematerialization_partition(original, joint_inputs, **how)
        remember(replace(record, seconds=time.perf_counter() - start))
        return found


class Tried(NamedTuple):
    """A plan, its split, and the simulated peak of the split."""

    simulated: int | None
    result: RecomputeResult
    modules: Modules


def next_budget(aim: int, low: int, high: int) -> int:
    """Return the next budget to plan: the aim, between budgets known to be too low and too high."""
    if high and low and not low < aim < high:
        # The aim is outside the range, so bisect.
        return (low + high) // 2
    if high:
        return min(aim, high * 19 // 20)
    return max(aim, low * 21 // 20)


class _Partition:
    """One joint graph on its way to two graphs."""

    def __init__(
        self,
        settings: PeakPartitioner,
        name: str,
        joint: GraphModule,
        inputs: Sequence[Any],
        how: dict[str, Any],
    ) -> None:
        self.settings, self.name, self.inputs, self.how = settings, name, inputs, how
        require_known(joint)
        joint.graph.eliminate_dead_code()
        # PyTorch does the same first: ops that compute equal values must not count as repeats.
        joint.graph = fx_graph_cse(joint.graph)
        joint.recompile()
        self.joint, self.outputs = joint, int(how["num_fwd_outputs"])
        self.static: Sequence[int] = how.get("static_lifetime_input_indices") or ()
        self.graph: Graph = with_costs(from_fx(joint, name=name), settings.cost)
        self.loss = forward_ends(joint, self.graph, self.outputs)
        self.peaks: dict[Modules, int] = {}
        self.torch = self._torch_split()
        self.others = self._torch_splits()
        known = [row for row in map(self._sequence, (self.torch, *self.others)) if row]
        self.planner = Planner(self.graph, self.loss, known, early=False)

    def _torch_split(self, **settings: float) -> Modules:
        # Patched for this call only, as the settings belong to the whole process.
        with functorch_config.patch(settings):
            modules: Modules = min_cut_rematerialization_partition(
                copy.deepcopy(self.joint), self.inputs, **self.how
            )
        return modules

    def _torch_splits(self) -> list[Modules]:
        """Return the other splits that PyTorch makes at its activation memory budgets."""
        found = {tuple(computed(self.torch)): self.torch}
        for budget in TORCH_BUDGETS:
            modules = self._torch_split(activation_memory_budget=budget)
            # Several budgets often give the same split, and each simulation costs a lowering.
            found.setdefault(tuple(computed(modules)), modules)
        return list(found.values())[1:]

    def _sequence(self, modules: Modules) -> list[int]:
        """Return a split as a sequence of ops; empty if a plan may not do the same."""
        ids = self.graph.op_ids
        sequence = [ids[name] for name in computed(modules) if name in ids]
        with suppress(PlanError):
            check_runs(self.graph, sequence)
            return sequence
        return []

    def run(self) -> tuple[Modules, CompiledGraph]:
        budget, tried = self.settings.peak, list[Tried]()
        planned, low, high = self._first_aim(budget), 0, 0
        blocker = ""
        for _ in range(ROUNDS):
            # A third for each plan, as several rounds share the time limit.
            seconds = Limits(seconds=self.settings.time_limit / 3)
            result = self.planner.plan(planned, Clock.of(seconds))
            if result.sequence is None and not self.settings.calibrated:
                blocker = result.blocker or "no plan was found in time"
                break
            if result.sequence is None:
                # Fused kernels may need less than the ops that were planned.
                low, blocker = planned, result.blocker or "no plan was found in time"
                planned = (planned + high) // 2 if high else planned * 5 // 4
                continue
            known = [row for row in tried if row.result.sequence == result.sequence]
            modules = known[0].modules if known else self._split(result.sequence)
            simulated = known[0].simulated if known else self._simulate(modules)
            tried.append(Tried(simulated, result, modules))
            logger.debug("%s: planned %s, simulated %s", self.name, planned, simulated)
            if simulated is None or CLOSE * budget <= simulated <= budget:
                break
            if simulated <= budget:
                # Nothing runs again and the step fits, so a larger budget cannot cost less.
                if not result.extra:
                    break
                low = max(low, planned)
            else:
                high = planned
            # The ratio of planned to simulated bytes changes little between plans of one graph.
            aim = int(planned * budget * (1 + CLOSE) / 2 / max(1, simulated))
            planned = next_budget(aim, low, high)
        if not any(row.simulated is None or row.simulated <= budget for row in tried):
            fitting = self._torch_fit(budget)
            if fitting is not None:
                return fitting
        if not tried:
            raise KeptOrderError(f"no plan within {budget:,} bytes: {blocker}")
        return self._choose(budget, tried)

    def _first_aim(self, budget: int) -> int:
        """Return the bytes of ATen ops to plan first, by the PyTorch split nearest to a budget."""
        rows = [(self._sequence(x), x) for x in (self.torch, *self.others)]
        peaks = [(check_runs(self.graph, row).peak, x) for row, x in rows if row]
        if not peaks or not self.settings.calibrated:
            return budget
        peak, modules = min(peaks, key=lambda row: abs(row[0] - budget))
        # The same ratio, from a split whose two numbers are known before any plan is made.
        return int(budget * peak / max(1, self._simulate(modules) or peak))

    def _torch_fit(self, budget: int) -> tuple[Modules, CompiledGraph] | None:
        """Return PyTorch's split of least extra compute that fits a budget as simulated."""
        rows = [(self._sequence(x), x) for x in (self.torch, *self.others)]
        priced = [(extra_cost(self.graph, row), i) for i, (row, _) in enumerate(rows) if row]
        for extra, i in sorted(priced):
            simulated = self._simulate(rows[i][1])
            if simulated is not None and simulated <= budget:
                share = 100 * extra / max(1, self.planner.problem.total)
                text = f"recompute: asked {budget:,} bytes, a split of PyTorch's, simulated "
                text += f"{simulated:,}, extra {share:.2f} % ({self.graph.cost_unit})"
                record = CompiledGraph("inductor", self.name, len(self.graph.ops), order=text)
                own = self._simulate(self.torch)
                return rows[i][1], replace(record, before=own, after=simulated)
        return None

    def _choose(self, budget: int, tried: Sequence[Tried]) -> tuple[Modules, CompiledGraph]:
        """Return the cheapest split that fits as simulated, or the one of the least peak."""
        fits = [row for row in tried if row.simulated is None or row.simulated <= budget]
        if fits:
            simulated, result, modules = min(fits, key=lambda row: row.result.extra or 0)
        else:
            simulated, result, modules = min(tried, key=lambda row: row.simulated or 0)
        own = self._simulate(self.torch)
        repeats = sum(row.count for row in result.repeats)
        share = 100 / max(1, result.total)
        text = f"recompute: asked {budget:,} bytes, planned {result.peak or 0:,}"
        text += "" if simulated is None else f", simulated {simulated:,}"
        text += f", {repeats} repeats, extra {share * (result.extra or 0):.2f} %"
        text += f" (bound {share * (result.bound or 0):.2f} % in ATen ops, {self.graph.cost_unit})"
        record = CompiledGraph("inductor", self.name, len(self.graph.ops), order=text)
        record = replace(record, before=own, after=simulated)
        if simulated is not None and simulated > budget:
            record = replace(record, note="no plan that was tried fits as compiled")
        if own is not None and simulated is not None and self._keeps(own, simulated, budget):
            reason = f"PyTorch's split needs {own:,} bytes as simulated"
            return self.torch, replace(record, after=own, order="", reason=reason)
        return modules, record

    def _keeps(self, own: int, simulated: int, budget: int) -> bool:
        """Return True if PyTorch's split is as good; one that fits without a plan is kept."""
        return own <= budget < simulated or (simulated > budget and own <= simulated)

    def _split(self, sequence: Sequence[int]) -> Modules:
        problem = self.planner.problem
        runs, seen = [], set[int]()
        for v in sequence:
            if v not in problem.views:
                runs.append((self.graph.ops[v].name, v in seen))
            seen.add(v)
        forward = {problem.name(u) for u in problem.forward}
        modules: Modules = split_joint(self.joint, runs, forward, self.outputs, self.static)
        return modules

    def _simulate(self, modules: Modules) -> int | None:
        if not self.settings.calibrated:
            return None
        if modules not in self.peaks:
            seconds = self.settings.time_limit
            self.peaks[modules] = step_peak(modules, seconds, self.outputs, self.static)
        return self.peaks[modules]
