"""Lowering for a GPU backend on a machine that has none.

The graph is traced on the CPU. Its fake tensors are then moved to a CUDA device, and the questions
that Inductor asks about that device before code generation are answered from invented properties
of a data-center GPU. The fusion is that of the Triton backend; no kernel is ever launched. Results
can differ for decisions that measure kernels (autotuning), ops that are decomposed differently when
the trace itself runs on a GPU, and models with tensor constants, which stay on the CPU.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

_DEVICE = torch.device("cuda", 0)
_CAPABILITY = (9, 0)
_PROPERTIES = SimpleNamespace(
    name="fake GPU",
    gcnArchName="",
    major=_CAPABILITY[0],
    minor=_CAPABILITY[1],
    multi_processor_count=132,
    warp_size=32,
    max_threads_per_block=1024,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=48 << 10,
    shared_memory_per_block_optin=227 << 10,
    shared_memory_per_multiprocessor=228 << 10,
    L2_cache_size=50 << 20,
    total_memory=80 << 30,
)


def move_graph(graph_module: Any, example_inputs: Sequence[Any]) -> list[Any]:
    """Move the fake tensors of a traced graph to the fake device, in place; return its inputs."""
    twins: dict[int, tuple[Any, Any]] = {}

    def move(tensor: Any) -> Any:
        if tensor.device.type != "cpu":
            return tensor
        # One tensor may stand in several nodes: it gets one twin.
        # The original is kept beside its twin, so that its id is not used again.
        return twins.setdefault(id(tensor), (_twin(tensor), tensor))[0]

    def redirect(argument: Any) -> Any:
        is_cpu = isinstance(argument, torch.device) and argument.type == "cpu"
        return _DEVICE if is_cpu else argument

    for node in graph_module.graph.nodes:
        for key in ("val", "example_value"):
            if key in node.meta:
                node.meta[key] = tree_map_only(FakeTensor, move, node.meta[key])
        # Ops such as `ones` name their device as an argument.
        node.args = torch.fx.node.map_aggregate(node.args, redirect)
        node.kwargs = torch.fx.node.map_aggregate(node.kwargs, redirect)
    graph_module.recompile()
    return [move(x) if isinstance(x, FakeTensor) else x for x in example_inputs]


def _twin(tensor: Any) -> Any:
    # Without the fake mode in force, which would refuse to make a tensor for another one.
    with _disable_current_modes():
        meta = torch.empty_strided(
            tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta"
        )
    return FakeTensor(tensor.fake_mode, meta, _DEVICE)


@contextlib.contextmanager
def device_answers() -> Iterator[None]:
    """Answer Inductor's questions about the fake device while the context lasts."""
    from torch._dynamo.device_interface import CudaInterface, caching_worker_device_properties
    from torch._inductor import inductor_prims, scheduler, utils
    from torch._inductor.runtime.hints import DeviceProperties

    del inductor_prims  # imported for the op that it registers, patched below
    properties_cache = DeviceProperties.create.__func__
    with contextlib.ExitStack() as stack:

        def answer(owner: Any, name: str, value: Any) -> None:
            # Everything is taken back when the context ends.
            stack.enter_context(mock.patch.object(owner, name, value))

        for owner in (torch.cuda, CudaInterface):
            answer(owner, "get_device_properties", lambda *_, **__: _PROPERTIES)
        answer(torch.cuda, "get_device_capability", lambda *_, **__: _CAPABILITY)
        answer(torch.cuda, "current_device", lambda: _DEVICE.index)
        answer(torch.cuda, "device_count", lambda: 1)
        # Inductor asks for the version to choose features of the compiler.
        answer(torch.version, "cuda", "12.8")
        for module in (torch.utils._triton, scheduler, utils):
            if hasattr(module, "has_triton"):
                answer(module, "has_triton", lambda *_, **__: True)
        for name, method in (("copy_", _copy), ("contiguous", _contiguous)):
            stack.enter_context(mock.patch.object(FakeTensor, name, method, create=True))
        _patch_shape_functions(stack)
        # Properties are cached per device; the fake ones must not outlive the context.
        stack.enter_context(mock.patch.dict(caching_worker_device_properties, clear=True))
        properties_cache.cache_clear()
        stack.callback(properties_cache.cache_clear)
        yield


def _copy(tensor: Any, source: Any, non_blocking: bool = False) -> Any:
    """Do what `Tensor.copy_` does without its device guard, which a CPU build lacks.

    A pass over scatters of views checks their shapes with it.
    """
    return torch.ops.aten.copy_.default(tensor, source, non_blocking)


def _contiguous(tensor: Any, memory_format: torch.memory_format = torch.contiguous_format) -> Any:
    """Do what `Tensor.contiguous` does without its device guard: convolutions in one dimension."""
    return torch.ops.aten.contiguous.default(tensor, memory_format=memory_format)


def _patch_shape_functions(stack: contextlib.ExitStack) -> None:
    """Give two ops shape functions that take no CUDA device guard, which a CPU build lacks."""
    from torch._prims import TensorMeta

    def lookup_seed(seeds: Any, index: int) -> Any:
        return TensorMeta(shape=(), strides=(), dtype=seeds.dtype, device=seeds.device)

    def like_first(x: Any, *_: object) -> Any:
        return torch.ops.aten.clone.default(x)

    seed_op = torch.ops.prims.inductor_lookup_seed.default
    stack.enter_context(mock.patch.object(seed_op, "prim_meta_impl", lookup_seed))
    put_op = torch.ops.aten._unsafe_masked_index_put_accumulate.default
    table = torch._decomp.decomposition_table
    stack.enter_context(mock.patch.dict(table, {put_op: like_first}))
