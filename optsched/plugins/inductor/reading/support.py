"""Tests for graphs that the plugin does not support, whose order it leaves to Inductor.

A graph is refused if some rule about its memory is unknown or was never compared with a run: a
wrong rule would turn a proved optimum into a false claim. The reason is part of the graph's record.

Example: a graph on two GPUs is left to Inductor.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch._inductor import config, ir
from torch._inductor.virtualized import V

from optsched.errors import OptschedError, UsageError
from optsched.plugins.inductor.versions import TESTED_TORCH, is_tested
from optsched.runtime.text import listed

_GPU_NODES = (
    "SchedulerNode",
    "FusedSchedulerNode",
    "ExternKernelSchedulerNode",
    "NopKernelSchedulerNode",
    "FusedMixOrderReductions",
)
"""Kinds of nodes whose memory on a GPU is known; a subclass may allocate more."""


class KeptOrderError(OptschedError):
    """Raised with the reason for which the order of a graph is left to Inductor."""


class UnknownTorchError(OptschedError):
    """Raised for a version of torch whose rules are unknown."""


def require_support(nodes: Sequence[Any], time_limit: float, *, cuda: bool = False) -> None:
    """Raise an error if a graph is not supported.

    Graphs of a single GPU are supported only with `cuda`.

    Raise `UnknownTorchError` if the version of torch was not tested. Raise `UsageError` if the time
    limit is 0. Raise `KeptOrderError` if the graph has a feature that the rules do not cover.
    """
    # Also tested where the plugin is switched on; a pass restored from a cache comes here first.
    if not is_tested(torch.__version__):
        known = ", ".join(TESTED_TORCH)
        raise UnknownTorchError(f"torch {torch.__version__} is not one of {known}")
    if not time_limit > 0:
        raise UsageError(f"time_limit must be positive, got {time_limit}")
    _require_settings()
    devices = {device for node in nodes if (device := node.get_device()) is not None}
    if any(device.type != "cpu" for device in devices):
        _require_gpu(nodes, devices, cuda)
    for node in nodes:
        _require_node(node)


def _require_settings() -> None:
    if V.graph.cpp_wrapper and config.aot_inductor.allow_stack_allocation:
        raise KeptOrderError("the C++ wrapper allocates on the stack")
    if V.graph.is_const_graph:
        raise KeptOrderError("it folds the constants of another graph")
    if config.cpu_backend != "cpp":
        raise KeptOrderError(f"the CPU backend is {config.cpu_backend}")
    if config.memory_planning and V.graph.is_inference:
        raise KeptOrderError("memory_planning is on")
    # Joined later, kernels allocate at other times than simulated.
    if config.combo_kernels:
        raise KeptOrderError("combo_kernels is on: nodes are joined later")
    # Two features that torch 2.13 does not have: pools since 2.14, retained inputs since 2.15.
    if getattr(V.graph.scheduler, "_mempool_nodes", False):
        raise KeptOrderError("some nodes allocate from a memory pool of the program's own")
    if retained := getattr(V.graph, "never_reuse_but_free_buffers", None):
        raise KeptOrderError(f"an op with effects may keep its input {min(retained)!r}")


def _require_gpu(nodes: Sequence[Any], devices: Collection[Any], cuda: bool) -> None:
    """Raise an error unless the graph runs on one GPU, in ways whose memory is known."""
    other = next((str(device) for device in devices if device.type not in ("cpu", "cuda")), None)
    if other is not None:
        raise KeptOrderError(f"a node runs on {other}: only CPUs and CUDA devices are known")
    if not cuda:
        raise KeptOrderError("it runs on a GPU, which is opt-in: enabled(cuda=True)")
    if len(devices) > 1:
        raise KeptOrderError(f"it runs on several devices: {listed(sorted(map(str, devices)), 3)}")
    if V.graph.cpp_wrapper:
        raise KeptOrderError("the wrapper is written in C++, which is known on the CPU alone")
    if torch.version.hip is not None:
        raise KeptOrderError("the GPU is programmed with ROCm")
    if setting := next((name for name, on in _gpu_settings().items() if on), None):
        raise KeptOrderError(f"{setting} is on")
    if V.graph.scheduler._has_multi_stream_nodes():
        raise KeptOrderError("it runs on several streams")
    for node in nodes:
        _require_kernel(node)


def _gpu_settings() -> dict[str, bool]:
    """Return by name the settings under which kernels allocate bytes that no rule counts."""
    triton = config.triton
    return {
        f"the CUDA backend {config.cuda_backend}": config.cuda_backend != "triton",
        "cooperative_reductions": triton.cooperative_reductions,
        "force_cooperative_reductions": triton.force_cooperative_reductions,
        "multi_kernel": bool(triton.multi_kernel),
        "native_matmul": triton.native_matmul,
        "use_tensor_descriptor": triton.use_tensor_descriptor,
        "mix_order_reduction_autotune_split_size": triton.mix_order_reduction_autotune_split_size,
        "coordinate_descent_tuning": config.coordinate_descent_tuning,
        "max_autotune": config.max_autotune,
        "compiled autograd": torch._dynamo.compiled_autograd.in_compiled_autograd_region,
    }


def _require_kernel(node: Any) -> None:
    """Raise an error for a kind of node that was not compared with the wrapper of a GPU."""
    name, kind = node.get_name(), type(node).__name__
    if kind not in _GPU_NODES:
        raise KeptOrderError(f"node {name!r} is a {kind}, which is not known on a GPU")
    if isinstance(node.node, ir.UserDefinedTritonKernel):
        raise KeptOrderError(f"node {name!r} is a kernel of the program's own")
    # With CUDA graphs, each part of a split graph has a memory pool of its own.
    cudagraphs = config.triton.cudagraphs and config.graph_partition
    if cudagraphs and (reason := V.graph.scheduler.should_partition(node)):
        raise KeptOrderError(f"the CUDA graph is split at node {name!r}: {reason}")


def _require_node(node: Any) -> None:
    name = node.get_name()
    for inner in node.get_nodes():
        # The kernels of a branch or of a loop's body, and so its bytes, are not known yet.
        if inner.node is not None and inner.node.get_subgraphs():
            raise KeptOrderError(
                f"node {name!r} holds graphs of its own, which Inductor schedules after this one"
            )
        if inner.is_template():
            raise KeptOrderError(f"node {name!r} is a template")
        if inner.node is not None and inner.node.get_unbacked_symbol_defs():
            raise KeptOrderError(f"node {name!r} gives sizes that are known only at run time")
