"""Inductor's planning information: the readers and sizes that it keeps in its nodes and buffers.

It describes one list of nodes at a time. Facts are read from it, so it must be set before other
nodes, such as parts of fused ones, are asked.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch._inductor import memory
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet


def prepare(nodes: Sequence[Any]) -> None:
    """Let Inductor's planning information describe these nodes."""
    memory.prepare_planning_info(
        list(nodes),
        V.graph.scheduler.name_to_buf,
        holders(nodes),
        OrderedSet(V.graph.graph_inputs),
        OrderedSet(V.graph.get_output_names()),
    )


def holders(nodes: Sequence[Any]) -> Mapping[str, Any]:
    """Return the node that holds each op, by the op's name."""
    return {inner.get_name(): node for node in nodes for inner in node.get_nodes()}
