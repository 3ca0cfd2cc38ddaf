"""Orders of an ONNX model's nodes: ONNX Runtime's own, and a plan's back into the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from optsched.formats.format import Source
from optsched.formats.onnx.bake import fix_dimensions
from optsched.formats.onnx.model import captures, name_graph, node_names, parse_model, sources_of
from optsched.model.graph import Graph
from optsched.model.plan import Plan

HASTY: Final = ("Shape", "Size")
"""Ops that ONNX Runtime's PRIORITY_BASED order runs as soon as their inputs are there."""


def default_order(nodes: Sequence[Any]) -> tuple[int, ...]:
    """Return ONNX Runtime's default order of nodes, as their numbers.

    It is a depth-first search backwards from the nodes without readers, the last one first. Of
    the nodes that one reads the last is first, too; a node comes when all that it reads have come.

    References
    ----------
    onnxruntime/core/graph/graph.cc, function ReverseDFSFrom; the tests compare with profiles.
    """
    read = [sorted(row) for row in sources_of(nodes)]
    needed = {v for row in read for v in row}
    # A stack, so the node with the highest number comes off first.
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


def reorder(source: Source, graph: Graph, plan: Plan) -> bytes:
    """Return the model with its nodes in a plan's order, for the dimensions of the graph."""
    order = [graph.ops[v].name for v in plan.order]
    return reorder_onnx(source, order, dict(graph.dims), name=graph.name)


def reorder_onnx(
    source: Source, order: Sequence[str], dims: Mapping[str, int] | None = None, *, name: str = ""
) -> bytes:
    """Return the model with its nodes in this order, names of all ops; all else stays as it is.

    `dims` are sizes of open dimensions, which the model has from then on: ONNX Runtime writes in
    place only where it knows all sizes. `name` is that of the planned graph: a model with a name
    that many models have gets it, so that a plan fits the model it was put into as well.

    ONNX Runtime runs the nodes in this order if the session says
    `options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED`. Functions are inlined.
    Nodes that compute constants come right before the first that reads them; `Shape` and `Size`,
    which the runtime runs before all else that is ready, come as soon as they can.
    """
    model = parse_model(source.data)
    fix_dimensions(model, dims or {})
    nodes = list(model.graph.node)
    by_name = dict(zip(node_names(model.graph), nodes, strict=True))
    planned = [by_name[name] for name in order]
    queue = _Queue(nodes)
    for node in planned:
        queue.put(node)
    for node in nodes:  # constants without readers
        queue.put(node)
    del model.graph.node[:]
    model.graph.node.extend(queue.placed)
    model.graph.name = name_graph(model.graph, name) or model.graph.name
    # Deterministic: the same plan gives the same file.
    data: bytes = model.SerializeToString(deterministic=True)
    return data


class _Queue:
    """A growing order of nodes; to place a node places all nodes that it needs before it."""

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
            # Reversed, because the stack takes the last first.
            needed = [self._makers.get(name) for name in (*node.input, *captures(node))]
            stack.extend((x, False) for x in reversed(needed) if x is not None)

    def _place(self, node: Any) -> None:
        self._seen.add(id(node))
        self.placed.append(node)
        self._made.update(node.output)
        # As soon as their input is there, so that the runtime has nothing to move.
        for other in self._hasty:
            waits = any(x in self._makers and x not in self._made for x in other.input)
            if id(other) not in self._seen and not waits:
                self._place(other)
