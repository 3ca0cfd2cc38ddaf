"""The partitioner that Inductor calls: forward and backward graphs whose peak is at most a budget.

It reads the joint graph, plans the cheapest repeats with which the peak fits
(:mod:`optsched.solver.recompute`), and splits the graph accordingly. PyTorch's own split is kept if
it is as good, if no plan is found, and for graphs with what the plan does not know: collectives,
effects, symbolic sizes, user checkpoint tags, mutations in the backward graph.

Workspaces of extern kernels and copies of inputs, which only a lowered step shows, are part of the
graph that is planned (:mod:`optsched.plugins.inductor.recompute.hidden_bytes`). ATen ops are fused
after the split, so the compiled step still needs other bytes than planned. The partitioner
therefore plans ATen ops, and ATen ops joined to likely kernels
(:mod:`optsched.solver.recompute.kernels`). It lowers each split without generating code, simulates
its memory (:mod:`optsched.plugins.inductor.recompute.calibrate`), and moves the planned budget
until the simulated step fits, at most five times: first by what the steps need without cuts of
fused nodes, then by what they need with them. The cheapest split that fits is taken, be it
PyTorch's; bounds are those of the ops that were planned.

Example: budget 10 MB. The first plan is made for 10 MB of ATen ops and simulated with 11 MB after
fusion. The next plan aims at a smaller number of bytes, until the simulated step fits.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import (
    min_cut_rematerialization_partition,
)
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx import GraphModule

from optsched.errors import OptschedError
from optsched.formats.costs import with_costs
from optsched.formats.fx import from_fx
from optsched.model.graph import Graph
from optsched.plugins.gain import DEFAULT_GAIN, MinGain
from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.calibrate import StepMemory, simulate_step
from optsched.plugins.inductor.recompute.hidden_bytes import with_hidden
from optsched.plugins.inductor.recompute.joint_graph import Modules, forward_ends, require_known
from optsched.plugins.inductor.recompute.models import Model, TorchSplit, make_model, torch_splits
from optsched.plugins.inductor.recompute.split import split_joint
from optsched.plugins.records import CompiledGraph, remember
from optsched.plugins.sources import sources_digest
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.kernels import contracted, join_kernels
from optsched.solver.recompute.problem import make_problem
from optsched.solver.recompute.result import RecomputeResult

logger = logging.getLogger("optsched.plugins.inductor")
ROUNDS = 5
"""Most splits of each planned graph that are lowered and simulated."""
CLOSE = 0.97
"""A simulated peak of at least this part of the budget is raised in small steps."""
PATIENCE = 4
"""Time limits of a plan after which no better one is sought once a split fits."""


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
    split, min_gain
        Settings of the scheduler pass. Where a simulated step is above the budget, cuts are tried
        before more is computed again.
    """

    peak: int
    time_limit: float
    cost: str = "kernel"
    calibrated: bool = True
    split: str | bool = False
    min_gain: MinGain = DEFAULT_GAIN

    def uuid(self) -> str:
        """Return a text of all settings, so that PyTorch's caches keep compiled steps apart."""
        chosen = (self.peak, self.time_limit, self.cost, self.calibrated, self.split)
        settings = repr((*chosen, self.min_gain))
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
    """A plan, its split, and the memory of the split as simulated, if it was."""

    memory: StepMemory | None
    result: RecomputeResult
    modules: Modules
    what: str

    @property
    def simulated(self) -> int | None:
        """Return the simulated peak, after cuts."""
        return None if self.memory is None else self.memory.peak

    @property
    def price(self) -> tuple[int, int]:
        """Extra cost and number of repeats."""
        return self.result.extra or 0, sum(row.count for row in self.result.repeats)

    def peak(self, cuts: bool) -> int | None:
        """Return the simulated peak, with or without cuts."""
        return None if self.memory is None else self.memory.peak if cuts else self.memory.whole

    def fits(self, budget: int, cuts: bool = True) -> bool:
        """Return True if the simulated peak is at most a budget, or if nothing was simulated."""
        peak = self.peak(cuts)
        return peak is None or peak <= budget


