"""Identical blocks: sets of ops that may change places with each other, op by op.

Micro-batches, heads, branches and experts often are copies of one subgraph between common ops.
Colour refinement gives every op a colour that any symmetry of the problem keeps: from its bytes and
depth, then again and again from the colours around it. An op or a buffer that is alone with its
colour stays where it is; what else hangs together is a block, and blocks with the same colours are
candidates. Ops of one colour in a block correspond by their numbers; where that is wrong, one op of
a colour is told apart in each block.

That only proposes. Two blocks are taken for identical if changing their places, with all other ops
where they are, has been verified to leave the problem as it is: bytes, edges, buffers and ways.

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
"""Rounds of refinement after which colours are taken as they are: they are proposals only."""

MOST_TOLD = 8
"""Refinements, between which one op of a colour is told apart in each block."""

MOST_KINDS = 8
"""Blocks of one family that are not identical to each other, after which no other is looked at."""


def find_blocks(problem: OrderingProblem, check_time: CheckTime = lambda: None) -> list[IntArray]:
    """Return families of identical blocks, each of shape `(blocks, ops of a block)`.

    In a family, ops in the same column change places when two blocks do. Any two blocks of a family
    may change places, and that is verified; blocks of all families are disjoint. Takes a few
    rounds over the problem, and for each block a look at all that it touches.
    """
    colour = _first_colours(problem)
    sets: _Sets | None = None
    kinds: list[list[list[IntArray]]] = []
    for _ in range(MOST_TOLD):
        colour, buffers = _refine(problem, colour, check_time)
        families = _group(problem, colour, buffers)
        check_time()
        if families and sets is None:
            sets = _Sets(problem)
        kinds = [sets.sort_out(family, colour, check_time) for family in families if sets]
        mixed = [
            family
            for family, found in zip(families, kinds, strict=True)
            if len(found) > 1 and _twice(colour[family[0]]) >= 0
        ]
        if not mixed:
            break
        fresh = int(colour.max()) + 1
        for number, family in enumerate(mixed):
            repeated = _twice(colour[family[0]])
            for row in family:
                colour[row[colour[row] == repeated][0]] = fresh + number
    return [np.array(same) for found in kinds for same in found if len(same) > 1]


def _mix(values: Hashes, salt: int) -> Hashes:
    """Numbers that look random, a function of the values; a round of Vigna's splitmix64."""
    out = values + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return out ^ (out >> np.uint64(31))


def _row_sums(ptr: IntArray, values: Hashes) -> Hashes:
    """Sums over rows, modulo 2**64."""
    total = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=total[1:])
    return total[ptr[1:]] - total[ptr[:-1]]


def _number(hashes: Hashes) -> IntArray:
    return np.unique(hashes, return_inverse=True)[1].astype(np.int64)


def _first_colours(problem: OrderingProblem) -> IntArray:
    """Colours by bytes and depth: the longest paths from where orders begin, and to their end."""
    order = topological(problem)
    columns = [problem.rise, problem.delta]
    for ptr, idx, listed in (
        (problem.succ_ptr, problem.succ, order),
        (problem.pred_ptr, problem.pred, order[::-1]),
    ):
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
    problem: OrderingProblem, colour: IntArray, check_time: CheckTime
) -> tuple[IntArray, IntArray]:
    """Tell ops and buffers apart by the colours around them until that makes no more colours."""
    count = 0
    for _ in range(MOST_ROUNDS):
        check_time()
        seen = colour.astype(np.uint64)
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
        colour = _number(hashes)
        known, count = count, int(colour.max(initial=-1)) + 1
        if count == known:
            break
    return colour, _number(held)


def _twice(colours: IntArray) -> int:
    """A colour that occurs more than once, or -1."""
    listed = np.sort(colours)
    repeated = listed[1:][listed[1:] == listed[:-1]]
    return int(repeated[0]) if len(repeated) else -1


