"""Measurement of the bytes that a call allocates, on the CPU or on a GPU.

On a GPU the allocator counts requested bytes itself (`requested_bytes` of
`torch.cuda.memory_stats`). On the CPU torch's profiler records allocations and releases.

Example: a call allocates 8 bytes, then 16, frees the 8 and returns the 16. It rises by 24 bytes,
and 16 remain.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple
from unittest import mock

import torch

_lock = threading.Lock()
"""Both counters are the process's, so one call is measured at a time."""


class Rise(NamedTuple):
    """Bytes of a call: the most beyond those before it, and those that remain after it."""

    most: int
    kept: int


def measure_call(call: Callable[[], Any], device: str) -> tuple[Any, Rise | None]:
    """Run a call; return its result and its bytes on a device.

    The bytes are None if they cannot be measured: another call is being measured, a profiler runs,
    or a CUDA graph is being recorded. Measuring on a GPU resets its peak counters.

    Parameters
    ----------
    call
        Function without arguments.
    device
        `cpu`, or a CUDA device such as `cuda:0`.
    """
    if not _lock.acquire(blocking=False):
        return call(), None
    try:
        if device != "cpu":
            return _on_gpu(call, device)
        return _on_cpu(call)
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


def _on_cpu(call: Callable[[], Any]) -> tuple[Any, Rise | None]:
    if torch.autograd._profiler_enabled():
        return call(), None
    activities = [torch.profiler.ProfilerActivity.CPU]
    with (
        quiet_profiler(),
        torch.profiler.profile(activities=activities, profile_memory=True) as profile,
    ):
        result = call()
    events = profile.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    live = [*accumulate((change for _, change in changes), initial=0)]
    return result, Rise(max(live), live[-1])


@contextlib.contextmanager
def quiet_profiler() -> Iterator[None]:
    """Keep torch's profiler from announcing its runs on standard error."""
    with mock.patch.dict(os.environ, {"KINETO_LOG_LEVEL": "99"}):
        yield
