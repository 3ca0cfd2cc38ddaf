"""The graphs that are planned for a joint graph, plans that were tried, and PyTorch's splits.

PyTorch's splits are starts of the plans, and the answer where no plan is better.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from optsched.check.runs import check_runs
from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.runs import extra_cost
from optsched.plugins.inductor.recompute.calibrate import StepMemory
from optsched.plugins.inductor.recompute.joint_graph import Modules, computed, saved_bytes
from optsched.plugins.inductor.recompute.minimum_cuts import Cuts, shared_minimum_cuts
from optsched.runtime.clock import count_work
from optsched.runtime.collector import paused_collector
from optsched.solver.recompute.kernels import Contracted
from optsched.solver.recompute.result import RecomputeResult
from optsched.solver.recompute.solve import Planner

SPLIT_SECONDS = 2.2e-4
"""Seconds that a split takes, by nodes of the joint graph."""
TORCH_BUDGETS = tuple(i / 10 for i in range(10))
"""Activation memory budgets; the default is 1."""


class TorchSplit(NamedTuple):
    """A split of PyTorch's at an activation memory budget.

    It has an extra cost, ops in order, and bytes that are made and saved by its forward graph.
    """

    budget: float
    modules: Modules
    extra: int
    ops: Sequence[int]
    saved: int


class Model(NamedTuple):
    """A graph that is planned: its ops in words, the planner, and peaks of PyTorch's splits."""

    what: str
    ops: Contracted
    planner: Planner
    known: Sequence[tuple[int, Modules]]


class Tried(NamedTuple):
    """A plan, its split, the memory of the split as simulated, if it was, and the cost of cuts."""

    memory: StepMemory | None
    result: RecomputeResult
    modules: Modules
    what: str
    cuts: int

    @property
    def price(self) -> tuple[int, int]:
        """Extra cost, that of cuts included, and number of repeats."""
        return (self.result.extra or 0) + self.cuts, sum(row.count for row in self.result.repeats)

    def peak(self, cuts: bool = True) -> int | None:
        """Return the simulated peak, with or without cuts."""
        return None if self.memory is None else self.memory.peak if cuts else self.memory.whole

    def fits(self, budget: int, cuts: bool = True) -> bool:
        """Return True if the simulated peak is at most a budget, or if nothing was simulated."""
        peak = self.peak(cuts)
        return peak is None or peak <= budget


class TorchSplits:
    """The different splits that PyTorch makes of a joint graph at its budgets.

    `joint`, `inputs`, `how`: arguments of the partitioner. `graph`: the joint graph with costs.
    """

    def __init__(
        self, joint: GraphModule, inputs: Sequence[Any], how: Mapping[str, Any], graph: Graph
    ) -> None:
        self._joint, self._inputs, self._how, self._graph = joint, inputs, how, graph
        self._cuts: Cuts = {}
        self._found: dict[tuple[str, ...], TorchSplit] = {}
        self.default = self._add(1.0)

    @cached_property
    def all(self) -> list[TorchSplit]:
        """All of them, the default one first; they are made when they are asked for first."""
        for budget in TORCH_BUDGETS:
            self._add(budget)
        return list(self._found.values())

    @paused_collector()
    def _add(self, budget: float) -> TorchSplit:
        with shared_minimum_cuts(self._cuts):
            modules = _partition(self._joint, self._inputs, self._how, budget)
        names = tuple(computed(modules))
        again, found = Counter(names), self._found
        # A draw that PyTorch repeats draws other numbers, and gradients are wrong; a rank that
        # repeats a collective waits for others.
        if found and any(again[op.name] > 1 for op in self._graph.ops if op.once):
            return self.default
        ids = self._graph.op_ids
        ops = [ids[name] for name in names if name in ids]
        # Several budgets often give the same split, and each simulation costs a lowering.
        saved = saved_bytes(modules, self._how["num_fwd_outputs"])
        made = TorchSplit(budget, modules, extra_cost(self._graph, ops), ops, saved)
        return found.setdefault(names, made)


def _partition(
    joint: GraphModule, inputs: Sequence[Any], how: Mapping[str, Any], budget: float
) -> Modules:
    count_work(len(joint.graph.nodes), SPLIT_SECONDS)
    chosen = {} if budget == 1 else {"activation_memory_budget": budget}
    # Patched for this call only, as the setting belongs to the whole process.
    with functorch_config.patch(chosen):
        modules: Modules = min_cut_rematerialization_partition(copy.deepcopy(joint), inputs, **how)
    return modules


def make_model(what: str, ops: Contracted, splits: Sequence[TorchSplit]) -> Model:
    """Return a graph to plan, with those of PyTorch's splits that a plan may equal as starts."""
    graph, sequences, known = ops.graph(), list[list[int]](), list[tuple[int, Modules]]()
    for split in splits:
        sequence = ops.sequence(split.ops)
        # PyTorch may repeat what a plan must not.
        with suppress(PlanError):
            known.append((check_runs(graph, sequence).peak, split.modules))
            sequences.append(sequence)
    return Model(what, ops, Planner(graph, ops.loss, sequences, early=False), known)
