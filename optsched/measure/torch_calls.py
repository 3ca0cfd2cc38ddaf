"""Bytes that calls of compiled graphs hold, counted block by block from the allocator's own events.

The counts rest on no plan: a block is an address that torch's CPU allocator handed out.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

_CALL = re.compile(r"graph_(\d+)_inductor_wrapper_call")


@dataclass(frozen=True)
class CallBytes:
    """Allocations and releases of one call of a compiled graph."""

    graph: int
    """Number that Inductor gave the graph."""
    rise: int
    """By how much live bytes exceed those before the call at most."""
    change: int
    """By how much they differ after the call."""
    released: int
    """Bytes of older blocks that the call releases."""


@dataclass(frozen=True)
class _Event:
    time: int
    address: int
    change: int


def count_calls(step: Callable[[], object]) -> list[CallBytes]:
    """Run a compiled step; return the bytes of its graphs' calls, in the order of the calls.

    The graphs must have been compiled with Inductor's setting `profiler_mark_wrapper_call`.
    """
    tree = _profile(step)
    found = [event for node in _walk(tree) if (event := _event(node)) is not None]
    events = sorted(found, key=lambda event: event.time)
    return [
        _count(graph, [e for e in events if begin <= e.time <= end])
        for begin, end, graph in sorted(_calls(tree))
    ]


def list_changes(step: Callable[[], object]) -> list[tuple[int, int]]:
    """Run a step; return pairs `(address, change)` of the allocator, in the order of time."""
    tree = _profile(step)
    found = [event for node in _walk(tree) if (event := _event(node)) is not None]
    return [(e.address, e.change) for e in sorted(found, key=lambda event: event.time)]


def _profile(step: Callable[[], object]) -> Any:
    """Run a step; return the tree of its events."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with (
        # Else the profiler announces its runs on standard error.
        mock.patch.dict(os.environ, {"KINETO_LOG_LEVEL": "99"}),
        torch.profiler.profile(activities=activities, profile_memory=True) as profile,
    ):
        step()
    return profile.profiler.kineto_results.experimental_event_tree()


def _calls(nodes: Any) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and graph of each call.

    The code around a call is one node; its variables go between the end of the call's own node
    and the end of that one.
    """
    for node in nodes:
        for child in node.children:
            if match := _CALL.fullmatch(child.name):
                yield node.start_time_ns, node.end_time_ns, int(match[1])
        yield from _calls(node.children)


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
            # The call did not allocate this block: an input, which it owns and releases.
            released -= event.change
        else:
            # The allocator may hand out the same address again, to this call or after it.
            own.discard(event.address)
    live = [*itertools.accumulate((event.change for event in events), initial=0)]
    return CallBytes(graph, max(live), live[-1], released)
