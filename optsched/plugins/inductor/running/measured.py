"""Measured bytes of compiled graphs, beside the planned ones.

With `enabled(measure=True)` the module that Inductor writes for a graph passes its function `call`
to this module. The first calls are measured, in any thread and in any process that loads the module
from Inductor's cache; the last result becomes part of the graph's record.

Example: a graph is planned with 3,000 bytes, 1,000 of them inputs that it frees. Its call rises by
2,000 bytes: 3,000 were measured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from optsched.plugins.records import CompiledGraph, note_measured

MEASURED_CALLS = 2
"""Calls of a graph that are measured; kernels may allocate what they keep in the first."""


def measure_calls(module: dict[str, Any], record: CompiledGraph, start: int, device: str) -> None:
    """Measure the first calls of a graph.

    Parameters
    ----------
    module
        Names of the module that Inductor wrote: a class `Runner` with a method `call`, or a
        function `call`.
    record
        The graph's record, which gets the bytes.
    start
        Planned bytes of inputs that the graph frees: they are live before the call.
    device
        The graph's device.
    """
    runner = module.get("Runner")
    if runner is None:
        module["call"] = _measured(module["call"], record, start, device)
    else:
        runner.call = _measured(runner.call, record, start, device)


def _measured(
    call: Callable[..., Any], record: CompiledGraph, start: int, device: str
) -> Callable[..., Any]:
    left = MEASURED_CALLS
    lock = threading.Lock()

    @wraps(call)
    def measure(*args: Any) -> Any:
        nonlocal left
        with lock:
            measures, left = left > 0, left - 1
        if not measures:
            return call(*args)
        from optsched.plugins.inductor.sizes.meter import measure_call

        result, rise = measure_call(lambda: call(*args), device)
        if rise is not None:
            note_measured(replace(record, measured=start + rise.most))
        return result

    return measure
