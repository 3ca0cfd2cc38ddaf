"""The memory of a compiled step before any code is generated: both graphs lowered and simulated.

Inductor lowers and fuses a graph up to the place of the pass after fusion. There the memory of its
wrapper is simulated (:mod:`optsched.plugins.inductor.simulate`) in the order that the scheduler
pass would choose, and the compilation is left. The peak of a step is the larger one of its forward
and backward graphs; what the forward saves is counted in both.

Example: a split saves 6 MB. Its forward graph needs 10 MB, its backward graph 12 MB, the saved
tensors included in both. The peak of the step is 12 MB.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._guards import TracingContext, tracing
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomSchedulerPass
from torch._inductor.virtualized import V
from torch.fx import GraphModule, Node
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._ordered_set import OrderedSet

from optsched.plugins.inductor.candidates import decide
from optsched.plugins.inductor.facts import read_facts
from optsched.plugins.inductor.kernel_memory import measure_kernels
from optsched.plugins.inductor.ownership import find_owned_inputs
from optsched.plugins.inductor.snapshot import take_snapshot

logger = logging.getLogger("optsched.plugins.inductor")
ORDER_SECONDS = 1.0
"""Most seconds for the order of one graph."""


class _MeasuredError(BaseException):
    """Ends a compilation after fusion; no `except Exception` on the way may swallow it."""


class _Measure(CustomSchedulerPass):  # type: ignore[misc]
    """Simulates the graph that it is called for, and ends its compilation."""

    def __init__(self, seconds: float, ordered: bool) -> None:
        self.seconds, self.ordered, self.peak = seconds, ordered, 0
        self.strides: list[list[int] | None] = []
        """Strides of the graph's outputs, which Inductor chooses."""

    def uuid(self) -> None:
        """Return None: nothing of this is cached."""

    def __call__(self, nodes: list[Any]) -> list[Any]:
        scheduler = V.graph.scheduler
        document = take_snapshot(
            nodes,
            scheduler.name_to_buf,
            scheduler.name_to_fused_node,
            OrderedSet(V.graph.graph_inputs),
            OrderedSet(V.graph.get_output_names()),
        )
        kernels = measure_kernels(nodes).by_name
        facts = read_facts(nodes, find_owned_inputs(nodes), kernels)
        found = decide(facts, document, reuse=True, seconds=self.seconds, name="step")
        choice = found.best if found.gains and self.ordered else found.own
        self.peak = choice.peak
        self.strides = [_strides(out) for out in V.graph.graph_outputs]
        logger.debug("own %s best %s extremes %s", found.own.peak, choice.peak, choice.extremes)
        raise _MeasuredError


def step_peak(
    modules: Sequence[GraphModule],
    seconds: float,
    outputs: int,
    static: Sequence[int],
    *,
    ordered: bool = True,
) -> int:
    """Return the most bytes of a forward and a backward graph as Inductor would run them.

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
    peaks: list[int] = []
    strides: list[list[int] | None] = []
    # The forward graph first: its strides decide the layout of what the backward graph reads.
    for module, backward in zip(modules, (False, True), strict=True):
        measure = _Measure(min(seconds, ORDER_SECONDS), ordered)
        with tracing(context), config.patch(_post_fusion_custom_pass=measure):
            _lower(module, backward, context, strides)
        peaks.append(measure.peak)
        # The outputs after the user's own are the saved tensors, in the order of the backward's
        # inputs.
        strides = measure.strides[outputs:]
    logger.debug("forward %s, backward %s", *peaks)
    return max(peaks)


def donated(modules: Sequence[GraphModule], outputs: int) -> list[int]:
    """Return the saved tensors that the backward graph may overwrite, as AOTAutograd does.

    These are the tensors that share their bytes with no input or output of a step.
    """
    if not functorch_config.donated_buffer:
        return []
    forward, backward = (module.graph.output_node().args[0] for module in modules)
    inputs = modules[0].graph.find_nodes(op="placeholder")
    held = {_storage(node) for node in (*inputs, *forward[:outputs], *backward)}
    # Held by the user as well, a tensor's bytes must stay as they are.
    return [i for i, node in enumerate(forward[outputs:]) if _storage(node) not in held]


def _storage(node: Any) -> StorageWeakRef | None:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return StorageWeakRef(value.untyped_storage()) if isinstance(value, torch.Tensor) else None


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
