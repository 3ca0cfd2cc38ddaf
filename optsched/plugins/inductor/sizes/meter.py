"""Measurement of the bytes that a call allocates, on the CPU or on a GPU.

On a GPU the allocator counts requested bytes itself (`requested_bytes` of
`torch.cuda.memory_stats`). On the CPU the blocks that torch's allocator takes and returns are
counted (:mod:`optsched.runtime.heap`). Torch's profiler would miss the release of a block that was
taken while no profiler ran, such as a gradient that autograd hands over.

Example: a call allocates 8 bytes, then 16, frees the 8 and returns the 16. It rises by 24 bytes,
and 16 remain.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from optsched.errors import UsageError
from optsched.runtime.heap import AttachedHeap, attached_heap

_lock = threading.Lock()
"""Both counters are the process's, so one call is measured at a time."""


ALLOCATOR, KERNELS = "libc10.so", "libtorch_cpu.so"
"""Libraries in which torch's CPU allocator, and kernels themselves, ask the heap for blocks."""


class Rise(NamedTuple):
    """Bytes of a call: the most beyond those before it, and those that remain after it.

    `released` has the addresses of older blocks that were returned while it ran. With `apart`, the
    most is higher by what kernel libraries take themselves: oneDNN for its packed weights, say.
    """

    most: int
    kept: int
    released: frozenset[int] = frozenset()
    apart: int = 0


def missing_counter(device: str) -> str:
    """Return the reason for which calls on a device cannot be measured; empty if they can."""
    try:
        if device == "cpu":
            attached_heap(ALLOCATOR, KERNELS)
    except UsageError as error:
        return str(error)
    return ""


def measure_call(
    call: Callable[[], Any], device: str, held: Mapping[int, int] | None = None
) -> tuple[Any, Rise | None]:
    """Run a call; return its result and its bytes on a device.

    The bytes are None if they cannot be measured: another call is being measured, the CPU has no
    counter, or a CUDA graph is being recorded. Measuring on a GPU resets its peak counters.

    `call`: function without arguments. `device`: `cpu`, or a CUDA device such as `cuda:0`. `held`:
    on the CPU, bytes of live blocks by address, whose release lowers the count.
    """
    if missing_counter(device) or not _lock.acquire(blocking=False):
        return call(), None
    try:
        if device != "cpu":
            return _on_gpu(call, device)
        return _on_cpu(call, attached_heap(ALLOCATOR, KERNELS), held or {})
    finally:
        _lock.release()


@contextmanager
def count_blocks() -> Iterator[AttachedHeap | None]:
    """Count in the body the blocks that this thread takes on the CPU.

    Yields None without a counter, and while a call is measured. No call is measured in the body.
    """
    if missing_counter("cpu") or not _lock.acquire(blocking=False):
        yield None
        return
    try:
        heap = attached_heap(ALLOCATOR, KERNELS)
        with heap.counting({}):
            yield heap
    finally:
        _lock.release()


def _on_gpu(call: Callable[[], Any], device: str) -> tuple[Any, Rise | None]:
    if torch.cuda.is_current_stream_capturing():
        return call(), None
    before = _requested(device, "current")
    torch.cuda.reset_peak_memory_stats(device)
    result = call()
    rise = Rise(_requested(device, "peak") - before, _requested(device, "current") - before)
    return result, rise


def _requested(device: str, which: str) -> int:
    return int(torch.cuda.memory_stats(device).get(f"requested_bytes.all.{which}", 0))


def _on_cpu(
    call: Callable[[], Any], heap: AttachedHeap, held: Mapping[int, int]
) -> tuple[Any, Rise]:
    with heap.counting(held):
        result = call()
    # The blocks from before have the first numbers.
    returned = {-step - 1 for step in heap.steps if step < 0}
    released = (address for number, address in enumerate(held) if number in returned)
    apart = heap.full_rise - heap.rise
    return result, Rise(heap.rise, heap.change, frozenset(released), apart)
