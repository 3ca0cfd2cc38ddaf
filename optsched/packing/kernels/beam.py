"""One layer of a beam: every node places one more buffer, the best children live on.

A node is rated by the sum over its unfinished sections of a weight that falls with the slack
there. A buffer placed flat leaves the slack of its own sections; floors that rise further cost.
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.beam_heap import (
    BUFFER,
    FREE,
    LEVEL,
    PARENT,
    RULE,
    SKIPS,
    Beam,
    is_kept,
    keep,
)
from optsched.packing.kernels.beam_node import place_in_node, show_node, skip_in_node
from optsched.packing.kernels.branch import choose_section, may_start
from optsched.packing.kernels.state import PackingState, S
from optsched.runtime.kernel import kernel


@kernel
def expand(
    state: PackingState,
    beam: Beam,
    nodes: IntArray,
    parents: IntArray,
    unplaced: int,
    following: IntArray,
) -> int:
    """Keep the best children of some nodes, each with one more buffer placed.

    Parameters
    ----------
    state
        Work space.
    beam
        What is kept; goes on from earlier calls for the same layer.
    nodes
        One row each.
    parents
        Rows to expand; those of good rating first save work.
    unplaced
        Buffers that the nodes have not placed.
    following
        Shape of `nodes`, with `width + 1` rows: the children, by slot.

    Returns
    -------
    int
        Children made, kept or not.
    """
    sections, cover, node = state.sections, state.cover, beam.scratch
    n, m = state.buffers.shape[1], sections.shape[1] - 2
    # Read, not written as 0: for numba a literal is a type of its own, and calls for new code.
    zero = sections[S.entry, 0]
    ids = 3 * m + n + 1
    made = 0
    for parent in parents:
        for k in range(ids + unplaced):
            node[k] = nodes[parent, k]
        for skipped in range(beam.knobs[SKIPS] + 1):
            show_node(state, node)
            t = choose_section(state, zero, m, zero, n, beam.knobs[RULE])
            if t < 0:
                break
            floor = node[t]
            for c in range(sections[S.cover, t], sections[S.cover, t + 1]):
                i = cover[c]
                if node[3 * m + i] != floor or not may_start(state, i):
                    continue
                free = beam.heap[FREE]
                child = following[free]
                for k in range(ids):
                    child[k] = node[k]
                at = ids
                for k in range(ids, ids + unplaced):
                    child[at] = node[k]
                    at += node[k] != i
                made += 1
                rating, code = place_in_node(state, beam, child, unplaced - 1, i, floor)
                if rating < 0:
                    continue
                beam.births[free, PARENT] = parent
                beam.births[free, BUFFER] = i
                beam.births[free, LEVEL] = floor
                keep(beam, rating * beam.noise[code & (len(beam.noise) - 1)], code)
            if skipped == beam.knobs[SKIPS]:
                break
            rating = skip_in_node(state, beam, node, t)
            # Children hardly ever rate better than what they come from.
            if rating < 0 or not is_kept(beam, rating):
                break
    return made
