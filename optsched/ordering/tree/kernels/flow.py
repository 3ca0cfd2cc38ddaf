"""Minimum live bytes over the downsets around an op, by a flow that is saved for the next branch.

While an op runs, some ops have certainly ended, some have certainly not started, and the rest are
undecided. Live bytes fall where a *source* is freed: a shared buffer, whose users must have ended,
or an op after which fewer bytes are live. They rise at *sinks*: undecided ops after which more
bytes are live. Known precedences are transitive, so choosing the sources to free is a
transportation problem (a maximum closure). Each source sends its bytes to sinks among the ops that
it needs; bytes that are sent are the cost of freeing it, bytes that cannot be sent are a gain. The
minimum of live bytes is the live bytes with all sources freed plus the maximum flow. The smallest
downset of minimum live bytes contains the ops that sources with bytes left reach in the residual
network; the largest contains the ops from which no free capacity is reached.

Example: a buffer of 5 bytes is freed by an op that makes 3. The source has 5 to send, the sink
takes 3, and the downset with that op has 2 bytes fewer than the one without.

Precedences that are assumed later only add ops that a source needs. So the flow found for an op in
one branch, without the parts that no longer fit, is a good start in the next branch.

References
----------
Picard, "Maximal closure of a graph and applications to combinatorial problems", 1976.
"""

from __future__ import annotations

from numpy import int64

from optsched.model.arrays import IntArray
from optsched.ordering.kernels.bits import WORD, clear_bit, first_bit, has_bit, set_bit
from optsched.ordering.kernels.max_flow import Int
from optsched.ordering.tree.kernels.workspace import LOGGED, SOURCES, FlowWorkspace, include_op
from optsched.runtime.kernel import inner


@inner
def send(flow: FlowWorkspace, source: Int, u: Int, amount: Int) -> None:
    """Add to the bytes that a source sends to an op; `amount` may be negative."""
    flow.sent[source, u] += amount
    if flow.sent[source, u] > 0:
        # Both directions are kept as bit sets, since a search asks for the senders of an op.
        set_bit(flow.receivers[source], u)
        set_bit(flow.senders[u], source)
    else:
        clear_bit(flow.receivers[source], u)
        clear_bit(flow.senders[u], source)


@inner
def take_capacity(flow: FlowWorkspace, source: Int, u: Int, amount: Int) -> None:
    """Subtract bytes from a supply and from a capacity; `amount` may be negative."""
    flow.supply[source] -= amount
    flow.capacity[u] -= amount
    if flow.capacity[u] > 0:
        set_bit(flow.unfilled, u)
    else:
        clear_bit(flow.unfilled, u)


@inner
def record(flow: FlowWorkspace, source: Int, u: Int, amount: Int) -> None:
    """Add a line to the log."""
    line = flow.tally[LOGGED]
    flow.log[line, 0] = source
    flow.log[line, 1] = u
    flow.log[line, 2] = amount
    flow.tally[LOGGED] = line + 1


@inner
def log_is_full(flow: FlowWorkspace) -> bool:
    """Return True if the log may be too short for one more path."""
    return bool(flow.tally[LOGGED] + 2 * len(flow.supply) + 2 > len(flow.log))


@inner
def copy_seen(flow: FlowWorkspace, to: Int, like: Int) -> None:
    """Copy the marks of reached ops and sources from row `like`; clear them if it is -1."""
    for w in range(flow.seen.shape[1]):
        flow.seen[to, w] = flow.seen[like, w] if like >= 0 else 0
    for y in range(flow.seen_sources.shape[1]):
        flow.seen_sources[to, y] = flow.seen_sources[like, y] if like >= 0 else 0


