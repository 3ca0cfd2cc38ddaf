"""Least live bytes over the downsets around an op, by a flow that is kept for the next time.

Beyond the ops that have ended for certain, live bytes fall by *gains*, shared buffers that some ops
release and ops whose net change is negative, and rise by *costs*, ops whose net change is positive.
To take a gain, all ops it needs must have ended. As the precedences known are transitive, gains and
costs are the two sides of a transportation problem: what a gain sends to costs among the ops that
it needs is no gain. Assumed precedences only ever add to what a gain needs, so the flow found for
an op in one branch, less what does not fit, is a good start in the next.

References
----------
Picard, "Maximal closure of a graph and applications to combinatorial problems", 1976.
"""

from __future__ import annotations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import WORD, clear_bit, first_bit, has_bit, set_bit
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.tree.kernels.workspace import LISTED, LOGGED, Desk, need_op
from optsched.runtime.kernel import inner


@inner
def send(desk: Desk, gain: Int, u: Int, amount: Int) -> None:
    """Let a gain send so many bytes more to an op; fewer if negative."""
    desk.sent[gain, u] += amount
    if desk.sent[gain, u] > 0:
        set_bit(desk.carry[gain], u)
        set_bit(desk.holder[u], gain)
    else:
        clear_bit(desk.carry[gain], u)
        clear_bit(desk.holder[u], gain)


@inner
def take_space(desk: Desk, gain: Int, u: Int, amount: Int) -> None:
    """Take bytes from the supply of a gain and the space of an op; give back if negative."""
    desk.supply[gain] -= amount
    desk.space[u] -= amount
    if desk.space[u] > 0:
        set_bit(desk.roomy, u)
    else:
        clear_bit(desk.roomy, u)


@inner
def note(desk: Desk, gain: Int, u: Int, amount: Int) -> None:
    """Write a line into the log."""
    line = desk.tally[LOGGED]
    desk.log[line, 0] = gain
    desk.log[line, 1] = u
    desk.log[line, 2] = amount
    desk.tally[LOGGED] = line + 1


@inner
def is_full(desk: Desk) -> bool:
    """Whether the log may be too short for one more path."""
    return bool(desk.tally[LOGGED] + 2 * len(desk.supply) + 2 > len(desk.log))


@inner
def set_marks(desk: Desk, to: Int, like: Int) -> None:
    """Copy one row of marks to another; none are set if `like` is negative."""
    for w in range(desk.mark.shape[1]):
        desk.mark[to, w] = desk.mark[like, w] if like >= 0 else 0
    for y in range(desk.met.shape[1]):
        desk.met[to, y] = desk.met[like, y] if like >= 0 else 0


@inner
def find_path(desk: Desk, start: Int) -> Int:
    """Find an op with space that a gain can send to, others making way; -1 if there is none.

    Who was reached is marked, and not looked at again.
    """
    seen, met = desk.mark[0], desk.met[0]
    desk.queue[0] = start
    set_bit(met, start)
    taken, filled = 0, 1
    while taken < filled:
        gain = desk.queue[taken]
        taken += 1
        for w in range(len(seen)):
            fresh = desk.need[gain, w] & ~seen[w]
            hit = fresh & desk.roomy[w]
            if hit != 0:
                u = np.int64(w * WORD + first_bit(hit))
                desk.over[u] = gain
                return u
            seen[w] |= fresh
            while fresh != 0:
                u = np.int64(w * WORD + first_bit(fresh))
                fresh &= fresh - 1
                desk.over[u] = gain
                for y in range(len(met)):
                    more = desk.holder[u, y] & ~met[y]
                    met[y] |= more
                    while more != 0:
                        other = np.int64(y * WORD + first_bit(more))
                        more &= more - 1
                        desk.up[other] = u
                        desk.queue[filled] = other
                        filled += 1
    return np.int64(-1)


@inner
def send_along(desk: Desk, start: Int, end: Int, most: Int) -> Int:
    """Send up to `most` bytes along the path found; return how many."""
    amount = min(most, desk.supply[start], desk.space[end])
    gain = desk.over[end]
    while gain != start:
        amount = min(amount, desk.sent[gain, desk.up[gain]])
        gain = desk.over[desk.up[gain]]
    take_space(desk, start, end, amount)
    note(desk, start, -1 - end, amount)
    u = end
    while True:
        gain = desk.over[u]
        send(desk, gain, u, amount)
        note(desk, gain, u, amount)
        if gain == start:
            return amount
        u = desk.up[gain]
        send(desk, gain, u, -amount)
        note(desk, gain, u, -amount)


@inner
def drain(desk: Desk, start: Int, most: Int) -> Int:
    """Send what a gain has, or until `most` bytes are sent; return how many were.

    The marks are left where no path leads on from; so no later search need go there.
    """
    total = np.int64(0)
    while total < most and desk.supply[start] > 0 and not is_full(desk):
        set_marks(desk, 1, 0)
        end = find_path(desk, start)
        if end < 0:
            break
        set_marks(desk, 0, 1)
        total += send_along(desk, start, end, most - total)
    return total


