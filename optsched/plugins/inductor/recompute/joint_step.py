"""A joint graph: what is planned for it, its split by a plan, and the memory of splits.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch._functorch.compile_utils import fx_graph_cse
from torch._functorch.partitioners import has_recomputable_ops
from torch.fx import GraphModule

from optsched.formats.costs import moved_cost, with_costs
from optsched.formats.fx import from_fx
from optsched.model.graph import Graph
from optsched.plugins.gain import DEFAULT_GAIN, MinGain
from optsched.plugins.inductor.asked import LEAST, share_of
from optsched.plugins.inductor.recompute.calibrate import StepMemory, simulate_step
from optsched.plugins.inductor.recompute.certain_bytes import blocker
from optsched.plugins.inductor.recompute.hidden_bytes import with_hidden
from optsched.plugins.inductor.recompute.joint_graph import (
    Modules,
    forward_ends,
    in_sequence,
    require_known,
    returned_bytes,
    size_ends,
)
from optsched.plugins.inductor.recompute.least_bytes import (
    ImpossiblePeakError,
    least_bytes,
    require_possible,
)
from optsched.plugins.inductor.recompute.models import Model, TorchSplit, TorchSplits, make_model
from optsched.plugins.inductor.recompute.split import split_joint
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.kernels import contracted, join_kernels
from optsched.solver.recompute.problem import make_problem

ORDER_SECONDS = 1.0
"""Most seconds for the order of one graph, and for its cuts, while splits are compared."""


@dataclass(frozen=True)
class PeakSettings:
    """Settings of a split within a peak."""

    peak: int
    """Bytes, without inputs of the step."""
    time_limit: float
    """Seconds by which all times are measured
    (:mod:`optsched.plugins.inductor.recompute.search`)."""
    cost: str = "kernel"
    """Cost model of repeats (:mod:`optsched.formats.costs`)."""
    calibrated: bool = True
    """True if the budget holds for the compiled step, as simulated; False for ATen ops."""
    split: str | bool = False
    min_gain: MinGain = DEFAULT_GAIN
    """`split` and `min_gain`: settings of the scheduler pass. Where a simulated step is above the
    budget, cuts are tried before more is computed again."""
    ask: str = ""
    """A percentage of the peak with PyTorch's default split, or `min`, in place of `peak`."""


