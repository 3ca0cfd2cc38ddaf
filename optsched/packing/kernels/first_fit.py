"""First fit: each buffer in turn into the lowest place that holds it."""

from __future__ import annotations

from optsched.arrays import IntArray
from optsched.jit import kernel
from optsched.packing.kernels.board import ALIGNMENT, FIRST, LAST, LATEST, OFFSET, RELEASE, SIZE


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
