"""Delta debugging: remove parts that a loss does not need until no part can be removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from optsched.counterexamples import removals
from optsched.counterexamples.removals import Part, without_buffers
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.model.steps import Order

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShrinkMoves(Generic[T]):
    """Moves that make items of one kind smaller."""

    blocks: Callable[[T], Sequence[str]]
    """Names of the parts that are removed in blocks; parts adjacent in time are neighbors."""
    without_block: Callable[[T, Collection[str]], T | None]
    """The item without a block; None if it is invalid."""
    parts: Callable[[T], Iterable[Part]]
    """All single parts."""
    without: Callable[[T, Part], Iterable[T]]
    """The item without a part, in all possible ways; empty if it does not have the part."""
    simpler: Callable[[T], Iterable[T]]
    """Items with equally many parts and simpler numbers."""


def graph_moves(order: Callable[[Graph, int], Order]) -> ShrinkMoves[Graph]:
    """Return moves that remove ops and their buffers, in blocks of a method's order."""
    return ShrinkMoves(
        blocks=lambda graph: [graph.ops[int(v)].name for v in order(graph, 0)],
        without_block=removals.without_ops,
        parts=removals.parts,
        without=removals.without,
        simpler=removals.with_simpler_sizes,
    )


PACKING_MOVES: ShrinkMoves[PackingProblem] = ShrinkMoves(
    blocks=lambda problem: [problem.names[i] for i in problem.start.argsort(kind="stable")],
    without_block=without_buffers,
    parts=lambda problem: [("buffer", name) for name in problem.names],
    without=lambda problem, part: (
        [without_buffers(problem, {part[1]})] if part[1] in problem.names else []
    ),
    simpler=removals.simpler_packings,
)
"""Moves that remove buffers, in blocks by start step and singly, and simplify steps and bytes."""


class Shrinker(Generic[T]):
    """Shrinker of an item that must keep its loss; the smallest item so far survives an interrupt.

    `keeps` returns True if a smaller item still has the loss, `is_over` returns True if time is up.
    At the end, `minimal` is True if every single part was found to be needed.
    """

    def __init__(
        self,
        item: T,
        moves: ShrinkMoves[T],
        keeps: Callable[[T], bool],
        is_over: Callable[[], bool],
    ) -> None:
        self.item, self.moves, self.keeps, self.is_over = item, moves, keeps, is_over
        self.minimal = False

    def run(self) -> None:
        """Remove blocks and single parts and simplify numbers until a round changes nothing."""
        self._drop_blocks()
        changed = True
        while changed and not self.is_over():
            changed = self._drop_parts()
            changed = self._simplify() or changed
        # Minimal only if a full round was tried in time and changed nothing.
        self.minimal = not changed and not self.is_over()

    def _take(self, smaller: T | None) -> bool:
        if smaller is None or not self.keeps(smaller):
            return False
        self.item = smaller
        return True

    def _drop_blocks(self) -> None:
        """Remove halves, quarters and so on: each block or, if that removes more, the rest."""
        names = list(self.moves.blocks(self.item))
        width = len(names) // 2
        while width >= 1 and not self.is_over():
            at = 0
            while at < len(names) and not self.is_over():
                block = names[at : at + width]
                rest = names[:at] + names[at + width :]
                # The rest is larger than the block: removing it brings more.
                if len(rest) > width and self._take(self.moves.without_block(self.item, set(rest))):
                    # Only the block remained, so that the search begins within it.
                    names, at, width = block, 0, max(1, len(block) // 2)
                elif (
                    rest
                    and not self.is_over()
                    and self._take(self.moves.without_block(self.item, set(block)))
                ):
                    names = rest
                else:
                    at += width
            width //= 2

    def _drop_parts(self) -> bool:
        """Try to remove each part once; return True if any was removed."""
        changed = False
        for part in list(self.moves.parts(self.item)):
            if self.is_over():
                return changed
            changed = any(map(self._take, self.moves.without(self.item, part))) or changed
        return changed

    def _simplify(self) -> bool:
        """Simplify numbers until nothing changes; return True if anything changed."""
        changed = False
        again = True
        while again:
            again = False
            for simpler in self.moves.simpler(self.item):
                if self.is_over():
                    return changed
                if self._take(simpler):
                    again = changed = True
                    # The list of simpler items was made for the item as it was.
                    break
        return changed