class JointStep:
    """A joint graph, the graph that is planned for it, and the memory of its splits.

    Raise `KeptOrderError` for graphs whose split is left to PyTorch.

    `name`: name of the graph. `joint`, `inputs`, `how`: arguments that Inductor gives to a
    partitioner; the joint graph is changed.
    """

    def __init__(
        self,
        settings: PeakSettings,
        name: str,
        joint: GraphModule,
        inputs: Sequence[Any],
        how: Mapping[str, Any],
    ) -> None:
        self.settings, self.name = settings, name
        require_known(joint)
        joint.graph.eliminate_dead_code()
        # PyTorch does the same first: ops that compute equal values must not count as repeats.
        joint.graph = fx_graph_cse(joint.graph)
        joint.recompile()
        self.joint, self.outputs = joint, int(how["num_fwd_outputs"])
        self.least = least_bytes(joint, self.outputs)
        if not settings.ask:
            require_possible(self.least, settings.peak)
        self.static: Sequence[int] = how.get("static_lifetime_input_indices") or ()
        self.sizes = size_ends(joint)
        graph = in_sequence(joint, from_fx(joint, name=name, dims=self.sizes or None))
        self.graph: Graph = with_costs(graph, settings.cost)
        self.ends = forward_ends(joint, self.graph, self.outputs)
        self.problem = make_problem(self.graph, self.ends)
        self.simulated: dict[Modules, StepMemory] = {}
        self._torch = TorchSplits(joint, inputs, how, self.graph)
        self._copies: Sequence[int] = ()
        if settings.ask:
            self.settings = replace(settings, peak=self._asked())
        if settings.calibrated:
            self.peak(self.default)
            self._require_room()
            self._add_hidden()

    def _require_room(self) -> None:
        """Raise :class:`ImpossiblePeakError` if PyTorch's split shows that no split fits."""
        peak, stock = self.settings.peak, self.simulated[self.default]
        if stock.peak > peak:
            clock = Clock.of(Limits(seconds=ORDER_SECONDS))
            if words := blocker(self.joint, self.outputs, stock.hidden, peak, clock):
                # Other splits may be lowered otherwise, which nothing but lowering them shows.
                is_sure = not any("convolution" in str(x.target) for x in self.joint.graph.nodes)
                given = "" if is_sure else ", if convolutions take what they do in PyTorch's split"
                raise ImpossiblePeakError(
                    f"no step fits {peak:,} bytes{given}: {words}", self.least
                )

    def _asked(self) -> int:
        """Return the bytes that a percentage means, or those of PyTorch's default split."""
        seconds = min(self.settings.time_limit, ORDER_SECONDS)
        beside = returned_bytes(self.default, self.outputs)
        stock = simulate_step(self.default, seconds, self.outputs, self.static, beside=beside)
        is_least = self.settings.ask == LEAST
        asked = stock.used if is_least else share_of(self.settings.ask, stock.used)
        if is_least or self.default_split.saved > asked:
            # No order and no cut makes it fit, so it need not be simulated for these bytes.
            self.simulated[self.default] = stock
        return asked

    def _add_hidden(self) -> None:
        """Add bytes to the graph that only a lowered step shows, here PyTorch's default split."""
        count = len(self.graph.ops)
        self.graph = with_hidden(self.graph, self.simulated[self.default].hidden)
        self.problem = make_problem(self.graph, self.ends)
        self._copies = range(count, len(self.graph.ops))

    @property
    def default_split(self) -> TorchSplit:
        """PyTorch's default split, with what it costs."""
        return self._torch.default

    @property
    def default(self) -> Modules:
        """Graphs of PyTorch's default split."""
        return self.default_split.modules

    def is_free(self) -> bool:
        """Return True if PyTorch's default split fits as simulated, and runs nothing again."""
        memory = self.memory(self.default)
        is_within = memory is not None and memory.peak <= self.settings.peak
        return is_within and not self.default_split.extra + self.cut_cost(self.default)

    @cached_property
    def splits(self) -> list[TorchSplit]:
        """PyTorch's splits, its default one first; most of them are made when first asked for."""
        return [x._replace(ops=[*self._copies, *x.ops]) for x in self._torch.all]

    def models(self) -> list[Model]:
        """Return ATen ops, and ops joined to kernels, which are often nearer to what is compiled.

        Of some plans of kernels Inductor fuses the repeats of many layers, so that all of their
        bytes are live at once, and plans of ATen ops need less.
        """
        if has_recomputable_ops(self.joint):
            # The user's tags say what runs again, and PyTorch's splits keep to them at any budget.
            return []
        found = [make_model("ATen ops", contracted(self.problem), self.splits)]
        if self.settings.calibrated:
            found.append(make_model("fused ops", join_kernels(self.problem), self.splits))
        return found

    def split(self, model: Model, sequence: Sequence[int]) -> Modules:
        """Return forward and backward graph of a plan."""
        runs = self.runs(model, sequence)
        modules: Modules = split_joint(self.joint, runs, self.forward, self.outputs, self.static)
        return modules

    def runs(self, model: Model, sequence: Sequence[int]) -> list[tuple[str, bool]]:
        """Return the nodes that a plan runs, in order, and whether each run is a repeat."""
        nodes = {node.name for node in self.joint.graph.nodes}
        runs, seen = list[tuple[str, bool]](), set[int]()
        for op in sequence:
            # Copies of inputs are Inductor's, not nodes of the joint graph.
            runs += [(name, op in seen) for name in model.ops.names(op) if name in nodes]
            seen.add(op)
        return runs

    @property
    def forward(self) -> list[str]:
        """Nodes whose first runs are in the forward graph."""
        return sorted(self.problem.name(u) for u in self.problem.forward)

    def memory(self, modules: Modules, closely: bool = False) -> StepMemory | None:
        """Return the memory of a split as compiled; None if the budget is that of ATen ops.

        It is simulated with short limits, or closely, with those of the compilation. Results that
        the forward graph returns and saves are live while the backward graph runs: the program
        holds them, or the call.
        """
        settings = self.settings
        if settings.calibrated and (closely or modules not in self.simulated):
            most = settings.time_limit if closely else ORDER_SECONDS
            self.simulated[modules] = simulate_step(
                modules,
                min(settings.time_limit, most),
                self.outputs,
                self.static,
                budget=settings.peak,
                split=settings.split,
                min_gain=settings.min_gain,
                beside=returned_bytes(modules, self.outputs),
            )
        return self.simulated.get(modules)

    def cut_cost(self, modules: Modules) -> int:
        """Return the cost of the bytes that kernels move in addition after cuts of a split."""
        memory = self.memory(modules)
        return 0 if memory is None else moved_cost(memory.traffic, self.settings.cost)

    def peak(self, modules: Modules) -> int | None:
        """Return the peak of a split as compiled, after cuts."""
        memory = self.memory(modules)
        return None if memory is None else memory.peak
