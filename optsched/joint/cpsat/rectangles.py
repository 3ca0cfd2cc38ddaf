"""Rectangles in time and space: items live together do not share bytes, and loads fit the slab.

::

    space  ^      +-------+
           |      |   y   |         time of i:   [position of its op, end of its last user)
           |   +--+----+--+         space of i:  [offset, offset + room)
           |   |   x   |
           +---+-------+----> time

While op `v` runs, the items live then are a clique: their sizes add up to at most the slab
(:func:`add_loads`). Only ops that allocate have such a row, since what is live while another op
runs was live before it.

Example: `p` makes `x`, `q` reads `x` and makes `y`. The rectangle of `x` spans the steps of `p` and
`q`, that of `y` begins at the step of `q`. They share this step, so one lies above the other.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.cpsat.variables import JointVariables
from optsched.joint.instance import INPUT


def add_loads(joint: JointVariables, ops: Collection[int] | None = None) -> None:
    """Require that the units live while an op runs are at most the peak, and the pool's slab.

    `ops` are those that count toward the peak; None for all.

    While an op runs that allocates nothing, only items are live that were live while an earlier op
    ran, or before the first one.
    """
    instance, program = joint.instance, joint.program
    joint.model.add(joint.peak >= program.base)
    joint.model.add(joint.peak <= joint.slab)
    for v in range(len(program)) if ops is None else sorted(ops):
        joint.model.add(joint.load(v) <= joint.peak)
    if len(joint.slabs) == 1:
        return
    for pool, slab in joint.slabs.items():
        mine = [i for i, item in enumerate(instance.items) if item.pool == pool]
        first = sum(instance.items[i].size for i in mine if instance.items[i].birth == INPUT)
        joint.model.add(slab >= first)
        for v in {instance.items[i].birth for i in mine} - {INPUT}:
            load = sum(instance.items[i].size * joint.live(i, v) for i in mine)
            joint.model.add(load - _saved_in(joint, pool, v) <= slab)


def _saved_in(joint: JointVariables, pool: str, v: int) -> Any:
    """Return the units of a pool that an op does not allocate, as it writes in place."""
    items, pairs = joint.instance.items, joint.instance.pairs
    return sum(
        items[pair.output].size * flag
        for pair, flag in zip(pairs, joint.saved, strict=True)
        if pair.op == v and items[pair.output].pool == pool
    )


def add_tops(joint: JointVariables) -> None:
    """Require that every item ends at or below the top of its pool's slab."""
    for item, offset in zip(joint.instance.items, joint.offset, strict=True):
        joint.model.add(offset + item.room <= joint.slabs[item.pool])


def add_inplace(joint: JointVariables) -> None:
    """Require that an output that shares its bytes has the offset of an input that dies then."""
    model, groups = joint.model, dict[int, list[Any]]()
    for pair, flag in zip(joint.instance.pairs, joint.shared, strict=True):
        groups.setdefault(pair.output, []).append(flag)
        groups.setdefault(~pair.source, []).append(flag)
        others = set(joint.instance.items[pair.source].users) - {pair.op}
        # The input dies at the op: all its other users have ended.
        ended = joint.released(others, pair.op)
        if isinstance(ended, int):
            if not ended:
                model.add(flag == 0)
        else:
            model.add_implication(flag, ended)
        output, source = joint.offset[pair.output], joint.offset[pair.source]
        # Otherwise both are pinned to the same offset.
        if not (isinstance(output, int) and isinstance(source, int)):
            model.add(output == source).only_enforce_if(flag)
    for flags in groups.values():
        model.add_at_most_one(flags)


def add_groups(joint: JointVariables) -> None:
    """Require that items of a group start at the same unit; their live ranges never overlap."""
    for first, *others in (group for group in joint.instance.shared if group):
        for i in others:
            joint.model.add(joint.offset[i] == joint.offset[first])


