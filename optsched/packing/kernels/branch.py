"""Branching rules of the search: the section to branch on, its children, and the skip.

The search branches on a section rather than on a global order of buffers. It chooses a section in a
gap of the skyline and creates these branches. One child per unplaced buffer that covers the section
and whose minimum offset equals the floor: the buffer is placed on the floor. One skip: no buffer
starts at the floor, so the floor rises to the next possible start. These branches are complete,
because in a packing pushed down every buffer rests on 0, on the top of another buffer, or, with
alignment and pins, on the first admissible offset above one of these.

Example: sections 0 and 1 have floors 0 and 2. Buffer `a` of 3 bytes covers section 0 only, buffer
`b` of 4 bytes covers both. Section 0 is a gap; its children place `a` at 0, while `b` has the
minimum offset 2. The skip raises the floor of section 0 to 2.
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
    """Return True unless an identical buffer must be placed first and is still unplaced."""
    before = state.buffers[B.before_me, i]
    return bool(before < 0 or state.buffers[B.placed, before] != 0)


@inner
def score_section(state: PackingState, t: int, children: int, slack: int, rule: int) -> int:
    """Return the score of a section; the search branches on the section of lowest score."""
    sections = state.sections
    floor, weight = sections[S.floor, t], sections[S.weight, t]
    score = children << 40
    if rule == FEWEST_THEN_TIGHT:
        score += slack
    elif rule == TIGHTEST:
        # Ten bits are enough for the number of children, which only breaks ties.
        score = (slack << 10) + (children if children < 1023 else 1023)
    elif rule == FEWEST_THEN_LOWEST:
        score += floor
    else:
        # With a single branch left the score is 0 for every weight: a forced move comes first.
        # Failed sections get a smaller score with every failure, so that conflicts are met early.
        score = (score - (1 << 40)) // weight
    return int(score)


@inner
def choose_section(state: PackingState, rule: int) -> int:
    """Return the section to branch on, or DEAD if a section cannot be filled or skipped.

    Sketch: find the runs of equal floors; a run is a gap if both neighbors are higher, finished or
    missing. In a gap, every buffer whose minimum offset equals the floor lies flat on the run.
    Count these buffers per section with a difference array over their ranges (`tally`). Each
    section of a gap then has its number of branches: the buffers, and the skip if there is slack.
    Return the section with the lowest score. If buffers have gaps in their lifetimes, only the
    lowest floors are certain to be such gaps; :func:`choose_lowest` is used in that case.
    """
    buffers, sections = state.buffers, state.sections
    floors, remaining = sections[S.floor], sections[S.remaining]
    runs, tally = sections[S.run], sections[S.tally]
    if state.counters[C.gapped] != 0:
        return choose_lowest(state, rule)
    m = sections.shape[1] - 2
    until = m
    # From the right, as a run is known by its end.
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
        # Flat on the run: all sections of the buffer lie in one run of equal floors.
        if runs[first] >= buffers[B.last, i] and may_start(state, i):
            # Difference array: the buffer counts from its first section to its last.
            tally[first] += 1
            tally[buffers[B.last, i]] -= 1
    best = NEVER * 4
    chosen = NO_SECTION
    children = 0
    t = 0
    while t < m:
        until = runs[t]
        floor = floors[t]
        # No unplaced buffer covers a finished section, so it bounds a gap regardless of its floor.
        is_gap = t == 0 or remaining[t - 1] == 0 or floors[t - 1] > floor
        is_gap = is_gap and (until >= m or remaining[until] == 0 or floors[until] > floor)
        while t < until:
            children += tally[t]
            left = remaining[t]
            if is_gap and left > 0:
                slack = sections[S.cap, t] - floor - left
                branches = children + (slack > 0)
                # Without a buffer and without a skip the remaining bytes have no place in this
                # section.
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
    """Return the section of lowest score among those with the lowest floor."""
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
        # Lower scores first; rule and weights as in gaps.
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
        # Ranks are distinct, so the next child is the one of the next higher rank.
        if rank < buffers[B.rank, i] < best and may_start(state, i):
            best = buffers[B.rank, i]
            child = i
    return child


@inner
def floor_after_skip(state: PackingState, t: int, floor: int) -> int:
    """Return the lowest start in a section if no buffer starts at its floor.

    The lowest buffer there either has a higher minimum offset, or rests on the top of an unplaced
    buffer that shares a section with it but does not cover this one. If the rule `far_skip` is off,
    it is the next admissible offset.

    Sketch: take the lowest minimum offset above the floor. Then consider each unplaced buffer `j`
    outside the section. Its top is at least its minimum offset plus its size. If `j` shares a
    section with a buffer that could start on the floor, that buffer could rest on this top; take
    the lowest.
    """
    buffers, far = state.buffers, state.counters[C.far] != 0
    lowest = NEVER
    # Range of sections covered by the buffers whose minimum offset is the floor.
    first, last = state.sections.shape[1], 0
    for k in range(state.sections[S.cover, t], state.sections[S.cover, t + 1]):
        i = state.cover[k]
        if not buffers[B.placed, i]:
            start = buffers[B.min_offset, i]
            if start == floor and not far:
                # Without the rule `far_skip` the buffer may start at any later offset.
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
            # The range of `j` lies on one side of section `t`, and all these buffers cover `t`. The
            # one that reaches furthest to that side shares a section with `j`.
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
    """Raise the floor of a section; return False if the state is infeasible."""
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
