"""Dominance: of equally good plans, the model needs only one.

*Left*. An op that allocates nothing runs as soon as its predecessors have ended, before the next op
that allocates. Proof: take any order, keep its ops that allocate in their sequence, and after each
of them (and at the start) run all ops that allocate nothing and whose predecessors have ended. By
induction over the order, each op that allocates nothing now runs before every op that allocates
which it ran before. An item `i` released before item `j` is allocated was released by ops that ran
before the op of `j`, which allocates; so they still do. Therefore no two items overlap in time that
did not before, the same inputs die at each op that writes in place, and every packing of the
given order is one of the new order.

*Down* (resting). Each item lies at offset 0, at its pin, or as low as possible above an item of its
pool with which it overlaps in time, or from which it is kept apart. Proof: of the packings of an
order with a slab, one has the smallest sum of offsets. If an item could be a slot lower, that
packing would not have the smallest sum; what stops it is another item whose end is above that slot
and at or below its offset. Left holds at the same time, as it concerns the order alone.

Example: `a` makes 4 units, `free` reads them and makes none, `b` makes 4 units. `a`, `free`, `b` is
the order that is kept; `b` then lies at offset 0, not at 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from optsched.joint.cpsat.pairwise import PairwiseOrder
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.cpsat.variables import JointVariables
from optsched.joint.instance import INPUT
from optsched.joint.order_program import OrderProgram


def add_left(order: PairwiseOrder, makers: frozenset[int]) -> None:
    """Require that ops that allocate nothing run before the next op that allocates.

    `order`: literals of the order. `makers`: ops that allocate.
    """
    program = order.program
    for v in set(range(len(program))) - makers:
        for w in makers:
            if program.relation(v, w) is None:
                waiting = [order.before(u, w) for u in program.preds[v]]
                # A predecessor that always runs after `w` makes `v` run after it, too: nothing to
                # require.
                if not any(isinstance(x, int) and not x for x in waiting):
                    late = [~x for x in waiting if not isinstance(x, int)]
                    order.model.add_bool_or([order.before(v, w), *late])


def add_resting(joint: JointVariables) -> None:
    """Require that every item without a pin lies at offset 0 or on another item."""
    items = joint.instance.items
    apart = set(joint.instance.apart) | {(j, i) for i, j in joint.instance.apart}
    for i, item in enumerate(items):
        if item.pin is not None:
            continue
        # One of the reasons to lie where it lies: offset 0, or an item right below.
        ground = joint.boolean("ground", lambda p, i: p.offsets[i] == 0, i)
        joint.model.add(joint.offset[i] == 0).only_enforce_if(ground)
        rests = [ground]
        for j, other in enumerate(items):
            if j != i and other.pool == item.pool:
                rest = _rests(joint, i, j, (i, j) in apart)
                rests += [] if rest is None else [rest]
        joint.model.add_bool_or(rests)


def _rests(joint: JointVariables, i: int, j: int, apart: bool) -> Any:
    """Return a literal that implies that item `i` rests on item `j`; None if it never does."""
    between = [joint.ends_before(i, j), joint.ends_before(j, i)]
    # Never live together, and free to share bytes: neither carries the other.
    if not apart and any(isinstance(x, int) and x for x in between):
        return None
    item, top = joint.instance.items[i], joint.offset[j] + joint.instance.items[j].room
    made = joint.boolean("rests", lambda p, i, j: p.rests_on(i, j), i, j)
    joint.model.add(joint.offset[i] >= top).only_enforce_if(made)
    # Up to the next multiple of the alignment, no further.
    joint.model.add(joint.offset[i] <= top + item.alignment - 1).only_enforce_if(made)
    for x in between:
        if not apart and not isinstance(x, int):
            joint.model.add_implication(made, ~x)
    return made


def left_order(program: OrderProgram, order: Sequence[int], makers: frozenset[int]) -> list[int]:
    """Return an order with the ops that allocate nothing as early as possible."""
    missing = [len(set(row)) for row in program.preds]
    found: list[int] = []
    ready = [v for v in order if not missing[v] and v not in makers]
    # None stands for the start, before the first op that allocates.
    for v in (None, *(v for v in order if v in makers)):
        ready += [] if v is None else [v]
        while ready:
            found.append(ready.pop())
            for w in sorted(set(program.succs[found[-1]])):
                missing[w] -= 1
                if not missing[w] and w not in makers:
                    ready.append(w)
    return found


def pushed(point: ModelPoint) -> ModelPoint:
    """Return a point with every item as low as those below it allow; not with in-place pairs."""
    instance, offsets = point.instance, list(point.offsets)
    apart = set(instance.apart) | {(j, i) for i, j in instance.apart}
    below: list[int] = []
    # From the bottom up, so that all items below are in their final places.
    for i in sorted(range(len(offsets)), key=lambda i: offsets[i]):
        item, (start, end) = instance.items[i], point.spans[i]
        if item.pin is None:
            tops = [
                offsets[j] + instance.items[j].room
                for j in below
                if instance.items[j].pool == item.pool
                and ((i, j) in apart or (start < point.spans[j][1] and point.spans[j][0] < end))
            ]
            offsets[i] = -(-max(tops, default=0) // item.alignment) * item.alignment
        below.append(i)
    return replace(point, offsets=tuple(offsets))


def makers_of(births: Iterable[int]) -> frozenset[int]:
    """Return the ops that allocate."""
    return frozenset(births) - {INPUT}
