"""The joint model: variables of order and offsets, with the families of constraints between them.

The order is that of :class:`optsched.joint.cpsat.pairwise.PairwiseOrder`; rectangles and loads are
those of :mod:`optsched.joint.cpsat.rectangles`, and :mod:`optsched.joint.cpsat.dominance` keeps one
of several plans that are equally good.

Example: for the graph `p` makes `x`, `q` reads `x` and makes `y`, with 4 bytes each, the model has
one order, and its least slab is 8.
"""

from __future__ import annotations

from optsched.joint.copies import with_copies_in_order
from optsched.joint.cpsat.dominance import add_left, add_resting, left_order, makers_of, pushed
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.cpsat.rectangles import (
    add_apart,
    add_groups,
    add_inplace,
    add_loads,
    add_pairs,
    add_rectangles,
    add_tops,
)
from optsched.joint.cpsat.variables import JointVariables
from optsched.joint.families import ALL_PACKING, PackingFamilies
from optsched.joint.instance import ModelInstance
from optsched.joint.item_copies import exchanged, identical_in_place
from optsched.joint.order_program import instance_program


class JointModel(JointVariables):
    """Model of order and offsets; known lower bounds are given in bytes."""

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
        super().__init__(instance, with_copies_in_order(program, self.groups))
        self.packing = families
        self.makers = makers_of(item.birth for item in instance.items)
        # The proof of resting moves one item at a time: pairs and groups move together.
        self.has_resting = families.resting and not instance.pairs and not instance.shared
        self.model.add(self.peak >= instance.up(peak_bound))
        self.model.add(self.slab >= instance.up(slab_bound))
        add_loads(self, None if families.all_steps else self.makers)
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