def next_budget(aim: int, low: int, high: int) -> int:
    """Return the next budget to plan: the aim, between budgets known to be too low and too high."""
    if low < high and low:
        # An aim outside the range says nothing, so bisect.
        return aim if low < aim < high else (low + high) // 2
    if high > low:
        return min(aim, high * 19 // 20)
    return max(aim, low * 21 // 20)


class _Partition:
    """The search for a split of one joint graph: plans, and their simulated memory."""

    def __init__(
        self,
        settings: PeakPartitioner,
        name: str,
        joint: GraphModule,
        inputs: Sequence[Any],
        how: dict[str, Any],
    ) -> None:
        self.settings, self.name = settings, name
        self.clock = Clock.of(Limits(seconds=PATIENCE * settings.time_limit))
        require_known(joint)
        joint.graph.eliminate_dead_code()
        # PyTorch does the same first: ops that compute equal values must not count as repeats.
        joint.graph = fx_graph_cse(joint.graph)
        joint.recompile()
        self.joint, self.outputs = joint, int(how["num_fwd_outputs"])
        self.nodes = {node.name for node in joint.graph.nodes}
        self.static: Sequence[int] = how.get("static_lifetime_input_indices") or ()
        self.graph: Graph = with_costs(from_fx(joint, name=name), settings.cost)
        self.ends = forward_ends(joint, self.graph, self.outputs)
        self.problem = make_problem(self.graph, self.ends)
        self.known: dict[Modules, StepMemory] = {}
        self.blocker = ""
        self.splits = torch_splits(joint, inputs, how, self.graph)
        self.torch = self.splits[0].modules
        if settings.calibrated:
            self._add_hidden()

    def _add_hidden(self) -> None:
        """Add bytes to the graph that only a lowered step shows, here PyTorch's default split."""
        self._simulate(self.torch)
        count = len(self.graph.ops)
        self.graph = with_hidden(self.graph, self.known[self.torch].hidden)
        self.problem = make_problem(self.graph, self.ends)
        copies = range(count, len(self.graph.ops))
        self.splits = [split._replace(ops=[*copies, *split.ops]) for split in self.splits]

    def _models(self) -> Iterator[Model]:
        """Yield ATen ops, and ops joined to kernels, which are often nearer to what is compiled.

        Of some plans of kernels Inductor fuses the repeats of many layers, so that all of their
        bytes are live at once, and plans of ATen ops need less.
        """
        yield make_model("ATen ops", contracted(self.problem), self.splits)
        if self.settings.calibrated:
            yield make_model("fused ops", join_kernels(self.problem), self.splits)

    def run(self) -> tuple[Modules, CompiledGraph]:
        budget, tried = self.settings.peak, list[Tried]()
        models, least = list(self._models()), None
        # Steered by peaks after cuts alone, plans can lie where they cost more than without cuts:
        # a plan that just fits after cuts lies beside one that no cuts lower.
        for cuts in (False, True) if self._may_cut() else (False,):
            for model in models:
                if least == 0 or self._has_enough(tried, cuts):
                    break
                self._approach(model, tried, cuts)
                least = min((row.price[0] for row in tried if row.fits(budget)), default=None)
        theirs = self._torch_fit(budget, least)
        if theirs is not None:
            return self._record_theirs(budget, theirs)
        if not tried:
            raise KeptOrderError(f"no plan within {budget:,} bytes: {self.blocker}")
        return self._choose(budget, tried)

    def _may_cut(self) -> bool:
        return self.settings.calibrated and bool(self.settings.split)

    def _approach(self, model: Model, tried: list[Tried], cuts: bool) -> None:
        """Plan and simulate with other budgets until the simulated step fits closely.

        Whether it does is asked of its peak with cuts or without.
        """
        budget = self.settings.peak
        planned, low, high = self._first_aim(model, budget, cuts), 0, 0
        rounds = len(tried) + ROUNDS
        for _ in range(2 * ROUNDS):
            # A third for each plan, as several rounds share the time limit.
            seconds = Limits(seconds=self.settings.time_limit / 3)
            result = model.planner.plan(planned, Clock.of(seconds))
            if result.sequence is None:
                self.blocker = result.blocker or "no plan was found in time"
                if not self.settings.calibrated:
                    break
                # Fused kernels may need less than the ops that were planned.
                low, aim = planned, planned * 5 // 4
            elif self._is_too_dear(result, tried, cuts):
                # What a smaller budget costs is not less, so its bytes need not be known.
                low, aim = planned, planned * 21 // 20
            else:
                row = self._try(model, result, tried)
                simulated = row.peak(cuts)
                logger.debug("%s: planned %s, simulated %s", self.name, planned, row.memory)
                # What costs nothing and fits cannot cost less with a larger budget.
                if simulated is None or (row.fits(budget) and not result.extra):
                    break
                # The ratio of planned to simulated bytes changes little between plans of one graph.
                aim = int(planned * budget * (1 + CLOSE) / 2 / max(1, simulated))
                if simulated > budget:
                    high = planned
                else:
                    low, aim = max(low, planned), max(aim, planned * 26 // 25)
            if len(tried) >= rounds or 0 < high - low < low // 100 or self._has_enough(tried, cuts):
                break
            planned = next_budget(aim, low, high)

    def _has_enough(self, tried: Sequence[Tried], cuts: bool) -> bool:
        return self.clock.expired() and any(row.fits(self.settings.peak, cuts) for row in tried)

    def _is_too_dear(self, result: RecomputeResult, tried: Sequence[Tried], cuts: bool) -> bool:
        """Return True if a plan costs as much as one that fits as simulated."""
        fits = [row.price[0] for row in tried if row.fits(self.settings.peak, cuts)]
        same = any(row.result.sequence == result.sequence for row in tried)
        return not same and (result.extra or 0) >= min(fits, default=(result.extra or 0) + 1)

    def _try(self, model: Model, result: RecomputeResult, tried: list[Tried]) -> Tried:
        """Split and simulate a plan, unless it is known."""
        same = (row for row in tried if row.what == model.what)
        known = next((row for row in same if row.result.sequence == result.sequence), None)
        if known is None:
            modules = self._split(model, result.sequence or ())
            known = Tried(self._simulate(modules), result, modules, model.what)
            tried.append(known)
        return known

    def _first_aim(self, model: Model, budget: int, cuts: bool) -> int:
        """Return the bytes to plan first, by PyTorch's simulated split of the nearest peak."""
        known = [row for row in model.known if row[1] in self.known]
        if not known:
            return budget
        peak, modules = min(known, key=lambda row: abs(row[0] - budget))
        # The same ratio, from a split whose two numbers are known before any plan is made.
        memory = self.known[modules]
        return int(budget * peak / max(1, memory.peak if cuts else memory.whole))

    def _torch_fit(self, budget: int, below: int | None) -> TorchSplit | None:
        """Return PyTorch's split of least extra cost that fits as simulated, if it is below ours.

        Of equal cost ours is taken.
        """
        for split in sorted(self.splits, key=lambda split: split.extra):
            if not self.settings.calibrated or (below is not None and split.extra >= below):
                break
            # Lowering takes seconds, and what is saved alone tells of many that they do not fit.
            if split.saved > budget:
                continue
            if (self._simulated(split.modules) or 0) <= budget:
                return split
        return None

    def _record_theirs(self, budget: int, split: TorchSplit) -> tuple[Modules, CompiledGraph]:
        own, simulated = self._simulated(self.torch), self._simulated(split.modules)
        share = 100 * split.extra / max(1, self.problem.total)
        text = f"recompute: asked {budget:,} bytes, a split of PyTorch's, simulated "
        text += f"{simulated:,}, extra {share:.2f} % ({self.graph.cost_unit})"
        record = CompiledGraph("inductor", self.name, len(self.graph.ops), order=text)
        return split.modules, replace(record, before=own, after=simulated)

    def _choose(self, budget: int, tried: Sequence[Tried]) -> tuple[Modules, CompiledGraph]:
        """Return the cheapest split that fits as simulated, or the one of the least peak."""
        fits = [row for row in tried if row.fits(budget)]
        if fits:
            chosen = min(fits, key=lambda row: row.price)
        else:
            chosen = min(tried, key=lambda row: row.simulated or 0)
        memory, result, modules, what = chosen
        simulated = None if memory is None else memory.peak
        repeats = chosen.price[1]
        share = 100 / max(1, result.total)
        text = f"recompute: asked {budget:,} bytes, planned {result.peak or 0:,}"
        text += "" if simulated is None else f", simulated {simulated:,}"
        text += f", {repeats} repeats, extra {share * (result.extra or 0):.2f} %"
        text += f" (bound {share * (result.bound or 0):.2f} % of {what}, {self.graph.cost_unit})"
        record = CompiledGraph("inductor", self.name, len(self.graph.ops), order=text)
        own = self._simulated(self.torch)
        record = replace(record, before=own, after=simulated)
        if own is None or simulated is None or simulated <= budget:
            return modules, record
        if own <= simulated:
            reason = f"PyTorch's split needs {own:,} bytes as simulated"
            return self.torch, replace(record, after=own, order="", reason=reason)
        return modules, replace(record, note="no plan that was tried fits as compiled")

    def _split(self, model: Model, sequence: Sequence[int]) -> Modules:
        runs, seen = [], set[int]()
        for op in sequence:
            # Copies of inputs are Inductor's, not nodes of the joint graph.
            runs += [(name, op in seen) for name in model.ops.names(op) if name in self.nodes]
            seen.add(op)
        forward = {self.problem.name(u) for u in self.problem.forward}
        modules: Modules = split_joint(self.joint, runs, forward, self.outputs, self.static)
        return modules

    def _simulated(self, modules: Modules) -> int | None:
        memory = self._simulate(modules)
        return None if memory is None else memory.peak

    def _simulate(self, modules: Modules) -> StepMemory | None:
        if not self.settings.calibrated:
            return None
        if modules not in self.known:
            settings = self.settings
            self.known[modules] = simulate_step(
                modules,
                settings.time_limit,
                self.outputs,
                self.static,
                budget=settings.peak,
                split=settings.split,
                min_gain=settings.min_gain,
            )
        return self.known[modules]
