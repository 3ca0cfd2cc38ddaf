"""The memory of a compiled step before any code is generated: both graphs lowered and simulated.

Inductor lowers and fuses a graph up to the place of the pass after fusion. There the memory of its
wrapper is simulated (:mod:`optsched.plugins.inductor.wrapper`) in the order, and with the cuts of
fused nodes, that the scheduler pass chooses (:mod:`optsched.plugins.inductor.scheduler_pass`), and
the compilation is left. Only graphs above the budget are cut, as cuts cost less than repeats, but
more than nothing. The peak of a step is the larger one of its forward and backward graphs; what the
forward saves is counted in both.

Example: a split saves 6 MB. Its forward graph needs 10 MB, its backward graph 12 MB, the saved
tensors included in both. The peak of the step is 12 MB.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch._functorch import config as functorch_config
from torch._guards import TracingContext, tracing
from torch._inductor import config, ir
from torch._inductor.custom_graph_pass import CustomSchedulerPass
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule

from optsched.plugins.gain import DEFAULT_GAIN, MinGain
from optsched.plugins.inductor.cuts.find import EARLIER_CUTS, FoundCuts
from optsched.plugins.inductor.reading.support import KeptOrderError
from optsched.plugins.inductor.recompute.hidden_bytes import (
    HiddenBytes,
    read_copies,
    read_workspaces,
)
from optsched.plugins.inductor.recompute.joint_graph import is_size, storage_of
from optsched.plugins.inductor.regions import Region, set_region
from optsched.plugins.inductor.scheduler_pass import EARLIER_ORDERS, SchedulerPass
from optsched.plugins.inductor.sizes.kernels import measure_kernels
from optsched.plugins.inductor.wrapper.facts import Order
from optsched.plugins.inductor.wrapper.simulate import simulate
from optsched.runtime.clock import Clock, count_work
from optsched.runtime.collector import paused_collector
from optsched.runtime.limits import Limits

logger = logging.getLogger("optsched.plugins.inductor")
LOWER_SECONDS = 2.5e-3
"""Seconds that a node of a graph takes to be lowered."""
STEP = "step"
"""Name of the graphs that are measured."""


class StepMemory(NamedTuple):
    """The peaks of a simulated step, and bytes of it that no graph of ATen ops shows.

    `peak` is the least one after cuts of fused nodes, and `whole` the one without. `used` is the
    one that is compiled, which is larger where more bytes fit the budget. `traffic` is the number
    of bytes that kernels read and write in addition after cuts. `most` is `used` where the calls
    also own the inputs that are saved: only a call tells if the program holds them. `graphs` has
    `used` of the forward and of the backward graph, and `uncut` has `whole` of both. `owned` is the
    number of bytes of inputs that the backward call was expected to own. `orders` and `cuts` are
    those of the graphs, by digest, as they are kept for the compilation. `at` has the op of both
    graphs at which `uncut` is reached.
    """

    peak: int
    whole: int
    used: int
    hidden: HiddenBytes
    traffic: int = 0
    most: int = 0
    graphs: tuple[int, int] = (0, 0)
    uncut: tuple[int, int] = (0, 0)
    owned: int = 0
    orders: Mapping[str, tuple[Order, bool]] = MappingProxyType({})
    cuts: Mapping[str, FoundCuts] = MappingProxyType({})
    at: tuple[str, str] = ("", "")


class _MeasuredError(BaseException):
    """Ends a compilation after fusion; no `except Exception` on the way may swallow it."""


class _Measure(CustomSchedulerPass):  # type: ignore[misc]
    """Simulates the graph that it is called for, and ends its compilation."""

    def __init__(self, rules: SchedulerPass, ordered: bool, beside: int) -> None:
        # The pass that will compile the nodes makes the choices here as well.
        budget = None if rules.budget is None else rules.budget - beside
        self.rules, self.ordered, self.beside = replace(rules, budget=budget), ordered, beside
        self.peak = self.whole = self.used = self.traffic = self.most = self.owned = 0
        self.at = ""
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
        seconds = self.rules.time_limit
        facts, found = self.rules.decide(nodes, kernels, STEP, seconds)
        self.workspaces = read_workspaces(nodes, kernels)
        if self.saved:
            self.copies = read_copies(facts, V.graph.graph_outputs, self.saved)
        choice = found.best if found.gains and self.ordered else found.own
        limit = Clock.of(Limits(seconds=seconds))
        cuts = self.rules.cut(nodes, facts, found, kernels, STEP, limit)
        self.used = self.whole = self.peak = choice.highest
        self.owned = found.start
        reached = simulate(facts, choice.order, reuse=choice.reuse).peak_at
        self.at = _op_of(nodes, reached)
        if choice is found.best and found.least is not None:
            # What fits is compiled, and the next plan aims by the least.
            self.whole = self.peak = found.least
        if cuts is not None:
            after = cuts.decision
            choice = after.best
            self.used, self.peak = choice.peak, after.least or choice.peak
            self.traffic = max(0, cuts.found.point.traffic - cuts.found.whole.traffic)
        if facts.worst and self.workspaces:
            raise KeptOrderError(
                f"what {min(self.workspaces)!r} allocates while it runs is not known at the upper "
                "ends of its sizes"
            )
        # Of the extremes one has the bytes beside the graph as its own already.
        self.most = max((self.used + self.beside, *choice.extremes))
        self.used, self.whole, self.peak, self.owned = (
            size + self.beside for size in (self.used, self.whole, self.peak, self.owned)
        )
        self.strides = [_strides(out) for out in V.graph.graph_outputs]
        logger.debug("own %s best %s extremes %s", found.own.peak, choice.peak, choice.extremes)
        raise _MeasuredError


@paused_collector()
def simulate_step(
    modules: Sequence[GraphModule],
    seconds: float,
    outputs: int,
    static: Sequence[int],
    *,
    ordered: bool = True,
    budget: int | None = None,
    split: str | bool = False,
    min_gain: MinGain = DEFAULT_GAIN,
    owned: Collection[str] = (),
    beside: int = 0,
) -> StepMemory:
    """Return the memory of a forward and a backward graph as Inductor would run them.

    Parameters
    ----------
    modules
        Forward and backward graph.
    seconds
        Limit for the order of each, and for its cuts.
    outputs
        Number of outputs of the forward graph; its other results are saved.
    static
        Positions of inputs that the model holds.
    ordered
        False for Inductor's own order instead of the one that the scheduler pass chooses.
    budget, split, min_gain
        Settings of the scheduler pass: cuts where a graph needs more bytes than the budget, and the
        least saving of an order.
    owned
        Inputs that a backward call was seen to own.
    beside
        Bytes of other inputs of the backward graph that count as live throughout it.
    """
    # Inside torch.compile a context exists already, with the fake tensors of this graph.
    outer = TracingContext.try_get()
    fake = _fake_mode(modules[0]) or (None if outer is None else outer.fake_mode)
    context = TracingContext(fake)
    # AOTAutograd states these facts after the split; ownership and reuse in place depend on them.
    context.fw_metadata = SimpleNamespace(
        num_forward=outputs,
        static_input_indices=list(static),
        bw_donated_idxs=donated(modules, outputs),
    )
    rules = SchedulerPass(
        seconds,
        store=None,
        reorder=True,
        reuse=True,
        min_gain=min_gain,
        split=split,
        budget=budget,
    )
    rows: list[_Measure] = []
    strides: list[list[int] | None] = []
    # The forward graph first: its strides decide the layout of what the backward graph reads.
    with EARLIER_ORDERS.noted() as orders, EARLIER_CUTS.noted() as cuts:
        for module, backward in zip(modules, (False, True), strict=True):
            measure = _Measure(rules, ordered, beside if backward else 0)
            measure.saved = [] if backward else _input_names(module)
            with tracing(context), config.patch(_post_fusion_custom_pass=measure):
                set_region(Region(owned=set(owned)))
                _lower(module, backward, context, strides)
            rows.append(measure)
            # The outputs after the user's own are the saved tensors, in the order of the
            # backward's inputs, and then the sizes, which are its first inputs.
            saved = measure.strides[outputs:]
            count = len(_sizes(module, outputs))
            strides = [*repeat(None, count), *saved[: len(saved) - count]]
    forward, behind = rows
    logger.debug("forward %s, backward %s", forward.peak, behind.peak)
    hidden = HiddenBytes(behind.workspaces | forward.workspaces, forward.copies)
    whole, used = max(forward.whole, behind.whole), max(forward.used, behind.used)
    traffic = forward.traffic + behind.traffic
    most = max(forward.most, behind.most)
    return StepMemory(
        max(forward.peak, behind.peak),
        whole,
        used,
        hidden,
        traffic,
        most,
        graphs=(forward.used, behind.used),
        uncut=(forward.whole, behind.whole),
        owned=behind.owned,
        orders=orders,
        cuts=cuts,
        at=(forward.at, behind.at),
    )


def _op_of(nodes: Sequence[Any], name: str) -> str:
    """Return the op of the graph that makes a buffer, or is a node; the name if no op does."""
    for node in (inner for fused in nodes for inner in fused.get_nodes()):
        names = {node.get_name(), *(made.get_name() for made in node.get_outputs())}
        if name in names and node.node is not None:
            made = node.node.get_origin_node() or max(
                node.node.get_origins(), key=lambda x: x.name, default=None
            )
            return name if made is None else str(made.name)
    return name


def _fake_mode(module: GraphModule) -> Any:
    """Return the mode of a graph's fake inputs: another graph may be compiled now, in its own."""
    values = (node.meta.get("val") for node in module.graph.find_nodes(op="placeholder"))
    return next((x.fake_mode for x in values if isinstance(x, FakeTensor)), None)


