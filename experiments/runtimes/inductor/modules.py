"""Random modules with real kernels: what they compute and allocate, with the plugin and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor import config

from experiments.tables import markdown
from optsched import plugins
from optsched.plugins.inductor import enabled
from tests.support.compiled_memory import QUICK_KERNELS, StepMemory, measure_step
from tests.support.random_modules import RandomModule
from tests.support.small_networks import gradients

OPS = 10
FIRST_WITH_CONTROL = 40
"""Modules of this seed and above may have loops and choices."""


@dataclass(frozen=True)
class ModuleRow:
    """One module; bytes are the sums over its graphs of what each call adds at most."""

    seed: int
    nodes: int
    reordered: int
    error: float
    """Largest relative difference of an output or a gradient from those without the plugin."""
    eager_error_inductor: str
    eager_error_ours: str
    """`eager_error_inductor` and `eager_error_ours`: and from those of the module that is not
    compiled, where it draws no random numbers."""
    inductor: int
    ours: int
    higher: int
    """Number of graphs that need more with the plugin."""
    unplanned: int
    """Number of graphs whose memory is not lower by the planned bytes."""


def measure_modules(seeds: Sequence[int], seconds: float) -> Iterator[ModuleRow]:
    """Compile and run modules without the plugin and with it."""
    for seed in seeds:
        # Without it torch 2.13 compiles no scan: its loop asks for the number of the round.
        with config.patch(QUICK_KERNELS), torch._dynamo.config.patch(capture_scalar_outputs=True):
            right, _ = _run(seed, compiled=False)
            theirs, their_memory = _run(seed, compiled=True)
            plugins.forget()
            with enabled(time_limit=seconds, min_gain=0):
                ours, our_memory = _run(seed, compiled=True)
        records = plugins.records()
        calls = list(zip(records, their_memory.calls, our_memory.calls, strict=True))
        has_dropout = any("dropout" in op.__qualname__ for op in make_module(seed).program)
        yield ModuleRow(
            seed=seed,
            nodes=sum(record.ops for record in records),
            reordered=sum(bool(record.order) for record in records),
            error=_error(ours, theirs),
            eager_error_inductor="" if has_dropout else f"{_error(theirs, right):.1e}",
            eager_error_ours="" if has_dropout else f"{_error(ours, right):.1e}",
            inductor=sum(call.peak for call in their_memory.calls),
            ours=sum(call.peak for call in our_memory.calls),
            higher=sum(our.peak > their.peak for _, their, our in calls),
            unplanned=sum(
                (record.before or 0) - (record.after or 0) != their.peak - our.peak
                for record, their, our in calls
            ),
        )


def make_module(seed: int) -> RandomModule:
    """Return the module of a seed."""
    torch.manual_seed(seed)
    module = RandomModule(seed, OPS, control=seed >= FIRST_WITH_CONTROL)
    for x in module.inputs:
        x.requires_grad_()
    return module


def _run(seed: int, *, compiled: bool) -> tuple[dict[str, Any], StepMemory]:
    """Run a module's step twice; return what the second gives, and what it allocates."""
    torch._dynamo.reset()
    module = make_module(seed)
    step = torch.compile(module) if compiled else module
    found: dict[str, Any] = {}

    def run() -> None:
        module.zero_grad(set_to_none=True)
        torch.manual_seed(seed)
        found["output"] = step(*module.inputs)
        found["output"].backward()

    run()
    for x in module.inputs:
        x.grad = None
    memory = measure_step(run)
    found.update((f"input {i}", x.grad) for i, x in enumerate(module.inputs) if x.grad is not None)
    return {**found, **gradients(module), "state": module.seen.clone()}, memory


def _error(found: dict[str, Any], right: dict[str, Any]) -> float:
    return max(
        float((found[name] - value).norm() / value.norm().clamp_min(1e-6))
        for name, value in right.items()
    )


def modules_table(rows: Sequence[ModuleRow]) -> str:
    """Return one line: how many modules are as they should be."""
    compared = [row for row in rows if row.eager_error_ours]
    head = ["modules", "graphs reordered", "largest difference from Inductor's values"]
    head += ["as eager, Inductor", "as eager, ours", "graphs higher", "planned = measured"]
    right = [
        sum(float(getattr(row, f"eager_error_{who}")) < 1e-4 for row in compared)
        for who in ("inductor", "ours")
    ]
    line = [
        str(len(rows)),
        str(sum(row.reordered for row in rows)),
        f"{max(row.error for row in rows):.1e}",
        *(f"{count} of {len(compared)}" for count in right),
        str(sum(row.higher for row in rows)),
        f"{sum(not row.unplanned for row in rows)} of {len(rows)}",
    ]
    return markdown(head, [line])
