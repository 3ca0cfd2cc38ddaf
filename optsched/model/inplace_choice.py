"""Choice of the in-place pairs that a plan uses.

The peak of an order does not depend on this choice, because each op can use a heaviest matching.
For the slab each pair is a decision. A chosen pair is a single buffer of the packing problem: the
input's. Only the output's bytes of it stay occupied after the op has ended. If the pair is not
chosen, the two buffers must be disjoint while the op runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optsched.model.graph import Graph
from optsched.model.inplace import Pair, available_pairs, bytes_saved, heaviest_matching
from optsched.model.liveness import live_ranges, timeline
from optsched.model.steps import Order, steps_of

Pairs = tuple[Pair, ...]
"""Outputs and the roots of the inputs into which they are written, in order of their ops."""


def pair_choices(graph: Graph, order: Order, bound: int = 0, tries: int = 4) -> Iterator[Pairs]:
    """Yield distinct sets of in-place pairs for the ops of an order, promising sets first.

    Each op uses either a heaviest matching or no pair. It must use the matching if its live bytes
    would otherwise exceed both the bound and the peak. The other ops are tried with pairs of equal
    sizes only, with all pairs, and with none; then with other inputs, if there are several. These
    are drawn at random with a fixed seed.

    `graph`: the graph; if it is not in-place, the only choice is the empty set. `order`: order of
    its ops. `bound`: known lower bound on the slab in bytes. `tries`: number of random draws.
    """
    seen: set[Pairs] = set()
    for choice in _choices(graph, order, bound, tries):
        if choice not in seen:
            seen.add(choice)
            yield choice


def _choices(graph: Graph, order: Order, bound: int, tries: int) -> Iterator[Pairs]:
    if not graph.in_place:
        yield ()
        return
    arrays, steps, ranges = graph.arrays, steps_of(graph, order), live_ranges(graph, order)
    rows = available_pairs(arrays, steps, ranges)
    running = timeline(graph, order).running
    # Live bytes of each op as if it wrote nothing in place.
    alone = running[steps] + bytes_saved(arrays, steps, ranges)
    floor = max(bound, int(running.max(initial=0)))
    turn = sorted(rows, key=lambda v: int(steps[v]))
    # The first draw uses the pairs as listed; later draws shuffle them, which changes inputs.
    rng = np.random.default_rng(0)
    for draw in range(1 + tries):
        matched_at: dict[int, list[Pair]] = {}
        for v in turn:
            pairs = rows[v]
            if draw:
                pairs = [pairs[i] for i in rng.permutation(len(pairs))]
            matched = heaviest_matching(pairs, arrays.size)
            matched_at[v] = sorted((output, source) for source, output in matched.items())
        for small in (False, True):
            yield tuple(
                (output, source)
                for v in turn
                for output, source in matched_at[v]
                # Without the matching this op alone would exceed the bound, so it has no choice.
                if alone[v] > floor or small or arrays.size[output] == arrays.size[source]
            )
        if not draw:
            yield tuple(pair for v in turn if alone[v] > floor for pair in matched_at[v])
    # No pairs at all: this is valid wherever the slab allows it.
    yield ()


def heads(chosen: Pairs) -> dict[int, int]:
    """Return, for each output, the buffer into which it is written through all pairs before it."""
    found: dict[int, int] = {}
    for output, source in chosen:
        # A chain of writes ends in one buffer, the first input.
        found[output] = found.get(source, source)
    return found
