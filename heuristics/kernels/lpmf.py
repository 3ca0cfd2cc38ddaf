"""Least peak memory first (LPMF), forward and backward.

Source: TorchInductor's `topological_sort_lpmf` (torch/_inductor/memory.py).

Example: `p` allocates 9 bytes and `q` 5, and nothing is live. No op stays within the peak so far,
0, so the one that allocates least, `q`, runs. Later, among the ops that stay within the peak, the
one with the smallest net growth runs.
"""

from __future__ import annotations

import numpy as np

from heuristics.kernels.ready import (
    NEVER,
    best_of_all,
    best_within,
    insert,
    least_size,
    make_tree,
    remove,
    update_path,
)
from optsched.model.arrays import IntArray, row_lengths
from optsched.runtime.kernel import kernel

WAITING, READY, MOVING, DONE = 0, 1, 2, 3


@kernel
def run_forward(
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
    live: int,
    most: int,
    bias: IntArray,
    tie: IntArray,
    weight: IntArray,
    threshold: int,
    gain: IntArray,
    cap: IntArray,
) -> IntArray:
    """Return the LPMF order, scheduled from the first step on.

    Sketch: keep the ready ops in a search tree by the bytes they allocate (`rise`), scored by the
    net bytes they add (`net`). At each step run the op of lowest score among those
    that stay within the peak so far, or among those that allocate least if none does. When a buffer
    has one user left, that user will free it, so its score falls. With a threshold, a second tree
    finds the op with the earliest successor if all ready ops are large.

    Parameters
    ----------
    pred_ptr, succ_ptr, succ, read_ptr, read, user_ptr, user, size, alloc, own
        Arrays of the graph. With a threshold, the rows of `succ` list ops that become ready
        together in the order in which they are queued.
    left
        Shape `(m,)`: number of users of each buffer still to run, plus one if it is kept.
        Overwritten.
    live, most
        Bytes live at the start; maximum of live bytes that does not count as a new peak.
    bias, tie, weight
        Shape `(n + 1,)`: value added to the net bytes of an op; tie-breaker; random weights
        that balance the tree.
    threshold
        If positive and every ready op allocates more than this, the op with the earliest successor
        runs next.
    gain
        Parallel to `user`, or empty if the graph is not in-place: bytes that the user need not
        allocate if the buffer dies at it.
    cap
        Shape `(n,)`: maximum number of bytes that each op can save in total.
    """
    n = len(alloc)
    waits = row_lengths(pred_ptr)
    state = np.zeros(n, np.int64)
    # Bytes that end at the op: what it makes and no op uses, and buffers that only it uses.
    freed = own.copy()
    for v in range(n):
        for k in range(read_ptr[v], read_ptr[v + 1]):
            if left[read[k]] == 1:
                freed[v] += size[read[k]]
    saved, rise = np.zeros(n, np.int64), alloc.copy()
    if len(gain) > 0:
        for b in range(len(left)):
            if left[b] == 1:
                for q in range(user_ptr[b], user_ptr[b + 1]):
                    w = user[q]
                    saved[w] += gain[q]
                    rise[w] = alloc[w] - min(cap[w], saved[w])
    net = bias.copy()
    for v in range(n):
        net[v] += alloc[v] - freed[v]
    # The number of "no op" must never win a comparison.
    net[n] = NEVER
    tree = make_tree(n)

    # The second queue is sorted by earliest successor, then by the time the op became ready.
    queue = make_tree(n if threshold > 0 else 0)
    flat, first, arrival = np.zeros(n, np.int64), np.full(n + 1, n, np.int64), tie.copy()
    first[n] = NEVER
    arrived = 0
    if threshold > 0:
        for v in range(n):
            for k in range(succ_ptr[v], succ_ptr[v + 1]):
                first[v] = min(first[v], succ[k])

    for v in range(n):
        if waits[v] == 0:
            state[v] = READY
            insert(tree, v, rise, net, tie, weight)
            if threshold > 0:
                arrival[v] = arrived
                arrived += 1
                insert(queue, v, flat, first, arrival, weight)

    order = np.empty(n, np.int64)
    for step in range(n):
        least = least_size(tree, rise)
        # All ready ops are large. Inductor then prefers the op whose successor comes first, hoping
        # that this one frees much.
        if 0 < threshold < least:
            v = best_of_all(queue)
        else:
            # If no ready op stays within the peak, the limit is the least that any of them needs.
            v = best_within(tree, max(least, most - live), rise, net, tie)
        remove(tree, v, net, tie, weight)
        if threshold > 0:
            remove(queue, v, first, arrival, weight)
        state[v] = DONE
        order[step] = v
        # The peak so far is what further ops may use without any cost.
        most = max(most, live + rise[v])
        live += alloc[v] - freed[v]
        for k in range(succ_ptr[v], succ_ptr[v + 1]):
            w = succ[k]
            waits[w] -= 1
            if waits[w] == 0:
                state[w] = READY
                insert(tree, w, rise, net, tie, weight)
                if threshold > 0:
                    arrival[w] = arrived
                    arrived += 1
                    insert(queue, w, flat, first, arrival, weight)
        for k in range(read_ptr[v], read_ptr[v + 1]):
            b = read[k]
            left[b] -= 1
            if left[b] != 1 or size[b] == 0:
                continue
            # One user is left (or none, if the buffer is kept): running it frees the buffer.
            for q in range(user_ptr[b], user_ptr[b + 1]):
                w = user[q]
                if state[w] == DONE:
                    continue
                freed[w] += size[b]
                net[w] -= size[b]
                moves = len(gain) > 0 and gain[q] > 0
                # The key in the tree, `rise`, is unchanged, so it is enough to update the scores on
                # its path.
                if state[w] == READY and not moves:
                    update_path(tree, w, net, tie)
                elif moves:
                    if state[w] == READY:
                        remove(tree, w, net, tie, weight)
                    saved[w] += gain[q]
                    rise[w] = alloc[w] - min(cap[w], saved[w])
                    if state[w] == READY:
                        insert(tree, w, rise, net, tie, weight)
    return order


