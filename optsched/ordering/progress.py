"""Where a search of orders has got to, for a later one of the same graph that goes on from there.

Nothing of it decides whether an answer is right, but for the trees: the orders within a budget are
all in the open parts of its tree, on the word of whoever left them, as a bound is a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.problem import OrderingProblem

MOST_PARTS = 1_024
"""Open parts of all trees; of each of them a matrix of all pairs is in memory."""
MOST_PAIRS = 1_000_000
"""Pairs of all open parts, each counted as often as it is known."""


@dataclass(frozen=True, slots=True)
class OpenTree:
    """The tree of a budget as it was left: every order within the budget is in an open part.

    Parameters
    ----------
    budget
        Live bytes.
    rows
        The open parts: how many pairs are those of the part before, then the others. The pair of
        ops `u` before `v` is the number `u * n + v`.
    at_hand
        So many of them, the last ones, are what is left of one part that was divided for a while.
    root
        Pairs known in all of that part.
    patience
        Branches to look at before it is begun anew.
    """

    budget: int
    rows: tuple[tuple[int, ...], ...]
    at_hand: int = 0
    root: int = 0
    patience: int = 0

    def parts(self, ops: int) -> Iterator[IntArray]:
        """Yield the pairs of each part, shape `(pairs, 2)`.

        Raises
        ------
        ValueError
            If these are no pairs of so many ops.
        """
        known = np.zeros(0, np.int64)
        for shared, *rest in self.rows:
            codes = np.array(rest, np.int64)
            if shared > len(known) or (codes >= ops * ops).any():
                raise ValueError(f"these are no pairs of {ops} ops")
            known = np.append(known[:shared], codes)
            yield np.stack(np.divmod(known, ops), axis=1)

    @property
    def pairs(self) -> int:
        """Pairs of all parts together."""
        known = total = 0
        for shared, *rest in self.rows:
            known = shared + len(rest)
            total += known
        return total


def pack_parts(parts: Sequence[IntArray], ops: int) -> tuple[tuple[int, ...], ...]:
    """Return the rows of :class:`OpenTree` for the pairs of each part."""
    rows, known = [], np.zeros(0, np.int64)
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
    """What a search of orders has behind it, beside its orders and bounds.

    Parameters
    ----------
    steps
        Steps of its schedule that are done, and not done again.
    stride
        Bytes between the bound and the next budget; 0 if no budget was decided.
    blame
        How often contradictions came up at each op of the graph; or empty. Where to look first
        matters more to a tree of precedences than anything else.
    lines
        The op of the blocks of each family that they pass in line, by its place in the block.
    trees
        Open trees, in ids of the problem that they are of; the latest last.
    digest
        Of that problem and of the trees: of another problem they say nothing.
    """

    steps: int = 0
    stride: int = 0
    blame: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    trees: tuple[OpenTree, ...] = ()
    digest: bytes = field(default=b"", repr=False)

    def sealed(self, problem: OrderingProblem) -> OrderProgress:
        """The same with as many trees as are kept, the latest first, and their digest."""
        kept: list[OpenTree] = []
        parts = pairs = 0
        for tree in reversed(self.trees):
            parts, pairs = parts + len(tree.rows), pairs + tree.pairs
            if parts > MOST_PARTS or pairs > MOST_PAIRS:
                break
            kept.append(tree)
        trees = tuple(reversed(kept))
        return replace(self, trees=trees, digest=trees_digest(problem, trees))

    def trees_of(self, problem: OrderingProblem) -> dict[int, OpenTree]:
        """The trees by their budgets; none if they are of another problem or damaged."""
        if not self.trees or self.digest != trees_digest(problem, self.trees):
            return {}
        return {tree.budget: tree for tree in self.trees}

    def of_other_ids(self) -> OrderProgress:
        """What of it holds for an equal graph whose ops have other ids."""
        return OrderProgress(self.steps, self.stride)


NOTHING_BEHIND = OrderProgress()
"""Of a search that begins."""


def trees_digest(problem: OrderingProblem, trees: Sequence[OpenTree]) -> bytes:
    """Return a digest of a problem and its open trees."""
    found = blake2b(repr((problem.base, *trees)).encode(), digest_size=16)
    for row in problem[:-1]:
        found.update(np.int64(len(row)).tobytes() + row.tobytes())
    return found.digest()
