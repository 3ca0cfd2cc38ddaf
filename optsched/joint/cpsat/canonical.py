"""Plans into points of the model: offsets on whole units, order and ids as the cuts want them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.joint.cpsat.cuts import (
    Cuts,
    early_frees,
    late_allocs,
    signature,
    twin_items,
    twin_ops,
)
from optsched.joint.cpsat.instance import Instance, spans
from optsched.joint.cpsat.variables import Point
from optsched.model.arrays import IntArray


def canonical(
    instance: Instance, order: Sequence[int], offsets: Sequence[int] | None, cuts: Cuts
) -> Point:
    """Return the plan as a point that obeys the cuts; neither peak nor slab is larger.

    Parameters
    ----------
    instance
        What was planned.
    order
        Op ids, valid.
    offsets
        First *byte* of each item, valid under `order`; None if only the order matters.
    cuts
        Rules to obey.
    """
    placed = () if offsets is None else settle(instance, order, offsets)
    moved = _move_ops(instance, list(order), cuts)
    slots = list(placed)
    if cuts.twin_ops:
        moved, slots = _sort_twin_ops(instance, moved, slots)
    if cuts.twin_items and slots:
        for twins in twin_items(instance):
            for i, offset in zip(twins, sorted(slots[i] for i in twins), strict=True):
                slots[i] = offset
    return Point(instance, tuple(moved), tuple(slots))


def settle(instance: Instance, order: Sequence[int], offsets: Sequence[int]) -> tuple[int, ...]:
    """Lower every item as far as those it lies above allow; return offsets in units.

    The least solution of `offset[upper] >= offset[lower] + c`, reached by raising from 0, lies
    nowhere above the given packing.
    """
    lower, upper, rise = _stacking(instance, order, offsets)
    step = np.array([item.alignment for item in instance.items], np.int64)
    pins = [(i, item.pin) for i, item in enumerate(instance.items) if item.pin is not None]
    found = np.zeros(len(instance.items), np.int64)
    for i, pin in pins:
        found[i] = pin
    while True:
        raised = found.copy()
        np.maximum.at(raised, upper, found[lower] + rise)
        raised = -(-raised // step) * step
        if (raised == found).all():
            return tuple(found.tolist())
        found = raised


def _stacking(
    instance: Instance, order: Sequence[int], offsets: Sequence[int]
) -> tuple[IntArray, IntArray, IntArray]:
    """Pairs of items of which one lies below the other while both are live, and the distance."""
    ranges = spans(instance, order)
    pools = {pool: number for number, pool in enumerate(instance.pools)}
    rows = np.array(
        [
            (
                i,
                pools[item.pool],
                ranges[i][0] if part.start is None else part.start,
                ranges[i][1] if part.end is None else part.end,
                part.low,
                part.high,
                offsets[i] + part.low * instance.unit,
            )
            for i, item in enumerate(instance.items)
            for part in item.parts
            if part.high > part.low
        ],
        np.int64,
    ).reshape(-1, 7)
    owner, pool, start, end, low, high, address = rows.T
    pairs = [
        (a, b)
        for a in range(len(rows))
        for b in np.flatnonzero(
            (start < end[a])
            & (start[a] < end)
            & (pool == pool[a])
            & (owner != owner[a])
            & (address > address[a])
        ).tolist()
    ]
    below, above = np.array(pairs, np.int64).reshape(-1, 2).T
    return owner[below], owner[above], high[below] - low[above]


def _move_ops(instance: Instance, order: list[int], cuts: Cuts) -> list[int]:
    """Run early frees as soon, and late allocations as late, as the rules ask.

    Each move lowers (sum of the positions of the first kind) - (sum of those of the second).
    """
    early = set(early_frees(instance)) if cuts.early_frees else set()
    late = set(late_allocs(instance)) if cuts.late_allocs else set()
    moving = True
    while moving:
        moving = False
        for v in [v for v in order if v in early]:
            at = order.index(v)
            to = 1 + max((order.index(u) for u in instance.preds[v]), default=-1)
            if not early.issuperset(order[to:at]):
                order.insert(to, order.pop(at))
                moving = True
        for v in [v for v in reversed(order) if v in late]:
            at = order.index(v)
            to = min(order.index(w) for w in instance.succs[v]) - 1
            if not late.issuperset(order[at + 1 : to + 1]):
                order.insert(to, order.pop(at))
                moving = True
    return order


def _sort_twin_ops(
    instance: Instance, order: list[int], slots: list[int]
) -> tuple[list[int], list[int]]:
    """Let twins run by id; what is born at them goes along."""
    items = instance.items
    for twins in twin_ops(instance):
        steps = sorted(order.index(v) for v in twins)
        before = [order[at] for at in steps]
        for at, v in zip(steps, twins, strict=True):
            order[at] = v
        if not slots:
            continue
        born = {
            v: sorted(
                (i for i, item in enumerate(items) if item.birth == v),
                key=lambda i: repr(signature(items[i], without=items[i].birth)),
            )
            for v in twins
        }
        placed = {v: [slots[i] for i in born[v]] for v in twins}
        for v, u in zip(twins, before, strict=True):
            for i, offset in zip(born[v], placed[u], strict=True):
                slots[i] = offset
    return order, slots