@inner
def drain_all(desk: Desk, most: Int) -> Int:
    """Send what all gains have, or until `most` bytes are sent; return how many were."""
    set_marks(desk, 0, -1)
    desk.tally[LOGGED] = 0
    total = np.int64(0)
    for i in range(desk.tally[LISTED]):
        if total >= most:
            break
        total += drain(desk, desk.listed[i], most - total)
    return total


@inner
def begin_with(desk: Desk) -> None:
    """Begin to have free ops ended: none so far."""
    # Who can not reach space without them can not with them.
    set_marks(desk, 0, 2)
    for w in range(len(desk.free)):
        desk.need[len(desk.supply) - 1, w] = 0
    desk.tally[LOGGED] = 0


@inner
def least_with(desk: Desk, before: IntArray, u: Int, slack: Int) -> Int:
    """Bytes more that it takes to have a free op ended too, or `slack + 1` if that many."""
    spare = np.int64(len(desk.supply) - 1)
    need_op(desk, spare, before, u)
    desk.supply[spare] = slack + 1
    return drain(desk, spare, slack + 1)


@inner
def least_without(desk: Desk, u: Int, slack: Int) -> Int:
    """Bytes more that it takes to have a free op not begun, or `slack + 1` if that many."""
    desk.space[u] += slack + 1
    set_bit(desk.roomy, u)
    return drain_all(desk, slack + 1)


@inner
def undo(desk: Desk, to: Int) -> None:
    """Take back what was sent since the log had `to` lines."""
    for line in range(desk.tally[LOGGED] - 1, to - 1, -1):
        gain, u, amount = desk.log[line, 0], desk.log[line, 1], desk.log[line, 2]
        if u < 0:
            take_space(desk, gain, -1 - u, -amount)
        else:
            send(desk, gain, u, -amount)
    desk.tally[LOGGED] = to


@inner
def close_without(desk: Desk, u: Int, slack: Int) -> None:
    """Take back all of :func:`least_without`."""
    undo(desk, np.int64(0))
    desk.space[u] -= slack + 1
    if desk.space[u] == 0:
        clear_bit(desk.roomy, u)


@inner
def mark_late(desk: Desk, before: IntArray, late: IntArray) -> None:
    """Mark the free ops that have not begun in the largest downset of a flow."""
    set_marks(desk, 1, -1)
    for w in range(len(late)):
        desk.mark[1, w] = desk.roomy[w]
    changed = True
    while changed:
        changed = False
        for i in range(desk.tally[LISTED]):
            gain = desk.listed[i]
            if has_bit(desk.met[1], gain):
                continue
            leads = np.int64(0)
            for w in range(len(late)):
                leads |= desk.need[gain, w] & desk.mark[1, w]
            if leads != 0:
                changed = True
                set_bit(desk.met[1], gain)
                for w in range(len(late)):
                    desk.mark[1, w] |= desk.carry[gain, w]
    for w in range(len(late)):
        late[w] = 0
    for u in range(len(before)):
        if not has_bit(desk.free, u):
            continue
        leads = has_bit(desk.mark[1], u)
        for w in range(len(late)):
            leads |= before[u, w] & desk.mark[1, w]
        if leads != 0:
            set_bit(late, u)


@inner
def mark_lost(desk: Desk) -> None:
    """Have :func:`least_with` stay away from where no way leads to space in the base flow.

    To be called after :func:`mark_late`.
    """
    for w in range(desk.mark.shape[1]):
        desk.mark[2, w] = desk.every[w] & ~desk.mark[1, w]
    for y in range(desk.met.shape[1]):
        desk.met[2, y] = ~desk.met[1, y]


@inner
def take_up(desk: Desk, v: Int) -> Int:
    """Start with the flow kept for an op, as far as it fits; return its bytes."""
    total = np.int64(0)
    for i in range(desk.kept_count[v]):
        gain, u, amount = desk.kept[v, i, 0], desk.kept[v, i, 1], desk.kept[v, i, 2]
        if has_bit(desk.need[gain], u):
            take_space(desk, gain, u, amount)
            send(desk, gain, u, amount)
            total += amount
    return total


@inner
def put_away(desk: Desk, v: Int) -> None:
    """Keep the flow of an op, and clear the desk."""
    count = 0
    for i in range(desk.tally[LISTED]):
        gain = desk.listed[i]
        for w in range(len(desk.free)):
            rest = desk.carry[gain, w]
            while rest != 0:
                u = np.int64(w * WORD + first_bit(rest))
                rest &= rest - 1
                if count < desk.kept.shape[1]:
                    desk.kept[v, count, 0] = gain
                    desk.kept[v, count, 1] = u
                    desk.kept[v, count, 2] = desk.sent[gain, u]
                    count += 1
                send(desk, gain, u, -desk.sent[gain, u])
    desk.kept_count[v] = count