def _input_names(module: GraphModule) -> list[str]:
    """Return the names of the outputs of a graph that are input tensors; empty for others."""
    listed, given = module.graph.output_node().args[0], module.graph.find_nodes(op="placeholder")
    return [x.name if x in given and not is_size(x) else "" for x in listed]


def donated(modules: Sequence[GraphModule], outputs: int) -> list[int]:
    """Return the saved tensors that the backward graph may overwrite, as AOTAutograd does.

    These are the tensors that share their bytes with no input or output of a step.
    """
    if not functorch_config.donated_buffer:
        return []
    forward, backward = (module.graph.output_node().args[0] for module in modules)
    inputs, count = modules[0].graph.find_nodes(op="placeholder"), len(_sizes(modules[0], outputs))
    held = {storage_of(node) for node in (*inputs, *forward[:outputs], *backward)}
    # Held by the user as well, a tensor's bytes must stay as they are.
    rows = enumerate(forward[outputs : len(forward) - count])
    return [count + i for i, node in rows if storage_of(node) not in held]


def _sizes(module: GraphModule, outputs: int) -> list[Any]:
    """Return the sizes that a forward graph saves, which are its last outputs."""
    return [x for x in module.graph.output_node().args[0][outputs:] if is_size(x)]


def _strides(out: Any) -> list[int] | None:
    is_size = isinstance(out, ir.ShapeAsConstantBuffer)
    found = out.maybe_get_stride() if not is_size and hasattr(out, "maybe_get_stride") else None
    # A symbolic stride stays as it is traced.
    if found is None or not all(isinstance(x, int) or x.is_number for x in found):
        return None
    return [int(x) for x in found]


def _lower(
    module: GraphModule,
    backward: bool,
    context: TracingContext,
    strides: Sequence[list[int] | None],
) -> None:
    """Lower a graph whose first inputs have the strides that the forward graph gives them."""
    from torch._inductor.compile_fx import compile_fx_inner

    count_work(len(module.graph.nodes), LOWER_SECONDS)
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
