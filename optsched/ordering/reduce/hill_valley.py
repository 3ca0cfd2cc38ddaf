"""Strings: the order of a region that is best whatever runs beside it, and orders that keep it.

What a region and its string are, and why no order is lost, is said in
:mod:`optsched.ordering.reduce.regions`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.reduce.contraction import Contracted


@dataclass(frozen=True, slots=True)
class String:
    """The order of a region that is best whatever runs beside it.

    Parameters
    ----------
    ops
        The ops in that order.
    problem
        The region by itself, its ops numbered along the string.
    """

    ops: tuple[int, ...]
    problem: OrderingProblem

    def lead(self, order: IntArray, context: SearchContext) -> IntArray:
        """An order of no higher peak in which the region of a problem runs along the string."""
        step = np.empty(len(order), np.int64)
        step[order] = np.arange(len(order))
        places = step[np.array(self.ops)]
        first, end = int(places.min()), int(places.max()) + 1
        if end - first == len(self.ops) and (np.diff(places) > 0).all():
            return order
        part = order[first:end]
        stretch = part.tolist()
        spot = {v: k for k, v in enumerate(self.ops)}
        inside = [spot.get(v, -1) for v in stretch]
        live, level = trace(self.problem, [k for k in inside if k >= 0])
        whole = context.follow(order)[1][first:end] - context.problem.rise[part]
        # How many steps of the region come before each step of the stretch.
        done = np.concatenate(([0], np.cumsum(np.array(inside) >= 0)))[:-1].tolist()
        rest = [total - live[k] for total, k in zip(whole.tolist(), done, strict=True)]
        turn = rest.index(min(rest))

        own, height = trace(self.problem, range(len(self.ops)))
        split = own.index(min(own))
        head = run_along(
            self.ops[:split], stretch[:turn], inside[:turn], level,
            stops(own[: split + 1], height[:split]),
        )  # fmt: skip
        tail = run_along(
            self.ops[split:][::-1], stretch[turn:][::-1], inside[turn:][::-1], level[::-1],
            stops(own[split:][::-1], height[split:][::-1]),
        )  # fmt: skip
        led = order.copy()
        led[first:end] = [*head, *tail[::-1]]
        return led


def run_along(
    string: Sequence[int],
    steps: Sequence[int],
    inside: Sequence[int],
    level: Sequence[int],
    pauses: Sequence[tuple[int, int]],
) -> list[int]:
    """Steps up to the turn, with the string in the place of those of its region.

    It is run on to a pause as soon as the region itself gets to that level, and at last to its end.
    `level` are the levels of the region's own steps; of the others `inside` is negative.
    """
    found: list[int] = []
    levels, waiting = iter(level), deque(pauses)
    at, most = 0, None
    for v, k in zip(steps, inside, strict=True):
        if k < 0:
            found.append(v)
            continue
        reached = next(levels)
        most = reached if most is None else max(most, reached)
        while waiting and waiting[0][1] <= most:
            end, _ = waiting.popleft()
            found += string[at:end]
            at = end
    return [*found, *string[at:]]


def trace(problem: OrderingProblem, order: Iterable[int]) -> tuple[list[int], list[int]]:
    """Live bytes before each step and at the end, counted from 0, and while each step runs."""
    waiting = np.diff(problem.user_ptr).tolist()
    ptr, read = problem.read_ptr.tolist(), problem.read.tolist()
    rise, change, size = problem.rise.tolist(), problem.delta.tolist(), problem.size.tolist()
    live, level = [0], []
    for v in order:
        level.append(live[-1] + rise[v])
        now = live[-1] + change[v]
        for b in read[ptr[v] : ptr[v + 1]]:
            waiting[b] -= 1
            if not waiting[b]:
                now -= size[b]
        live.append(now)
    return live, level


def stops(live: Sequence[int], level: Sequence[int]) -> list[tuple[int, int]]:
    """Where a string may pause: after how many steps, and the highest level on the way there.

    That is wherever fewer bytes are live than ever before, but not before a step of the same level.
    """
    found: list[tuple[int, int]] = []
    least, top = live[0], None
    for k, height in enumerate(level, 1):
        top = height if top is None else max(top, height)
        if live[k] < least:
            least = live[k]
            if found and found[-1][1] == top:
                found.pop()
            found.append((k, top))
    return found


@dataclass(frozen=True, slots=True)
class Folded(Contracted):
    """A problem in which regions are chains, as :class:`Contracted` has it.

    Parameters
    ----------
    strings
        The regions that are in no other one.
    large
        The problem before.
    """

    strings: tuple[String, ...]
    large: SearchContext

    def shrink(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the larger problem into one of the smaller, of at most its peak."""
        led = np.array(list(order), np.int64)
        for string in self.strings:
            led = string.lead(led, self.large)
        return Contracted.shrink(self, led.tolist())
