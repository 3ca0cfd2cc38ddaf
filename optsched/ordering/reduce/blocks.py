"""Identical blocks: disjoint sets of ops that can be swapped, op by op, without changing anything.

Micro-batches, heads, branches and experts often are copies of one subgraph between common ops.
Color refinement gives every op a color that all symmetries of the problem preserve: first from its
bytes and depth, then repeatedly from the colors of its neighbors. An op or a buffer whose color is
unique stays in place under all symmetries. The connected components of the other ops are blocks,
and blocks with equal colors are candidates. Ops of the same color in two blocks are matched by
their numbers. If that fails, one op of a repeated color gets a new color in each block, and the
refinement is repeated.

Colors only propose blocks. Two blocks count as identical only after a check that swapping them,
with all other ops fixed, leaves bytes, edges, buffers and savings unchanged.

Example: `x` feeds `a1` and `b1`, `a1` feeds `a2`, `b1` feeds `b2`; `join` reads both. `a1` and
`b1` share a color, as do `a2` and `b2`; without `x` and `join` the blocks are (a1, a2), (b1, b2).

References
----------
Weisfeiler and Leman, "The reduction of a graph to canonical form", 1968; Cardon and Crochemore,
"Partitioning a graph in O(|A| log |V|)", 1982.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import IntArray
from optsched.ordering.problem import OrderingProblem, as_lists, topological
from optsched.ordering.reduce.transitive import CheckTime

Hashes = npt.NDArray[np.uint64]

MOST_ROUNDS = 64
"""Most rounds of a refinement; coarser colors only mean worse proposals."""

MOST_TOLD = 8
"""Most refinements; between two, one op of a repeated color gets a new color in each block."""

MOST_KINDS = 8
"""Most classes of identical blocks in a family; a block that would start another is ignored."""


def find_blocks(problem: OrderingProblem, check_time: CheckTime = lambda: None) -> list[IntArray]:
    """Return families of identical blocks, each of shape `(blocks, ops of a block)`.

    When two blocks of a family are swapped, ops in the same column change places. That any two
    blocks of a family can be swapped is verified. Blocks of all families are disjoint. The time is
    that of a few passes over the problem.
    """
    color = _first_colors(problem)
    sets: _Sets | None = None
    kinds: list[list[list[IntArray]]] = []
    for _ in range(MOST_TOLD):
        # Each refinement may split blocks that were matched wrongly in the one before.
        color, buffers = _refine(problem, color, check_time)
        families = _group(problem, color, buffers)
        check_time()
        # Sets take time to build; most problems have no candidates at all.
        if families and sets is None:
            sets = _Sets(problem)
        kinds = [sets.sort_out(family, color, check_time) for family in families if sets]
        mixed = [
            family
            for family, found in zip(families, kinds, strict=True)
            if len(found) > 1 and _twice(color[family[0]]) >= 0
        ]
        if not mixed:
            break
        # Blocks of equal colors that are not identical were matched wrongly, op by op: give one op
        # of a repeated color a new color in each block of the family, and refine again.
        fresh = int(color.max()) + 1
        for number, family in enumerate(mixed):
            repeated = _twice(color[family[0]])
            for row in family:
                color[row[color[row] == repeated][0]] = fresh + number
    return [np.array(same) for found in kinds for same in found if len(same) > 1]


def _mix(values: Hashes, salt: int) -> Hashes:
    """Return a pseudo-random function of the values: a round of Vigna's splitmix64."""
    out = values + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return out ^ (out >> np.uint64(31))


def _row_sums(ptr: IntArray, values: Hashes) -> Hashes:
    """Return the sums over rows, modulo 2**64."""
    total = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=total[1:])
    return total[ptr[1:]] - total[ptr[:-1]]


def _number(hashes: Hashes) -> IntArray:
    return np.unique(hashes, return_inverse=True)[1].astype(np.int64)


