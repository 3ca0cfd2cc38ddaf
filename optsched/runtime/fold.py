"""Work on trees of any depth without recursion, which Python limits to some hundred levels.

>>> tree = {1: (2, 3), 2: (), 3: (4,), 4: ()}
>>> fold(1, tree.__getitem__, lambda node, sums: node + sum(sums))
10
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Node = TypeVar("Node")
Value = TypeVar("Value")


def fold(
    root: Node,
    parts: Callable[[Node], Sequence[Node]],
    join: Callable[[Node, list[Value]], Value],
) -> Value:
    """Return the value of a tree, whose parts get theirs first.

    `root`: a node. `parts`: returns the nodes directly below a node; nothing for a leaf. `join`:
    returns the value of a node from the values of its parts, in their sequence.
    """
    waiting, listed = [root], []
    while waiting:
        node = waiting.pop()
        below = parts(node)
        listed.append((node, len(below)))
        waiting += below
    values: list[Value] = []
    # Backwards, every node comes after all nodes below it.
    for node, count in reversed(listed):
        below_it = [values.pop() for _ in range(count)]
        values.append(join(node, below_it[::-1]))
    return values.pop()
