"""The given order, except that ops which free more than they allocate go first."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.place_indexed import sink
from heuristics.kernels.skyline import push
from optsched.model.arrays import IntArray, row_lengths
from optsched.runtime.kernel import inner, kernel


@inner
def pop(heap: IntArray, items: IntArray, count: int) -> int:
    """Take the lowest entry out of a heap of `count` entries and return its item."""
    item = items[0]
    heap[0], items[0] = heap[count - 1], items[count - 1]
    sink(heap, items, 0, count - 1)
    return int(item)


@kernel
def run_eager_free(
    pred_ptr: IntArray,
    succ_ptr: IntArray,
    succ: IntArray,
    read_ptr: IntArray,
    read: IntArray,
    user_ptr: IntArray,
    user: IntArray,
    size: IntArray,
    left: IntArray,
    alloc: IntArray,
    own: IntArray,
) -> IntArray:
    """Return the order.

    Parameters
    ----------
    pred_ptr, succ_ptr, succ, read_ptr, read, user_ptr, user, size, alloc, own
        Of the graph.
    left
        Shape `(m,)`: users of each buffer that have not run, and one more if it is kept.
        Overwritten.

    Notes
    -----
    What an op frees only grows while it waits: it enters the heap of those that free more than
    they allocate once, and is then passed over in the other. O((n + edges) log n).
    """
    n = len(alloc)
    waits, freed = row_lengths(pred_ptr), own.copy()
    for v in range(n):
        for k in range(read_ptr[v], read_ptr[v + 1]):
            if left[read[k]] == 1:
                freed[v] += size[read[k]]
    keys, ready, count = np.empty(n, np.int64), np.empty(n, np.int64), 0
    eager_keys, eager, eager_count = np.empty(n, np.int64), np.empty(n, np.int64), 0
    done, is_eager = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for v in range(n):
        if waits[v] == 0:
            count = push(keys, ready, count, v, v)
            if freed[v] > alloc[v]:
                is_eager[v] = True
                eager_count = push(eager_keys, eager, eager_count, v, v)
    order = np.empty(n, np.int64)
    for step in range(n):
        if eager_count > 0:
            v = pop(eager_keys, eager, eager_count)
            eager_count -= 1
        else:
            v = pop(keys, ready, count)
            count -= 1
            while done[v]:
                v = pop(keys, ready, count)
                count -= 1
        done[v] = True
        order[step] = v
        for k in range(succ_ptr[v], succ_ptr[v + 1]):
            w = succ[k]
            waits[w] -= 1
            if waits[w] == 0:
                count = push(keys, ready, count, w, w)
                if freed[w] > alloc[w]:
                    is_eager[w] = True
                    eager_count = push(eager_keys, eager, eager_count, w, w)
        for k in range(read_ptr[v], read_ptr[v + 1]):
            b = read[k]
            left[b] -= 1
            if left[b] != 1 or size[b] == 0:
                continue
            for q in range(user_ptr[b], user_ptr[b + 1]):
                w = user[q]
                if done[w]:
                    continue
                freed[w] += size[b]
                if waits[w] == 0 and not is_eager[w] and freed[w] > alloc[w]:
                    is_eager[w] = True
                    eager_count = push(eager_keys, eager, eager_count, w, w)
    return order
