"""What the search decides: components, the section to branch on, its children, the skip."""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.moves import (
    enqueue,
    forget_queue,
    note,
    raise_least,
    settle,
)
from optsched.packing.kernels.state import (
    CAP,
    COVER,
    FAR,
    FIRST,
    FLOOR,
    GAPPED,
    LAST,
    LATEST,
    LEAST,
    NEVER,
    PLACED,
    PLAIN,
    RANK,
    REST,
    RUN,
    SIZE,
    TALLY,
    TWIN,
    WEIGHT,
    Board,
    admissible,
    covers,
    share_section,
)
from optsched.runtime.kernel import inner

# How to choose the section among those of niches, least score first.
FEWEST, FEWEST_THEN_TIGHT, LOWEST, TIGHTEST = 0, 1, 2, 3
FEWEST_PER_FAILURE, EXTRA_PER_FAILURE, FEWEST_THEN_LOWEST, LOWEST_THEN_TIGHT = 4, 5, 6, 7

DEAD, NO_SECTION = -1, -2


@inner
def split_scope(board: Board, begin: int, end: int, parts: IntArray, at: int, whole: bool) -> int:
    """Write the section ranges of independent groups of unplaced buffers; return how many.

    Groups share no section, so each can be packed alone. `whole`: make one group of them all.
    """
    buffers = board.buffers
    count = 0
    reach = -1
    for i in range(begin, end):
        if buffers[PLACED, i]:
            continue
        if count == 0 or (buffers[FIRST, i] >= reach and not whole):
            parts[0, at + count] = buffers[FIRST, i]
            count += 1
            reach = buffers[LAST, i]
        elif buffers[LAST, i] > reach:
            reach = buffers[LAST, i]
        parts[1, at + count - 1] = reach
    return count


@inner
def may_start(board: Board, i: int) -> bool:
    """Whether the buffer's twin, which is to lie below it, is placed."""
    twin = board.buffers[TWIN, i]
    return bool(twin < 0 or board.buffers[PLACED, twin] != 0)


@inner
def score_section(board: Board, t: int, children: int, slack: int, rule: int) -> int:
    """Rate a section: the least is branched on."""
    sections = board.sections
    floor, weight = sections[FLOOR, t], sections[WEIGHT, t]
    score = children << 40
    if rule == FEWEST_THEN_TIGHT:
        score += slack
    elif rule == FEWEST_THEN_LOWEST:
        score += floor
    elif rule == LOWEST:
        score = (floor << 10) + (children if children < 1023 else 1023)
    elif rule == LOWEST_THEN_TIGHT:
        score = (floor << 12) + (slack << 12) // (sections[CAP, t] + 1)
    elif rule == TIGHTEST:
        score = (slack << 10) + (children if children < 1023 else 1023)
    elif rule == FEWEST_PER_FAILURE:
        score = score // weight
    elif rule == EXTRA_PER_FAILURE:
        score = (score - (1 << 40)) // weight
    return int(score)


@inner
def choose_section(board: Board, low: int, high: int, begin: int, end: int, rule: int) -> int:
    """Return the section to branch on, or DEAD if one can be neither filled nor skipped.

    In a niche every buffer whose least start is the floor lies flat on equal floors. With gaps
    only the lowest floors are sure to be niches.
    """
    buffers, sections = board.buffers, board.sections
    floors, rests = sections[FLOOR], sections[REST]
    runs, tally = sections[RUN], sections[TALLY]
    if board.counters[GAPPED] != 0:
        return choose_lowest(board, low, high, rule)
    until = high
    for t in range(high - 1, low - 1, -1):
        if t + 1 < high and (floors[t + 1] != floors[t] or rests[t] == 0 or rests[t + 1] == 0):
            until = t + 1
        runs[t] = until
        tally[t] = 0
    tally[high] = 0
    for i in range(begin, end):
        first = buffers[FIRST, i]
        if buffers[PLACED, i] or buffers[LEAST, i] != floors[first]:
            continue
        if runs[first] >= buffers[LAST, i] and may_start(board, i):
            tally[first] += 1
            tally[buffers[LAST, i]] -= 1
    best = NEVER * 4
    chosen = NO_SECTION
    children = 0
    t = low
    while t < high:
        until = runs[t]
        floor = floors[t]
        # Nobody reaches across a finished section: it is a wall, whatever its floor.
        niche = t == low or rests[t - 1] == 0 or floors[t - 1] > floor
        niche = niche and (until >= high or rests[until] == 0 or floors[until] > floor)
        while t < until:
            children += tally[t]
            rest = rests[t]
            if niche and rest > 0:
                slack = sections[CAP, t] - floor - rest
                branches = children + (slack > 0)
                if branches == 0:
                    return DEAD
                score = score_section(board, t, branches, slack, rule)
                if score < best:
                    best = score
                    chosen = t
            t += 1
    return chosen