@inner
def find_path(flow: FlowWorkspace, start: Int) -> Int:
    """Return an op with free capacity that a source can reach in the residual network, or -1.

    Sketch: breadth-first search over sources. A source reaches the ops that it needs; from an op
    without free capacity the search continues with the sources that send to it, which could send
    elsewhere. Reached ops and sources are marked as seen, and not visited again.
    """
    seen, met = flow.seen[0], flow.seen_sources[0]
    flow.queue[0] = start
    set_bit(met, start)
    taken, filled = 0, 1
    while taken < filled:
        source = flow.queue[taken]
        taken += 1
        for w in range(len(seen)):
            fresh = flow.needs[source, w] & ~seen[w]
            # 60 ops at a time: the sets are bit masks, and most words have no new op.
            hit = fresh & flow.unfilled[w]
            if hit != 0:
                u = int64(w * WORD + first_bit(hit))
                flow.came_by[u] = source
                return u
            seen[w] |= fresh
            while fresh != 0:
                u = int64(w * WORD + first_bit(fresh))
                fresh &= fresh - 1
                flow.came_by[u] = source
                for y in range(len(met)):
                    more = flow.senders[u, y] & ~met[y]
                    met[y] |= more
                    while more != 0:
                        other = int64(y * WORD + first_bit(more))
                        more &= more - 1
                        flow.came_from[other] = u
                        flow.queue[filled] = other
                        filled += 1
    return int64(-1)


@inner
def push_along(flow: FlowWorkspace, start: Int, end: Int, most: Int) -> Int:
    """Send up to `most` bytes along the path found; return the number sent."""
    amount = min(most, flow.supply[start], flow.capacity[end])
    source = flow.came_by[end]
    while source != start:
        amount = min(amount, flow.sent[source, flow.came_from[source]])
        source = flow.came_by[flow.came_from[source]]
    take_capacity(flow, start, end, amount)
    # A negative op number marks a change of supply and capacity, not of sent bytes.
    record(flow, start, -1 - end, amount)
    # Back along the path: each source sends more to the op that it reached, and less to the op
    # from which it was reached itself.
    u = end
    while True:
        source = flow.came_by[u]
        send(flow, source, u, amount)
        record(flow, source, u, amount)
        if source == start:
            return amount
        # This source got the bytes back from the op that it was reached by.
        u = flow.came_from[source]
        send(flow, source, u, -amount)
        record(flow, source, u, -amount)


@inner
def push(flow: FlowWorkspace, start: Int, most: Int) -> Int:
    """Send the supply of a source, up to `most` bytes; return the number sent.

    After a search without a path its marks are kept: no later search can find a path from there.
    """
    total = int64(0)
    while total < most and flow.supply[start] > 0 and not log_is_full(flow):
        copy_seen(flow, 1, 0)
        end = find_path(flow, start)
        if end < 0:
            break
        # A path was found, so the marks of this search are not valid any longer.
        copy_seen(flow, 0, 1)
        total += push_along(flow, start, end, most - total)
    return total


@inner
def push_all(flow: FlowWorkspace, most: Int) -> Int:
    """Send the supply of all sources, up to `most` bytes; return the number sent."""
    copy_seen(flow, 0, -1)
    flow.tally[LOGGED] = 0
    total = int64(0)
    for i in range(flow.tally[SOURCES]):
        if total >= most:
            break
        total += push(flow, flow.sources[i], most - total)
    return total


@inner
def begin_including(flow: FlowWorkspace) -> None:
    """Prepare :func:`cost_of_including`: no undecided op is required to have ended yet."""
    copy_seen(flow, 0, -1)
    for w in range(len(flow.undecided)):
        flow.needs[len(flow.supply) - 1, w] = 0
    flow.tally[LOGGED] = 0


@inner
def cost_of_including(flow: FlowWorkspace, before: IntArray, u: Int, slack: Int) -> Int:
    """Return the additional bytes if an undecided op must have ended; at most `slack + 1`."""
    spare = int64(len(flow.supply) - 1)
    include_op(flow, spare, before, u)
    # More than the slack is never needed: the caller only asks if the slack is exceeded.
    flow.supply[spare] = slack + 1
    return push(flow, spare, slack + 1)


