"""Measured bytes of compiled graphs, beside the planned ones.

With `enabled(measure=True)` the module that Inductor writes for a graph passes its function `call`
to this module. The first calls are measured, in any thread and in any process that loads the module
from Inductor's cache; the last result becomes part of the graph's record.

Example: a graph is planned with 3,000 bytes, 1,000 of them inputs that it frees. Its call rises by
2,000 bytes: 3,000 were measured. If the program still holds the inputs, the call cannot free them
and rises by up to 3,000 bytes: up to 4,000 were measured, and the record says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from optsched.plugins.records import CompiledGraph, note_measured

if TYPE_CHECKING:
    from optsched.plugins.inductor.sizes.meter import Rise

MEASURED_CALLS = 2
"""Calls of a graph that are measured; kernels may allocate what they keep in the first."""


@dataclass(frozen=True, slots=True)
class Meter:
    """The way in which the calls of a graph are measured."""

    device: str
    """The graph's device."""
    start: int
    """Planned bytes of inputs that the graph frees: they are live before the call."""
    freed: tuple[int, ...] = ()
    """Positions of these inputs among all inputs."""


def measure_calls(module: dict[str, Any], record: CompiledGraph, meter: Meter) -> None:
    """Measure the first calls of a graph.

    `module`: names of the module that Inductor wrote: a class `Runner` with a method `call`, or a
    function `call`. `record`: the graph's record, which gets the bytes. `meter`: the way to measure
    its calls.
    """
    runner = module.get("Runner")
    if runner is None:
        module["call"] = _measured(module["call"], record, meter)
    else:
        runner.call = _measured(runner.call, record, meter)


def _measured(call: Callable[..., Any], record: CompiledGraph, meter: Meter) -> Callable[..., Any]:
    left = MEASURED_CALLS
    lock = threading.Lock()

    @wraps(call)
    def measure(*args: Any) -> Any:
        nonlocal left
        with lock:
            measures, left = left > 0, left - 1
        if not measures:
            return call(*args)
        from optsched.plugins.inductor.sizes.meter import measure_call, missing_counter

        held, planned = dict[int, int](), set[int]()
        if meter.device == "cpu":
            # The last argument is the list of the graph's inputs, which the call empties.
            held, planned = _find_blocks(args[-1], meter.freed)
        result, rise = measure_call(lambda: call(*args), meter.device, held)
        if rise is not None:
            note_measured(_add_bytes(record, meter, rise, held, planned))
        elif not missing_counter(meter.device):
            # The counter was taken by another call, or by a step: a later call is measured.
            with lock:
                left += 1
        return result

    return measure


def _find_blocks(inputs: Sequence[Any], freed: Sequence[int]) -> tuple[dict[int, int], set[int]]:
    """Return the bytes of the inputs' blocks by address, and the addresses of those to be freed."""
    import torch

    held, planned = dict[int, int](), set[int]()
    for i, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            # Only numbers are kept: a reference to the tensor would keep its bytes alive.
            address = value.untyped_storage().data_ptr()
            held[address] = value.untyped_storage().nbytes()
            if i in freed:
                planned.add(address)
    return held, planned


def _add_bytes(
    record: CompiledGraph, meter: Meter, rise: Rise, held: Mapping[int, int], planned: set[int]
) -> CompiledGraph:
    """Return the record with the bytes of a call, and why they differ from the planned ones."""
    if meter.device != "cpu":
        return replace(record, measured=meter.start + rise.most)
    # Inputs that were to be freed count even if they stay, and those that go count from the start:
    # then no order can need less than the bound.
    measured = rise.most + sum(held[block] for block in planned | rise.released)
    parts = {
        "that the plan frees are held by the program": planned - rise.released,
        "that the plan leaves to the program are freed": rise.released - planned,
    }
    sizes = {text: sum(held[block] for block in blocks) for text, blocks in parts.items()}
    causes = [f"inputs of {size:,} bytes {text}" for text, size in sizes.items() if size]
    note = "; ".join(causes)
    return replace(record, measured=measured, measured_note=note, measured_apart=rise.apart)