def add_rectangles(joint: JointVariables) -> None:
    """Require that items of a pool do not share bytes at the same step.

    The cumulative constraint, which limits the live units to the slab, is implied, but helps
    CP-SAT.
    """
    model = joint.model
    for pool in joint.instance.pools:
        items = [i for i, item in enumerate(joint.instance.items) if item.pool == pool]
        rooms = [joint.instance.items[i].room for i in items]
        times = [_time(joint, i) for i in items]
        spaces = [
            model.new_fixed_size_interval_var(joint.offset[i], room, f"space[{i}]")
            for i, room in zip(items, rooms, strict=True)
        ]
        model.add_no_overlap_2d(times, spaces)
        if len(times) > 1:
            model.add_cumulative(times, rooms, joint.slabs[pool])


def add_pairs(joint: JointVariables) -> None:
    """Require that of two items of a pool one is released first or lies below the other."""
    instance = joint.instance
    apart = set(instance.apart) | {(j, i) for i, j in instance.apart}
    together = {i: group for group in instance.shared for i in group}
    flags = {
        (pair.output, pair.source): flag
        for pair, flag in zip(instance.pairs, joint.shared, strict=True)
    }
    for j, second in enumerate(instance.items):
        for i, first in enumerate(instance.items[:j]):
            # Members of a group share an offset, and their order in time is settled elsewhere.
            if first.pool != second.pool or (i in together and together[i] == together.get(j)):
                continue
            unless = [flags[x] for x in ((i, j), (j, i)) if x in flags]
            if (i, j) not in apart:
                # One after the other, they may share bytes.
                unless += [joint.ends_before(i, j), joint.ends_before(j, i)]
            if not any(isinstance(x, int) and x for x in unless):
                free = [x for x in unless if not isinstance(x, int)]
                joint.model.add_bool_or([*free, joint.below(i, j), joint.below(j, i)])


def add_apart(joint: JointVariables) -> None:
    """Require that pairs to keep apart do not share a unit at any time."""
    items = joint.instance.items
    for i, j in joint.instance.apart:
        if items[i].pool == items[j].pool:
            joint.model.add_bool_or([joint.below(i, j), joint.below(j, i)])


def _time(joint: JointVariables, i: int) -> Any:
    """Return the interval of steps at which an item has bytes of its own."""
    first, last, name = joint.start(i), joint.end[i], f"time[{i}]"
    horizon = joint.instance.horizon
    if i in joint.written:
        return _written_time(joint, i)
    if isinstance(first, int) and isinstance(last, int):
        return joint.model.new_fixed_size_interval_var(first, last - first, name)
    length = joint.integer(1, horizon, "length", lambda p, i: p.spans[i][1] - p.spans[i][0], i)
    return joint.model.new_interval_var(first, length, last, name)


def _written_time(joint: JointVariables, i: int) -> Any:
    """Return the interval of steps at which an output that may share bytes has its own.

    Without such a step, the interval lies after the last step, at a separate position for each
    output. An optional interval would be equivalent, but OR-Tools 9.15 then removes solutions in
    its presolve.
    """
    model, horizon, written = joint.model, joint.instance.horizon, joint.written[i]
    behind = horizon + i

    def times(point: ModelPoint) -> tuple[int, int]:
        return point.own_span(i) or (behind, behind + 1)

    own = joint.boolean("own", lambda p, i: p.own_span(i) is not None, i)
    begin = joint.integer(0, behind, "begin", lambda p, _: times(p)[0], i)
    finish = joint.integer(0, behind + 1, "finish", lambda p, _: times(p)[1], i)
    length = joint.integer(1, horizon, "length", lambda p, _: times(p)[1] - times(p)[0], i)
    model.add(begin == joint.start(i) + written).only_enforce_if(own)
    model.add(finish == joint.end[i]).only_enforce_if(own)
    model.add(begin == behind).only_enforce_if(~own)
    model.add(finish == behind + 1).only_enforce_if(~own)
    model.add_implication(~own, written)
    model.add(joint.end[i] == joint.start(i) + 1).only_enforce_if(~own)
    return model.new_interval_var(begin, length, finish, f"time[{i}]")
