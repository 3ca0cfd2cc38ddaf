"""A random module with the plugin and without: values, gradients and memory side by side."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor import config

from optsched import plugins
from optsched.plugins.inductor import enabled
from tests.support.compiled_memory import NO_CACHE, Call, measure_calls, no_kernels
from tests.support.random_modules import RandomModule


@dataclass(frozen=True)
class Pair:
    """Results for one module."""

    error: float
    """Largest difference of the result, a gradient or a mutated buffer from those of the module
    that is not compiled."""
    before: list[Call]
    after: list[Call]
    """`before` and `after`: memory of the calls, of Inductor's own order and of ours."""
    reordered: int
    """Number of graphs with another order than Inductor's."""


def run_pair(seed: int, *, kernels: bool, ops: int = 12, time_limit: float = 1.0) -> Pair:
    """Run one module in our order and, without kernels, in Inductor's.

    Without kernels nothing is computed: memory alone is compared then.
    """
    plugins.forget()
    with config.patch({**NO_CACHE, "fallback_random": True}):
        with (
            contextlib.nullcontext() if kernels else no_kernels(),
            enabled(time_limit=time_limit, min_gain=0),
        ):
            found, after = _compiled_step(seed, ops)
        reordered = sum(bool(record.order) for record in plugins.records())
        with no_kernels():
            _, before = _compiled_step(seed, ops)
    error = 0.0
    if kernels:
        module = _build(seed, ops)
        right = _step(module, module)
        error = max(float((a - b).abs().max()) for a, b in zip(found, right, strict=True))
    return Pair(error, before, after, reordered)


def _compiled_step(seed: int, ops: int) -> tuple[list[torch.Tensor], list[Call]]:
    """Return what the first step gives, and the memory of the second."""
    module = _build(seed, ops)
    compiled = torch.compile(module)
    found = _step(module, compiled)
    return found, measure_calls(lambda: _step(module, compiled))


def _step(module: RandomModule, run: Any) -> list[torch.Tensor]:
    """Return the result, the gradients and the buffers after a step."""
    tensors = [*module.parameters(), *module.inputs]
    for tensor in tensors:
        tensor.grad = None
    result = run(*module.inputs)
    result.backward()
    gradients = [tensor.grad.clone() for tensor in tensors if tensor.grad is not None]
    return [result.detach(), *gradients, *(b.to(torch.float64) for b in module.buffers())]


def _build(seed: int, ops: int) -> RandomModule:
    torch._dynamo.reset()
    torch.manual_seed(seed)
    module = RandomModule(seed, ops)
    for given in module.inputs:
        given.requires_grad_()
    torch.manual_seed(seed)
    return module