def _first_colors(problem: OrderingProblem) -> IntArray:
    """Return colors by bytes and depth, the longest paths from a source and to a sink."""
    order = topological(problem)
    columns = [problem.rise, problem.delta]
    for ptr, idx, listed in (
        (problem.succ_ptr, problem.succ, order),
        (problem.pred_ptr, problem.pred, order[::-1]),
    ):
        # Longest paths, as a shortest one would be equal for many ops that are not alike.
        ends, beside, depth = ptr.tolist(), idx.tolist(), [0] * len(order)
        for v in listed:
            for w in beside[ends[v] : ends[v + 1]]:
                depth[w] = max(depth[w], depth[v] + 1)
        columns.append(np.array(depth, np.int64))
    hashes = np.zeros(len(order), np.uint64)
    for salt, column in enumerate(columns):
        hashes = _mix(hashes + column.astype(np.uint64), salt + 1)
    return _number(hashes)


def _refine(
    problem: OrderingProblem, color: IntArray, check_time: CheckTime
) -> tuple[IntArray, IntArray]:
    """Refine the colors of ops and buffers by those of their neighbors to a fixpoint."""
    count = 0
    # A color contains that of the round before, so colors only ever split.
    for _ in range(MOST_ROUNDS):
        check_time()
        # The hash of a buffer combines its users and size; that of an op its own color, its
        # neighbors, its buffers and its savings. Each kind of neighbor has a salt of its own.
        seen = color.astype(np.uint64)
        held = _row_sums(problem.user_ptr, _mix(seen[problem.user], 1))
        held = _mix(held + _mix(problem.size.astype(np.uint64), 2), 3)
        ways = _row_sums(problem.need_ptr, _mix(held[problem.need], 4))
        ways = _mix(ways + _mix(problem.saving.astype(np.uint64), 5), 6)
        hashes = (
            _mix(seen, 7)
            + _row_sums(problem.pred_ptr, _mix(seen[problem.pred], 8))
            + _row_sums(problem.succ_ptr, _mix(seen[problem.succ], 9))
            + _row_sums(problem.read_ptr, _mix(held[problem.read], 10))
            + _row_sums(problem.saving_ptr, _mix(ways, 11))
        )
        color = _number(hashes)
        # No new color: the partition is stable.
        known, count = count, int(color.max(initial=-1)) + 1
        if count == known:
            break
    return color, _number(held)


def _twice(colors: IntArray) -> int:
    """Return a color that occurs more than once, or -1."""
    listed = np.sort(colors)
    repeated = listed[1:][listed[1:] == listed[:-1]]
    return int(repeated[0]) if len(repeated) else -1


def _group(problem: OrderingProblem, color: IntArray, buffers: IntArray) -> list[list[IntArray]]:
    """Return the blocks, grouped by the colors of their ops.

    Blocks are the connected components of the ops whose color is repeated, over edges and buffers.
    A buffer with a unique color does not connect ops, and of several buffers with equal users only
    one counts: blocks have such buffers in common.
    """
    # An op of unique color stays in place under all symmetries, so it belongs to no block.
    loose = np.bincount(color)[color] > 1
    above = np.arange(len(color))
    target = np.repeat(np.arange(len(color)), np.diff(problem.pred_ptr))
    both = loose[problem.pred] & loose[target]
    # Union by edges first, then by shared buffers.
    for u, v in zip(problem.pred[both].tolist(), target[both].tolist(), strict=True):
        above[_top(above, u)] = _top(above, v)
    users = [sorted(row) for row in _sets(problem.user_ptr, problem.user)]
    distinct: dict[tuple[int, ...], int] = {}
    for row, kind in zip(users, buffers.tolist(), strict=True):
        distinct[tuple(row)] = max(kind, distinct.get(tuple(row), -1))
    often = Counter(distinct.values())
    for ops, kind in distinct.items():
        # A buffer of a color that no other has lies outside the blocks and must not join them.
        held = [v for v in ops if loose[v]] if often[kind] > 1 else []
        for v in held[1:]:
            above[_top(above, v)] = _top(above, held[0])
    parts: dict[int, list[int]] = {}
    for v in np.flatnonzero(loose).tolist():
        parts.setdefault(_top(above, v), []).append(v)
    families: dict[bytes, list[IntArray]] = {}
    for part in parts.values():
        at = np.array(part)
        # Blocks can only be identical if the colors of their ops are equal.
        families.setdefault(np.sort(color[at]).tobytes(), []).append(at)
    return [family for family in families.values() if len(family) > 1]


