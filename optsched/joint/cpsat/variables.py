"""Variables of the joint model: those of the order, and the offset and live range of each item.

::

    offset[i]   first unit of an item, in multiples of its alignment
    end[i]      step after its last user
    peak, slab  units; with several pools, each has a slab, and `slab` is their sum
    saved[k]    in-place pair k is not counted toward the peak
    shared[k]   the output of pair k has the offset of its input: its rectangle begins a step later

An op that writes in place uses the last two as separate choices. The peak counts the heaviest
matching of outputs and dying inputs, regardless of offsets; a packing may share fewer bytes, or
others.

Example: `p` makes `x`, `q` reads `x` and makes `y`. The end of `x` is `position[q] + 1`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optsched.joint.cpsat.hinted import Literal
from optsched.joint.cpsat.pairwise import PairwiseOrder
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.instance import INPUT, ModelInstance
from optsched.joint.order_program import OrderProgram


class JointVariables(PairwiseOrder):
    """Variables of order and offsets, without the constraints that join them."""

    def __init__(self, instance: ModelInstance, program: OrderProgram) -> None:
        super().__init__(program)
        self.instance = instance
        self.offset = [self._offset(i) for i in range(len(instance.items))]
        total = sum(item.size for item in instance.items)
        self.peak = self.integer(0, total, "peak", lambda p: p.peak)
        self.slab = self.integer(0, instance.slab_limit, "slab", lambda p: p.slab)
        self.slabs = self._slabs()
        self.end = [self._end(i) for i in range(len(instance.items))]
        self.shared = [
            self.boolean("shared", lambda p, k: p.shared[k], k) for k in range(len(instance.pairs))
        ]
        self.written = self._written()

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

    def below(self, i: int, j: int) -> Any:
        """Return a literal that implies that item `i` ends at or below the offset of `j`."""
        room = self.instance.items[i].room
        made = self.boolean(
            "below",
            lambda p, i, j: p.offsets[i] + self.instance.items[i].room <= p.offsets[j],
            i,
            j,
        )
        self.model.add(self.offset[i] + room <= self.offset[j]).only_enforce_if(made)
        return made

    def read(self, value: Callable[[Any], int]) -> ModelPoint:  # type: ignore[override]
        """Return the plan that a solution describes."""
        order = super().read(value).order
        return ModelPoint(self.instance, order, tuple(value(at) for at in self.offset))

    def _offset(self, i: int) -> Any:
        item = self.instance.items[i]
        if item.pin is not None:
            return item.pin
        # In multiples of the alignment, so that no constraint is needed for it.
        highest = self.instance.highest(item) // item.alignment
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
