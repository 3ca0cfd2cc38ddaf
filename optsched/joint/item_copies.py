"""Identical ops where offsets count: exchanging two of them maps the items onto each other.

Two ops are identical if they are identical in the program (:mod:`optsched.joint.copies`) and if
exchanging them in the births and users of all items gives the same items: same sizes, alignments,
pins, pools. Such an exchange maps every plan to a plan with the same slab, so that it is enough to
consider orders in which identical ops run by number.

Example: branches `a0` and `a1` make 4 bytes each from the same input, and both results are read by
one op. They are identical, unless one of the two results is pinned or aligned otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from optsched.joint.copies import identical_ops, in_order
from optsched.joint.instance import ModelInstance, ModelItem
from optsched.joint.order_program import OrderProgram


def identical_in_place(instance: ModelInstance, program: OrderProgram) -> list[list[int]]:
    """Return groups of ops; exchanging any two of a group maps plans to plans of the same slab."""
    # Pairs and groups name items by number, which an exchange would change.
    if instance.apart or instance.shared or instance.pairs:
        return []
    looks = Counter(_look(item, {}) for item in instance.items)
    found = []
    for group in identical_ops(program):
        left = list(group)
        while left:
            first = left[0]
            # Compared with the first alone: being exchangeable is transitive.
            same = [v for v in left if v == first or _is_same(instance, looks, first, v)]
            found += [same] if len(same) > 1 else []
            left = [v for v in left if v not in same]
    return found


def exchanged(
    instance: ModelInstance,
    order: Sequence[int],
    offsets: Sequence[int],
    groups: Sequence[Sequence[int]],
) -> tuple[list[int], list[int]]:
    """Return a plan in which identical ops run by number: its order, and offsets by item."""
    made = in_order(order, groups)
    new = dict(zip(order, made, strict=True))
    places: dict[ModelItem, list[int]] = {}
    for item, at in zip(instance.items, offsets, strict=True):
        # An item's offset goes to the item that looks like it after the exchange.
        places.setdefault(_look(item, new), []).append(at)
    return made, [places[_look(item, {})].pop(0) for item in instance.items]


def _is_same(instance: ModelInstance, looks: Counter[ModelItem], u: int, v: int) -> bool:
    new = {u: v, v: u}
    return Counter(_look(item, new) for item in instance.items) == looks


def _look(item: ModelItem, new: dict[int, int]) -> ModelItem:
    """Return everything about an item but its number, after renumbering ops."""
    users = tuple(sorted({new.get(u, u) for u in item.users}))
    return replace(item, id=0, users=users, birth=new.get(item.birth, item.birth))
