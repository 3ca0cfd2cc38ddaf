"""Parts of a tree that are not refuted yet, and who is at which.

A part that got lost would count as refuted, and a proof would be none. So whatever moves is where
it goes before it leaves where it was: wherever an interrupt comes, it is in one place at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np

from optsched.ordering.tree.propagation import OpenBranch


class TreeParts:
    """Parts of a tree that are not refuted yet; workers take one at a time."""

    def __init__(self, parts: Sequence[OpenBranch]) -> None:
        self.waiting: list[OpenBranch] = []
        self.stacks: list[list[OpenBranch]] = []
        self.left = 0
        self.wanted = self.shared = False
        self.lock = Lock()
        self.add(parts)

    def add(self, parts: Sequence[OpenBranch]) -> None:
        """Have more parts that nobody is at."""
        self.waiting += parts
        self.left += len(parts)

    def new_stack(self) -> list[OpenBranch]:
        """What is open in the part that one worker is at: nothing yet."""
        self.stacks.append([])
        return self.stacks[-1]

    def take(self, stack: list[OpenBranch]) -> bool:
        """Take a part that nobody is at; if there is none, whoever is at one is asked for some."""
        with self.lock:
            self.wanted = not self.waiting
            if self.waiting:
                stack.append(self.waiting[-1])
                del self.waiting[-1]
            return not self.wanted

    def put_back(self, stack: list[OpenBranch]) -> None:
        """Let what is open in a part be parts that anyone may take: none if it is refuted."""
        with self.lock:
            self.waiting += stack
            self.left += len(stack) - 1
            stack.clear()

    def all_open(self, mine: list[OpenBranch]) -> tuple[list[OpenBranch], list[OpenBranch]]:
        """What is open, apart from one worker's stack, and that stack; asked while no other works.

        Without the lock: whoever was interrupted may have it for ever.
        """
        others = [node for stack in self.stacks if stack is not mine for node in stack]
        return [*self.waiting, *others], list(mine)


def shared_pairs(nodes: Sequence[OpenBranch]) -> int:
    """How many of their first pairs some branches have in common."""
    first = nodes[0].pairs
    for node in nodes[1:]:
        few = min(len(first), len(node.pairs))
        other = np.flatnonzero((first[:few] != node.pairs[:few]).any(axis=1))
        first = first[: int(other[0]) if len(other) else few]
    return len(first)
