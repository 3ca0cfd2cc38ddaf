"""A plan as a hint: the same order, and offsets on whole units of the model.

A plan may lie between the units (see :mod:`optsched.joint.cpsat.instance`), so every item is first
lowered as far as the items below it allow. The point that results gives every variable a value, so
CP-SAT takes the hint as its first solution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.joint.cpsat.instance import ModelInstance, live_spans
from optsched.joint.cpsat.variables import ModelPoint, ModelVariables
from optsched.model.arrays import IntArray


def point_of(
    instance: ModelInstance, order: Sequence[int], offsets: Sequence[int] | None
) -> ModelPoint:
    """Return a plan as a point of the model; its slab is no larger.

    Parameters
    ----------
    instance
        What was planned.
    order
        Op ids, valid.
    offsets
        First *byte* of each item, valid under `order`; None if only the order matters.
    """
    placed = () if offsets is None else lower_items(instance, order, offsets)
    return ModelPoint(instance, tuple(order), placed)


def add_hint(variables: ModelVariables, point: ModelPoint) -> None:
    """Hint every variable at the value it has in a point."""
    model = variables.model
    for variable, meaning in variables.meanings:
        model.add_hint(variable, int(meaning(point)))
    # CP-SAT makes variables of constants; they count when it asks whether a hint is complete.
    hinted = {variable.index for variable, _ in variables.meanings}
    for index, made in enumerate(model.proto.variables):
        if index not in hinted:
            model.add_hint(model.get_int_var_from_proto_index(index), made.domain[0])


def lower_items(
    instance: ModelInstance, order: Sequence[int], offsets: Sequence[int]
) -> tuple[int, ...]:
    """Lower every item as far as those it lies above allow; return offsets in units.

    The smallest solution of `offset[upper] >= offset[lower] + c` is reached by raising offsets
    from 0, and lies nowhere above the given packing.
    """
    lower, upper, rise = _stacking(instance, order, offsets)
    step = np.array([item.alignment for item in instance.items], np.int64)
    found = np.array([item.pin or 0 for item in instance.items], np.int64)
    while True:
        raised = found.copy()
        np.maximum.at(raised, upper, found[lower] + rise)
        raised = -(-raised // step) * step
        if (raised == found).all():
            return tuple(found.tolist())
        found = raised


def _stacking(
    instance: ModelInstance, order: Sequence[int], offsets: Sequence[int]
) -> tuple[IntArray, IntArray, IntArray]:
    """Pairs of items of which one lies below the other while both are live, and the distance."""
    ranges = live_spans(instance, order)
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
