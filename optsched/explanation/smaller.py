"""What a smaller buffer would bring: the bound of the changed graph, found anew."""

from __future__ import annotations

from dataclasses import replace

from optsched.explanation.bottleneck import Bottleneck, Bounds
from optsched.explanation.data import Change
from optsched.model.graph import Graph


def shrink(bounds: Bounds, buffer: int, found: Bottleneck) -> Change:
    """Find the minimum bound over all smaller sizes of a buffer, and the largest size that has it.

    When the buffer shrinks, another op or set of ops may become the bottleneck. A set that is found
    at one size gives a bound at every size, so the search starts again whenever one is found.

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
    """Find it for the sets known so far.

    The buffer's in-place pairs change at a few sizes only. Between two of these, what one op or set
    forces does not change while the buffer is large, and falls byte for byte once it is smaller
    than some size. So an op that is still above the minimum bound `low` at one size reaches it at
    the size that is larger, by what is missing, than the lower end of the stretch; the search goes
    there, and on, until no op or set is above `low`.
    """

    def resized(size: int) -> Graph:
        smaller = replace(graph.buffers[buffer], size=size)
        buffers = (*graph.buffers[:buffer], smaller, *graph.buffers[buffer + 1 :])
        return replace(graph, buffers=buffers)

    graph = bounds.graph
    full, known = graph.buffers[buffer].size, len(bounds.sets)
    turns = {size: bounds.strongest(resized(size)) for size in _turns(graph, buffer)}
    low = min(bound.value for bound in turns.values())
    if found.value <= low:
        return Change(buffer, 0, found.value, found.op, bool(found.ops))
    start = max(size for size, bound in turns.items() if bound.value == low)
    base = resized(start)
    size = min((turn for turn in turns if turn > start), default=full + 1) - 1
    at = bounds.strongest(resized(size))
    while at.value > low and len(bounds.sets) == known:
        if at.op is None:
            size -= at.value - low
        else:
            size = start + low - bounds.value_of(base, at)
        at = bounds.strongest(resized(size))
    return Change(buffer, full - size, low, at.op, bool(at.ops))


def _turns(graph: Graph, buffer: int) -> set[int]:
    """Sizes, up to a buffer's own, from which on it is in other in-place pairs; and 0."""
    turns = {0}
    for _, output, named in graph.inplace:
        pair = (output, graph.roots[named])
        if buffer in pair:
            size = graph.buffers[pair[pair[0] == buffer]].size
            turns |= {size, size + 1}
    return {size for size in turns if size <= graph.buffers[buffer].size}
