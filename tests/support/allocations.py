"""Bytes that calls of compiled graphs hold, counted block by block from the allocator's own events.

Knows nothing of plans: a block is an address that torch's CPU allocator handed out. The bytes of a
call are those of blocks that it allocates, and of older blocks that it releases while it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

_CALL = re.compile(r"graph_(\d+)_inductor_wrapper_call")


@dataclass(frozen=True)
class CallBytes:
    """What one call of a compiled graph holds.

    Parameters
    ----------
    graph
        Number that Inductor gave the graph.
    peak
        Most bytes at a time, of blocks that the call allocates or releases.
    released
        Bytes of older blocks that the call releases.
    """

    graph: int
    peak: int
    released: int


@dataclass(frozen=True)
class _Event:
    time: int
    address: int
    change: int


def count_calls(step: Callable[[], object]) -> list[CallBytes]:
    """Run a compiled step; return the bytes of its graphs' calls, in the order of the calls.

    The graphs must have been compiled with Inductor's setting `profiler_mark_wrapper_call`.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step()
    nodes = [*_walk(profile.profiler.kineto_results.experimental_event_tree())]
    events = sorted((e for e in map(_event, nodes) if e is not None), key=lambda e: e.time)
    calls = sorted(
        (node.start_time_ns, node.end_time_ns, int(match[1]))
        for node in nodes
        if (match := _CALL.fullmatch(node.name))
    )
    return [
        _count(graph, [e for e in events if begin <= e.time <= end]) for begin, end, graph in calls
    ]


def _walk(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        yield from _walk(node.children)


def _event(node: Any) -> _Event | None:
    if not str(node.tag).endswith("Allocation"):
        return None
    return _Event(node.start_time_ns, node.extra_fields.ptr, node.extra_fields.alloc_size)


def _count(graph: int, events: list[_Event]) -> CallBytes:
    own: set[int] = set()
    released = 0
    for event in events:
        if event.change > 0:
            own.add(event.address)
        elif event.address not in own:
            released -= event.change
        else:
            own.discard(event.address)
    live = peak = released
    for event in events:
        live += event.change
        peak = max(peak, live)
    return CallBytes(graph, peak, released)
