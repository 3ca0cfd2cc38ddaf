"""First fit: each buffer in turn into the lowest place that holds it."""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.state import B
from optsched.runtime.kernel import inner, kernel

# Rows of `parts`: bytes LOW to HIGH of the buffer are there in the sections FROM to UNTIL.
FROM, UNTIL, LOW, HIGH = 0, 1, 2, 3


@inner
def may_meet(buffers: IntArray, masks: IntArray, i: int, j: int) -> bool:
    """Whether two buffers are ever live together; with parts, whether their ranges overlap."""
    if buffers[B.first, j] >= buffers[B.last, i] or buffers[B.last, j] <= buffers[B.first, i]:
        return False
    apart = masks.shape[1] > 0
    for word in range(masks.shape[1]):
        if masks[i, word] & masks[j, word] != 0:
            apart = False
    return not apart


@inner
def lowest_above(parts: IntArray, mine: IntArray, other: IntArray, x: int, y: int) -> int:
    """Return an offset above `x` if a buffer there meets another at `y`, else `x`.

    `mine` and `other` are the columns of their parts, which ascend and do not overlap.
    """
    a, b = mine[0], other[0]
    lowest = x
    while a < mine[1] and b < other[1]:
        if parts[FROM, a] < parts[UNTIL, b] and parts[FROM, b] < parts[UNTIL, a]:
            top = y + parts[HIGH, b]
            meets = x + parts[LOW, a] < top and y + parts[LOW, b] < x + parts[HIGH, a]
            if meets and top - parts[LOW, a] > lowest:
                lowest = top - parts[LOW, a]
        if parts[UNTIL, a] < parts[UNTIL, b]:
            a += 1
        else:
            b += 1
    return int(lowest)


@kernel
def first_fit(
    buffers: IntArray,
    masks: IntArray,
    parts: IntArray | None,
    ranges: IntArray,
    order: IntArray,
    placed: int,
    line: IntArray,
) -> int:
    """Place buffers in turn; stop at the first whose place is above its maximum offset.

    Parameters
    ----------
    buffers
        Rows as of :class:`optsched.packing.kernels.state.PackingState`; `offset` is written.
    masks
        Sections that each buffer covers, without words if each covers all of its range.
    parts
        Shape `(4, r)`: what is there of each buffer and when; None if always all of it.
    ranges
        Shape `(n, 2)`: the columns of `parts` of each buffer, by section.
    order
        Shape `(n,)`. The first `placed` of it have their offsets.
    line
        Shape `(n,)`: work space, placed buffers by offset.

    Returns
    -------
    int
        How many of the order have a place; all of them if it succeeded.
    """
    offsets = buffers[B.offset]
    for turn in range(len(order)):
        i = order[turn]
        if turn >= placed:
            step = buffers[B.alignment, i]
            lowest = buffers[B.release, i]
            lowest += -lowest % step
            before = -1
            while before != lowest and lowest <= buffers[B.max_offset, i]:
                before = lowest
                for k in range(turn):
                    j = line[k]
                    if offsets[j] - lowest >= buffers[B.size, i]:
                        break
                    if not may_meet(buffers, masks, i, j):
                        continue
                    top = offsets[j] + buffers[B.size, j]
                    if parts is not None:
                        top = lowest_above(parts, ranges[i], ranges[j], lowest, offsets[j])
                    if top > lowest:
                        lowest = top + -top % step
                if parts is None:
                    # They came by offset. Parts do not come by their tops: once more through them.
                    break
            if lowest > buffers[B.max_offset, i]:
                return turn
            offsets[i] = lowest
        k = turn
        while k > 0 and offsets[line[k - 1]] > offsets[i]:
            line[k] = line[k - 1]
            k -= 1
        line[k] = i
    return len(order)
