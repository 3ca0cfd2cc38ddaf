"""XLA's list scheduler: the ready instruction that frees most bytes runs next.

Source: XLA, `ListMemoryScheduler` (xla/service/hlo_memory_scheduler.cc).

Example: of the ready `u` (defines 4 bytes, frees 8) and `v` (defines 2, frees none) the scheduler
runs `u`, which frees 4 bytes in total.
"""

from __future__ import annotations

import numpy as np

from heuristics.kernels.ready import NEVER, best_of_all, insert, make_tree, remove
from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel

WAITING, READY, DONE = 0, 1, 2


@inner
def has(ptr: IntArray, idx: IntArray, row: int, entry: int) -> bool:
    """Return True if an ascending row contains an entry."""
    low, high = ptr[row], ptr[row + 1]
    while low < high:
        middle = (low + high) // 2
        if idx[middle] < entry:
            low = middle + 1
        else:
            high = middle
    return bool(low < ptr[row + 1] and idx[low] == entry)


@inner
def first_shared(
    v: int,
    u: int,
    operand_ptr: IntArray,
    operand: IntArray,
    user_ptr: IntArray,
    user: IntArray,
    place: IntArray,
) -> int:
    """Return the position of the first operand of `v` that is also an operand of `u`, or -1.

    `place` has the first position of each operand of `v`, and -1 for other instructions.
    """
    # The shorter of the two lists of operands is walked.
    if operand_ptr[v + 1] - operand_ptr[v] <= operand_ptr[u + 1] - operand_ptr[u]:
        for k in range(operand_ptr[v], operand_ptr[v + 1]):
            if has(user_ptr, user, operand[k], u):
                return int(k - operand_ptr[v])
        return -1
    best = -1
    for k in range(operand_ptr[u], operand_ptr[u + 1]):
        at = place[operand[k]]
        if at >= 0 and (best < 0 or at < best):
            best = at
    return int(best)


@inner
def sort_first(values: IntArray, count: int) -> None:
    """Sort the first `count` values by Shell's method, since `np.sort` takes long to compile."""
    # Gaps 1, 4, 13, ... (Knuth): fast enough for the few entries of a step.
    gap = 1
    while gap < count:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for i in range(gap, count):
            value = values[i]
            at = i
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value


