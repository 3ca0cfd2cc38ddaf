"""Bytes of a graph at the upper ends of its symbolic sizes.

A program may state the range of a size: `torch._dynamo.mark_dynamic(x, 0, min=4, max=128)`.
Inductor writes one wrapper for all sizes, and decides about it by the sizes of the first call, the
*hints*. The peak of an order rises with each size, so that its worst in the range is that at the
upper ends.

Example: a buffer has 64 * s0 elements of 4 bytes. By the hint 16 it has 4,096 bytes; if s0 is at
most 128, it has at most 32,768.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from torch._inductor.virtualized import V

from optsched.plugins.inductor.sizes.storages import input_bytes, storage_bytes, upper_ends
from optsched.plugins.inductor.wrapper.facts import WrapperFacts


def add_worst_sizes(facts: WrapperFacts) -> WrapperFacts:
    """Return the facts of the current graph with the bytes at the upper ends of its sizes.

    A name whose bytes were measured, or that is not in the graph, keeps those of the hints.
    """
    ends = upper_ends()
    if not ends:
        return facts
    worst = {given.name: given.worst for given in facts.inputs if given.worst}
    for name, size in _sizes(facts):
        if not size:
            continue
        hint, most = _bytes(name, None), _bytes(name, ends)
        if hint == size and most > size:
            worst[name] = most
    return replace(facts, worst=worst)


def _sizes(facts: WrapperFacts) -> Iterator[tuple[str, int]]:
    for buffer in facts.buffers.values():
        yield buffer.name, buffer.size
    for given in facts.inputs:
        yield given.name, given.size
    for node in facts.nodes:
        for member in node.extern.members if node.extern else ():
            yield member.name, member.size


def _bytes(name: str, sizes: Mapping[Any, int] | None) -> int:
    if name in V.graph.graph_inputs:
        return input_bytes(name, sizes)
    buffer = V.graph.name_to_buffer.get(name)
    return 0 if buffer is None else storage_bytes(buffer, sizes)
