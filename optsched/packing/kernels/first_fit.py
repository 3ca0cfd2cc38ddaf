"""First fit: place each buffer in turn at the lowest offset where it fits.

Example: buffers of 4, 3 and 2 bytes are live in steps 0-1, 1-2 and 2. The first goes to 0, the
second to 4, on top of the first, and the third to 0, since the first is dead by then.
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.state import B
from optsched.runtime.kernel import inner, kernel

# Rows of `parts`: bytes [LOW, HIGH) of the buffer are occupied in sections [FROM, UNTIL).
FROM, UNTIL, LOW, HIGH = 0, 1, 2, 3


@inner
def may_meet(buffers: IntArray, masks: IntArray, i: int, j: int) -> bool:
    """Return True if two buffers are ever live together.

    With partial occupancy, return True if their ranges overlap.
    """
    # Ranges that do not overlap need no look at their masks.
    if buffers[B.first, j] >= buffers[B.last, i] or buffers[B.last, j] <= buffers[B.first, i]:
        return False
    apart = masks.shape[1] > 0
    for word in range(masks.shape[1]):
        if masks[i, word] & masks[j, word] != 0:
            apart = False
    return not apart


@inner
def lowest_above(parts: IntArray, mine: IntArray, other: IntArray, x: int, y: int) -> int:
    """Return an offset above `x` if a buffer at `x` overlaps another one at `y`, else `x`.

    `mine` and `other` are the ranges of columns of their parts, which are sorted by section and do
    not overlap within a buffer.
    """
    a, b = mine[0], other[0]
    # Both rows are sorted by section, so one pass over them is enough.
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
    """Place buffers in turn; stop at the first one that does not fit below its maximum.

    Sketch: keep the placed buffers sorted by offset (`line`). For each buffer in `order`, start at
    its release, rounded up to its alignment. Scan the placed buffers by offset. If one is live at
    the same time and its top is above the candidate, raise the candidate to the aligned top. Stop
    as soon as the gap below the next placed buffer is large enough. Insert the buffer into `line`
    by insertion sort.

    Parameters
    ----------
    buffers
        Rows as in :class:`optsched.packing.kernels.state.PackingState`; `offset` is written.
    masks
        Bit sets of the sections that each buffer covers; no words if each buffer covers all of its
        range.
    parts
        Shape `(4, r)`: occupied bytes of each buffer by section; None if buffers are always fully
        occupied.
    ranges
        Shape `(n, 2)`: range of columns in `parts` of each buffer, sorted by section.
    order
        Shape `(n,)`: buffers to place; the first `placed` of them have their offsets already.
    placed
        Number of buffers placed before.
    line
        Shape `(n,)`: work space, placed buffers sorted by offset.

    Returns
    -------
    int
        Number of buffers of the order that are placed; `n` if all of them fit.
    """
    offsets = buffers[B.offset]
    for turn in range(len(order)):
        i = order[turn]
        if turn >= placed:
            step = buffers[B.alignment, i]
            lowest = buffers[B.release, i]
            lowest += -lowest % step
            # No offset is -1, so the first pass is not taken for one that changed nothing.
            before = -1
            while before != lowest and lowest <= buffers[B.max_offset, i]:
                before = lowest
                for k in range(turn):
                    j = line[k]
                    # The gap below this buffer and all later ones is large enough.
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
                    # Whole buffers were scanned by offset, so one pass is enough. Parts are not
                    # sorted by their own offsets; scan again until nothing changes.
                    break
            if lowest > buffers[B.max_offset, i]:
                return turn
            offsets[i] = lowest
        # Insert the buffer into the list of placed buffers, which is sorted by offset.
        k = turn
        while k > 0 and offsets[line[k - 1]] > offsets[i]:
            line[k] = line[k - 1]
            k -= 1
        line[k] = i
    return len(order)
