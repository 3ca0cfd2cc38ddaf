"""Sections of each buffer as bits, and the units live in each section.

A buffer may be live in several separate ranges, so that its sections are a bit set. The pairs of a
buffer and a section may be 100 times as many as the words of these sets: they are counted one by
one here and never listed, which for 3,000 ops on streams would take 16 GB.

Example: buffers of 5 and 3 units have the bits 101 and 110 (sections 0 and 2, and 1 and 2). The
sections have 5, 3 and 8 units.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.packing.kernels.state import WORD_BITS
from optsched.runtime.kernel import kernel


@kernel
def section_load(masks: IntArray, size: IntArray, count: int) -> IntArray:
    """Return the load by section, shape `(count,)`; `masks` has shape `(len(size), words)`."""
    # Changes of the load are noted where a run of sections begins and ends. Most words are empty
    # or full, so that only a few are looked at bit by bit.
    full = (1 << WORD_BITS) - 1
    change = np.zeros(masks.shape[1] * WORD_BITS + 1, np.int64)
    for i in range(len(size)):
        live = 0
        for word in range(masks.shape[1]):
            bits = masks[i, word]
            if bits == full * live:
                continue
            for at in range(WORD_BITS):
                now = (bits >> at) & 1
                change[word * WORD_BITS + at] += size[i] * (now - live)
                live = now
        change[masks.shape[1] * WORD_BITS] -= size[i] * live
    return np.cumsum(change)[:count]


@kernel
def section_bits(owner: IntArray, first: IntArray, last: IntArray, masks: IntArray) -> None:
    """Set the bits of sections `[first, last)` in the row of the buffer `owner`, for each part."""
    for x in range(len(owner)):
        at = first[x]
        while at < last[x]:
            word = at // WORD_BITS
            until = min(last[x], (word + 1) * WORD_BITS)
            # `until - at` ones, from the bit of `at` on.
            masks[owner[x], word] |= ((1 << (until - at)) - 1) << (at - word * WORD_BITS)
            at = until
