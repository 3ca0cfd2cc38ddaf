"""The state of an unfinished search of orders, from which a later search of the graph resumes.

Most of it only decides where the later search looks first. The trees are the exception: an open
tree states that every order within its budget is in one of its open parts, which the later search
does not prove again. A digest ties the trees to their problem.

Example: the tree of budget 84 has three open parts when the time is up. The later search proves
that no order within 84 bytes is in any of them, and the bound is 85.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.problem import OrderingProblem

MOST_PARTS = 1_024
"""Most open parts of all trees together; each of them has a matrix of all pairs in memory."""
MOST_PAIRS = 1_000_000
"""Most pairs of all open parts together; a pair counts once per part that contains it."""


@dataclass(frozen=True, slots=True)
class OpenTree:
    """An unfinished tree of a budget: every order within the budget is in an open part."""

    budget: int
    """Live bytes."""
    rows: tuple[tuple[int, ...], ...]
    """The open parts. A row has the number of leading pairs that it shares with the part before,
    then its other pairs. The pair of ops `u` before `v` is the number `u * n + v`. For example,
    with `n = 10`, `((0, 12, 13), (1, 31))` is a part with the pairs (1, 2), (1, 3), and one with
    (1, 2), (3, 1)."""
    at_hand: int = 0
    """Number of parts, at the end of `rows`, that belong to the part being divided."""
    root: int = 0
    """Number of leading pairs that are known in all of that part."""
    patience: int = 0
    """Branches to look at before the division of that part is restarted."""

    def parts(self, ops: int) -> Iterator[IntArray]:
        """Yield the pairs of each part, shape `(pairs, 2)`.

        Raise `ValueError` if a row does not hold pairs of ops of a graph with `ops` ops.
        """
        known = np.zeros(0, np.int64)
        for shared, *rest in self.rows:
            codes = np.array(rest, np.int64)
            # A damaged file must not be read as a proof: each number is checked before use.
            if shared > len(known) or (codes >= ops * ops).any():
                raise ValueError(f"an open part holds pairs that are not of {ops} ops")
            known = np.append(known[:shared], codes)
            yield np.stack(np.divmod(known, ops), axis=1)

    @property
    def pairs(self) -> int:
        """Number of pairs of all parts together."""
        known = total = 0
        for shared, *rest in self.rows:
            known = shared + len(rest)
            total += known
        return total


def pack_parts(parts: Sequence[IntArray], ops: int) -> tuple[tuple[int, ...], ...]:
    """Return the rows of :class:`OpenTree` for the pairs of each part."""
    rows, known = [], np.zeros(0, np.int64)
    # Neighboring parts of a tree share most of their pairs, so only the difference is stored.
    for pairs in parts:
        codes = pairs @ np.array([ops, 1])
        few = min(len(codes), len(known))
        other = np.flatnonzero(codes[:few] != known[:few])
        shared = int(other[0]) if len(other) else few
        rows.append((shared, *codes[shared:].tolist()))
        known = codes
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class OrderProgress:
    """The state of an unfinished search of orders, apart from its orders and bounds."""

    steps: int = 0
    """Number of steps of the schedule that are done and need not be repeated."""
    stride: int = 0
    """Bytes between the bound and the next budget; 0 if no budget was decided."""
    failure_counts: tuple[int, ...] = ()
    """Failure counts: how often a contradiction was found at each op of the graph; or empty. A tree
    of precedences gains most from looking at the right ops first."""
    columns: tuple[int, ...] = ()
    """For each family of identical blocks, the column of the op that they run in order."""
    trees: tuple[OpenTree, ...] = ()
    """Open trees, in ids of the problem of `digest`; the latest last."""
    digest: bytes = field(default=b"", repr=False)
    """Digest of that problem and of the trees. The trees do not hold for another problem."""

    def sealed(self, problem: OrderingProblem) -> OrderProgress:
        """Return a copy with the latest trees that fit the limits, and their digest."""
        kept: list[OpenTree] = []
        parts = pairs = 0
        # The latest trees first: they belong to the budgets that the search was at.
        for tree in reversed(self.trees):
            parts, pairs = parts + len(tree.rows), pairs + tree.pairs
            if parts > MOST_PARTS or pairs > MOST_PAIRS:
                break
            kept.append(tree)
        trees = tuple(reversed(kept))
        return replace(self, trees=trees, digest=trees_digest(problem, trees))

    def trees_of(self, problem: OrderingProblem) -> dict[int, OpenTree]:
        """Return the trees by budget; empty if they are damaged or belong to another problem."""
        # Ids of another problem would assign the proved parts to other ops.
        if not self.trees or self.digest != trees_digest(problem, self.trees):
            return {}
        return {tree.budget: tree for tree in self.trees}

    def of_other_ids(self) -> OrderProgress:
        """Return the part that also holds for an equal graph with other op ids."""
        return OrderProgress(self.steps, self.stride)


NOTHING_DONE = OrderProgress()
"""The progress of a search before its start."""


def trees_digest(problem: OrderingProblem, trees: Sequence[OpenTree]) -> bytes:
    """Return a digest of a problem and its open trees."""
    found = blake2b(repr((problem.base, *trees)).encode(), digest_size=16)
    # Lengths are hashed too, or two rows could trade a number unnoticed.
    for row in problem[:-1]:
        found.update(np.int64(len(row)).tobytes() + row.tobytes())
    return found.digest()
