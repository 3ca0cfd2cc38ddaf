"""Delta debugging: take away what a loss does not need, until nothing more can go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from optsched.counterexamples import reduce
from optsched.counterexamples.reduce_packing import simpler_packings, without_buffers
from optsched.model.graph import Graph
from optsched.model.liveness import Order
from optsched.model.packing_problem import PackingProblem

T = TypeVar("T")
Part = tuple[str, ...]


class Ways(Protocol[T]):
    """How things of one kind are made smaller."""

    def blocks(self, item: T) -> Sequence[str]:
        """Return what goes in blocks: names, neighbours in time beside each other."""

    def without_block(self, item: T, names: Collection[str]) -> T | None:
        """Return the thing without a block."""

    def parts(self, item: T) -> Iterator[Part]:
        """Yield every single part."""

    def without(self, item: T, part: Part) -> T | None:
        """Return the thing without a part; None if it has none such."""

    def simpler(self, item: T) -> Iterator[T]:
        """Yield things with as many parts and simpler numbers."""


class GraphWays:
    """Ops and what they write go in blocks; then ops, reads, control edges, buffers, bytes.

    Parameters
    ----------
    order
        Puts the ops beside each other as the method runs them.
    """

    def __init__(self, order: Callable[[Graph], Order]) -> None:
        self.order = order

    def blocks(self, item: Graph) -> Sequence[str]:
        """Return the ops in the method's order."""
        return [item.ops[int(v)].name for v in self.order(item)]

    def without_block(self, item: Graph, names: Collection[str]) -> Graph | None:
        """Return the graph without some ops."""
        return reduce.without_ops(item, set(names))

    def parts(self, item: Graph) -> Iterator[Part]:
        """Yield ops, then edges, then buffers."""
        return reduce.parts(item)

    def without(self, item: Graph, part: Part) -> Graph | None:
        """Return the graph without a part."""
        return reduce.without(item, part)

    def simpler(self, item: Graph) -> Iterator[Graph]:
        """Yield the graph with simpler sizes."""
        return reduce.with_simpler_sizes(item)


class PackingWays:
    """Buffers go, in blocks and one by one; then steps and bytes."""

    def blocks(self, item: PackingProblem) -> Sequence[str]:
        """Return the buffers by their starts."""
        return [item.names[i] for i in item.start.argsort(kind="stable")]

    def without_block(self, item: PackingProblem, names: Collection[str]) -> PackingProblem | None:
        """Return the packing without some buffers."""
        return without_buffers(item, set(names))

    def parts(self, item: PackingProblem) -> Iterator[Part]:
        """Yield the buffers."""
        return (("buffer", name) for name in item.names)

    def without(self, item: PackingProblem, part: Part) -> PackingProblem | None:
        """Return the packing without a buffer."""
        return without_buffers(item, {part[1]}) if part[1] in item.names else None

    def simpler(self, item: PackingProblem) -> Iterator[PackingProblem]:
        """Yield the packing with fewer steps or simpler sizes."""
        return simpler_packings(item)


class Shrinker(Generic[T]):
    """Makes a thing smaller while it keeps its loss; the smallest so far survives an interrupt.

    Parameters
    ----------
    item
        To start from; it has the loss.
    ways
        How it is made smaller.
    keeps
        Whether a smaller one still has the loss.
    is_over
        Whether time is up.

    Attributes
    ----------
    minimal
        Whether every single part was found to be needed.
    """

    def __init__(
        self,
        item: T,
        ways: Ways[T],
        keeps: Callable[[T], bool],
        is_over: Callable[[], bool],
    ) -> None:
        self.item, self.ways, self.keeps, self.is_over = item, ways, keeps, is_over
        self.minimal = False

    def run(self) -> None:
        """Blocks, then single parts, then numbers, until a round changes nothing."""
        self._drop_blocks()
        changed = True
        while changed and not self.is_over():
            changed = self._drop_parts()
            changed = self._simplify() or changed
        self.minimal = not changed and not self.is_over()

    def _take(self, smaller: T | None) -> bool:
        if smaller is None or not self.keeps(smaller):
            return False
        self.item = smaller
        return True

    def _drop_blocks(self) -> None:
        """Halves, quarters, ...: each block in turn, and all but it first where that is less."""
        names = list(self.ways.blocks(self.item))
        width = len(names) // 2
        while width >= 1 and not self.is_over():
            at = 0
            while at < len(names) and not self.is_over():
                block = names[at : at + width]
                rest = names[:at] + names[at + width :]
                if len(rest) > width and self._take(self.ways.without_block(self.item, rest)):
                    names, at, width = block, 0, max(1, len(block) // 2)
                elif rest and self._take(self.ways.without_block(self.item, block)):
                    names = rest
                else:
                    at += width
            width //= 2

    def _drop_parts(self) -> bool:
        """Try each part once; whether any could go."""
        changed = False
        for part in list(self.ways.parts(self.item)):
            if self.is_over():
                return changed
            changed = self._take(self.ways.without(self.item, part)) or changed
        return changed

    def _simplify(self) -> bool:
        """Simplify numbers as long as that works."""
        changed = False
        again = True
        while again:
            again = False
            for simpler in self.ways.simpler(self.item):
                if self.is_over():
                    return changed
                if self._take(simpler):
                    again = changed = True
                    break
        return changed