def _top(above: IntArray, v: int) -> int:
    """Return the representative of the component of an op (union-find with path halving)."""
    while above[v] != v:
        above[v] = above[above[v]]
        v = int(above[v])
    return v


class _Sets:
    """A problem as sets, to check the effect of a swap."""

    def __init__(self, problem: OrderingProblem) -> None:
        self.problem = problem
        self.effect = list(zip(problem.rise.tolist(), problem.delta.tolist(), strict=True))
        self.pred = _sets(problem.pred_ptr, problem.pred)
        self.succ = _sets(problem.succ_ptr, problem.succ)
        self.read = _sets(problem.read_ptr, problem.read)
        self.users = _sets(problem.user_ptr, problem.user)
        self.size: list[int] = problem.size.tolist()
        self.needs = _sets(problem.need_ptr, problem.need)
        self.worth: list[int] = problem.saving.tolist()

    def sort_out(
        self, family: Sequence[IntArray], color: IntArray, check_time: CheckTime
    ) -> list[list[IntArray]]:
        """Divide a family into classes of identical blocks; ops of a color match by number."""
        kinds: list[list[IntArray]] = []
        for block in family:
            check_time()
            row = block[np.lexsort((block, color[block]))]
            for same in kinds:
                if self.may_swap(same[0].tolist(), row.tolist()):
                    same.append(row)
                    break
            else:
                # A family of many kinds is one whose proposals failed; comparing with all would be
                # quadratic.
                if len(kinds) < MOST_KINDS:
                    kinds.append([row])
        return kinds

    def may_swap(self, first: Sequence[int], second: Sequence[int]) -> bool:
        """Return True if swapping two aligned rows of ops leaves the problem unchanged.

        A swap is its own inverse, so it is enough to compare in one direction.
        """
        image = dict(zip(first, second, strict=True)) | dict(zip(second, first, strict=True))
        # The rows overlap, so that a swap is not defined.
        if len(image) != 2 * len(first):
            return False

        both = frozenset(image)

        def moved(ops: frozenset[int]) -> frozenset[int]:
            # The set may have thousands of ops, but few are swapped.
            here = ops & both
            there = frozenset(image[u] for u in here)
            return ops if here == there else (ops - here) | there

        for v, w in zip(first, second, strict=True):
            if (
                self.effect[v] != self.effect[w]
                or moved(self.pred[v]) != self.pred[w]
                or moved(self.succ[v]) != self.succ[w]
            ):
                return False
        touched = {b for v in image for b in self.read[v]}
        # Buffers count with multiplicity, as two may have the same users and size.
        as_is = Counter((self.users[b], self.size[b]) for b in touched)
        if as_is != Counter((moved(self.users[b]), self.size[b]) for b in touched):
            return False
        # Only ops that use a buffer of the blocks, or are in them, can have other savings after a
        # swap.
        saving = {v for b in touched for v in self.users[b]}.union(image) if self.worth else ()
        return all(
            Counter((value, frozenset(map(moved, needs))) for value, needs in self.savings(v))
            == Counter(self.savings(image.get(v, v)))
            for v in saving
        )

    def savings(self, v: int) -> list[tuple[int, frozenset[frozenset[int]]]]:
        """Return the savings of an op: bytes, and the users of the buffers that they need."""
        first, end = self.problem.saving_ptr[v : v + 2].tolist()
        return [
            (self.worth[i], frozenset(self.users[b] for b in self.needs[i]))
            for i in range(first, end)
        ]


def _sets(ptr: IntArray, idx: IntArray) -> list[frozenset[int]]:
    return list(map(frozenset, as_lists(ptr, idx)))
