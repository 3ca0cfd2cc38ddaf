"""Peak memory of an order that was replayed."""

from __future__ import annotations

from itertools import accumulate

from optsched.check.antichain import most_in_conflict
from optsched.check.facts import OrderFacts
from optsched.check.inplace import heaviest


def peak_of(facts: OrderFacts) -> int:
    """Return the peak in bytes.

    It is the maximum number of live bytes over the steps; on several streams, the largest total
    size of buffers that may pairwise be in use at once.
    """
    if facts.graph.on_streams:
        return most_in_conflict(facts.graph, facts.precedence, facts.spans)
    return _most_live(facts)


def _most_live(facts: OrderFacts) -> int:
    """Return the maximum of live bytes, less what the op of the step writes in place."""
    graph = facts.graph
    # One entry more than there are steps, so that the end of the last one has a place.
    change = [0] * (max(1, len(graph.ops)) + 1)
    sizes = facts.sizes
    for b, (start, end) in facts.spans.items():
        size = sizes[b]
        change[start] += size
        change[end] -= size
    # Bytes that the op of a step spares by writing in place: they count once.
    spared = {facts.step[v]: heaviest(graph, pairs) for v, pairs in facts.dying.items()}
    live = list(accumulate(change))
    for at, bytes_ in spared.items():
        live[at] -= bytes_
    return max(live)
