"""Bytes that extern kernels allocate and free again while they run.

No graph says them: a oneDNN convolution reorders its weights, a backward pass its gradients. Each
kernel is called with tensors of zeros of the graph's sizes and strides, a second time under
torch's profiler, and what it was found to need is kept for as long as the process lives. Kernels
that write where Inductor tells them, such as `mm`, need none.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import unset_fake_temporarily


@dataclass(frozen=True, slots=True)
class WorkspaceEffort:
    """How much may be spent on calling kernels.

    Parameters
    ----------
    seconds
        Of processor time, a graph, after which the rest of its kernels count as if they needed
        nothing. The clock on the wall would let other processes decide what is known.
    max_bytes
        A kernel whose operands are larger is not called at all.
    """

    seconds: float = 1.0
    max_bytes: int = 1 << 30


_known: dict[Hashable, int] = {}


def measure_workspace(
    nodes: Sequence[Any], effort: WorkspaceEffort = WorkspaceEffort()
) -> dict[str, int]:
    """Return the workspace of extern kernels by the name of the buffer that each makes."""
    targets = [node.node for node in nodes if node.is_extern() and _is_measurable(node.node)]
    keys = {target.get_name(): _key(target) for target in targets}
    unknown = {keys[t.get_name()]: t for t in targets if keys[t.get_name()] not in _known}
    if unknown and not torch.autograd._profiler_enabled():
        _known.update(_measure(unknown, effort))
    return {name: _known.get(key, 0) for name, key in keys.items()}


def _is_measurable(target: Any) -> bool:
    """Whether calling the kernel has no effect but its result."""
    if not isinstance(target, ir.ExternKernelAlloc):
        return False
    op = target.op_overload
    if not isinstance(op, torch._ops.OpOverload) or op.namespace != "aten":
        return False
    if op._schema.is_mutable or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    return all(hasattr(x, "get_stride") and x.get_device().type == "cpu" for x in target.inputs)


def _key(target: Any) -> Hashable:
    operands = tuple(_shape(x) for x in target.inputs)
    return (str(target.op_overload), operands, repr(target.constant_args), repr(target.kwargs))


def _shape(operand: Any) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
    return _hints(operand.get_size()), _hints(operand.get_stride()), operand.get_dtype()


def _hints(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(V.graph.sizevars.optimization_hint(x, fallback=0)) for x in values)


def _measure(targets: Mapping[Hashable, Any], effort: WorkspaceEffort) -> dict[Hashable, int]:
    found: dict[Hashable, int] = {}
    end = time.thread_time() + effort.seconds
    with _quiet(), unset_fake_temporarily(), torch.no_grad(), torch.autocast("cpu", enabled=False):
        for key, target in targets.items():
            if time.thread_time() > end:
                break
            if _operand_bytes(target) <= effort.max_bytes:
                found[key] = _measure_one(target)
    return found


def _measure_one(target: Any) -> int:
    args, kwargs = _arguments(target)
    target.op_overload(*args, **kwargs)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        result = target.op_overload(*args, **kwargs)
    del result
    return peak_above_end(profile)


def peak_above_end(profile: Any) -> int:
    """Return by how much the live bytes in a profile exceed those at its end."""
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return int(peak - live)


def _operand_bytes(target: Any) -> int:
    total = 0
    for operand in target.inputs:
        size, _, dtype = _shape(operand)
        count = 1
        for extent in size:
            count *= extent
        total += count * int(dtype.itemsize)
    return total


def _arguments(target: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    tensors = []
    for operand in target.inputs:
        size, stride, dtype = _shape(operand)
        tensors.append(torch.empty_strided(size, stride, dtype=dtype).zero_())
    constants = [_hint(x) for x in target.constant_args]
    if isinstance(target, ir.FallbackKernel):
        args, kwargs = target.unflatten_args(tensors, constants)
        return args, {**kwargs, **target.kwargs}
    return [*tensors, *constants], target.kwargs


def _hint(value: Any) -> Any:
    """Return a constant argument, by its hint if it is symbolic."""
    if isinstance(value, torch.SymInt) or hasattr(value, "free_symbols"):
        return int(V.graph.sizevars.optimization_hint(value, fallback=0))
    return value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the profiler from announcing each of its runs on standard error."""
    with mock.patch.dict(os.environ, {"KINETO_LOG_LEVEL": "99"}):
        yield
