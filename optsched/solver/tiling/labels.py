"""Paths within a load: all that are best in added multiplications and added tail.

A label of a position is a path that leads to it: its tail, extra multiplications and load. Of the
labels of a position, those remain that no other one of them beats in tail and extra. A label is
dropped early if even the least completion of both does not improve on a known plan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel
from optsched.solver.tiling.arcs import Arcs

FAR = 1 << 60
"""Above all sums of costs."""
MOST_LABELS = 1 << 20
"""Labels of all positions at once; more are dropped, and the answer says so."""


class Labels(NamedTuple):
    """Labels of all positions, those of a position one after another; int64."""

    ptr: IntArray
    """Shape `(positions + 1,)`."""
    values: IntArray
    """Shape `(5, labels)`: tail, extra, load, the label before, and the arc."""


class Bounds(NamedTuple):
    """Limits of paths."""

    load: int
    """Most live bytes."""
    total: int
    """Most bytes of load and tail."""
    extra: int
    """Most extra multiplications."""
    least: int
    """A lower bound on the load of each path."""
    first: int
    """Position where paths begin."""


@kernel
def to_go(arcs: Arcs, load: int, column: int, found: IntArray) -> None:
    """Write the least sum of a column of arcs within a load from each position to the end.

    `column` is 0 for extra multiplications and 1 for the tail; `found` has a value per position.
    """
    for p in range(len(found)):
        found[p] = FAR
    found[len(found) - 1] = 0
    for p in range(len(found) - 1, -1, -1):
        if found[p] >= FAR:
            continue
        for a in range(arcs.ptr[p], arcs.ptr[p + 1]):
            if arcs.load[a] <= load:
                value = arcs.tail[a] if column else arcs.extra[a]
                found[arcs.start[a]] = min(found[arcs.start[a]], found[p] + value)


@kernel
def narrowest(arcs: Arcs, found: IntArray) -> None:
    """Write the least load of a path from the first position to each."""
    for p in range(len(found)):
        found[p] = FAR
    found[0] = 0
    for p in range(1, len(found)):
        for a in range(arcs.ptr[p], arcs.ptr[p + 1]):
            found[p] = min(found[p], max(found[arcs.start[a]], arcs.load[a]))


@inner
def is_known(front: IntArray, total: int, extra: int) -> bool:
    """Return True if a known plan has at most these values; `front` ascends in total."""
    low, high = 0, front.shape[1]
    while low < high:
        middle = (low + high) // 2
        if front[0, middle] <= total:
            low = middle + 1
        else:
            high = middle
    return low > 0 and front[1, low - 1] <= extra


@inner
def keep_best(draft: IntArray, count: int) -> int:
    """Keep the labels that no other one beats at the front of `draft`; return their number."""
    # Sorted by tail, then extra, then load: those that lower the extra stay.
    turn = np.argsort(draft[2, :count], kind="mergesort")
    turn = turn[np.argsort(draft[1, :count][turn], kind="mergesort")]
    turn = turn[np.argsort(draft[0, :count][turn], kind="mergesort")]
    rows = draft[:, :count][:, turn].copy()
    kept = 0
    best = FAR
    for i in range(count):
        if rows[1, i] < best:
            best = rows[1, i]
            draft[:, kept] = rows[:, i]
            kept += 1
    return kept


@kernel
def extend(
    arcs: Arcs,
    bounds: Bounds,
    extra_to_go: IntArray,
    tail_to_go: IntArray,
    front: IntArray,
    labels: Labels,
    draft: IntArray,
) -> int:
    """Write the labels of all positions; return their number, negated if some were dropped.

    `arcs`, `bounds`: the arcs, and what paths must keep. `extra_to_go`, `tail_to_go`: least sums to
    the end, by position (:func:`to_go`). `front`: shape `(2, plans)`: total bytes and extra of
    known plans, ascending in total. `labels`, `draft`: room for the labels, and for those of one
    position. The first label is that of the position where paths begin.
    """
    ptr, values = labels
    positions = len(ptr) - 1
    ptr[: bounds.first + 1], ptr[bounds.first + 1] = 0, 1
    total, dropped = 1, False
    for p in range(bounds.first + 1, positions):
        count = 0
        ptr[p + 1] = total
        if extra_to_go[p] >= FAR:
            continue
        for a in range(arcs.ptr[p], arcs.ptr[p + 1]):
            if arcs.load[a] > bounds.load:
                continue
            q = arcs.start[a]
            for i in range(ptr[q], ptr[q + 1]):
                tail, extra = values[0, i] + arcs.tail[a], values[1, i] + arcs.extra[a]
                load = max(values[2, i], arcs.load[a])
                # Not the path's own load: a label that is dropped must not have beaten another
                # one that would stay.
                low = bounds.least + tail + tail_to_go[p]
                more = extra + extra_to_go[p]
                if low > bounds.total or more > bounds.extra or is_known(front, low, more):
                    continue
                if count == draft.shape[1]:
                    count = keep_best(draft, count)
                    if 2 * count > draft.shape[1]:
                        count, dropped = count // 2, True
                draft[0, count], draft[1, count], draft[2, count] = tail, extra, load
                draft[3, count], draft[4, count] = i, a
                count += 1
        count = keep_best(draft, count)
        if total + count > values.shape[1]:
            count, dropped = values.shape[1] - total, True
        values[:, total : total + count] = draft[:, :count]
        total += count
        ptr[p + 1] = total
    return -total if dropped else total
