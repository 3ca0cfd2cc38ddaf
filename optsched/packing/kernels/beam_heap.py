"""What a layer of a beam keeps: its best children, as a heap.

A child is written to a free slot and rated; if it is better than the worst kept, it stays, and
the slot of the worst is the free one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy.typing as npt
from numpy import float64

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner

FloatArray = npt.NDArray[float64]

# Entries of `Beam.heap`.
KEPT, FREE, SLOTS = 0, 1, 2

# Columns of `Beam.births`.
PARENT, BUFFER, LEVEL = 0, 1, 2
BIRTH_COLUMNS = 3

# Entries of `Beam.knobs`.
RULE, SKIPS, SHIFT = 0, 1, 2


class Beam(NamedTuple):
    """The best children of a layer, in `width + 1` slots of which one is free, and work space.

    Parameters
    ----------
    heap
        Shape `(SLOTS + width,)`. KEPT: how many are kept. FREE: the slot that is written next.
        From SLOTS on the slots of those kept, the worst first, as a heap.
    ratings
        Shape `(width + 1,)`, by slot.
    births
        Shape `(width + 1, BIRTH_COLUMNS)`, by slot: slot of the parent, buffer, offset.
    seen
        Shape `(s,)`, s a power of two: codes of children, each at the place its low bits name.
    factors
        Shape `(n + m,)`: random numbers that codes are made of.
    weights
        Of a section, by its slack shifted right by SHIFT bits.
    noise
        Shape `(z,)`, z a power of two: factors of ratings, by code.
    scratch
        Room for a state.
    knobs
        RULE: how to choose sections. SKIPS: sections that may be skipped in a row. SHIFT.
    """

    heap: IntArray
    ratings: FloatArray
    births: IntArray
    seen: IntArray
    factors: IntArray
    weights: FloatArray
    noise: FloatArray
    scratch: IntArray
    knobs: IntArray


@inner
def is_kept(beam: Beam, rating: float) -> bool:
    """Whether a child of such a rating is among the best so far."""
    heap = beam.heap
    return bool(heap[KEPT] < len(heap) - SLOTS or rating < beam.ratings[heap[SLOTS]])


@inner
def keep(beam: Beam, rating: float, code: int) -> None:
    """Keep the child in the free slot, unless it is none of the best or there already."""
    heap, ratings, seen = beam.heap, beam.ratings, beam.seen
    width = len(heap) - SLOTS
    place = code & (len(seen) - 1)
    if seen[place] == code or not is_kept(beam, rating):
        return
    seen[place] = code
    free = heap[FREE]
    ratings[free] = rating
    if heap[KEPT] < width:
        at = heap[KEPT]
        heap[KEPT] += 1
        heap[FREE] = heap[KEPT]
        while at > 0 and ratings[heap[SLOTS + ((at - 1) >> 1)]] < rating:
            heap[SLOTS + at] = heap[SLOTS + ((at - 1) >> 1)]
            at = (at - 1) >> 1
    else:
        heap[FREE] = heap[SLOTS]
        at = 0
        below = 1
        while below < width:
            if below + 1 < width and (
                ratings[heap[SLOTS + below + 1]] > ratings[heap[SLOTS + below]]
            ):
                below += 1
            if ratings[heap[SLOTS + below]] <= rating:
                break
            heap[SLOTS + at] = heap[SLOTS + below]
            at = below
            below = 2 * at + 1
    heap[SLOTS + at] = free
