"""What a smaller buffer would bring: the bound of the changed graph, found anew."""

from __future__ import annotations

from dataclasses import replace

from optsched.explanation.bottleneck import Bottleneck, Bounds
from optsched.explanation.data import Change
from optsched.model.graph import Graph


def shrink(bounds: Bounds, buffer: int, found: Bottleneck) -> Change:
    """Find the least bound that a smaller buffer brings, and the largest size that brings it.

    The next bottleneck may be an op or a set elsewhere. A set found at one size counts at all of
    them, so each that is new begins the work anew.

    Parameters
    ----------
    bounds
        Of the graph.
    buffer
        Its id.
    found
        The bottleneck of the graph as it is.
    """
    while True:
        known = len(bounds.sets)
        change = _shrink(bounds, buffer, found)
        if len(bounds.sets) == known:
            return change


def _shrink(bounds: Bounds, buffer: int, found: Bottleneck) -> Change:
    """Do that for the sets known.

    Between two sizes at which its in-place pairs change, the bound of one op or set, as a function
    of the size, rises at rate 1 up to some size and is constant from there on: so does the least of
    several. One that is above the least bound is at it where the buffer is as much larger than the
    smaller of the two as it is below it there; the least such size over all of them counts.
    """

    def resized(size: int) -> Graph:
        smaller = replace(graph.buffers[buffer], size=size)
        buffers = (*graph.buffers[:buffer], smaller, *graph.buffers[buffer + 1 :])
        return replace(graph, buffers=buffers)

    graph = bounds.graph
    full, known = graph.buffers[buffer].size, len(bounds.sets)
    turns = {size: bounds.strongest(resized(size)) for size in _turns(graph, buffer)}
    least = min(bound.value for bound in turns.values())
    if found.value <= least:
        return Change(buffer, 0, found.value, found.op, bool(found.ops))
    start = max(size for size, bound in turns.items() if bound.value == least)
    base = resized(start)
    size = min((turn for turn in turns if turn > start), default=full + 1) - 1
    at = bounds.strongest(resized(size))
    while at.value > least and len(bounds.sets) == known:
        if at.op is None:
            size -= at.value - least
        else:
            size = start + least - bounds.value_of(base, at)
        at = bounds.strongest(resized(size))
    return Change(buffer, full - size, least, at.op, bool(at.ops))


def _turns(graph: Graph, buffer: int) -> set[int]:
    """Sizes, up to a buffer's own, from which on it is in other in-place pairs; and 0."""
    turns = {0}
    for _, output, named in graph.inplace:
        pair = (output, graph.roots[named])
        if buffer in pair:
            size = graph.buffers[pair[pair[0] == buffer]].size
            turns |= {size, size + 1}
    return {size for size in turns if size <= graph.buffers[buffer].size}
