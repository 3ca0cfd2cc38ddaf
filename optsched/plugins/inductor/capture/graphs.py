"""Capture of the graphs that TorchInductor schedules, from any torch model, without running it.

The model lives in fake tensors, which have shapes and no storage, so that a full-size model needs
little memory and no GPU. Inductor lowers and fuses as it always does, up to the point where it
reorders for peak memory; there the graph is written down and code generation is left out.

Example: a model `mlp` in training mode gives two graphs, in files such as `mlp_bs32.fwd.json.gz`
and `mlp_bs32.bwd.json.gz`.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, NoReturn
from unittest import mock

from optsched.errors import MissingDependencyError, OptschedError, UsageError
from optsched.formats.fused import KEY as FUSION

Phase = Literal["train", "infer"]
"""Training gives forward and backward graphs, inference one graph."""

Built = tuple[Any, Sequence[Any], Mapping[str, Any]]
"""A module, its positional arguments and its keyword arguments."""

Build = Callable[[], Built]
"""Makes a module and the arguments to call it with."""

Observe = Callable[..., Mapping[str, Any]]
"""Takes what Inductor hands to `reorder_for_peak_memory`, gives entries for the key `extra`."""


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """One graph that Inductor scheduled."""

    model: str
    """Name of the model."""
    phase: str
    """`"fwd"`, `"bwd"` or `"infer"`."""
    part: int
    """1, or more where the model breaks into several graphs; a forward and a backward graph of the
    same part belong together."""
    document: dict[str, Any]
    """Torch's simulator file with the key `extra`, as a JSON value."""

    @property
    def file_name(self) -> str:
        """The customary file name, such as `resnet50_bs32.bwd.json.gz`."""
        return f"{_with_part(self.model, self.part)}.{self.phase}.json.gz"


def capture(
    build: Build,
    *,
    phase: Phase,
    activation_memory_budget: float | None = None,
    fake_cuda: bool = False,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    observe: Observe | None = None,
    parts: bool = False,
) -> list[CapturedGraph]:
    """Capture the graphs of a model as TorchInductor schedules them.

    Compilation state of `torch.compile` in this process is reset.

    Raise `MissingDependencyError` if torch is not installed. Raise `UsageError` if an argument
    makes no sense, or the output of a module in training has no gradient. Raise `OptschedError` if
    Inductor compiled no graph.

    Parameters
    ----------
    build
        Called once, under a fake tensor mode. In training, all floating-point outputs of the
        module that need a gradient are summed up and differentiated: return the loss alone.
    phase
        `"train"` gives forward and backward graphs, `"infer"` one inference graph.
    activation_memory_budget
        Compiler-based activation checkpointing: the share of activations, between 0 and 1, that
        may be kept for the backward pass. By default all of them may.
    fake_cuda
        Lower for an imagined GPU, for the fusion that its backend does.
    model
        Name of the model; by default that of the module's class.
    settings
        Settings of `torch._inductor.config` to lower with, such as `{"max_fusion_size": 1}`.
    observe
        Called for each graph at the moment Inductor would reorder it, to write down more of the
        scheduler's nodes.
    parts
        True to write down the parts of fused nodes, too (:mod:`optsched.formats.fused`), so that
        cuts can be planned: `optsched solve --unfuse`.

    Returns
    -------
    list of CapturedGraph
        In the order in which Inductor compiled them.

    Examples
    --------
    >>> import torch
    >>> def build():
    ...     model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU())
    ...     return model, (torch.randn(32, 64),), {}
    >>> [graph.file_name for graph in capture(build, phase="train")]
    ['Sequential.fwd.json.gz', 'Sequential.bwd.json.gz']
    """
    _check(phase, activation_memory_budget)
    torch = _import_torch()
    from torch._dynamo import config as dynamo_config
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config
    from torch._subclasses.fake_tensor import FakeTensorMode

    # A compiled form from before would be used again, without a call of our backend.
    torch._dynamo.reset()
    lowering = _Lowering(fake_cuda, observe, parts)
    with contextlib.ExitStack() as stack:
        # A graph from a cache would never reach the scheduler.
        stack.enter_context(functorch_config.patch(enable_autograd_cache=False))
        stack.enter_context(inductor_config.patch(fx_graph_cache=False))
        # Sizes seen in earlier runs would make them symbolic.
        stack.enter_context(dynamo_config.patch(automatic_dynamic_local_pgo=False))
        stack.enter_context(inductor_config.patch(reorder_for_peak_memory=True))
        stack.enter_context(inductor_config.patch(dict(settings or {})))
        if activation_memory_budget is not None:
            budget = {"activation_memory_budget": float(activation_memory_budget)}
            stack.enter_context(functorch_config.patch(budget))
        # Modules and tensors made in here have no bytes.
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(torch.set_grad_enabled(phase == "train"))
        module, args, kwargs = build()
        module.train(phase == "train")
        compiled = torch.compile(module, backend=lowering.backend, dynamic=False)
        # The trace runs in fake tensors, so that the graph breaks and the backward graph come as
        # they would.
        output = compiled(*args, **kwargs)
        if phase == "train":
            _loss(torch, output).backward()
    if not lowering.records:
        raise OptschedError("Inductor compiled no graph of this model")
    return lowering.graphs(model or type(module).__name__, "cuda" if fake_cuda else "cpu")