@inner
def choose_lowest(board: Board, low: int, high: int, rule: int) -> int:
    """Return the best-rated section among those of the lowest floor."""
    buffers, sections = board.buffers, board.sections
    lowest = NEVER
    for t in range(low, high):
        if sections[REST, t] > 0:
            lowest = sections[FLOOR, t] if sections[FLOOR, t] < lowest else lowest
    best = NEVER * 4
    chosen = NO_SECTION
    for t in range(low, high):
        if sections[REST, t] == 0 or sections[FLOOR, t] != lowest:
            continue
        slack = sections[CAP, t] - lowest - sections[REST, t]
        children = 1 if slack > 0 else 0
        for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
            i = board.cover[k]
            if not buffers[PLACED, i] and buffers[LEAST, i] == lowest and may_start(board, i):
                children += 1
        if children == 0:
            return DEAD
        score = score_section(board, t, children, slack, rule)
        if score < best:
            best = score
            chosen = t
    return chosen


@inner
def must_start(board: Board, t: int, floor: int) -> int:
    """Return a buffer of the section that has to start at the floor, or -1."""
    buffers = board.buffers
    for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
        i = board.cover[k]
        if not buffers[PLACED, i] and buffers[LEAST, i] == floor and buffers[LATEST, i] == floor:
            return int(i)
    return -1


@inner
def next_child(board: Board, t: int, floor: int, rank: int) -> int:
    """Return the buffer of least rank above `rank` that may start at the floor, or -1."""
    buffers = board.buffers
    best = NEVER
    child = -1
    for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
        i = board.cover[k]
        if buffers[PLACED, i] or buffers[LEAST, i] != floor or not may_start(board, i):
            continue
        if rank < buffers[RANK, i] < best:
            best = buffers[RANK, i]
            child = i
    return child


@inner
def floor_after_skip(board: Board, t: int, floor: int, begin: int, end: int) -> int:
    """Return the least start in a section in which nobody starts at its floor.

    The lowest buffer there either has a higher least start, or rests on the top of an unplaced
    buffer that shares a section with it but does not cover this one. Not FAR: the next offset.
    """
    buffers, far = board.buffers, board.counters[FAR] != 0
    least = NEVER
    # From the first to the last section of those that lie on the floor.
    first, last = board.sections.shape[1], 0
    for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
        i = board.cover[k]
        if not buffers[PLACED, i]:
            start = buffers[LEAST, i]
            if start == floor and not far:
                start = admissible(board, i, floor + 1)
            if start > floor:
                least = start if start < least else least
            else:
                first = buffers[FIRST, i] if buffers[FIRST, i] < first else first
                last = buffers[LAST, i] if buffers[LAST, i] > last else last
    if not far:
        return least
    gapped, plain = board.counters[GAPPED] != 0, board.counters[PLAIN] != 0
    for j in range(begin, end):
        top = buffers[LEAST, j] + buffers[SIZE, j]
        if buffers[PLACED, j] or top >= least:
            continue
        if buffers[FIRST, j] >= last or buffers[LAST, j] <= first:
            continue
        if buffers[FIRST, j] <= t < buffers[LAST, j] and (not gapped or covers(board, j, t)):
            continue
        if plain and not gapped:
            # It lies on one side of this section, which all of them cover: it meets one of them.
            least = top
            continue
        for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
            i = board.cover[k]
            if buffers[PLACED, i] or buffers[LEAST, i] != floor or not share_section(board, i, j):
                continue
            start = top if plain else admissible(board, i, top)
            least = start if start < least else least
    return least


@inner
def skip(board: Board, t: int, floor: int) -> bool:
    """Raise the floor of a section; False if nothing can follow."""
    buffers, sections = board.buffers, board.sections
    if floor + sections[REST, t] > sections[CAP, t]:
        sections[WEIGHT, t] += 1
        return False
    note(board, t, sections[FLOOR, t])
    sections[FLOOR, t] = floor
    for k in range(board.sections[COVER, t], board.sections[COVER, t + 1]):
        i = board.cover[k]
        if not buffers[PLACED, i] and buffers[LEAST, i] < floor:
            start = admissible(board, i, floor)
            if not raise_least(board, i, start):
                forget_queue(board)
                return False
    enqueue(board, t)
    return settle(board)
