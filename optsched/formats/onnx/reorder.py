"""A plan's order back into an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from optsched.formats.format import Source
from optsched.formats.onnx.model import captures, operation_nodes, parse_model

HASTY: Final = ("Shape", "Size")
"""Ops that ONNX Runtime's PRIORITY_BASED order runs as soon as their inputs are there."""


def reorder_onnx(source: Source, order: Sequence[str]) -> bytes:
    """Return the model with its nodes in a plan's order; all else stays as it is.

    ONNX Runtime runs the nodes in this order if the session says
    `options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED`. Functions are inlined.
    Nodes that compute constants come right before the first that reads them; `Shape` and `Size`,
    which the runtime runs before all else that is ready, come as soon as they can.

    Parameters
    ----------
    source
        The model's file.
    order
        Names of all ops of the model's graph, first to run first.
    """
    model = parse_model(source.data)
    nodes = list(model.graph.node)
    by_name = dict(operation_nodes(model.graph))
    planned = [by_name[name] for name in order]
    queue = _Queue(nodes)
    for node in planned:
        queue.put(node)
    for node in nodes:  # constants that nobody reads
        queue.put(node)
    del model.graph.node[:]
    model.graph.node.extend(queue.placed)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


class _Queue:
    """Nodes in the order in which they are to stand; what a node needs is placed before it."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.placed: list[Any] = []
        self._makers = {name: node for node in nodes for name in node.output if name}
        self._hasty = [node for node in nodes if node.op_type in HASTY]
        self._seen: set[int] = set()
        self._made: set[str] = set()

    def put(self, node: Any) -> None:
        stack = [(node, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in self._seen:
                continue
            if ready:
                self._place(node)
                continue
            stack.append((node, True))
            needed = [self._makers.get(name) for name in (*node.input, *captures(node))]
            stack.extend((x, False) for x in reversed(needed) if x is not None)

    def _place(self, node: Any) -> None:
        self._seen.add(id(node))
        self.placed.append(node)
        self._made.update(node.output)
        for other in self._hasty:
            waits = any(x in self._makers and x not in self._made for x in other.input)
            if id(other) not in self._seen and not waits:
                self._place(other)
