"""Which in-place pairs a plan takes: for the peak nothing is decided, for the slab each pair is.

A pair taken is one buffer for the packing: the input's, of which only the output's bytes stay
occupied once the op has ended. Not taken, the two are apart while the op runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optsched.model.graph import Graph
from optsched.model.inplace import Pair, available_pairs, bytes_saved, heaviest_matching
from optsched.model.liveness import live_ranges, timeline
from optsched.model.steps import Order, steps_of

Pairs = tuple[Pair, ...]
"""Outputs and the roots of the inputs they are written into, first op first."""


def pair_choices(graph: Graph, order: Order, bound: int = 0, tries: int = 4) -> Iterator[Pairs]:
    """Yield sets of pairs that the ops of an order may take, promising ones first, each set once.

    Each op takes a heaviest matching or nothing. It must take one where its live bytes would else
    pass the bound and the peak. Elsewhere it is tried for outputs as large as their inputs, for
    all, and for none; then with other inputs where there are several, drawn at random but the same
    each time, `tries` times. No slab is below `bound` bytes anyway. Without in-place the only
    choice is to take no pairs.
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
    alone = running[steps] + bytes_saved(arrays, steps, ranges)
    floor = max(bound, int(running.max(initial=0)))
    turn = sorted(rows, key=lambda v: int(steps[v]))
    rng = np.random.default_rng(0)
    for draw in range(1 + tries):
        taken: dict[int, list[Pair]] = {}
        for v in turn:
            pairs = rows[v]
            if draw:
                pairs = [pairs[i] for i in rng.permutation(len(pairs))]
            matched = heaviest_matching(pairs, arrays.size)
            taken[v] = sorted((output, source) for source, output in matched.items())
        for small in (False, True):
            yield tuple(
                (output, source)
                for v in turn
                for output, source in taken[v]
                if alone[v] > floor or small or arrays.size[output] == arrays.size[source]
            )
        if not draw:
            yield tuple(pair for v in turn if alone[v] > floor for pair in taken[v])
    yield ()


def heads(taken: Pairs) -> dict[int, int]:
    """Return whose buffer each output is written into, through all pairs before it."""
    found: dict[int, int] = {}
    for output, source in taken:
        found[output] = found.get(source, source)
    return found
