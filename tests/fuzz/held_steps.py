"""Compiled training and inference steps: planned bytes against those that each call holds.

    python -m tests.fuzz held_steps                 # all steps, and random ones from the seed on
    python -m tests.fuzz held_steps --only unet adam --count 0
    python -m tests.fuzz held_steps --only none --count 500 --seconds 600   # random ones

The steps of `tests/support/steps` and `count` random ones are compiled with the plugin, without
kernels, and any gain counts. A library that is loaded before all others counts every aligned block
of the process, whoever takes it, in the second call of each graph. A difference is explained if
a count of the blocks of torch's own allocator has none: then the other blocks are a kernel
library's own. All others are faults and are printed. The steps of the catalog take two minutes of a
processor, twenty random ones one more; after `seconds` of it no further step begins.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._inductor import config

from optsched import plugins
from optsched.plugins.inductor import enabled
from optsched.plugins.inductor.sizes import kernels, meter
from optsched.plugins.records import CompiledGraph
from optsched.runtime.heap import AttachedHeap, attached_heap, restart_with_counter
from tests.support.compiled_memory import NO_CACHE, no_kernels
from tests.support.random_steps import RandomStep
from tests.support.steps import STEPS, Step

CALLS = 2
"""Iterations of a step: a graph's second call is the one that counts."""


AS_PLANNED, ALONE = "as planned", "left alone with a reason"
OTHERS = "with blocks of a kernel library beside torch's"
NAMED, DIFFERS = "with a cause in explain()", "that differ"
NOT_RUN = "that PyTorch does not compile without the plugin"


def measure_step(make: Callable[[], Step], seed: int = 0, **settings: Any) -> list[CompiledGraph]:
    """Compile a step with the plugin and run it; return the records with the measured bytes."""
    torch._dynamo.reset()
    torch.manual_seed(seed)
    plugins.forget()
    chosen = {"time_limit": 2, "min_gain": 0, "measure": True, **settings}
    with config.patch(NO_CACHE), no_kernels(), enabled(**chosen):
        step = make()
        for _ in range(CALLS):
            step()
    return list(plugins.records())


@contextlib.contextmanager
def counting_every_block() -> Iterator[None]:
    """Count the blocks of the whole process in the calls of graphs, but not in those of kernels.

    Kernels are called once to be measured, and there the plugin must count as it always does.
    """
    every_block = AttachedHeap(os.environ["OPTSCHED_HEAP_BLOCKS"])

    def measure(*args: Any) -> Any:
        with mock.patch.object(meter, "attached_heap", attached_heap):
            return meter.measure_call(*args)

    with (
        mock.patch.object(meter, "attached_heap", return_value=every_block),
        mock.patch.object(kernels, "measure_call", measure),
    ):
        yield


def main(
    count: int = 20, seed: int = 0, *, only: tuple[str, ...] = (), seconds: float = math.inf
) -> int:
    restart_with_counter()
    cases = {name: make for name, make in STEPS.items() if not only or name in only}
    cases |= {f"random {n}": RandomStep(n).make for n in range(seed, seed + count)}
    found, done = Counter[str](), 0
    for name, make in cases.items():
        if time.process_time() > seconds:
            break
        done += 1
        for kind, text in compare_step(make):
            found[kind] += 1
            if kind not in (AS_PLANNED, ALONE):
                print(f"{name}, {kind}: {text}", flush=True)
    print(
        f"{done} of {len(cases)} steps: "
        + ", ".join(f"{n} calls {kind}" for kind, n in found.items())
    )
    return int(found[DIFFERS] > 0)


def compare_step(make: Callable[[], Step]) -> Iterator[tuple[str, str]]:
    """Yield for each graph of a step how its call compares, and its record."""
    try:
        with counting_every_block():
            calls = measure_step(make)
        again = calls if all(map(_is_right, calls)) else measure_step(make)
    except Exception as error:
        kind = DIFFERS if _compiles(make) else NOT_RUN
        yield kind, f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
        return
    for record, torchs in zip(calls, again, strict=True):
        yield kind_of(record, torchs), str(record)


def _compiles(make: Callable[[], Step]) -> bool:
    """Return True if a step runs without the plugin."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    try:
        with config.patch(NO_CACHE), no_kernels():
            make()()
    except Exception:
        return False
    return True


def _is_right(record: CompiledGraph) -> bool:
    return kind_of(record, record) in (AS_PLANNED, ALONE)


def kind_of(record: CompiledGraph, torchs: CompiledGraph) -> str:
    """Return how a call compares; `torchs` is its record with torch's own blocks alone."""
    if record.planned is None:
        return ALONE if record.reason else DIFFERS
    if record.measured == record.planned:
        return AS_PLANNED
    if torchs.measured == torchs.planned:
        return OTHERS
    return NAMED if record.measured_note or "not counted" in record.note else DIFFERS
