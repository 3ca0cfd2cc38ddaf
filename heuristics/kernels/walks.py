"""Walks over a graph: depth first in post-order, and smallest ready op first.

Example: ops 0, 1 and 2, where 2 needs 1. Smallest first runs 0, 1, 2. If op 1 frees more than it
allocates, eager free runs it first: 1, 0, 2 (unless 2 becomes eager as well).
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from optsched.model.arrays import IntArray, row_lengths
from optsched.runtime.kernel import kernel


@kernel
def run_post_order(roots: IntArray, ptr: IntArray, children: IntArray) -> IntArray:
    """Return the post-order of the ops reachable from the roots, which are visited in turn.

    Each op comes after all its children, which are visited in the order of their row. A row of
    `children` may contain an op twice.
    """
    n = len(ptr) - 1
    # `at[v]` is the next child of `v` to visit, which replaces recursion.
    at = ptr.copy()
    seen = np.zeros(n, np.int64)
    stack, order, done = np.empty(n, np.int64), np.empty(n, np.int64), 0
    for root in roots:
        if seen[root]:
            continue
        seen[root] = 1
        stack[0] = root
        depth = 1
        while depth > 0:
            v = stack[depth - 1]
            if at[v] == ptr[v + 1]:
                depth -= 1
                order[done] = v
                done += 1
                continue
            # The next child is visited first; the op itself waits on the stack.
            u = children[at[v]]
            at[v] += 1
            if not seen[u]:
                seen[u] = 1
                stack[depth] = u
                depth += 1
    return order[:done]


@kernel
def append_by_rank(
    by_rank: IntArray, ptr: IntArray, followers: IntArray, filled: IntArray, children: IntArray
) -> None:
    """Append each op, in order of rank, to the rows of its followers; rows end at `filled`.

    This sorts all rows at once, in linear time.
    """
    # Ops are taken by rank, so that each row ends up sorted without a sort of its own.
    for u in by_rank:
        for k in range(ptr[u], ptr[u + 1]):
            v = followers[k]
            children[filled[v]] = u
            filled[v] += 1


@kernel
def run_smallest_first(pred_ptr: IntArray, succ_ptr: IntArray, succ: IntArray) -> IntArray:
    """Return the order in which the ready op with the smallest id runs at each step."""
    n = len(pred_ptr) - 1
    waits = row_lengths(pred_ptr)
    ready = [v for v in range(n) if waits[v] == 0]  # ascending, hence a heap
    order = np.empty(n, np.int64)
    for step in range(n):
        v = heappop(ready)
        order[step] = v
        for k in range(succ_ptr[v], succ_ptr[v + 1]):
            w = succ[k]
            waits[w] -= 1
            if waits[w] == 0:
                heappush(ready, int(w))
    return order


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
    """Return the order in which ready ops that free more than they allocate run first.

    At each step the op with the smallest id among these runs, or, if there are none, the one with
    the smallest id among all ready ops.

    Sketch: keep two heaps by id, of all ready ops and of the eager ones among them. When a buffer
    has one user left, that user will free it. The bytes that an op frees only grow while it waits,
    so an op enters the eager heap at most once. It is skipped later in the other heap. The kernel
    takes O((n + edges) log n) time.

    `pred_ptr`, `succ_ptr`, `succ`, `read_ptr`, `read`, `user_ptr`, `user`, `size`, `alloc`, `own`:
    arrays of the graph. `left`: shape `(m,)`: number of users of each buffer still to run, plus one
    if it is kept. Overwritten.
    """
    n = len(alloc)
    waits, freed = row_lengths(pred_ptr), own.copy()
    for v in range(n):
        for k in range(read_ptr[v], read_ptr[v + 1]):
            if left[read[k]] == 1:
                freed[v] += size[read[k]]
    # Both lists are ascending, hence heaps.
    ready = [v for v in range(n) if waits[v] == 0]
    eager = [v for v in ready if freed[v] > alloc[v]]
    done, is_eager = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for v in eager:
        is_eager[v] = True
    order = np.empty(n, np.int64)
    for step in range(n):
        if len(eager) > 0:
            v = heappop(eager)
        else:
            v = heappop(ready)
            # An eager op stays in this heap after it has run, since removing it there would need a
            # search.
            while done[v]:
                v = heappop(ready)
        done[v] = True
        order[step] = v
        for k in range(succ_ptr[v], succ_ptr[v + 1]):
            w = succ[k]
            waits[w] -= 1
            if waits[w] == 0:
                heappush(ready, int(w))
                if freed[w] > alloc[w]:
                    is_eager[w] = True
                    heappush(eager, int(w))
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
                    heappush(eager, int(w))
    return order
