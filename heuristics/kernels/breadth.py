"""Breadth-first order: the ready op whose predecessors ran earliest runs next.

Ready ops are compared by the ascending steps of their predecessors, in lexicographic order. For
example, an op whose predecessors ran at steps 0 and 5 comes before one whose predecessor ran at
step 1, and an op with predecessors at 0 only comes before both.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel


@inner
def is_earlier(a: int, b: int, ptr: IntArray, steps: IntArray) -> bool:
    """Return True if op `a` comes before op `b`: compare their rows of `steps`, then their ids."""
    i, j = ptr[a], ptr[b]
    while i < ptr[a + 1] and j < ptr[b + 1]:
        if steps[i] != steps[j]:
            return bool(steps[i] < steps[j])
        i += 1
        j += 1
    # Both rows have ended, or one is the beginning of the other: the shorter row comes first.
    if (i < ptr[a + 1]) == (j < ptr[b + 1]):
        return a < b
    return bool(j < ptr[b + 1])


@inner
def push(heap: IntArray, count: int, v: int, ptr: IntArray, steps: IntArray) -> None:
    """Add an op to a binary heap of `count` ops."""
    at = count
    while at > 0:
        parent = (at - 1) // 2
        if not is_earlier(v, heap[parent], ptr, steps):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = v


@inner
def pop(heap: IntArray, count: int, ptr: IntArray, steps: IntArray) -> int:
    """Remove and return the earliest op of a binary heap of `count` ops."""
    top, v = heap[0], heap[count - 1]
    at, child = 0, 1
    while child < count - 1:
        if child + 1 < count - 1 and is_earlier(heap[child + 1], heap[child], ptr, steps):
            child += 1
        if not is_earlier(heap[child], v, ptr, steps):
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = v
    return int(top)


@kernel
def run_breadth_first(pred_ptr: IntArray, succ_ptr: IntArray, succ: IntArray) -> IntArray:
    """Return the breadth-first order.

    The steps of an op's predecessors are appended to its row as they run, so the row is sorted, and
    it is complete when the op becomes ready.
    """
    n = len(pred_ptr) - 1
    steps = np.empty(pred_ptr[n], np.int64)
    filled = pred_ptr[:-1].copy()
    heap, count = np.empty(n, np.int64), 0
    for v in range(n):
        if pred_ptr[v] == pred_ptr[v + 1]:
            push(heap, count, v, pred_ptr, steps)
            count += 1
    order = np.empty(n, np.int64)
    for step in range(n):
        v = pop(heap, count, pred_ptr, steps)
        count -= 1
        order[step] = v
        for k in range(succ_ptr[v], succ_ptr[v + 1]):
            w = succ[k]
            steps[filled[w]] = step
            filled[w] += 1
            if filled[w] == pred_ptr[w + 1]:
                push(heap, count, w, pred_ptr, steps)
                count += 1
    return order
