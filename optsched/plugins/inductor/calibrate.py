"""The memory of a compiled step before any code is generated: both graphs lowered and simulated.

Inductor lowers and fuses a graph up to the place of the pass after fusion. There the memory of its
wrapper is simulated (:mod:`optsched.plugins.inductor.simulate`) in the order that the scheduler
pass would choose, and the compilation is left. If that is above the budget, cuts of fused nodes are
tried (:mod:`optsched.plugins.inductor.cuts`), as they cost less than repeats. The peak of a step is
the larger one of its forward and backward graphs; what the forward saves is counted in both.

Example: a split saves 6 MB. Its forward graph needs 10 MB, its backward graph 12 MB, the saved
tensors included in both. The peak of the step is 12 MB.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch._functorch import config as functorch_config
from torch._guards import TracingContext, tracing
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomSchedulerPass
from torch._inductor.virtualized import V
from torch.fx import GraphModule

from optsched.plugins.gain import DEFAULT_GAIN
from optsched.plugins.inductor.candidates import Decision
from optsched.plugins.inductor.cuts import find_cuts
from optsched.plugins.inductor.hidden_bytes import HiddenBytes, read_copies, read_workspaces
from optsched.plugins.inductor.joint_graph import storage_of
from optsched.plugins.inductor.kernel_memory import KernelMemory, measure_kernels
from optsched.plugins.inductor.nodes import decide_order
from optsched.plugins.inductor.wrapper import WrapperFacts
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

logger = logging.getLogger("optsched.plugins.inductor")
ORDER_SECONDS = 1.0
"""Most seconds for the order of one graph, and for its cuts."""
STEP = "step"
"""Name of the graphs that are measured."""


class StepMemory(NamedTuple):
    """The peaks of a simulated step, and bytes of it that no graph of ATen ops shows.

    `peak` is the one after cuts of fused nodes, and `whole` the one without.
    """

    peak: int
    whole: int
    hidden: HiddenBytes


class _MeasuredError(BaseException):
    """Ends a compilation after fusion; no `except Exception` on the way may swallow it."""


class _Measure(CustomSchedulerPass):  # type: ignore[misc]
    """Simulates the graph that it is called for, and ends its compilation."""

    def __init__(
        self, seconds: float, ordered: bool, budget: int | None, split: str | bool
    ) -> None:
        self.seconds, self.ordered, self.peak, self.whole = seconds, ordered, 0, 0
        self.budget, self.split = budget, split
        self.saved: list[str] = []
        """Names of a forward graph's outputs; Inductor copies its settings, so no nodes."""
        self.workspaces: dict[str, int] = {}
        self.copies: dict[str, int] = {}
        self.strides: list[list[int] | None] = []
        """Strides of the graph's outputs, which Inductor chooses."""

    def uuid(self) -> None:
        """Return None: nothing of this is cached."""

    def __call__(self, nodes: list[Any]) -> list[Any]:
        kernels = measure_kernels(nodes).by_name
        facts, found = decide_order(nodes, kernels, seconds=self.seconds, name=STEP)
        self.workspaces = read_workspaces(nodes, kernels)
        if self.saved:
            self.copies = read_copies(facts, V.graph.graph_outputs, self.saved)
        choice = found.best if found.gains and self.ordered else found.own
        self.peak = self.whole = choice.peak
        if self.split and self.budget is not None and self.peak > self.budget:
            self._cut(nodes, facts, found, kernels, self.peak - self.budget)
        self.strides = [_strides(out) for out in V.graph.graph_outputs]
        logger.debug("own %s best %s extremes %s", found.own.peak, choice.peak, choice.extremes)
        raise _MeasuredError

    def _cut(
        self,
        nodes: list[Any],
        facts: WrapperFacts,
        found: Decision,
        kernels: Mapping[str, KernelMemory],
        excess: int,
    ) -> None:
        """Lower the peak by cuts, if they save at least the excess over the budget."""
        try:
            cuts = find_cuts(
                nodes,
                facts,
                found,
                kernels,
                lambda made, seconds: decide_order(made, kernels, seconds=seconds, name=STEP),
                split=str(self.split),
                clock=Clock.of(Limits(seconds=self.seconds)),
                # The pass refuses cuts below the minimum gain, even if the step fits with them.
                min_gain=replace(DEFAULT_GAIN, size=max(excess, DEFAULT_GAIN.size)),
                name=STEP,
            )
        except Exception as error:
            logger.warning("fused nodes are not cut while a step is calibrated: %s", error)
            return
        if cuts is not None:
            self.peak = cuts.decision.best.peak