def write(path: str | PathLike[str], graph: CapturedGraph) -> None:
    """Write a captured graph as gzipped JSON; the same graph gives the same bytes.

    `path`: the file to write. `graph`: graph to write.
    """
    # mtime=0: no time stamp, so equal graphs give equal files.
    text = json.dumps(graph.document, separators=(",", ":"))
    with open(path, "wb") as file:
        file.write(gzip.compress(text.encode(), compresslevel=9, mtime=0))


class _StopLoweringError(BaseException):
    """Ends a compilation at the scheduler; no `except Exception` on the way may swallow it."""


@dataclass(frozen=True, slots=True)
class _Record:
    phase: str
    compilation: int
    document: dict[str, Any]


class _Lowering:
    """A backend of `torch.compile` that lowers up to the reordering and then runs the trace."""

    def __init__(self, fake_cuda: bool, observe: Observe | None, parts: bool) -> None:
        self.fake_cuda = fake_cuda
        self.observe = observe
        self.parts = parts
        self.records: list[_Record] = []

    def backend(self, graph_module: Any, example_inputs: Sequence[Any]) -> Any:
        """Compile one graph of dynamo."""
        from torch._inductor.compile_fx import compile_fx

        return compile_fx(graph_module, example_inputs, inner_compile=self._compile_inner)

    def graphs(self, model: str, device: str) -> list[CapturedGraph]:
        """Return the recorded graphs; after graph breaks the parts are numbered from 1."""
        parts = sorted({record.compilation for record in self.records})
        captured = []
        for record in self.records:
            part = parts.index(record.compilation) + 1
            name = _with_part(model, part)
            record.document["extra"].update(model=name, phase=record.phase, device=device)
            captured.append(CapturedGraph(model, record.phase, part, record.document))
        return captured

    def _compile_inner(self, graph_module: Any, example_inputs: Sequence[Any], **kw: Any) -> Any:
        phase = "infer" if kw.get("is_inference") else "bwd" if kw.get("is_backward") else "fwd"

        def record(*args: Any, **_: Any) -> NoReturn:
            from optsched.plugins.inductor.reading.snapshot import take_snapshot

            document = take_snapshot(*args)
            if self.parts:
                document["extra"][FUSION] = _read_parts(args[0])
            if self.observe is not None:
                document["extra"].update(self.observe(*args))
            self.records.append(_Record(phase, kw.get("graph_id") or 0, document))
            raise _StopLoweringError

        # Lowering changes the graph that it gets; the trace has to stay fit to be run.
        with contextlib.suppress(_StopLoweringError):
            self._lower(_copy_graph(graph_module), example_inputs, record, kw)
        return _boxed(graph_module)

    def _lower(
        self,
        graph_module: Any,
        example_inputs: Sequence[Any],
        record: Callable[..., NoReturn],
        kw: Mapping[str, Any],
    ) -> None:
        from torch._inductor import memory
        from torch._inductor.compile_fx import compile_fx_inner

        with contextlib.ExitStack() as stack:
            # Raises after it has recorded the graph, so no code is generated.
            stack.enter_context(mock.patch.object(memory, "reorder_for_peak_memory", record))
            if self.fake_cuda:
                from optsched.plugins.inductor.capture import fake_cuda

                example_inputs = fake_cuda.move_graph(graph_module, example_inputs)
                stack.enter_context(fake_cuda.device_answers())
            compile_fx_inner(graph_module, example_inputs, **kw)


def _read_parts(nodes: Sequence[Any]) -> dict[str, Any]:
    """Return the parts of fused nodes; fake tensors have no kernels whose memory is measured."""
    from optsched.formats.fused import fused_document
    from optsched.plugins.inductor.cuts.parts import read_parts
    from optsched.plugins.inductor.reading.ownership import find_owned_inputs
    from optsched.plugins.inductor.reading.scheduler import read_facts

    facts = read_facts(nodes, find_owned_inputs(nodes), {})
    return fused_document(read_parts(nodes, {}, "parts", facts).fused)


def _copy_graph(graph_module: Any) -> Any:
    """Copy the graph and share the tensors: a real one has no copy under a fake tensor mode."""
    from torch.fx import GraphModule

    twin = GraphModule(graph_module, copy.deepcopy(graph_module.graph))
    twin.meta.update(graph_module.meta)
    return twin


def _boxed(graph_module: Any) -> Callable[[list[Any]], Any]:
    """Wrap a traced graph in the calling convention of compiled graphs."""

    def run(args: list[Any]) -> Any:
        values = list(args)
        # The convention: the callee empties the list, so that the caller holds nothing.
        args.clear()
        return graph_module(*values)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _loss(torch: Any, output: Any) -> Any:
    leaves = torch.utils._pytree.tree_leaves(output)
    wanted = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
    if not wanted:
        raise UsageError("phase 'train': no output of the module has a gradient")
    if len(wanted) == 1 and wanted[0].numel() == 1:
        return wanted[0]
    # A sum of all outputs sends a gradient to each of them.
    return torch.stack([t.sum() for t in wanted]).sum()


def _check(phase: str, activation_memory_budget: float | None) -> None:
    if phase not in ("train", "infer"):
        raise UsageError(f"phase {phase!r}: expected 'train' or 'infer'")
    if activation_memory_budget is not None and not 0 <= activation_memory_budget <= 1:
        raise UsageError(f"activation memory budget {activation_memory_budget} is not in [0, 1]")


def _with_part(model: str, part: int) -> str:
    return model if part == 1 else f"{model}.part{part}"


def _import_torch() -> Any:
    try:
        import torch
        import torch._dynamo
        import torch._inductor.memory
    except ImportError as error:
        raise MissingDependencyError("torch", "torch") from error
    return torch
