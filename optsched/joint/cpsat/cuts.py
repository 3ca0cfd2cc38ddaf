"""Constraints that drop plans for which an equally good one remains, each with a switch.

A *canonical* plan obeys all of them at once; :func:`optsched.joint.cpsat.canonical.canonical`
makes any plan canonical without raising peak or slab, which is both the proof that the cuts are
sound together and the way a warm start is turned into a feasible hint.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from optsched.joint.cpsat.constraints import add_clause
from optsched.joint.cpsat.instance import INPUT, Instance, Item
from optsched.joint.cpsat.variables import Point, Variables


@dataclass(frozen=True, slots=True)
class Cuts:
    """One switch for each rule.

    Parameters
    ----------
    twin_ops
        Ops with equal neighbours and equal items run by ascending id: exchanging two of them,
        with what they allocate, changes nothing else.
    twin_items
        Items with equal birth, users, size and alignment lie by ascending id: they are live at
        the same steps, so exchanging their offsets changes nothing.
    early_frees
        An op that allocates nothing runs as soon as it may: at its new step nothing is live but
        what was live a step before, and elsewhere live ranges only shrink.
    late_allocs
        An op that surely releases nothing, and whose items are all live when its first successor
        runs, runs right before that: the mirror of the rule above.
    ground
        Without pins, some item of each pool lies at 0: else all of them could be moved down.
    """

    twin_ops: bool = True
    twin_items: bool = True
    early_frees: bool = True
    late_allocs: bool = True
    ground: bool = True


NO_CUTS = Cuts(False, False, False, False, False)
"""The plain model."""


def add_cuts(variables: Variables, cuts: Cuts) -> None:
    """Add the constraints of every rule that is switched on and applies to this model."""
    if variables.ordered:
        if cuts.twin_ops:
            add_twin_ops(variables)
        if cuts.early_frees:
            add_early_frees(variables)
        if cuts.late_allocs:
            add_late_allocs(variables)
    if variables.placed:
        if cuts.twin_items:
            add_twin_items(variables)
        if cuts.ground:
            add_ground(variables)


def add_twin_ops(variables: Variables) -> None:
    """Twins are done by ascending id."""
    for twins in twin_ops(variables.instance):
        for u, v in pairwise(twins):
            early, late = variables.windows[v]
            for step in range(early, late + 1):
                add_clause(variables, variables.done_by(v, step), variables.done_by(u, step - 1))


def add_twin_items(variables: Variables) -> None:
    """Twins lie by ascending id."""
    items = variables.instance.items
    for twins in twin_items(variables.instance):
        for i, j in pairwise(twins):
            variables.model.add(variables.offset[i] + items[i].size <= variables.offset[j])


def add_early_frees(variables: Variables) -> None:
    """While an op of this kind could run but has not, only ops of this kind run."""
    instance = variables.instance
    ops = early_frees(instance)
    for step in range(instance.op_count if ops else 0):
        running = sum(variables.done_by(v, step) - variables.done_by(v, step - 1) for v in ops)
        for v in ops:
            if step <= variables.windows[v][1]:
                ready = [variables.done_by(u, step - 1) for u in instance.preds[v]]
                waiting = 1 - variables.done_by(v, step - 1)
                variables.model.add(running >= waiting + sum(ready) - len(ready))


def add_late_allocs(variables: Variables) -> None:
    """After an op of this kind only ops of this kind run until its first successor does."""
    instance = variables.instance
    ops = late_allocs(instance)
    for step in range(1, instance.op_count if ops else 0):
        running = sum(variables.done_by(v, step) - variables.done_by(v, step - 1) for v in ops)
        for v in ops:
            if step > variables.windows[v][0]:
                begun = sum(variables.done_by(w, step) for w in instance.succs[v])
                variables.model.add(running >= variables.done_by(v, step - 1) - begun)


def add_ground(variables: Variables) -> None:
    """Some item of each pool lies at 0."""
    items = variables.instance.items
    for pool in variables.instance.pools:
        inside = [i for i, item in enumerate(items) if item.pool == pool]
        if any(items[i].pin is not None for i in inside):
            continue
        lowest = []
        for i in inside:
            grounded = variables.boolean(f"grounded[{i}]", partial(_is_grounded, i))
            variables.model.add(variables.offset[i] == 0).only_enforce_if(grounded)
            lowest.append(grounded)
        variables.model.add_bool_or(lowest)


def early_frees(instance: Instance) -> tuple[int, ...]:
    """Ops at which no item is born."""
    births = {item.birth for item in instance.items}
    return tuple(v for v in range(instance.op_count) if v not in births)


def late_allocs(instance: Instance) -> tuple[int, ...]:
    """Ops that surely release nothing and whose items are live when any successor runs."""
    found = set(range(instance.op_count)) - set(early_frees(instance))
    for item in instance.items:
        if item.kept:
            continue
        users = sum(1 << u for u in item.users)
        for u in item.users:
            # Some other user must come behind `u`, whether the item was born at `u` or before.
            if not instance.descendants[u] & users:
                found.discard(u)
    return tuple(v for v in sorted(found) if instance.succs[v])


def twin_ops(instance: Instance) -> list[tuple[int, ...]]:
    """Classes of ops that an automorphism of the instance may permute at will."""
    born: list[list[Hashable]] = [[] for _ in instance.preds]
    foreign: list[list[int]] = [[] for _ in instance.preds]
    for i, item in enumerate(instance.items):
        if item.birth != INPUT:
            born[item.birth].append(signature(item, without=item.birth))
        for u in item.users:
            if u != item.birth:
                foreign[u].append(i)
    classes: dict[Hashable, list[int]] = {}
    for v in range(instance.op_count):
        items = tuple(sorted(born[v], key=repr))
        key = (instance.preds[v], instance.succs[v], tuple(foreign[v]), items)
        classes.setdefault(key, []).append(v)
    return [tuple(twins) for twins in classes.values() if len(twins) > 1]


def twin_items(instance: Instance) -> list[tuple[int, ...]]:
    """Classes of items without pins that are live at the same steps whatever the order."""
    classes: dict[Hashable, list[int]] = {}
    for i, item in enumerate(instance.items):
        if item.pin is None and item.size:
            key = (item.birth, signature(item, without=None))
            classes.setdefault(key, []).append(i)
    return [tuple(twins) for twins in classes.values() if len(twins) > 1]


def signature(item: Item, without: int | None) -> Hashable:
    """All that matters of an item but its birth; `without` stands for that op itself."""
    users = tuple(-1 if u == without else u for u in item.users)
    place = (item.size, item.alignment, -1 if item.pin is None else item.pin, item.pool)
    return (*place, item.kept, tuple(sorted(users)), item.parts)


def _is_grounded(i: int, point: Point) -> int:
    return point.offsets[i] == 0
