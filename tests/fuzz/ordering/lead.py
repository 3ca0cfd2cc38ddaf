"""The proof that chains lose nothing, carried out on orders.

Any order of a problem becomes one in which a region runs along its hill-valley order, as the proof
in :mod:`optsched.ordering.reduce.regions` does it: no step of it may have more live bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.context import SearchContext
from optsched.ordering.reduce.hill_valley import trace, valleys
from optsched.ordering.reduce.modules import ModuleContraction


def lead(order: IntArray, context: SearchContext, ops: Sequence[int]) -> IntArray:
    """An order of no higher peak in which a region of a problem runs along its chain `ops`."""
    sets = ModuleContraction(context)
    region = sets.build(ops, sorted({b for v in ops for b in sets.read[v]}))
    step = np.empty(len(order), np.int64)
    step[order] = np.arange(len(order))
    places = step[np.array(ops)]
    first, end = int(places.min()), int(places.max()) + 1
    if end - first == len(ops) and (np.diff(places) > 0).all():
        return order
    part = order[first:end]
    stretch = part.tolist()
    spot = {v: k for k, v in enumerate(ops)}
    inside = [spot.get(v, -1) for v in stretch]
    live, level = trace(region, [k for k in inside if k >= 0])
    whole = context.follow(order)[1][first:end] - context.problem.rise[part]
    # How many steps of the region come before each step of the stretch.
    done = np.concatenate(([0], np.cumsum(np.array(inside) >= 0)))[:-1].tolist()
    rest = [total - live[k] for total, k in zip(whole.tolist(), done, strict=True)]
    turn = rest.index(min(rest))

    own, height = trace(region, range(len(ops)))
    split = own.index(min(own))
    head = run_along(
        ops[:split], stretch[:turn], inside[:turn], level,
        valleys(own[: split + 1], height[:split]),
    )  # fmt: skip
    tail = run_along(
        ops[split:][::-1], stretch[turn:][::-1], inside[turn:][::-1], level[::-1],
        valleys(own[split:][::-1], height[split:][::-1]),
    )  # fmt: skip
    led = order.copy()
    led[first:end] = [*head, *tail[::-1]]
    return led


def run_along(
    chain: Sequence[int],
    steps: Sequence[int],
    inside: Sequence[int],
    level: Sequence[int],
    pauses: Sequence[tuple[int, int]],
) -> list[int]:
    """Steps up to the turn, with the chain in the place of those of its region.

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
            found += chain[at:end]
            at = end
    return [*found, *chain[at:]]
