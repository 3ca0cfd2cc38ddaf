"""Branch and bound over packings, with an explicit stack of frames.

A frame tries its children one after another, then the skip, which moves the frame to another
section. Frames are rows of an array rather than Python calls, so the search can stop at a node
limit and resume later.

One loop serves two kinds of problems. If `occupied` is None, each buffer is always either fully
occupied or absent (:mod:`optsched.packing.kernels.moves`, :mod:`optsched.packing.kernels.branch`).
If it is an array, buffers can be partly occupied (:mod:`optsched.packing.kernels.partial_moves`).
Numba compiles the loop for each kind and leaves out the branches of the other kind.

Example: capacity 6; `a` (4 bytes) covers section 0, `c` (4 bytes) section 1, and `b` (2 bytes)
both. The search places `a` at 0, which raises the minimum offset of `b` to 4. In section 1 only `c`
can start at 0; it is placed, and `b` fits at 4. At capacity 5 every branch fails: 4 + 2 bytes are
live in section 0.
"""

from __future__ import annotations

from optsched.model.arrays import IntArray
from optsched.packing.kernels.branch import choose_section, floor_after_skip, next_child, skip
from optsched.packing.kernels.failures import Failures, is_refuted, remember_failure
from optsched.packing.kernels.moves import place, reset, settle, undo
from optsched.packing.kernels.partial_branch import (
    choose_partial,
    has_obstacles,
    partial_floor_after_skip,
    skip_partial,
)
from optsched.packing.kernels.partial_moves import place_fixed, place_partial
from optsched.packing.kernels.state import B, C, PackingState, S
from optsched.runtime.kernel import inner, kernel

EXHAUSTED, SOLVED, LIMIT = 0, 1, 2

MOST_SCANNED = 1 << 22
"""Pairs of a buffer and a section that partial moves scan in one call: some hundredths of a second.
"""

# Columns of the frames.
ENTERED, TRAIL, STACK, SECTION, LEVEL, LAST_RANK = 0, 1, 2, 3, 4, 5
FRAME_COLUMNS = 6

# Next step of the loop: enter a state, try the next branch of a frame, undo a failed branch.
ENTER, NEXT, FAIL = 0, 1, 2


@inner
def choose(
    state: PackingState, occupied: IntArray | None, frames: IntArray, depth: int, rule: int
) -> bool:
    """Write the section to branch on to a frame; return False if the state is infeasible."""
    if occupied is None:
        section = choose_section(state, rule)
    else:
        section = choose_partial(state, occupied, rule)
    frames[depth, SECTION] = section
    frames[depth, LEVEL] = state.sections[S.floor, section] if section >= 0 else 0
    frames[depth, LAST_RANK] = -1
    return bool(section >= 0)


@inner
def try_skip(state: PackingState, occupied: IntArray | None, section: int, level: int) -> bool:
    """Raise the floor of a section to its next possible start; return False if infeasible."""
    if level + state.sections[S.remaining, section] >= state.sections[S.cap, section]:
        return False
    if occupied is None:
        return bool(skip(state, section, floor_after_skip(state, section, level)))
    floor = partial_floor_after_skip(state, occupied, section, level)
    return bool(skip_partial(state, occupied, section, floor))


@kernel
def search(
    state: PackingState,
    occupied: IntArray | None,
    frames: IntArray,
    failures: Failures,
    remember: bool,
    rule: int,
    limit: int,
) -> int:
    """Search for a packing with each buffer at its maximum offset or below.

    Sketch: on entering a frame, stop if all buffers are placed; otherwise look the state up in the
    table of failures and choose a section. At each visit of a frame, place its next child and enter
    a new frame, or undo if the child is infeasible. After the last child, skip the floor of the
    section and choose again in the same frame. If the skip is infeasible as well, store the state
    in the table, leave the frame and undo its parent's last child.

    Parameters
    ----------
    state
        If its counter `depth` is 0, the search starts from an empty packing; otherwise it resumes
        where an earlier call met its limit. If the answer is SOLVED, row `offset` of its buffers is
        the packing.
    occupied
        Occupied bytes of each buffer in each of its sections; None if buffers are always fully
        occupied.
    frames
        Work space, shape `(depth, FRAME_COLUMNS)`.
    failures
        States that failed at this capacity or a larger one.
    remember
        If True, look states up in `failures` and add to it.
    rule
        Rule that chooses the section to branch on.
    limit
        Maximum number of nodes since the start of the search. A call may end earlier, after
        :data:`MOST_SCANNED`.

    Returns
    -------
    int
        SOLVED, EXHAUSTED if such a packing does not exist, or LIMIT if the answer is unknown.
    """
    counters = state.counters
    n, m = state.buffers.shape[1], state.sections.shape[1] - 2
    # One child adds at most a few entries per buffer and section. Stopping this far below the end
    # means that no call in between has to check the room.
    trail_room = state.trail.shape[1] - 4 * (n + m) - 16
    counters[C.scanned] = 0
    # A stored depth is that of a frame plus one, since 0 means a new search.
    depth = counters[C.depth] - 1
    step = NEXT
    if depth < 0:
        ready = reset(state, occupied)
        if ready and occupied is None:
            ready = settle(state)
        if ready and occupied is not None:
            ready = place_fixed(state, occupied)
        if not ready:
            return EXHAUSTED
        step = ENTER
    while True:
        if step == ENTER:
            if counters[C.stacked] == n:
                return SOLVED
            depth += 1
            frames[depth, ENTERED] = frames[depth, TRAIL] = counters[C.trailed]
            frames[depth, STACK] = counters[C.stacked]
            dead = False
            if remember:
                # The table is asked before a section is chosen, since it costs less than counting
                # branches.
                dead = is_refuted(state, failures)
                counters[C.refuted] += dead
            if not dead:
                dead = not choose(state, occupied, frames, depth, rule)
            step = NEXT
            if dead:
                counters[C.nodes] += 1
                depth -= 1
                step = FAIL
        elif step == NEXT:
            # The level is stored, as the floor may have risen since the frame was entered.
            section, level = frames[depth, SECTION], frames[depth, LEVEL]
            child = next_child(state, occupied, section, level, frames[depth, LAST_RANK])
            is_over = counters[C.nodes] >= limit or counters[C.scanned] > MOST_SCANNED
            if is_over or counters[C.trailed] > trail_room:
                # This child is still untried, so the next call resumes with the same one.
                counters[C.depth] = depth + 1
                return LIMIT
            counters[C.nodes] += 1
            if child >= 0:
                # The next visit of this frame continues after this rank.
                frames[depth, LAST_RANK] = state.buffers[B.rank, child]
                if occupied is None:
                    fits = place(state, child, level)
                else:
                    fits = place_partial(state, occupied, child)
                if fits:
                    step = ENTER
                else:
                    undo(state, occupied, frames[depth, TRAIL], frames[depth, STACK])
                continue
            if try_skip(state, occupied, section, level):
                # The frame continues with another section; its later children undo to here.
                frames[depth, TRAIL] = counters[C.trailed]
                if choose(state, occupied, frames, depth, rule):
                    continue
            if remember:
                # The skips of this frame have raised floors. The failure holds for the lower floors
                # on entry, which prune more states.
                undo(state, occupied, frames[depth, ENTERED], frames[depth, STACK])
                known = True
                if occupied is not None:
                    known = not has_obstacles(state, occupied)
                if known:
                    remember_failure(state, failures)
            depth -= 1
            step = FAIL
        else:
            if depth < 0:
                return EXHAUSTED
            undo(state, occupied, frames[depth, TRAIL], frames[depth, STACK])
            step = NEXT
