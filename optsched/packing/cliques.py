"""Sections: the maximal sets of buffers that are live together.

A packing must keep apart all buffers that are live at the same step. The set of buffers live at a
step matters only if no other step's set contains it. The remaining sets are the maximal cliques of
the interval graph of the live ranges: at most one per buffer, and usually far fewer than there are
steps. They are ordered in time as their steps are, so each live range covers a contiguous run of
them. These sets are called sections.

Example: buffers `a`, `b`, `c` and `d` start one after another and end in the same order. The live
sets are `a`, `ab`, `abc`, `abcd`, `bcd`, `cd` and `d`. All are subsets of `abcd`, which is the only
section.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optsched.model.arrays import ROW_BITS, BoolArray, IntArray, bit_rows
from optsched.packing.kernels.section_load import section_bits
from optsched.packing.kernels.state import WORD_BITS

MAX_TABLE = 1 << 24
"""Maximum number of buffers times sections for which sections are sorted in time order."""
BATCH_BYTES = 1 << 24
"""Bytes of the table in which sections are compared at the same time."""


@dataclass(frozen=True, slots=True)
class Sections:
    """The sections covered by each of `n` buffers."""

    count: int
    """Number of sections."""
    first: IntArray
    last: IntArray
    """Shape `(n,)`: half-open range of sections from the first to the last that a buffer covers."""
    masks: IntArray
    """Shape `(n, words)`: bit set of the sections that each buffer covers; shape `(n, 0)` if every
    buffer covers its whole range.
    """
    part_first: IntArray
    part_last: IntArray
    """Shape `(parts,)`: half-open range of sections of each part passed to :func:`cut_sections`."""


def cut_sections(
    owner: IntArray, start: IntArray, end: IntArray, buffers: int, *, maximal: bool = True
) -> Sections:
    """Cut time into sections.

    Parameters
    ----------
    owner, start, end
        Shape `(parts,)`: the buffer `owner` is live in `[start, end)`, which is not empty. Parts of
        the same buffer do not overlap. Where the occupied bytes of a buffer change, one part ends
        and the next one starts, so that each section is maximal among the sets with the same
        occupied bytes.
    buffers
        Number of buffers; each has at least one part.
    maximal
        If True, keep only maximal sets; if False, keep every stretch between two events.
    """
    times, index = np.unique(np.concatenate([start, end]), return_inverse=True)
    begin, until = index[: len(start)], index[len(start) :]
    stretches = len(times) - 1
    starts = np.bincount(begin, minlength=stretches + 1)[:stretches] > 0
    ends = np.bincount(until, minlength=stretches + 1)[1:] > 0
    # The live set is maximal just before a buffer ends if another has started since the last end.
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
    # All covered sections in one run: no masks are needed, which is the usual case.
    words = 0 if np.array_equal(covered, last - first) else words_of(count)
    masks = np.zeros((buffers, words), np.int64)
    if words:
        section_bits.for_work(len(owner))(owner, low, high, masks)
    return Sections(count, first, last, masks, low, high)


def words_of(count: int) -> int:
    """Return the number of words in a bit set over `count` elements."""
    return count // WORD_BITS + 1


def in_time_order(sections: Sections, middle: IntArray) -> Sections:
    """Return the sections in order of time, without those contained in another section.

    Sets of buffers that must be kept apart although they are not live together are given as extra
    steps after all others. Moving each of these sections to the time at which most of its members
    live shortens the ranges of sections that buffers span. `middle` has shape `(n,)` and holds a
    time within the live range of each buffer. All buffers must be fully occupied while they are
    live, and each section must have a member, as all maximal ones of :func:`cut_sections` have.
    """
    if not sections.masks.shape[1] or sections.count * len(middle) > MAX_TABLE:
        return sections
    covers = _table(sections)
    covers = covers[:, _maximal(covers)]
    # Each section moves to the mean time of its members.
    owner, member = np.nonzero(np.ascontiguousarray(covers.T))
    begin = np.searchsorted(owner, np.arange(covers.shape[1]))
    moment = np.add.reduceat((middle - middle.min()).astype(np.float64)[member], begin)
    turn = np.argsort(moment / covers.sum(axis=0), kind="stable")
    covers = covers[:, turn]
    first = covers.argmax(axis=1)
    last = covers.shape[1] - covers[:, ::-1].argmax(axis=1)
    place = np.arange(len(turn))
    masks = np.zeros((len(middle), words_of(len(turn))), np.int64)
    for word in range(masks.shape[1]):
        here = place[place // WORD_BITS == word]
        masks[:, word] = (covers[:, here].astype(np.int64) << (here % WORD_BITS)).sum(axis=1)
    if np.array_equal(covers.sum(axis=1), last - first):
        masks = masks[:, :0]
    return replace(sections, count=len(turn), first=first, last=last, masks=masks)


def _table(sections: Sections) -> BoolArray:
    """Return the sections that each buffer covers, shape `(n, sections)`, from their masks."""
    covers = np.zeros((len(sections.masks), sections.count), np.bool_)
    for word in range(sections.masks.shape[1]):
        here = covers[:, word * WORD_BITS : (word + 1) * WORD_BITS]
        here[:] = sections.masks[:, word, None] >> np.arange(here.shape[1]) & 1
    return covers


def _maximal(covers: BoolArray) -> IntArray:
    """Return the sections that no other one contains; of equal sections the first one.

    With the sections in descending order of their members' number, a section goes if all its
    members cover one that comes before it.
    """
    turn = np.argsort(-covers.sum(axis=0), kind="stable")
    # Buffers of few sections come first: a few of them tell a section from all others.
    covers = covers[np.argsort(covers.sum(axis=1), kind="stable")][:, turn]
    masks = bit_rows(covers)
    owner, member = np.nonzero(np.ascontiguousarray(covers.T))
    begin = np.searchsorted(owner, np.arange(len(turn) + 1))
    step = max(1, BATCH_BYTES // masks[0].nbytes)
    inside = [
        _inside(masks, member, begin, np.arange(at, min(at + step, len(turn))))
        for at in range(0, len(turn), step)
    ]
    return np.sort(np.delete(turn, np.concatenate(inside)))


def _inside(masks: IntArray, member: IntArray, begin: IntArray, sections: IntArray) -> IntArray:
    """Return those of some sections that are inside a section of a smaller number.

    The members of section `i` are `member[begin[i] : begin[i + 1]]`, and `masks` has the bits of
    the sections that each buffer covers.
    """
    word, bit = sections[:, None] // ROW_BITS, sections[:, None] % ROW_BITS
    place = np.arange(masks.shape[1])
    # At first the sections around a section are all those before it.
    around = np.where(place < word, (1 << ROW_BITS) - 1, np.where(place == word, (1 << bit) - 1, 0))
    at = begin[sections]
    inside = [sections[:0]]
    while len(sections):
        around &= masks[member[at]]
        is_open = around.any(axis=1)
        is_last = at + 1 == begin[sections + 1]
        inside.append(sections[is_open & is_last])
        is_open &= ~is_last
        around, sections, at = around[is_open], sections[is_open], at[is_open] + 1
    return np.concatenate(inside)
