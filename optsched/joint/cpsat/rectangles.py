"""The joint model: an order by pairs of ops, and a rectangle in time and space for each item.

::

    space  ^      +-------+
           |      |   y   |         time of i:   [position of its op, end of its last user)
           |   +--+----+--+         space of i:  [offset, offset + room)
           |   |   x   |
           +---+-------+----> time

The order is that of :class:`optsched.joint.cpsat.pairwise.PairwiseOrder`. While op `v` runs, the
items live then are a clique: their sizes add up to at most the slab (:func:`add_loads`). Only ops
that allocate have such a row, since what is live while another op runs was live before it.

An op that writes in place uses two separate choices. The peak counts the heaviest matching of
outputs and dying inputs, regardless of offsets; a packing may share fewer bytes, or others::

    saved[k]    pair k is not counted toward the peak
    shared[k]   the output of pair k has the offset of its input: its rectangle begins a step later

Example: `p` makes `x`, `q` reads `x` and makes `y`. The rectangle of `x` spans the steps of `p` and
`q`, that of `y` begins at the step of `q`, so that both must lie above each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optsched.joint.copies import with_copies_in_order
from optsched.joint.cpsat.dominance import add_left, add_resting, left_order, makers_of, pushed
from optsched.joint.cpsat.hinted import Literal
from optsched.joint.cpsat.pairwise import PairwiseOrder
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.families import ALL_PACKING, PackingFamilies
from optsched.joint.instance import INPUT, ModelInstance
from optsched.joint.item_copies import exchanged, identical_in_place
from optsched.joint.order_program import instance_program


class JointModel(PairwiseOrder):
    """Variables of order and offsets; known lower bounds are given in bytes."""

    def __init__(
        self,
        instance: ModelInstance,
        families: PackingFamilies = ALL_PACKING,
        *,
        peak_bound: int = 0,
        slab_bound: int = 0,
    ) -> None:
        program = instance_program(instance)
        self.groups = identical_in_place(instance, program) if families.copies else []
        super().__init__(with_copies_in_order(program, self.groups))
        self.instance, self.packing = instance, families
        self.makers = makers_of(item.birth for item in instance.items)
        # The proof of resting moves one item at a time: pairs and groups move together.
        self.has_resting = families.resting and not instance.pairs and not instance.shared
        self.offset = [self._offset(i) for i in range(len(instance.items))]
        total = sum(item.size for item in instance.items)
        self.peak = self.integer(0, total, "peak", lambda p: p.peak)
        self.slab = self.integer(0, instance.slab_limit, "slab", lambda p: p.slab)
        self.slabs = self._slabs()
        self.model.add(self.peak >= instance.up(peak_bound))
        self.model.add(self.slab >= instance.up(slab_bound))
        self.end = [self._end(i) for i in range(len(instance.items))]
        self.shared = [
            self.boolean("shared", lambda p, k: p.shared[k], k) for k in range(len(instance.pairs))
        ]
        self.written = self._written()
        add_loads(self)
        add_tops(self)
        add_inplace(self)
        add_groups(self)
        if families.rectangles:
            add_rectangles(self)
        if families.pairs or not families.rectangles:
            add_pairs(self)
        else:
            add_apart(self)
        if families.left:
            add_left(self, self.makers)
        if self.has_resting:
            add_resting(self)

    def settled(self, point: ModelPoint) -> ModelPoint:
        """Return a point of at most the same slab that the dominance constraints allow."""
        order, offsets = list(point.order), list(point.offsets)
        if self.packing.left:
            # Left first: exchanging identical ops keeps it, and pushing concerns offsets alone.
            order = left_order(instance_program(self.instance), order, self.makers)
        if self.groups:
            order, offsets = exchanged(self.instance, order, offsets, self.groups)
        made = ModelPoint(self.instance, tuple(order), tuple(offsets))
        return pushed(made) if self.has_resting else made

    def add_hint(self, point: ModelPoint) -> None:  # type: ignore[override]
        """Add a hint for every variable, from a plan of at most the slab of the point."""
        super().add_hint(self.settled(point))  # type: ignore[arg-type]

    def start(self, i: int) -> Any:
        """Return the step at which an item is allocated."""
        birth = self.instance.items[i].birth
        return 0 if birth == INPUT else self.position[birth]

    def ends_before(self, i: int, j: int) -> Literal:
        """Return a literal that is true if item `i` is released before `j` is allocated."""
        first, second = self.instance.items[i], self.instance.items[j]
        if first.kept or second.birth == INPUT:
            return 0
        return self.released(first.users, second.birth)

    def live(self, i: int, v: int) -> Any:
        """Return a term that is 1 if item `i` is live while op `v` runs, else 0.

        It is linear, as an item is allocated before it is released.
        """
        item = self.instance.items[i]
        # Allocated by then, less released by then.
        made = 1 if item.birth in (INPUT, v) else self.before(item.birth, v)
        return made - (0 if item.kept else self.released(item.users, v))

    def read(self, value: Callable[[Any], int]) -> ModelPoint:  # type: ignore[override]
        """Return the plan that a solution describes."""
        order = super().read(value).order
        return ModelPoint(self.instance, order, tuple(value(at) for at in self.offset))

    def _offset(self, i: int) -> Any:
        item = self.instance.items[i]
        if item.pin is not None:
            return item.pin
        # In multiples of the alignment, so that no constraint is needed for it.
        highest = (self.instance.slab_limits[item.pool] - item.room) // item.alignment
        return self.integer(0, highest, "slot", ModelPoint.slot, i) * item.alignment

    def _slabs(self) -> dict[str, Any]:
        """Return the slab of each pool; with one pool it is the total."""
        limits = self.instance.slab_limits
        if len(limits) == 1:
            return dict.fromkeys(limits, self.slab)
        slabs = {
            pool: self.integer(0, limit, "slab", ModelPoint.slab_of, pool)
            for pool, limit in limits.items()
        }
        self.model.add(self.slab == sum(slabs.values()))
        return slabs

    def _end(self, i: int) -> Any:
        """Return the first step after the live range of an item."""
        item = self.instance.items[i]
        if item.kept:
            return self.instance.horizon
        users = self.instance.last_users(i)
        if len(users) == 1:
            return self.position[users[0]] + 1
        windows = [self.instance.step_windows[u] for u in users]
        # The last user ends no sooner than the latest of the first steps.
        low, high = (1 + max(window[at] for window in windows) for at in (0, 1))
        end = self.integer(low, high, "end", lambda p, i: p.spans[i][1], i)
        self.model.add_max_equality(end, [self.position[u] + 1 for u in users])
        return end

    def _written(self) -> dict[int, Any]:
        """Return a literal for each output that may be written into an input."""
        pairs = self.instance.pairs
        rows: dict[int, list[Any]] = {}
        for pair, flag in zip(pairs, self.shared, strict=True):
            rows.setdefault(pair.output, []).append(flag)
        found = {}
        for i, flags in rows.items():
            found[i] = self.boolean("written", lambda p, i: i in p.written, i)
            # 0 or 1, which also means: into one input at most.
            self.model.add(found[i] == sum(flags))
        return found


def add_loads(joint: JointModel) -> None:
    """Require that the units live while an op runs are at most the peak, and the pool's slab.

    While an op runs that allocates nothing, only items are live that were live while an earlier op
    ran, or before the first one.
    """
    instance, program = joint.instance, joint.program
    joint.model.add(joint.peak >= program.base)
    joint.model.add(joint.peak <= joint.slab)
    for v in range(len(program)):
        if v in joint.makers or joint.packing.all_steps:
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


def _saved_in(joint: JointModel, pool: str, v: int) -> Any:
    """Return the units of a pool that an op does not allocate, as it writes in place."""
    items, pairs = joint.instance.items, joint.instance.pairs
    return sum(
        items[pair.output].size * flag
        for pair, flag in zip(pairs, joint.saved, strict=True)
        if pair.op == v and items[pair.output].pool == pool
    )


def add_tops(joint: JointModel) -> None:
    """Require that every item ends at or below the top of its pool's slab."""
    for item, offset in zip(joint.instance.items, joint.offset, strict=True):
        joint.model.add(offset + item.room <= joint.slabs[item.pool])


