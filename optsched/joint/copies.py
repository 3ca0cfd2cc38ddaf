"""Identical ops of a program in a canonical order: one of their sequences is enough.

Exchanging two identical ops in an order gives an order of the same loads, so it is enough to
consider the orders in which they run by number.

Example: three equal branches `a0`, `a1`, `a2`. Edges from `a0` to `a1` and from `a1` to `a2` leave
one of their six sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import pairwise

from optsched.joint.order_program import OrderProgram


def topological(program: OrderProgram, order: Sequence[int]) -> list[int]:
    """Return an order of the program that takes, of the ops that can run, the first of another."""
    step = {v: at for at, v in enumerate(order)}
    # An op may list a predecessor twice, which must count once.
    missing = [len(set(row)) for row in program.preds]
    ready = [step[v] for v, count in enumerate(missing) if not count]
    heapify(ready)
    found = []
    while ready:
        found.append(order[heappop(ready)])
        for w in set(program.succs[found[-1]]):
            missing[w] -= 1
            if not missing[w]:
                heappush(ready, step[w])
    return found


def identical_ops(program: OrderProgram) -> list[list[int]]:
    """Return groups of ops; swapping any two of a group leaves the program unchanged."""
    uses: list[list[int]] = [[] for _ in program.preds]
    for b, (_, users) in enumerate(program.shared):
        for v in users:
            uses[v].append(b)
    # Savings tell ops apart by what they write into, so these ops are left alone.
    special = {v for saving in program.savings for v in (saving.op, *saving.needs)}
    groups: dict[object, list[int]] = {}
    for v, before in enumerate(program.preds):
        if v not in special:
            numbers = program.rise[v], program.delta[v]
            # Equal in all that a program knows of an op: exchanging two of them changes no number.
            key = (before, tuple(sorted(program.succs[v])), numbers, tuple(uses[v]))
            groups.setdefault(key, []).append(v)
    return [group for group in groups.values() if len(group) > 1]


def with_copies_in_order(program: OrderProgram, groups: Sequence[Sequence[int]]) -> OrderProgram:
    """Return the program with edges that let identical ops run in the order of their numbers."""
    rows = [list(row) for row in program.preds]
    for group in groups:
        for u, v in pairwise(group):
            rows[v].append(u)
    return replace(program, preds=tuple(map(tuple, rows)))


def in_order(order: Sequence[int], groups: Sequence[Sequence[int]]) -> list[int]:
    """Return an order with identical ops exchanged so that they run in the order of their numbers.

    Its peak is the same.
    """
    found = list(order)
    step = {v: at for at, v in enumerate(found)}
    for group in groups:
        for at, v in zip(sorted(step[v] for v in group), sorted(group), strict=True):
            found[at] = v
    return found