def simulate_step(
    modules: Sequence[GraphModule],
    seconds: float,
    outputs: int,
    static: Sequence[int],
    *,
    ordered: bool = True,
    budget: int | None = None,
    split: str | bool = False,
) -> StepMemory:
    """Return the memory of a forward and a backward graph as Inductor would run them.

    Parameters
    ----------
    modules
        Forward and backward graph.
    seconds
        Limit for the order of each.
    outputs
        Number of outputs of the forward graph; its other results are saved.
    static
        Positions of inputs that the model holds.
    ordered
        False for Inductor's own order instead of the one that the scheduler pass chooses.
    budget, split
        If a graph needs more bytes than the budget, cuts of its fused nodes are tried by this
        setting of the scheduler pass.
    """
    # Inside torch.compile a context exists already, with the fake tensors of this graph.
    outer = TracingContext.try_get()
    context = TracingContext(None if outer is None else outer.fake_mode)
    # AOTAutograd states these facts after the split; ownership and reuse in place depend on them.
    context.fw_metadata = SimpleNamespace(
        num_forward=outputs,
        static_input_indices=list(static),
        bw_donated_idxs=donated(modules, outputs),
    )
    rows: list[_Measure] = []
    strides: list[list[int] | None] = []
    # The forward graph first: its strides decide the layout of what the backward graph reads.
    for module, backward in zip(modules, (False, True), strict=True):
        measure = _Measure(min(seconds, ORDER_SECONDS), ordered, budget, split)
        measure.saved = [] if backward else _input_names(module)
        with tracing(context), config.patch(_post_fusion_custom_pass=measure):
            _lower(module, backward, context, strides)
        rows.append(measure)
        # The outputs after the user's own are the saved tensors, in the order of the backward's
        # inputs.
        strides = measure.strides[outputs:]
    forward, behind = rows
    logger.debug("forward %s, backward %s", forward.peak, behind.peak)
    hidden = HiddenBytes(behind.workspaces | forward.workspaces, forward.copies)
    whole = max(forward.whole, behind.whole)
    return StepMemory(max(forward.peak, behind.peak), whole, hidden)


def _input_names(module: GraphModule) -> list[str]:
    """Return the names of the outputs of a graph that are its inputs; empty for all others."""
    listed = module.graph.output_node().args[0]
    return [node.name if getattr(node, "op", "") == "placeholder" else "" for node in listed]


def donated(modules: Sequence[GraphModule], outputs: int) -> list[int]:
    """Return the saved tensors that the backward graph may overwrite, as AOTAutograd does.

    These are the tensors that share their bytes with no input or output of a step.
    """
    if not functorch_config.donated_buffer:
        return []
    forward, backward = (module.graph.output_node().args[0] for module in modules)
    inputs = modules[0].graph.find_nodes(op="placeholder")
    held = {storage_of(node) for node in (*inputs, *forward[:outputs], *backward)}
    # Held by the user as well, a tensor's bytes must stay as they are.
    return [i for i, node in enumerate(forward[outputs:]) if storage_of(node) not in held]


def _strides(out: Any) -> list[int] | None:
    found = out.maybe_get_stride() if hasattr(out, "maybe_get_stride") else None
    return None if found is None else [int(x) for x in found]


def _lower(
    module: GraphModule,
    backward: bool,
    context: TracingContext,
    strides: Sequence[list[int] | None],
) -> None:
    """Lower a graph whose first inputs have the strides that the forward graph gives them."""
    from torch._inductor.compile_fx import compile_fx_inner

    twin = GraphModule(module, copy.deepcopy(module.graph))
    twin.meta.update(module.meta)
    inputs = [node.meta["val"] for node in twin.graph.find_nodes(op="placeholder")]
    for i, known in enumerate(strides):
        if isinstance(inputs[i], torch.Tensor) and known not in (None, list(inputs[i].stride())):
            # A convolution's layout, for example, is not the one that was traced.
            inputs[i] = inputs[i].new_empty_strided(inputs[i].size(), known)
    try:
        # A graph out of the cache would never reach the pass.
        with config.patch(fx_graph_cache=False):
            compile_fx_inner(twin, inputs, is_backward=backward, is_inference=False)
    except _MeasuredError:
        return