@inner
def cost_of_excluding(flow: FlowWorkspace, u: Int, slack: Int) -> Int:
    """Return the additional bytes if an undecided op must not have started; at most `slack + 1`."""
    # An op that must not start absorbs every byte of the sources that need it, up to that number.
    flow.capacity[u] += slack + 1
    set_bit(flow.unfilled, u)
    return push_all(flow, slack + 1)


@inner
def undo(flow: FlowWorkspace, to: Int) -> None:
    """Undo the flow sent since the log had `to` lines."""
    # Newest first, so that no amount is negative in between.
    for line in range(flow.tally[LOGGED] - 1, to - 1, -1):
        source, u, amount = flow.log[line, 0], flow.log[line, 1], flow.log[line, 2]
        if u < 0:
            take_capacity(flow, source, -1 - u, -amount)
        else:
            send(flow, source, u, -amount)
    flow.tally[LOGGED] = to


@inner
def end_excluding(flow: FlowWorkspace, u: Int, slack: Int) -> None:
    """Undo :func:`cost_of_excluding`."""
    undo(flow, int64(0))
    flow.capacity[u] -= slack + 1
    if flow.capacity[u] == 0:
        clear_bit(flow.unfilled, u)


@inner
def find_late(flow: FlowWorkspace, before: IntArray, late: IntArray) -> None:
    """Write to `late` the undecided ops outside the largest downset of minimum live bytes.

    Sketch: mark the ops with free capacity, then repeatedly the sources that need a marked op and
    the ops that these sources send to. An op that is marked, or has a marked ancestor, is late.
    """
    copy_seen(flow, 1, -1)
    for w in range(len(late)):
        flow.seen[1, w] = flow.unfilled[w]
    changed = True
    while changed:
        changed = False
        for i in range(flow.tally[SOURCES]):
            source = flow.sources[i]
            if has_bit(flow.seen_sources[1], source):
                continue
            leads = int64(0)
            for w in range(len(late)):
                leads |= flow.needs[source, w] & flow.seen[1, w]
            if leads != 0:
                changed = True
                set_bit(flow.seen_sources[1], source)
                for w in range(len(late)):
                    flow.seen[1, w] |= flow.receivers[source, w]
    for w in range(len(late)):
        late[w] = 0
    for u in range(len(before)):
        if not has_bit(flow.undecided, u):
            continue
        leads = has_bit(flow.seen[1], u)
        for w in range(len(late)):
            leads |= before[u, w] & flow.seen[1, w]
        if leads != 0:
            set_bit(late, u)


@inner
def restore_flow(flow: FlowWorkspace, v: Int) -> Int:
    """Restore the saved flow of an op as far as it fits; return its bytes."""
    total = int64(0)
    for i in range(flow.saved_count[v]):
        source, u, amount = flow.saved[v, i, 0], flow.saved[v, i, 1], flow.saved[v, i, 2]
        # Precedences of another branch may have cut this path.
        if has_bit(flow.needs[source], u):
            take_capacity(flow, source, u, amount)
            send(flow, source, u, amount)
            total += amount
    return total


@inner
def save_flow(flow: FlowWorkspace, v: Int) -> None:
    """Save the flow of an op, and clear the workspace."""
    count = 0
    for i in range(flow.tally[SOURCES]):
        source = flow.sources[i]
        for w in range(len(flow.undecided)):
            rest = flow.receivers[source, w]
            while rest != 0:
                u = int64(w * WORD + first_bit(rest))
                rest &= rest - 1
                # A saved flow is only a start for the next one, so a part of it serves as well.
                if count < flow.saved.shape[1]:
                    flow.saved[v, count, 0] = source
                    flow.saved[v, count, 1] = u
                    flow.saved[v, count, 2] = flow.sent[source, u]
                    count += 1
                send(flow, source, u, -flow.sent[source, u])
    flow.saved_count[v] = count
