"""The forward part of a training graph: the ops that may run again after the loss.

A joint graph holds the forward ops, which lead to the loss, and the backward ops, which start from
the gradient of the loss. AOTAutograd gives this gradient as an input whose name starts with
`tangents`; an op that reads it cannot run before the loss exists, which no buffer of the graph
says. :func:`with_barrier` adds these dependencies as control edges.

Example: in a graph of the ops `act`, `loss` (reads the output of `act`) and `grad` (reads
`tangents_1`), the outputs that do not depend on `tangents_1` are forward outputs. `loss` makes the
only one, so the forward ops are `act` and `loss`, and `grad` gets a control edge from `loss`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optsched.errors import UsageError
from optsched.model.dependencies import followers, reached
from optsched.model.graph import Graph

TANGENTS = "tangents"
"""First letters of the names of inputs that hold the gradient of the loss."""


def find_loss(graph: Graph, names: Iterable[str] = ()) -> tuple[int, ...]:
    """Return the ops that make the outputs of the forward part, ascending.

    Raise `UsageError` if a name is unknown, or names are not given and such inputs are missing.

    `graph`: a training graph. `names`: names of these ops; by default they are found by the inputs
    named `tangents`.
    """
    if names := tuple(names):
        return find_ops(graph, names)
    # Outputs that no tangent leads to are those of the forward part.
    after = _after_tangents(graph)
    makers = {
        graph.producers[b]
        for b, buffer in enumerate(graph.buffers)
        if buffer.output is not None and graph.producers[b] is not None
    }
    loss = tuple(sorted(v for v in makers if v is not None and v not in after))
    # Without tangents every output is a forward output, and none can be told to be the loss.
    if not after:
        raise UsageError(
            f"graph {graph.name!r} has no backward pass (no input is named {TANGENTS!r}), so "
            "nothing is kept for one: capture a training step (capture_step), or name the op that "
            "makes the loss (--loss OP)"
        )
    if not loss:
        raise UsageError(
            f"graph {graph.name!r} has no loss: every output needs an input named {TANGENTS!r}; "
            "name the op that makes the loss (--loss OP)"
        )
    return loss


def find_ops(graph: Graph, names: Iterable[str]) -> tuple[int, ...]:
    """Return the ops of these names, ascending; raise `UsageError` for an unknown one."""
    found = set()
    for name in names:
        if name not in graph.op_ids:
            raise UsageError(f"the loss names op {name!r}, which is not in graph {graph.name!r}")
        found.add(graph.op_ids[name])
    return tuple(sorted(found))


def _tangent_readers(graph: Graph) -> list[int]:
    given = {
        b
        for b, buffer in enumerate(graph.buffers)
        if buffer.input is not None and buffer.name.startswith(TANGENTS)
    }
    held = {b for b, root in enumerate(graph.roots) if root in given}
    return [
        v
        for v, op in enumerate(graph.ops)
        if not (held.isdisjoint(op.reads) and held.isdisjoint(op.uses))
        or not held.isdisjoint(op.writes)
    ]


def _after_tangents(graph: Graph) -> set[int]:
    readers = _tangent_readers(graph)
    after = reached(followers(graph.predecessors), readers)
    return {v for v, is_after in enumerate(after) if is_after} | set(readers)


def forward_ops(graph: Graph, loss: Sequence[int]) -> frozenset[int]:
    """Return the ops that make the loss and all ops that they need."""
    before = reached(graph.predecessors, loss)
    return frozenset(v for v, is_before in enumerate(before) if is_before) | {*loss}


def with_barrier(graph: Graph, loss: Sequence[int]) -> Graph:
    """Return the graph in which ops that read tangents run after the loss.

    Costs and buffers stay as they are, and so do the ids of ops.
    """
    inside = forward_ops(graph, loss)
    # An op of the forward part that reads a tangent would wait for itself.
    return graph.with_control({v: loss for v in _tangent_readers(graph) if v not in inside})