@kernel
def run_backward(
    pred_ptr: IntArray,
    pred: IntArray,
    succ_ptr: IntArray,
    read_ptr: IntArray,
    read: IntArray,
    user_ptr: IntArray,
    user: IntArray,
    size: IntArray,
    held: IntArray,
    alloc: IntArray,
    own: IntArray,
    live: int,
    most: int,
    bias: IntArray,
    tie: IntArray,
    weight: IntArray,
    gain: IntArray,
    cap: IntArray,
) -> IntArray:
    """Return the LPMF order, scheduled from the last step back; the first op comes first.

    Seen backward, an op makes the buffers that it uses last live, and then releases those that it
    allocates. `held`, shape `(m,)`, is 1 for buffers that are live after the current step, and is
    overwritten. The other parameters are as in :func:`run_forward`, with `live` at the end.

    Sketch: keep the ops whose successors all run later in a search tree by the bytes they make live
    (`rise`), scored by the bytes they leave live before them (`net`). At each step choose the op of
    lowest score within the peak so far. When a buffer becomes live, its other users no longer pay
    for it, so they move in the tree.
    """
    n = len(alloc)
    waits = row_lengths(succ_ptr)
    state = np.zeros(n, np.int64)
    grow = own.copy()
    for v in range(n):
        for k in range(read_ptr[v], read_ptr[v + 1]):
            if held[read[k]] == 0:
                grow[v] += size[read[k]]
    # Bytes that an op saves in place as the last user of an input; bytes that it makes live.
    saved, rise = np.zeros(n, np.int64), grow.copy()
    if len(gain) > 0:
        for b in range(len(held)):
            if held[b] == 0:
                for q in range(user_ptr[b], user_ptr[b + 1]):
                    u = user[q]
                    saved[u] += gain[q]
                    rise[u] = grow[u] - min(cap[u], saved[u])
    net = bias.copy()
    for v in range(n):
        net[v] += grow[v] - alloc[v]
    net[n] = NEVER
    tree = make_tree(n)
    for v in range(n):
        if waits[v] == 0:
            state[v] = READY
            insert(tree, v, rise, net, tie, weight)

    order, moved = np.empty(n, np.int64), np.empty(n, np.int64)
    for step in range(n - 1, -1, -1):
        # As forward: the peak so far, or the least that some op needs.
        limit = max(least_size(tree, rise), most - live)
        v = best_within(tree, limit, rise, net, tie)
        remove(tree, v, net, tie, weight)
        state[v] = DONE
        order[step] = v
        most = max(most, live + rise[v])
        live += grow[v] - alloc[v]
        for k in range(pred_ptr[v], pred_ptr[v + 1]):
            # Backward, an op is ready once all its successors are placed.
            u = pred[k]
            waits[u] -= 1
            if waits[u] == 0:
                state[u] = READY
                insert(tree, u, rise, net, tie, weight)
        # The other users of a buffer that becomes live do not pay for it any more. Each user
        # moves in the tree once, regardless of the number of buffers it shares.
        moving = 0
        for k in range(read_ptr[v], read_ptr[v + 1]):
            b = read[k]
            if held[b] == 1:
                continue
            # Backward, the last user of a buffer is the first to be placed, and the buffer becomes
            # live at it.
            held[b] = 1
            if size[b] == 0:
                continue
            for q in range(user_ptr[b], user_ptr[b + 1]):
                u = user[q]
                if state[u] == READY:
                    remove(tree, u, net, tie, weight)
                    state[u] = MOVING
                    # Removed now and inserted once below, as several buffers may change its key.
                    moved[moving] = u
                    moving += 1
                grow[u] -= size[b]
                net[u] -= size[b]
                if len(gain) > 0:
                    saved[u] -= gain[q]
                rise[u] = grow[u] - min(cap[u], saved[u])
        for k in range(moving):
            u = moved[k]
            state[u] = READY
            insert(tree, u, rise, net, tie, weight)
    return order
