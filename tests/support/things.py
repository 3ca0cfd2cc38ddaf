"""A naive form of a packing problem: sets with one offset, their times, and pairs kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from optsched.model.packing_problem import PackingProblem


@dataclass(frozen=True)
class Thing:
    """A buffer, or the buffers of a group."""

    members: tuple[int, ...]
    """Buffers."""
    there: dict[int, tuple[int, int]]
    """By step, the bytes `[low, high)` that are there."""
    size: int
    """Bytes; of the largest member that is ever live."""
    alignment: int
    pin: int
    """`alignment` and `pin`: of all members together; pin -1 for none."""
    highest: int
    """Highest offset that lets every live member end within its upper limit."""
    is_live: bool
    """True if some member is live at some step."""


def things_of(problem: PackingProblem) -> list[Thing]:
    """Each group, then each buffer of none."""
    grouped = {i for group in problem.must_share for i in group}
    alone = [(i,) for i in range(len(problem)) if i not in grouped]
    return [_thing(problem, members) for members in (*problem.must_share, *alone)]


def apart_of(problem: PackingProblem, things: list[Thing]) -> set[tuple[int, int]]:
    """Which things are a pair to be kept apart, and take room."""
    thing = {i: t for t, one in enumerate(things) for i in one.members}
    lives = problem.end > problem.start
    found = set()
    for a, b in problem.keep_apart.tolist():
        both = sorted({thing[i] for i in (a, b) if i in thing and problem.size[i] and lives[i]})
        if len(both) == 2:
            found.add((both[0], both[1]))
    return found


def _thing(problem: PackingProblem, members: tuple[int, ...]) -> Thing:
    live = [i for i in members if problem.end[i] > problem.start[i]]
    size = max((int(problem.size[i]) for i in live), default=0)
    there: dict[int, tuple[int, int]] = {}
    whole: set[int] = set()
    for i in live:
        for step in range(int(problem.start[i]), int(problem.end[i])):
            window = (0, int(problem.size[i]))
            for gap in problem.gaps[i] if problem.gaps else ():
                if gap.start <= step < gap.end:
                    window = gap.window or (0, 0)
            if window[0] >= window[1]:
                continue
            if window == (0, problem.size[i]):
                whole.add(step)
            low, high = there.get(step, window)
            there[step] = (min(low, window[0]), max(high, window[1]))
    for step in whole:
        there[step] = (0, size)
    return Thing(
        members,
        there,
        size,
        lcm(*(int(problem.alignment[i]) for i in members)),
        int(np.max(problem.pin[list(members)])),
        min((int(problem.below[i] - problem.size[i]) for i in live), default=2**62),
        bool(live),
    )
