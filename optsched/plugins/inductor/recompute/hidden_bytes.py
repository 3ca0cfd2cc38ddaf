"""Bytes of a compiled step that no graph of ATen ops shows, added to the graph that is planned.

Extern kernels have workspaces, and Inductor copies inputs into the layout that convolutions want;
the forward graph saves such a copy in place of the input. Both are read from a lowered step, and
added to the graph as a workspace of the op, and as an op that copies the input.

Example: `convolution_backward` of a weight of 2 MB has a workspace of 4 MB, and the forward graph
saves a copy of the weight. In the graph for the planner the op also writes a buffer of 4 MB that no
op reads, and all readers of the weight read 2 MB that an op `weight copy` makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from optsched.model.elements import Buffer, Op
from optsched.model.graph import Graph
from optsched.plugins.inductor.sizes.kernels import KernelMemory
from optsched.plugins.inductor.wrapper.facts import WrapperFacts


class HiddenBytes(NamedTuple):
    """Workspaces by name of the op, and copies by name of the input."""

    workspaces: Mapping[str, int]
    copies: Mapping[str, int]


def read_workspaces(nodes: Sequence[Any], kernels: Mapping[str, KernelMemory]) -> dict[str, int]:
    """Return the workspaces of a graph's extern kernels by the name of their op."""
    found: dict[str, int] = {}
    for kernel in (node.node for node in nodes if node.is_extern()):
        known = kernels.get(kernel.get_name())
        if known is None or not known.workspace:
            continue
        for origin in _origins(kernel):
            # A repeat has the name of its op with an ending.
            name = re.sub(r"_again(_\d+)?$", "", origin.name)
            found[name] = max(found.get(name, 0), known.workspace)
    return found


def _origins(kernel: Any) -> list[Any]:
    """Return the calls that a kernel stands for, without those that made its operands."""
    if kernel.get_origin_node() is not None:
        return [kernel.get_origin_node()]
    return [node for node in kernel.get_origins() if node.target is kernel.op_overload]


def read_copies(
    facts: WrapperFacts, outputs: Iterable[Any], names: Iterable[str]
) -> dict[str, int]:
    """Return the bytes of inputs that a forward graph copies and saves, by name.

    `facts`: facts of the graph. `outputs`: its lowered outputs. `names`: names of the outputs that
    are inputs in the graph that was lowered; empty for all others.
    """
    found: dict[str, int] = {}
    for made, name in zip(outputs, names, strict=True):
        buffer = facts.buffers.get(made.get_name()) if name else None
        if buffer is not None and buffer.view_of is None:
            found[name] = facts.worst.get(buffer.name, buffer.size)
    return found


def with_hidden(graph: Graph, hidden: HiddenBytes) -> Graph:
    """Return a graph with hidden bytes; ids of its ops stay, and those that copy come last."""
    ops, buffers = list(graph.ops), list(graph.buffers)
    for name, size in hidden.workspaces.items():
        v = graph.op_ids.get(name)
        if v is not None and ops[v].workspace is None:
            b = len(buffers)
            buffers.append(Buffer(f"{name} workspace", size))
            ops[v] = replace(ops[v], writes=(*ops[v].writes, b), workspace=b)
    for b, given in enumerate(graph.buffers):
        size = hidden.copies.get(given.name, 0)
        readers = [v for v, op in enumerate(graph.ops) if size and _computes_with(graph, op, b)]
        if not readers:
            continue
        made = len(buffers)
        buffers.append(Buffer(f"{given.name} copy", size))
        ops.append(Op(f"{given.name} copy", reads=(b,), writes=(made,), kind="copy", once=True))
        for v in readers:
            ops[v] = replace(ops[v], uses=(*ops[v].uses, made))
    return replace(graph, ops=tuple(ops), buffers=tuple(buffers))


def _computes_with(graph: Graph, op: Op, b: int) -> bool:
    """Return True for an op that reads a buffer and does more than to make a view of it."""
    reads, made = ({graph.roots[x] for x in row} for row in (op.reads, op.writes))
    return b in reads and b not in made