def add_inplace(joint: JointModel) -> None:
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


def add_groups(joint: JointModel) -> None:
    """Require that items of a group start at the same unit; their live ranges never overlap."""
    for first, *others in (group for group in joint.instance.shared if group):
        for i in others:
            joint.model.add(joint.offset[i] == joint.offset[first])


def add_rectangles(joint: JointModel) -> None:
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


def add_pairs(joint: JointModel) -> None:
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
                joint.model.add_bool_or([*free, joint_below(joint, i, j), joint_below(joint, j, i)])


def joint_below(joint: JointModel, i: int, j: int) -> Any:
    """Return a literal that implies that item `i` ends at or below the offset of `j`."""
    room = joint.instance.items[i].room
    made = joint.boolean(
        "below", lambda p, i, j: p.offsets[i] + joint.instance.items[i].room <= p.offsets[j], i, j
    )
    joint.model.add(joint.offset[i] + room <= joint.offset[j]).only_enforce_if(made)
    return made


def add_apart(joint: JointModel) -> None:
    """Require that pairs to keep apart do not share a unit at any time."""
    items = joint.instance.items
    for i, j in joint.instance.apart:
        if items[i].pool == items[j].pool:
            joint.model.add_bool_or([joint_below(joint, i, j), joint_below(joint, j, i)])


def _time(joint: JointModel, i: int) -> Any:
    """Return the interval of steps at which an item has bytes of its own."""
    first, last, name = joint.start(i), joint.end[i], f"time[{i}]"
    horizon = joint.instance.horizon
    if i in joint.written:
        return _written_time(joint, i)
    if isinstance(first, int) and isinstance(last, int):
        return joint.model.new_fixed_size_interval_var(first, last - first, name)
    length = joint.integer(1, horizon, "length", lambda p, i: p.spans[i][1] - p.spans[i][0], i)
    return joint.model.new_interval_var(first, length, last, name)


def _written_time(joint: JointModel, i: int) -> Any:
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