def _group(problem: OrderingProblem, colour: IntArray, buffers: IntArray) -> list[list[IntArray]]:
    """What hangs together of ops that share their colour with others, by the colours in it.

    Buffers that are alone with their colour do not hold ops together, nor do two with the same
    users: then the blocks have these in common.
    """
    loose = np.bincount(colour)[colour] > 1
    above = np.arange(len(colour))
    target = np.repeat(np.arange(len(colour)), np.diff(problem.pred_ptr))
    both = loose[problem.pred] & loose[target]
    for u, v in zip(problem.pred[both].tolist(), target[both].tolist(), strict=True):
        above[_top(above, u)] = _top(above, v)
    users = [sorted(row) for row in _sets(problem.user_ptr, problem.user)]
    distinct: dict[tuple[int, ...], int] = {}
    for row, kind in zip(users, buffers.tolist(), strict=True):
        distinct[tuple(row)] = max(kind, distinct.get(tuple(row), -1))
    often = Counter(distinct.values())
    for ops, kind in distinct.items():
        held = [v for v in ops if loose[v]] if often[kind] > 1 else []
        for v in held[1:]:
            above[_top(above, v)] = _top(above, held[0])
    parts: dict[int, list[int]] = {}
    for v in np.flatnonzero(loose).tolist():
        parts.setdefault(_top(above, v), []).append(v)
    families: dict[bytes, list[IntArray]] = {}
    for part in parts.values():
        at = np.array(part)
        families.setdefault(np.sort(colour[at]).tobytes(), []).append(at)
    return [family for family in families.values() if len(family) > 1]


def _top(above: IntArray, v: int) -> int:
    """The op that stands for all that hangs together with one."""
    while above[v] != v:
        above[v] = above[above[v]]
        v = int(above[v])
    return v


class _Sets:
    """A problem as sets, to see what changing places does to it."""

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
        self, family: Sequence[IntArray], colour: IntArray, check_time: CheckTime
    ) -> list[list[IntArray]]:
        """Blocks by what they are identical with; ops of one colour correspond by their numbers."""
        kinds: list[list[IntArray]] = []
        for block in family:
            check_time()
            row = block[np.lexsort((block, colour[block]))]
            for same in kinds:
                if self.may_swap(same[0].tolist(), row.tolist()):
                    same.append(row)
                    break
            else:
                if len(kinds) < MOST_KINDS:
                    kinds.append([row])
        return kinds

    def may_swap(self, first: Sequence[int], second: Sequence[int]) -> bool:
        """Whether the problem stays as it is if two aligned rows of ops change places.

        It is enough to look at what the ops of one row touch: the change undoes itself.
        """
        image = dict(zip(first, second, strict=True)) | dict(zip(second, first, strict=True))
        if len(image) != 2 * len(first):
            return False

        both = frozenset(image)

        def moved(ops: frozenset[int]) -> frozenset[int]:
            # Thousands of ops may be in there, but few that change places.
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
        as_is = Counter((self.users[b], self.size[b]) for b in touched)
        if as_is != Counter((moved(self.users[b]), self.size[b]) for b in touched):
            return False
        saving = {v for b in touched for v in self.users[b]}.union(image) if self.worth else ()
        return all(
            Counter((value, frozenset(map(moved, needs))) for value, needs in self.savings(v))
            == Counter(self.savings(image.get(v, v)))
            for v in saving
        )

    def savings(self, v: int) -> list[tuple[int, frozenset[frozenset[int]]]]:
        """What an op may save, by the users of the buffers that must be free for it."""
        first, end = self.problem.saving_ptr[v : v + 2].tolist()
        return [
            (self.worth[i], frozenset(self.users[b] for b in self.needs[i]))
            for i in range(first, end)
        ]


def _sets(ptr: IntArray, idx: IntArray) -> list[frozenset[int]]:
    return list(map(frozenset, as_lists(ptr, idx)))
