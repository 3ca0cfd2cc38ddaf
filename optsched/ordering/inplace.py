"""In-place savings: bytes that an op saves while it runs, by which of its inputs die at it.

An op may write outputs into inputs that die at it: any matching of available pairs. The heaviest
matching grows with the set of available inputs, and each further input adds no more than it would
have added to a smaller set. So the bytes saved are the maximum over a few *savings*: a number of
bytes, and the inputs that must all be available for it. An input with no other user is always
available. For an op with many inputs, precedences tell which of these are available in every order,
in no order, or together (:mod:`optsched.ordering.availability`); that leaves few savings.

All rules of the search stay valid (:class:`optsched.ordering.rules.OrderingRules`). They compare an
order through states `X` with one through `X | Z` or `X & Z`:

* `X | Z`: more ops have ended, so no op saves less there.
* `X & Z`: let op `v`, which is in `Z`, save less there than at `X`. Then of each input lost some
  other user is in `X` but not in `Z`. The input is live after `X`, after `Z` and after `X & Z`, and
  dead after `X | Z`: `M(X | Z) + M(X & Z) <= M(X) + M(Z)` holds with its bytes to spare. The inputs
  lost are at least as large as the saving: an output fits its input, and an input adds less the
  more others there are.

So states compare as without savings: a saving only lowers the rise of an op. A bound is the minimum
over the savings, each taken as a case of its own.

Example: `v` reads `a` (8 bytes, read by `u` too) and writes 6 bytes. Its one saving is 6 bytes, for
which `v` must be the last user of `a`: if `u` runs before it, `v` rises by 0 instead of 6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from optsched.errors import UsageError
from optsched.model.arrays import GraphArrays, IntArray
from optsched.model.inplace import Pair, matched_bytes
from optsched.ordering.availability import FEW_INPUTS, distinct, find_availability

MOST_SAVINGS = 1_000
"""Most savings of one op; a graph with an op of more is rejected."""


class TooManySavingsError(UsageError):
    """An op has more than :data:`MOST_SAVINGS` savings; `op` is its id."""

    def __init__(self, op: int) -> None:
        super().__init__(f"in-place: op number {op} has over {MOST_SAVINGS} ways to save bytes")
        self.op = op


class Savings(NamedTuple):
    """Savings of all ops: op `v` has the savings `ptr[v]` to `ptr[v + 1]`."""

    ptr: IntArray
    """Shape `(n + 1,)`."""
    value: IntArray
    """Shape `(savings,)`: bytes."""
    need_ptr: IntArray
    need: IntArray
    """`need_ptr` and `need`: rows by saving: the shared buffers, at least one, whose last user must
    be the op."""


Saving = tuple[int, frozenset[int]]
"""Bytes, and the inputs (or shared buffers) that must be available for them."""


def find_savings(
    pairs: Sequence[Pair],
    size: IntArray,
    certain: Collection[int],
    op: int = 0,
    implied: Mapping[int, frozenset[int]] = MappingProxyType({}),
) -> tuple[int, list[Saving]]:
    """Return the bytes saved in any case, and the savings beyond that.

    `implied` has, by input, the inputs that are available whenever it is.

    Of two savings of the same bytes only the one that needs fewer inputs is kept. If an input adds
    nothing to a set, it adds nothing to a larger one, so sets are grown one input at a time.

    Raise `TooManySavingsError` if there are more than :data:`MOST_SAVINGS`; it names the op.
    """

    def worth(inputs: frozenset[int]) -> int:
        available = inputs.union(certain, *(implied.get(source, ()) for source in inputs))
        return matched_bytes([pair for pair in pairs if pair[1] in available], size)

    always = worth(frozenset())
    # Of inputs that are always available together one is enough, which keeps the sets few.
    unsure = distinct(sorted({source for _, source in pairs} - set(certain)), implied)
    found: list[Saving] = []
    # Level k has the sets of k inputs that are worth something, as in the search for frequent
    # sets.
    level = {frozenset[int](): always}
    while level:
        larger: dict[frozenset[int], int] = {}
        for inputs in level:
            for source in unsure:
                more = inputs | {source}
                if source in inputs or more in larger:
                    continue
                below = [level.get(more - {one}) for one in more]
                # Each input of the set must add bytes; otherwise a smaller set has the same worth.
                value = worth(more)
                # None means that a smaller set was worthless already, so that this one cannot be
                # minimal.
                if all(less is not None and value > less for less in below):
                    larger[more] = value
        found += [(value - always, inputs) for inputs, value in larger.items()]
        if len(found) > MOST_SAVINGS:
            raise TooManySavingsError(op)
        level = larger
    return always, found


def _op_savings(
    arrays: GraphArrays, v: int, pairs: Sequence[Pair], certain: set[int]
) -> tuple[int, list[Saving]]:
    """Return the savings of an op, by precedences if it has many inputs."""
    unsure = sorted({source for _, source in pairs} - certain)
    if len(unsure) <= FEW_INPUTS:
        return find_savings(pairs, arrays.size, certain, v)
    known = find_availability(arrays, v, unsure)
    possible = [pair for pair in pairs if pair[1] not in known.never]
    return find_savings(possible, arrays.size, certain | known.certain, v, known.implied)


def graph_savings(
    arrays: GraphArrays, users: IntArray, shared: IntArray
) -> tuple[IntArray, dict[int, list[Saving]]]:
    """Return what each op saves in any case, shape `(n,)`, and the savings of ops beyond that.

    `users` has the number of users of each buffer, `shared` the number by which savings name it;
    both have shape `(m,)`.
    """
    rows: dict[int, list[Pair]] = {}
    for v, output, source in zip(
        arrays.inplace_op.tolist(),
        arrays.inplace_output.tolist(),
        arrays.inplace_source.tolist(),
        strict=True,
    ):
        rows.setdefault(v, []).append((output, source))
    saved = np.zeros(arrays.op_count, np.int64)
    found: dict[int, list[Saving]] = {}
    for v, pairs in rows.items():
        # An input with no other user is dead once the op has read it, in every order.
        certain = {source for _, source in pairs if users[source] == 1}
        saved[v], savings = _op_savings(arrays, v, pairs, certain)
        if savings:
            found[v] = [
                (value, frozenset(shared[list(needs)].tolist())) for value, needs in savings
            ]
    return saved, found


def pack_savings(rows: Sequence[Sequence[Saving]]) -> Savings:
    """Flatten the savings of each op."""
    ptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=ptr[1:])
    savings = [saving for row in rows for saving in row]
    need_ptr = np.zeros(len(savings) + 1, np.int64)
    np.cumsum([len(needs) for _, needs in savings], out=need_ptr[1:])
    return Savings(
        ptr,
        np.array([value for value, _ in savings], np.int64),
        need_ptr,
        np.array([b for _, needs in savings for b in sorted(needs)], np.int64),
    )


def unpack_savings(savings: Savings) -> list[list[Saving]]:
    """Return the savings of each op as a list: the inverse of :func:`pack_savings`."""
    value, ptr, need = savings.value.tolist(), savings.need_ptr.tolist(), savings.need.tolist()
    flat = [(value[i], frozenset(need[ptr[i] : ptr[i + 1]])) for i in range(len(value))]
    return [flat[a:b] for a, b in pairwise(savings.ptr.tolist())]
