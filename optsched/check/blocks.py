"""The check of identical blocks: sets of ops whose exchange leaves the network unchanged.

If any two blocks of a family can be exchanged, op by op, without changing a number or an edge of
the network, then exchanging them in an order within the budget gives another such order.

*Order of the blocks.* Choose one column, that is, the same op of every block. If there is an order
within the budget, there is also one in which these ops run in the sequence in which the blocks are
listed. The precedences between them can therefore be added.

*States.* If two states differ by an exchange of blocks, so do all their completions. One of the two
needs to be listed. With added precedences two blocks can be exchanged only if the chosen ops of
both have run, as no added precedence concerns their remaining ops. The other blocks stay distinct.

Example: blocks `(a0, b0)` and `(a1, b1)`. After `a0` alone and after `a1` alone the same bytes are
live and the same ops remain, up to the exchange, so a proof lists one of these states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from optsched.check.network import Network
from optsched.errors import PlanError

Family: TypeAlias = tuple[Sequence[Sequence[int]], int | None]
"""A row per block, with corresponding ops in one column; the column that runs in row order."""


def check_blocks(network: Network, rows: Sequence[Sequence[int]], column: int | None) -> None:
    """Check that any two blocks can be exchanged; exchanges of neighboring rows generate all.

    Raise `PlanError` if they cannot be swapped, or are not blocks.
    """
    ops = [v for row in rows for v in row]
    known = range(len(network.before))
    if len(rows) < 2 or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise PlanError("blocks: two or more are needed, of equally many ops, one at least")
    if len(set(ops)) != len(ops) or not all(v in known for v in ops):
        raise PlanError("blocks: an op is in one place of one block")
    if column is not None and not 0 <= column < len(rows[0]):
        raise PlanError("blocks: the ordered op is not one of theirs")
    for first, second in pairwise(rows):
        _check_swap(network, first, second)


def _check_swap(network: Network, first: Sequence[int], second: Sequence[int]) -> None:
    """Swap two blocks; an op's image, which takes its place, must have the op's properties."""
    image = dict(zip(first, second, strict=True)) | dict(zip(second, first, strict=True))

    def moved(ops: Iterable[int]) -> frozenset[int]:
        return frozenset(image.get(u, u) for u in ops)

    for v, w in image.items():
        same = network.born[v] == network.born[w]
        same = same and moved(network.before[v]) == network.before[w]
        if not same or moved(network.after[v]) != network.after[w]:
            names = network.op_name(v), network.op_name(w)
            raise PlanError("blocks: ops {} and {} are not in the same position".format(*names))
    # Some buffers may be alike, so they are counted by holders and size, before and after the swap.
    held = Counter[tuple[frozenset[int], int]]()
    for b, holders in network.holders.items():
        if not holders.isdisjoint(image):
            size = network.graph.buffers[b].size
            held[frozenset(holders), size] += 1
            held[moved(holders), size] -= 1
    if any(held.values()):
        name = network.op_name(first[0])
        raise PlanError(f"blocks: ops of {name} and its image do not hold the same buffers")
    for v, pairs in network.pairs.items():
        # Ops that write into an input held by the blocks are affected by the swap as well.
        touched = v in image or any(not network.holders[r].isdisjoint(image) for _, r in pairs)
        if touched and [
            (size, {(moved(holders), nth) for holders, nth in roots})
            for size, roots in _overwritten(network, v)
        ] != _overwritten(network, image.get(v, v)):
            raise PlanError(f"blocks: op {network.op_name(v)} does not write into the same inputs")


def _overwritten(network: Network, v: int) -> list[tuple[int, set[tuple[frozenset[int], int]]]]:
    """Return the bytes of each output of an op, and the inputs that it may overwrite.

    An input is identified by its holders. Inputs with equal holders are released together, so only
    their being different matters, and they are numbered; what an op saves is the output's bytes.
    """
    pairs = network.pairs.get(v, [])
    tokens: dict[int, tuple[frozenset[int], int]] = {}
    count = Counter[frozenset[int]]()
    for root in sorted({root for _, root in pairs}):
        holders = frozenset(network.holders[root])
        tokens[root] = holders, count[holders]
        count[holders] += 1
    return [
        (network.graph.buffers[output].size, {tokens[r] for o, r in pairs if o == output})
        for output in sorted({output for output, _ in pairs})
    ]


class Layout:
    """A bit for each op; the ops of a block have adjacent bits, so a shift cuts a block out.

    The families of blocks are disjoint, and were checked.
    """

    def __init__(self, ops: int, families: Sequence[Family]) -> None:
        listed = [v for rows, _ in families for row in rows for v in row]
        others = set(range(ops)).difference(listed)
        self.bit = {v: 1 << i for i, v in enumerate([*listed, *sorted(others)])}
        self.parts = [(len(rows), len(rows[0]), column) for rows, column in families]

    def mask(self, ops: Iterable[int]) -> int:
        """Return the set of some ops as a mask."""
        return sum(self.bit[v] for v in ops)

    def key(self, state: int) -> tuple[tuple[int, ...], ...]:
        """Return a key that two states share if a swap of blocks turns one into the other."""
        found: list[tuple[int, ...]] = []
        for count, length, column in self.parts:
            full = (1 << length) - 1
            blocks = [state >> length * i & full for i in range(count)]
            state >>= length * count
            if column is not None:
                # A block is listed at its place until its ordered op has run. After that it leaves
                # -1 there and is listed among the blocks that can be exchanged.
                found.append(tuple(-1 if block >> column & 1 else block for block in blocks))
                blocks = [block for block in blocks if block >> column & 1]
            # Sorted: the same blocks in another sequence give the same key.
            found.append(tuple(sorted(blocks)))
        # The ops outside all blocks are left in `state`.
        return (state,), *found
