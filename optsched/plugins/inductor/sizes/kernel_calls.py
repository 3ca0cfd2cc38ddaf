"""Calls of extern kernels as the wrapper makes them, on tensors of zeros.

Zeros are valid positions and harmless values; what a kernel overwrites is a tensor made for it.

Example: `embedding` is called with indices of zeros, which all name row 0 of its table.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V

from optsched.plugins.inductor.sizes.kernel_operands import Place, make_tensor

_KNOWN_NAMESPACES = ("aten", "prims")
"""Namespaces of operators that may be called for a test; others could have any effect."""

_CHANGES_STORAGE = (ir.ResizeStorageBytes, ir.SetSourceTensorKernel)


def is_callable(target: Any) -> bool:
    """Return True if calling a kernel of the graph has no effect beside its results."""
    if isinstance(target, _CHANGES_STORAGE):
        return False
    known = _function(target) is not None or _is_known(target.op_overload)
    gpu = real_gpu(target)
    return known and all(
        hasattr(x, "get_stride") and (x.get_device().type == "cpu" or x.get_device() == gpu)
        for x in target.inputs
    )


def real_gpu(target: Any) -> torch.device | None:
    """Return the GPU that runs a kernel, if the machine has it; a fake device is none."""
    device = target.get_device()
    if device is None or device.type != "cuda" or not torch.cuda.is_available():
        return None
    return device


def _is_known(op: Any) -> bool:
    return isinstance(op, torch._ops.OpOverload) and op.namespace in _KNOWN_NAMESPACES


def _function(target: Any) -> Callable[..., Any] | None:
    """Return the function of a name of the wrapper, such as `extern_kernels.mm`."""
    from torch._inductor.select_algorithm import extern_kernels

    # The wrapper names functions by a dotted path.
    start, _, rest = str(target.python_kernel_name).partition(".")
    known = {"extern_kernels": extern_kernels, "aten": torch.ops.aten}
    if start not in known or not rest:
        return None
    try:
        found: Callable[..., Any] = reduce(getattr, rest.split("."), known[start])
    except AttributeError:
        return None
    return found


def call_kernel(target: Any, operands: Sequence[Any]) -> Any:
    """Call a kernel of the graph on other tensors; return what it returns."""
    constants = [_hint(x) for x in target.constant_args]
    # A fallback has its own way to put tensors and constants back into the op's arguments.
    if isinstance(target, ir.FallbackKernel):
        args, kwargs = target.unflatten_args(operands, constants)
        return target.op_overload(*args, **{**target.kwargs, **kwargs})
    if isinstance(target, ir.IndexPutFallback):
        return _put(target, operands, *constants)
    if isinstance(target, ir.ScatterFallback):
        return _scatter(target, operands, constants)
    function = _function(target) or target.op_overload
    if isinstance(target, ir.ExternKernelOut):
        # Inductor allocates the result of such a kernel and passes it as `out`.
        made = make_tensor(target, Place())
        return function(*operands, *constants, **target.kwargs, out=made)
    return function(*operands, *constants, **target.kwargs)


def _put(target: Any, operands: Sequence[Any], accumulate: bool) -> Any:
    # A dimension without an index has None in its place.
    given = iter(operands[2:])
    indices = [None if index is None else next(given) for index in target.indices]
    return torch.ops.aten.index_put_(operands[0], indices, operands[1], accumulate)


def _scatter(target: Any, operands: Sequence[Any], constants: Sequence[Any]) -> Any:
    changed, index, *source = operands
    dimension, *value = constants
    given = {name: value for name, value in target.kwargs.items() if value is not None}
    # Only the reducing op has this argument.
    if "scatter_reduce" not in str(target.op_overload):
        given.pop("include_self", None)
    return target.op_overload(changed, dimension, index, *source, *value, **given)


def _hint(value: Any) -> Any:
    """Return a constant argument, by its hint if it is symbolic."""
    if isinstance(value, torch.SymInt) or hasattr(value, "free_symbols"):
        return int(V.graph.sizevars.optimization_hint(value, fallback=0))
    return value
