"""Bytes that a step holds at most, as the CPU's allocator records them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def high_water(step: Callable[[], None]) -> int:
    """Return the most bytes that the CPU's allocator held during a step, above its start."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        step()
    events: list[tuple[int, int]] = []

    def walk(event: Any) -> None:
        if event.typed[0] == torch._C._profiler._EventType.Allocation:
            events.append((event.start_time_ns, event.typed[1].alloc_size))
        for child in event.children:
            walk(child)

    for event in run.profiler.kineto_results.experimental_event_tree():
        walk(event)
    live = peak = 0
    for _, change in sorted(events, key=lambda event: event[0]):
        live += change
        peak = max(peak, live)
    return peak
