"""Rule: buffers that must be kept apart share no byte, even if they are never live together.

A pinned input without bytes that is never live is a mark: buffers kept apart from it end at or
below its offset, whichever pool they lie in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from optsched.check.facts import Extent, PlanFacts
from optsched.errors import PlanError


def check(facts: PlanFacts) -> None:
    """Check the keep-apart pairs whose buffers lie in the same pool."""
    buffers = facts.graph.buffers
    if not facts.graph.keep_apart:
        return
    # In different pools two buffers cannot share a byte.
    inside = ((a, b) for a, b in facts.graph.keep_apart if buffers[a].pool == buffers[b].pool)
    check_pairs(inside, facts.filled, [buffer.name for buffer in buffers])
    for pair in facts.graph.keep_apart:
        for b, mark in (pair, pair[::-1]):
            limit = buffers[mark].pin
            if limit is None or buffers[mark].size or buffers[mark].input is None:
                continue
            if mark not in facts.spans and b in facts.placed:
                check_limit(buffers[b].name, facts.placed[b] + buffers[b].size, limit)


def check_limit(name: str, end: int, limit: int) -> None:
    """Check that a buffer ends at or below its upper limit."""
    if end > limit:
        raise PlanError(f"buffer {name!r} ends at {end}, above its upper limit of {limit}")


def check_pairs(
    pairs: Iterable[tuple[int, int]], extent: Mapping[int, Extent], names: Sequence[str]
) -> None:
    """Check that the extents of no pair share a byte; a buffer without an extent has no bytes."""
    for a, b in pairs:
        if a not in extent or b not in extent:
            continue
        one, other = extent[a], extent[b]
        if one[0] < other[1] and other[0] < one[1]:
            raise PlanError(
                f"buffers {names[a]!r} at [{one[0]}, {one[1]}) and {names[b]!r} at "
                f"[{other[0]}, {other[1]}) share bytes and are to be kept apart"
            )
