"""Inputs that an op may overwrite in every order, in no order, or together with others.

An input is available to an op if all its other users have ended before the op starts. Precedences
decide much of that:

* If all other users are ancestors of the op, the input is available in every order.
* If another user is a descendant of the op, the input is available in no order.
* If the other users of one input, and their ancestors, contain those of a second input, the second
  is available whenever the first is.

Without these facts an op with many inputs has a way to save bytes for each set of them. For
example, a fused kernel of a backward pass makes eight outputs of nine gradients, and later ops read
all nine again: 509 ways, and no order allows any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from optsched.model.arrays import GraphArrays, Rows

FEW_INPUTS = 3
"""Inputs of an op, up to which all sets of them are tried without a look at precedences."""


class Availability(NamedTuple):
    """When inputs are available to an op."""

    certain: frozenset[int]
    """Pairs that are available in every order."""
    never: frozenset[int]
    """Pairs that are available in no order."""
    implied: dict[int, frozenset[int]]
    """By each other input, those that are available whenever it is, itself included."""


def find_availability(arrays: GraphArrays, op: int, inputs: Iterable[int]) -> Availability:
    """Derive from the precedences of a graph when inputs are available to an op."""
    before, after = _reach(arrays.pred, [op]), _reach(arrays.succ, [op])
    certain, never, needs = set(), set(), dict[int, frozenset[int]]()
    for source in inputs:
        # Ancestors always end first, so only the other users decide.
        others = set(arrays.user.row(source).tolist()) - {op} - before
        if others & after:
            never.add(source)
        elif not others:
            certain.add(source)
        else:
            needs[source] = (_reach(arrays.pred, others) | others) - before
    implied = {
        # Fewer ops to wait for means available no later: the needs of one contain those of the
        # other.
        source: frozenset(other for other, less in needs.items() if less <= ended)
        for source, ended in needs.items()
    }
    return Availability(frozenset(certain), frozenset(never), implied)


def _reach(rows: Rows, ops: Iterable[int]) -> frozenset[int]:
    """Return the ops that can be reached from some ops, without these."""
    found: set[int] = set()
    stack: list[int] = list(ops)
    while stack:
        for u in rows.row(stack.pop()).tolist():
            if u not in found:
                found.add(u)
                stack.append(u)
    return frozenset(found)


def distinct(inputs: Sequence[int], implied: Mapping[int, frozenset[int]]) -> list[int]:
    """Return one input of each set of inputs that are available together."""

    def together(one: int, other: int) -> bool:
        return one in implied.get(other, ()) and other in implied.get(one, ())

    # The first of each such set stands for all of them; which one it is makes no difference.
    return [
        source
        for i, source in enumerate(inputs)
        if not any(together(source, other) for other in inputs[:i])
    ]