@kernel
def run_list_scheduler(
    listing: IntArray,
    operand_ptr: IntArray,
    operand: IntArray,
    user_ptr: IntArray,
    user: IntArray,
    control_ptr: IntArray,
    after_ptr: IntArray,
    after: IntArray,
    use_ptr: IntArray,
    use: IntArray,
    holder_ptr: IntArray,
    holder: IntArray,
    size: IntArray,
    left: IntArray,
    defined: IntArray,
    weight: IntArray,
) -> IntArray:
    """Schedule `n` instructions that use `m` buffers; return their order.

    Sketch: keep the ready instructions in a search tree by the bytes they define minus the bytes
    they free. Run the best one, decrement the uses of its buffers, and insert the instructions that
    become ready. If a buffer has one use left, the priority of its last user rises, but the tree is
    updated only at the moment when XLA would notice.

    Parameters
    ----------
    listing
        Instructions in program order.
    operand_ptr, operand, user_ptr, user
        Operands in operand order, including repeats; users, ascending.
    control_ptr, after_ptr, after
        Row starts of the control predecessors; control successors.
    use_ptr, use, holder_ptr, holder
        Buffers among the operands of each instruction; instructions that use each buffer.
    size, left
        Shape `(m,)`: bytes that count when freed; number of unscheduled uses, overwritten.
    defined
        Shape `(n,)`: bytes that each instruction defines.
    weight
        Shape `(n + 1,)`: random weights that balance the tree.

    Notes
    -----
    XLA keeps a sorted multimap and takes its last entry; among equal entries, that is the one
    queued last. XLA notices a risen priority only when an operand of the op just scheduled has the
    instruction as a user. The instructions found in this way are queued again, in the order of
    these operands and their users. XLA examines every user of every operand to find them; here the
    instructions whose priority has risen are recorded in advance.
    """
    n = len(defined)
    waits = np.zeros(n, np.int64)
    for v in range(n):
        for k in range(user_ptr[v], user_ptr[v + 1]):
            waits[user[k]] += 1
        for k in range(after_ptr[v], after_ptr[v + 1]):
            waits[after[k]] += 1
    freed = np.zeros(n, np.int64)
    for v in range(n):
        for k in range(use_ptr[v], use_ptr[v + 1]):
            if left[use[k]] == 1:
                freed[v] += size[use[k]]

    # The tree finds the lowest `net`, then the lowest `tie`: more users first, then later arrival.
    most_arrivals = n + len(use) + 1
    tree, net, tie = make_tree(n), np.full(n + 1, NEVER, np.int64), np.zeros(n + 1, np.int64)
    flat, state, arrived = np.zeros(n, np.int64), np.zeros(n, np.int64), 0
    for v in range(n):
        # One number holds both tie-breakers: users count more than any number of arrivals.
        tie[v] = -(user_ptr[v + 1] - user_ptr[v]) * most_arrivals
    for v in listing:
        if operand_ptr[v] == operand_ptr[v + 1] and control_ptr[v] == control_ptr[v + 1]:
            arrived += 1
            tie[v] -= arrived
            net[v] = defined[v] - freed[v]
            state[v] = READY
            insert(tree, v, flat, net, tie, weight)

    place = np.full(n, -1, np.int64)
    # Ready instructions with a risen priority that XLA does not notice yet.
    risers, rising, listed = np.empty(n, np.int64), 0, np.zeros(n, np.int64)
    order = np.empty(n, np.int64)
    for step in range(n):
        v = best_of_all(tree)
        remove(tree, v, net, tie, weight)
        state[v] = DONE
        order[step] = v
        look = False
        for k in range(use_ptr[v], use_ptr[v + 1]):
            b = use[k]
            left[b] -= 1
            if left[b] != 1:
                continue
            look = True
            for q in range(holder_ptr[b], holder_ptr[b + 1]):
                u = holder[q]
                if state[u] == DONE:
                    continue
                freed[u] += size[b]
                if state[u] == READY and not listed[u]:
                    # An instruction may lose the last co-user of several buffers in a step; one
                    # entry is enough.
                    listed[u] = 1
                    risers[rising] = u
                    rising += 1
        for ptr, idx in ((user_ptr, user), (after_ptr, after)):
            for k in range(ptr[v], ptr[v + 1]):
                w = idx[k]
                waits[w] -= 1
                if waits[w] == 0:
                    arrived += 1
                    tie[w] -= arrived
                    net[w] = defined[w] - freed[w]
                    state[w] = READY
                    insert(tree, w, flat, net, tie, weight)
        # Nothing can have risen in this step.
        if not look or rising == 0:
            continue

        for k in range(operand_ptr[v + 1] - 1, operand_ptr[v] - 1, -1):
            # Walked backward, so that the first position of a repeated operand is the one that
            # stays.
            place[operand[k]] = k - operand_ptr[v]
        noticed, count, kept = np.empty(rising, np.int64), 0, 0
        for i in range(rising):
            u = risers[i]
            if state[u] == READY and net[u] != defined[u] - freed[u]:
                at = first_shared(v, u, operand_ptr, operand, user_ptr, user, place)
                if at < 0:
                    risers[kept] = u
                    kept += 1
                    continue
                # Sorting by this number sorts by operand and then by user, the order in which XLA
                # visits them.
                noticed[count] = at * n + u
                count += 1
            listed[u] = 0
        rising = kept
        sort_first(noticed, count)
        for i in range(count):
            u = noticed[i] % n
            remove(tree, u, net, tie, weight)
            arrived += 1
            tie[u] = -(user_ptr[u + 1] - user_ptr[u]) * most_arrivals - arrived
            net[u] = defined[u] - freed[u]
            insert(tree, u, flat, net, tie, weight)
        for k in range(operand_ptr[v], operand_ptr[v + 1]):
            # Only the touched entries are reset: clearing all n would make each step linear.
            place[operand[k]] = -1
    return order


@kernel
def run_history(
    order: IntArray,
    limit: int,
    operand_ptr: IntArray,
    operand: IntArray,
    user_ptr: IntArray,
    defined: IntArray,
    counts: IntArray,
) -> tuple[IntArray, IntArray]:
    """Return the keys by which XLA's DFS scheduler orders operands, each of shape `(n,)`.

    They are the number of extra users (users beyond the first) and the bytes of an instruction and
    all its history. Shared history counts once per path, up to a cap: `limit` for the users, and
    the bytes defined so far in `order` for the bytes.

    Parameters
    ----------
    order
        Instructions in post-order.
    limit
        Cap of the extra users.
    operand_ptr, operand
        Operands; repeats count once.
    user_ptr
        Row starts of the users.
    defined
        Shape `(n,)`: bytes that each instruction defines.
    counts
        Shape `(n,)`: 0 for instructions that are ignored.
    """
    n = len(defined)
    extra, total = np.zeros(n, np.int64), np.zeros(n, np.int64)
    seen_by = np.full(n, -1, np.int64)
    cap = 0
    for v in order:
        if counts[v] == 0:
            continue
        cap += defined[v]
        bytes_, users = defined[v], max(0, user_ptr[v + 1] - user_ptr[v] - 1)
        for k in range(operand_ptr[v], operand_ptr[v + 1]):
            u = operand[k]
            if seen_by[u] == v:
                continue
            seen_by[u] = v
            # The cap is applied at each addition, so that no sum overflows 64 bits.
            bytes_ = cap if total[u] > cap - bytes_ else bytes_ + total[u]
            users = min(limit, users + extra[u])
        total[v], extra[v] = bytes_, users
    return extra, total
