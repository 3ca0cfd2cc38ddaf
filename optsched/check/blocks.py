"""The check of identical blocks: sets of ops that may change places, and nothing is different.

Let any two blocks of a family change places, op by op, without a change of the network: bytes born,
precedences, holders of buffers, what may be written into. Then any order within the budget stays
one if blocks change places in it.

*In line.* So if there is an order within the budget there is one in which some op of the blocks,
the same in each, runs in the order in which the blocks are listed.

*States.* Where blocks have changed places in a state, so they have in all that may follow: of such
states one needs to be listed. If the blocks are in line that holds of those beyond the op only:
what is still to come knows of no line among these. The others stay where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from optsched.check.network import Network
from optsched.errors import PlanError

Family: TypeAlias = tuple[Sequence[Sequence[int]], int | None]
"""Blocks, aligned op by op; the place of the op in line, if there is one."""


def check_blocks(network: Network, rows: Sequence[Sequence[int]], line: int | None) -> None:
    """Check that any two of some blocks may change places; two that follow each other are enough.

    Raises
    ------
    PlanError
        If they cannot be swapped, or are not blocks.
    """
    ops = [v for row in rows for v in row]
    known = range(len(network.before))
    if len(rows) < 2 or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise PlanError("blocks: two or more are needed, of equally many ops, one at least")
    if len(set(ops)) != len(ops) or not all(v in known for v in ops):
        raise PlanError("blocks: an op is in one place of one block")
    if line is not None and not 0 <= line < len(rows[0]):
        raise PlanError("blocks: the ordered op is not one of theirs")
    for first, second in pairwise(rows):
        _check_swap(network, first, second)


def _check_swap(network: Network, first: Sequence[int], second: Sequence[int]) -> None:
    """Swap two blocks: all properties of one of their ops must be those of its image."""
    image = dict(zip(first, second, strict=True)) | dict(zip(second, first, strict=True))

    def moved(ops: Iterable[int]) -> frozenset[int]:
        return frozenset(image.get(u, u) for u in ops)

    for v, w in image.items():
        same = network.born[v] == network.born[w]
        same = same and moved(network.before[v]) == network.before[w]
        if not same or moved(network.behind[v]) != network.behind[w]:
            names = network.op_name(v), network.op_name(w)
            raise PlanError("blocks: ops {} and {} are not in the same position".format(*names))
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
        touched = v in image or any(not network.holders[r].isdisjoint(image) for _, r in pairs)
        if touched and [
            (size, {(moved(holders), nth) for holders, nth in roots})
            for size, roots in _overwritten(network, v)
        ] != _overwritten(network, image.get(v, v)):
            raise PlanError(f"blocks: op {network.op_name(v)} does not write into the same inputs")


def _overwritten(network: Network, v: int) -> list[tuple[int, set[tuple[frozenset[int], int]]]]:
    """The outputs of an op as bytes, and the inputs it may write each into.

    An input is told by its holders, and inputs of an op with the same holders by their order.
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
    """Bits for ops, those of a block side by side, so that blocks are parts of a mask.

    The families of blocks are disjoint, and were checked.
    """

    def __init__(self, ops: int, families: Sequence[Family]) -> None:
        listed = [v for rows, _ in families for row in rows for v in row]
        others = set(range(ops)).difference(listed)
        self.bit = {v: 1 << i for i, v in enumerate([*listed, *sorted(others)])}
        self.parts = [(len(rows), len(rows[0]), line) for rows, line in families]

    def mask(self, ops: Iterable[int]) -> int:
        """A set of ops."""
        return sum(self.bit[v] for v in ops)

    def key(self, state: int) -> tuple[tuple[int, ...], ...]:
        """Equal for two states if a swap of blocks turns one into the other."""
        found: list[tuple[int, ...]] = []
        for count, length, line in self.parts:
            full = (1 << length) - 1
            blocks = [state >> length * i & full for i in range(count)]
            state >>= length * count
            if line is not None:
                found.append(tuple(-1 if block >> line & 1 else block for block in blocks))
                blocks = [block for block in blocks if block >> line & 1]
            found.append(tuple(sorted(blocks)))
        return (state,), *found
