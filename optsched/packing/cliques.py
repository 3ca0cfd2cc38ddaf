"""Time cut into sections: the maximal cliques of the live ranges.

A packing has to keep apart what is live together at some step. The set of buffers live at a step
matters only if no other step's set contains it: those are the maximal cliques of the interval
graph, at most one for each buffer and mostly far fewer than there are steps. They lie in time as
the steps do, so each live range covers a run of them. Where four buffers start one by one and end
in the same order, `a b c d` live together is the one section, whatever came before and after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optsched.model.arrays import IntArray
from optsched.packing.kernels.state import WORD_BITS

MAX_TABLE = 1 << 24
"""Buffers times sections up to which sections are brought into order."""


@dataclass(frozen=True, slots=True)
class Sections:
    """Sections of `n` buffers."""

    count: int
    """Number of sections."""
    first: IntArray
    last: IntArray
    """Shape `(n,)`: half-open range of sections from a buffer's first to its last."""
    masks: IntArray
    """Shape `(n, words)`: the sections it covers as bits; `(n, 0)` if every buffer
    covers its whole range."""
    part_first: IntArray
    part_last: IntArray
    """Shape `(parts,)`: half-open range of sections of each part they were cut from."""


def cut_sections(
    owner: IntArray, start: IntArray, end: IntArray, buffers: int, *, maximal: bool = True
) -> Sections:
    """Cut time into sections: maximal sets, or every stretch between two events.

    Parameters
    ----------
    owner, start, end
        Shape `(parts,)`: which buffer is live in `[start, end)`; parts of a buffer are apart.
        Where the occupied bytes change one part ends and the next starts, so that sections are
        maximal among those of the same bytes. Each of the `buffers` has a part.
    """
    times, index = np.unique(np.concatenate([start, end]), return_inverse=True)
    begin, until = index[: len(start)], index[len(start) :]
    stretches = len(times) - 1
    starts = np.bincount(begin, minlength=stretches + 1)[:stretches] > 0
    ends = np.bincount(until, minlength=stretches + 1)[1:] > 0
    # A set is maximal where something has started since the last end, and something ends.
    last_start = np.maximum.accumulate(np.where(starts, np.arange(stretches), -1))
    ended = np.where(ends, np.arange(stretches), -1)
    last_end = np.concatenate([[-1], np.maximum.accumulate(ended)[:-1]])
    keep = ends & (last_start > last_end) if maximal else np.ones(stretches, bool)
    kept = np.concatenate([[0], np.cumsum(keep)])
    low, high = kept[begin], kept[until]
    first = np.full(buffers, np.iinfo(np.int64).max, np.int64)
    last = np.zeros(buffers, np.int64)
    np.minimum.at(first, owner, low)
    np.maximum.at(last, owner, high)
    covered = np.zeros(buffers, np.int64)
    np.add.at(covered, owner, high - low)
    count = int(kept[-1])
    words = 0 if np.array_equal(covered, last - first) else words_of(count)
    masks = np.zeros((buffers, words), np.int64)
    if words:
        for i, a, b in zip(owner.tolist(), low.tolist(), high.tolist(), strict=True):
            for t in range(a, b):
                masks[i, t // WORD_BITS] |= 1 << (t % WORD_BITS)
    return Sections(count, first, last, masks, low, high)


def words_of(count: int) -> int:
    """Return the words of bits that a set of some of so many takes."""
    return count // WORD_BITS + 1


def in_time_order(sections: Sections, middle: IntArray) -> Sections:
    """Return the sections without those that are part of others, in order of time.

    Sets of buffers that are kept apart though not live together stand behind all steps. Between
    these, where most of their members are, they make the buffers' ranges of sections short.
    `middle` has a time in the live range of each buffer, shape `(n,)`, all there as a whole.
    """
    if not sections.masks.shape[1] or sections.count * len(middle) > MAX_TABLE:
        return sections
    place = np.arange(sections.count)
    covers = (sections.masks[:, place // WORD_BITS] >> (place % WORD_BITS)) & 1
    count = covers.sum(axis=0)
    # Whole numbers up to 2**24 are exact in 32 bits.
    table = covers.astype(np.float32)
    inside = (table.T @ table == count[:, None]) & (count[:, None] <= count)
    # Of equal ones the first stays.
    inside &= (count[:, None] < count) | (place[:, None] > place)
    kept = np.flatnonzero(~inside.any(axis=1))
    moment = (covers[:, kept] * (middle - middle.min())[:, None].astype(np.float64)).sum(axis=0)
    covers = covers[:, kept[np.argsort(moment / count[kept], kind="stable")]]
    first = covers.argmax(axis=1)
    last = covers.shape[1] - covers[:, ::-1].argmax(axis=1)
    place = np.arange(len(kept))
    masks = np.zeros((len(middle), words_of(len(kept))), np.int64)
    for word in range(masks.shape[1]):
        here = place[place // WORD_BITS == word]
        masks[:, word] = (covers[:, here] << (here % WORD_BITS)).sum(axis=1)
    if np.array_equal(covers.sum(axis=1), last - first):
        masks = masks[:, :0]
    return replace(sections, count=len(kept), first=first, last=last, masks=masks)
