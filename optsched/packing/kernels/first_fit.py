"""First fit: each buffer in turn into the lowest place that holds it."""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.state import ALIGNMENT, FIRST, LAST, LATEST, OFFSET, RELEASE, SIZE
from optsched.runtime.kernel import inner, kernel


@kernel
def first_fit(
    buffers: IntArray, masks: IntArray, order: IntArray, placed: int, line: IntArray
) -> int:
    """Place buffers in turn; stop at the first whose place is above its latest start.

    Parameters
    ----------
    buffers
        Rows as on a board; OFFSET is written.
    masks
        Sections that each buffer covers, without words if there are no gaps.
    order
        Shape `(n,)`. The first `placed` of it have their offsets.
    line
        Shape `(n,)`: work space, placed buffers by offset.

    Returns
    -------
    int
        How many of the order have a place; all of them if it succeeded.
    """
    offsets = buffers[OFFSET]
    for turn in range(len(order)):
        i = order[turn]
        first, last, size = buffers[FIRST, i], buffers[LAST, i], buffers[SIZE, i]
        if turn >= placed:
            step = buffers[ALIGNMENT, i]
            lowest = buffers[RELEASE, i]
            lowest += -lowest % step
            for k in range(turn):
                j = line[k]
                if buffers[FIRST, j] >= last or buffers[LAST, j] <= first:
                    continue
                if offsets[j] - lowest >= size:
                    break
                apart = masks.shape[1] > 0
                for word in range(masks.shape[1]):
                    if masks[i, word] & masks[j, word] != 0:
                        apart = False
                        break
                top = offsets[j] + buffers[SIZE, j]
                if not apart and top > lowest:
                    lowest = top + -top % step
            if lowest > buffers[LATEST, i]:
                return turn
            offsets[i] = lowest
        k = turn
        while k > 0 and offsets[line[k - 1]] > offsets[i]:
            line[k] = line[k - 1]
            k -= 1
        line[k] = i
    return len(order)


# Rows of what `first_fit_windows` takes as `windows`.
FROM, UNTIL, LOW, HIGH = 0, 1, 2, 3


@inner
def least_above(windows: IntArray, mine: IntArray, other: IntArray, x: int, y: int) -> int:
    """Return an offset above `x` if a buffer there meets another at `y`, else `x`.

    `mine` and `other` are the ranges of their windows, which ascend and do not overlap.
    """
    a, b = mine[0], other[0]
    least = x
    while a < mine[1] and b < other[1]:
        if windows[FROM, a] < windows[UNTIL, b] and windows[FROM, b] < windows[UNTIL, a]:
            top = y + windows[HIGH, b]
            meets = x + windows[LOW, a] < top and y + windows[LOW, b] < x + windows[HIGH, a]
            if meets and top - windows[LOW, a] > least:
                least = top - windows[LOW, a]
        if windows[UNTIL, a] < windows[UNTIL, b]:
            a += 1
        else:
            b += 1
    return int(least)


@kernel
def first_fit_windows(
    buffers: IntArray,
    windows: IntArray,
    ranges: IntArray,
    order: IntArray,
    placed: int,
    line: IntArray,
) -> int:
    """Place buffers in turn, as `first_fit`, where in some sections only a window is there.

    Parameters
    ----------
    buffers, order, placed, line
        As there.
    windows
        Shape `(4, r)`: FROM and UNTIL, sections; LOW and HIGH, what of the buffer is there.
    ranges
        Shape `(n, 2)`: the windows of each buffer, by section.

    Returns
    -------
    int
        How many of the order have a place; all of them if it succeeded.
    """
    offsets = buffers[OFFSET]
    for turn in range(len(order)):
        i = order[turn]
        if turn >= placed:
            step = buffers[ALIGNMENT, i]
            lowest = buffers[RELEASE, i]
            lowest += -lowest % step
            before = -1
            # Windows do not come by their tops: go through again until all are passed.
            while before != lowest and lowest <= buffers[LATEST, i]:
                before = lowest
                for k in range(turn):
                    j = line[k]
                    if (
                        buffers[FIRST, j] >= buffers[LAST, i]
                        or buffers[LAST, j] <= buffers[FIRST, i]
                    ):
                        continue
                    if offsets[j] - lowest >= buffers[SIZE, i]:
                        break
                    lowest = least_above(windows, ranges[i], ranges[j], lowest, offsets[j])
                    lowest += -lowest % step
            if lowest > buffers[LATEST, i]:
                return turn
            offsets[i] = lowest
        k = turn
        while k > 0 and offsets[line[k - 1]] > offsets[i]:
            line[k] = line[k - 1]
            k -= 1
        line[k] = i
    return len(order)
