"""The order in which ONNX Runtime runs a model when it is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optsched.formats.onnx.model import captures


def default_order(nodes: Sequence[Any]) -> tuple[int, ...]:
    """Return ONNX Runtime's default order of nodes, as their numbers.

    It is a depth-first search backwards from the nodes that nobody reads, the last one first. Of
    the nodes that one reads the last is first, too; a node comes when all that it reads have come.

    References
    ----------
    onnxruntime/core/graph/graph.cc, function ReverseDFSFrom; the tests compare with profiles.
    """
    makers = {name: v for v, node in enumerate(nodes) for name in node.output if name}
    read = [
        sorted({makers[x] for x in (*node.input, *captures(node)) if x in makers}) for node in nodes
    ]
    needed = {v for row in read for v in row}
    stack = [(v, False) for v in range(len(nodes)) if v not in needed]
    order: list[int] = []
    seen: set[int] = set()
    while stack:
        v, done = stack.pop()
        if done:
            order.append(v)
        elif v not in seen:
            seen.add(v)
            stack.append((v, True))
            stack.extend((u, False) for u in read[v] if u not in seen)
    return tuple(order)
