"""What the search decides: the section to branch on, its children, the skip.

The search branches on a section, not on a global order of buffers. It takes one in a gap of the
skyline. Its children: each unplaced buffer that covers the section and whose minimum offset is the
floor is placed there; and the skip: nobody starts here, and the floor rises to the next possible
start. That is complete, since in a packing pushed down every buffer rests on 0, on another's
top, or, with alignment and pins, on the first admissible offset above one.
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.moves import enqueue, forget_queue, note, raise_offset, settle
from optsched.packing.kernels.state import (
    NEVER,
    B,
    C,
    PackingState,
    S,
    admissible,
    bottom_in,
    covers,
    share_section,
)
from optsched.runtime.kernel import inner

# How to choose the section among those of skyline gaps, lowest score first.
FEWEST_THEN_TIGHT, TIGHTEST, FEWEST_THEN_LOWEST, EXTRA_PER_FAILURE = 0, 1, 2, 3
SECTION_RULES = 4

DEAD, NO_SECTION = -1, -2


@inner
def may_start(state: PackingState, i: int) -> bool:
    """Whether the identical buffer that is to lie below it, if any, is placed."""
    before = state.buffers[B.before_me, i]
    return bool(before < 0 or state.buffers[B.placed, before] != 0)


@inner
def score_section(state: PackingState, t: int, children: int, slack: int, rule: int) -> int:
    """Rate a section: the one of lowest score is branched on."""
    sections = state.sections
    floor, weight = sections[S.floor, t], sections[S.weight, t]
    score = children << 40
    if rule == FEWEST_THEN_TIGHT:
        score += slack
    elif rule == TIGHTEST:
        score = (slack << 10) + (children if children < 1023 else 1023)
    elif rule == FEWEST_THEN_LOWEST:
        score += floor
    else:
        score = (score - (1 << 40)) // weight
    return int(score)


@inner
def choose_section(state: PackingState, rule: int) -> int:
    """Return the section to branch on, or DEAD if one can be neither filled nor skipped.

    In a gap of the skyline every buffer whose minimum offset is the floor lies flat on equal
    floors. Where buffers are absent at times, only the lowest floors are sure to be such gaps.
    """
    buffers, sections = state.buffers, state.sections
    floors, remaining = sections[S.floor], sections[S.remaining]
    runs, tally = sections[S.run], sections[S.tally]
    if state.counters[C.gapped] != 0:
        return choose_lowest(state, rule)
    m = sections.shape[1] - 2
    until = m
    for t in range(m - 1, -1, -1):
        if t + 1 < m and (floors[t + 1] != floors[t] or remaining[t] == 0 or remaining[t + 1] == 0):
            until = t + 1
        runs[t] = until
        tally[t] = 0
    tally[m] = 0
    for i in range(buffers.shape[1]):
        first = buffers[B.first, i]
        if buffers[B.placed, i] or buffers[B.min_offset, i] != floors[first]:
            continue
        if runs[first] >= buffers[B.last, i] and may_start(state, i):
            tally[first] += 1
            tally[buffers[B.last, i]] -= 1
    best = NEVER * 4
    chosen = NO_SECTION
    children = 0
    t = 0
    while t < m:
        until = runs[t]
        floor = floors[t]
        # Nobody reaches across a finished section: it is a wall, whatever its floor.
        is_gap = t == 0 or remaining[t - 1] == 0 or floors[t - 1] > floor
        is_gap = is_gap and (until >= m or remaining[until] == 0 or floors[until] > floor)
        while t < until:
            children += tally[t]
            left = remaining[t]
            if is_gap and left > 0:
                slack = sections[S.cap, t] - floor - left
                branches = children + (slack > 0)
                if branches == 0:
                    return DEAD
                score = score_section(state, t, branches, slack, rule)
                if score < best:
                    best = score
                    chosen = t
            t += 1
    return chosen


@inner
def choose_lowest(state: PackingState, rule: int) -> int:
    """Return the best-rated section among those of the lowest floor."""
    buffers, sections = state.buffers, state.sections
    m = sections.shape[1] - 2
    lowest = NEVER
    for t in range(m):
        if sections[S.remaining, t] > 0:
            lowest = sections[S.floor, t] if sections[S.floor, t] < lowest else lowest
    best = NEVER * 4
    chosen = NO_SECTION
    for t in range(m):
        if sections[S.remaining, t] == 0 or sections[S.floor, t] != lowest:
            continue
        slack = sections[S.cap, t] - lowest - sections[S.remaining, t]
        children = 1 if slack > 0 else 0
        for k in range(state.sections[S.cover, t], state.sections[S.cover, t + 1]):
            i = state.cover[k]
            if (
                not buffers[B.placed, i]
                and buffers[B.min_offset, i] == lowest
                and may_start(state, i)
            ):
                children += 1
        if children == 0:
            return DEAD
        score = score_section(state, t, children, slack, rule)
        if score < best:
            best = score
            chosen = t
    return chosen


@inner
def next_child(
    state: PackingState, occupied: IntArray | None, t: int, floor: int, rank: int
) -> int:
    """Return the buffer of lowest rank above `rank` that may start at the floor, or -1."""
    buffers = state.buffers
    best = NEVER
    child = -1
    for k in range(state.sections[S.cover, t], state.sections[S.cover, t + 1]):
        i = state.cover[k]
        if buffers[B.placed, i] or bottom_in(state, occupied, i, t) != floor:
            continue
        if rank < buffers[B.rank, i] < best and may_start(state, i):
            best = buffers[B.rank, i]
            child = i
    return child


@inner
def floor_after_skip(state: PackingState, t: int, floor: int) -> int:
    """Return the lowest start in a section in which nobody starts at its floor.

    The lowest buffer there either has a higher minimum offset, or rests on the top of an unplaced
    buffer that shares a section with it but does not cover this one. Not `far`: the next offset.
    """
    buffers, far = state.buffers, state.counters[C.far] != 0
    lowest = NEVER
    # From the first to the last section of those that lie on the floor.
    first, last = state.sections.shape[1], 0
    for k in range(state.sections[S.cover, t], state.sections[S.cover, t + 1]):
        i = state.cover[k]
        if not buffers[B.placed, i]:
            start = buffers[B.min_offset, i]
            if start == floor and not far:
                start = admissible(state, i, floor + 1)
            if start > floor:
                lowest = start if start < lowest else lowest
            else:
                first = buffers[B.first, i] if buffers[B.first, i] < first else first
                last = buffers[B.last, i] if buffers[B.last, i] > last else last
    if not far:
        return lowest
    gapped, plain = state.counters[C.gapped] != 0, state.counters[C.plain] != 0
    for j in range(buffers.shape[1]):
        top = buffers[B.min_offset, j] + buffers[B.size, j]
        if buffers[B.placed, j] or top >= lowest:
            continue
        if buffers[B.first, j] >= last or buffers[B.last, j] <= first:
            continue
        if buffers[B.first, j] <= t < buffers[B.last, j] and (not gapped or covers(state, j, t)):
            continue
        if plain and not gapped:
            # It lies on one side of this section, which all of them cover: it meets one of them.
            lowest = top
            continue
        for k in range(state.sections[S.cover, t], state.sections[S.cover, t + 1]):
            i = state.cover[k]
            if buffers[B.placed, i] or buffers[B.min_offset, i] != floor:
                continue
            if not share_section(state, i, j):
                continue
            start = top if plain else admissible(state, i, top)
            lowest = start if start < lowest else lowest
    return lowest


@inner
def skip(state: PackingState, t: int, floor: int) -> bool:
    """Raise the floor of a section; False if nothing can follow."""
    buffers, sections = state.buffers, state.sections
    if floor + sections[S.remaining, t] > sections[S.cap, t]:
        sections[S.weight, t] += 1
        return False
    note(state, t, sections[S.floor, t])
    sections[S.floor, t] = floor
    for k in range(state.sections[S.cover, t], state.sections[S.cover, t + 1]):
        i = state.cover[k]
        if not buffers[B.placed, i] and buffers[B.min_offset, i] < floor:
            start = admissible(state, i, floor)
            if not raise_offset(state, i, start):
                forget_queue(state)
                return False
    enqueue(state, t)
    return settle(state)
