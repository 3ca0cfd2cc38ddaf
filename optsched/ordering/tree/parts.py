"""The parts of a tree that are not refuted yet, shared by its workers.

A part that got lost would count as refuted, and the proof would be wrong. So a part is always added
to its new place before it is removed from the old one: an interrupt at any moment leaves it in at
least one place.

Example: three parts are open. Worker 1 takes one and divides it further; worker 2 can take another
one of the remaining two at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np

from optsched.ordering.tree.propagation import OpenBranch


class TreeParts:
    """Parts of a tree that are not refuted yet; each worker takes one at a time."""

    def __init__(self, parts: Sequence[OpenBranch]) -> None:
        self.waiting: list[OpenBranch] = []
        self.stacks: list[list[OpenBranch]] = []
        self.left = 0
        self.wanted = self.shared = False
        self.lock = Lock()
        self.add(parts)

    def add(self, parts: Sequence[OpenBranch]) -> None:
        """Add parts that no worker has taken."""
        self.waiting += parts
        self.left += len(parts)

    def new_stack(self) -> list[OpenBranch]:
        """Return an empty stack for the open branches of one worker's part."""
        self.stacks.append([])
        return self.stacks[-1]

    def take(self, stack: list[OpenBranch]) -> bool:
        """Move a waiting part to a stack; without one, ask the other worker to divide its part.

        Returns False in that case.
        """
        with self.lock:
            # A worker without a part makes the other divide its own at the next branch.
            self.wanted = not self.waiting
            if self.waiting:
                stack.append(self.waiting[-1])
                del self.waiting[-1]
            return not self.wanted

    def put_back(self, stack: list[OpenBranch]) -> None:
        """Make the open branches of a stack parts that any worker may take.

        If the stack is empty its part is refuted, and one part fewer is left.
        """
        with self.lock:
            self.waiting += stack
            # One part was taken; its open branches come back in its place.
            self.left += len(stack) - 1
            stack.clear()

    def all_open(self, mine: list[OpenBranch]) -> tuple[list[OpenBranch], list[OpenBranch]]:
        """Return all open branches except those of one worker's stack, and that stack.

        To be called while no worker runs. It does not take the lock, which a worker that was
        interrupted may never have released.
        """
        others = [node for stack in self.stacks if stack is not mine for node in stack]
        return [*self.waiting, *others], list(mine)


def shared_pairs(nodes: Sequence[OpenBranch]) -> int:
    """Return the number of leading pairs that some branches have in common."""
    first = nodes[0].pairs
    for node in nodes[1:]:
        few = min(len(first), len(node.pairs))
        other = np.flatnonzero((first[:few] != node.pairs[:few]).any(axis=1))
        first = first[: int(other[0]) if len(other) else few]
    return len(first)
