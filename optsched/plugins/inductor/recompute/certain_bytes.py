"""A graph of the bytes that every split of a joint graph has, and peaks that it makes impossible.

A lowered split shows what others have as well: the workspaces of convolutions, and inputs that the
forward graph saves as copies in the layout that a convolution reads. Until a convolution has made a
gradient, the copy that it reads is live, and then the gradient is. The graph has the products, what
makes further gradients, and the copies. Rows of it prove a peak impossible
(:mod:`optsched.solver.recompute.rows`).

What other ops make is live for a product only while it runs. Inductor computes these ops within
other kernels, perhaps several times, so they are left out, but for the products that they need.

Example: each of ten convolutions reads a copy of 4 bytes and makes a gradient of 4 bytes. While one
of them runs, 8 bytes are live for it, and 4 for each of the others: no split needs less than 44.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.plugins.inductor.recompute.hidden_bytes import HiddenBytes
from optsched.plugins.inductor.recompute.joint_graph import (
    is_on_cpu,
    made_bytes,
    storage_of,
    users_of,
)
from optsched.plugins.inductor.recompute.least_bytes import (
    is_copy,
    is_product,
    operands,
    results_of,
)
from optsched.runtime.clock import Clock
from optsched.solver.recompute.solve import Planner

LOSS = "end of the forward graph"
"""Op between the ops that the forward graph runs in any case and those that need tangents."""


def blocker(joint: GraphModule, outputs: int, hidden: HiddenBytes, peak: int, clock: Clock) -> str:
    """Return what needs more bytes than a peak with every split; empty if nothing is known to.

    `outputs`: number of results of the forward graph. `hidden`: what a lowered split has shown.
    """
    graph = certain_graph(joint, outputs, hidden)
    return Planner(graph, (LOSS,), early=False).blocker(peak, clock)


def certain_graph(joint: GraphModule, outputs: int, hidden: HiddenBytes) -> Graph:
    """Return the graph of the ops and bytes that every compiled split has."""
    # What a kernel of a GPU takes, and which layout it wants, may differ between splits.
    known = hidden if is_on_cpu(joint) else HiddenBytes({}, {})
    return _Builder(joint, known).build(outputs)


class _Builder:
    """The graph of certain bytes while it is made."""

    def __init__(self, joint: GraphModule, hidden: HiddenBytes) -> None:
        self.joint, self.hidden, self.made = joint, hidden, GraphBuilder(LOSS)
        self.inputs = joint.graph.find_nodes(op="placeholder")
        self.late = users_of(joint, [x for x in self.inputs if "tangents" in str(x.target)])
        self.copies = {storage_of(x): x.name for x in self.inputs if x.name in hidden.copies}
        """Inputs that are saved as copies, by storage."""
        self.maker: dict[Any, Node] = {}
        """First node of each storage."""
        self.needs: dict[Node, dict[str, None]] = {}
        """Products that a node needs, itself included, without those that these need."""
        for node in joint.graph.nodes:
            self.maker.setdefault(storage_of(node), node)
            ahead = {name: None for x in node.all_input_nodes for name in self.needs[x]}
            self.needs[node] = {node.name: None} if is_product(node) else ahead

    def build(self, outputs: int) -> Graph:
        products = [node for node in self.joint.graph.nodes if is_product(node)]
        copies = {name: None for node in products for name in self._copies_read(node)}
        for name in copies:
            size = self.hidden.copies[name]
            self.made.op(f"{name} copy", writes={f"{name} copy": size}, once=True)
        listed = torch.utils._pytree.tree_leaves(self.joint.graph.output_node().args)
        results = [x for x in listed[:outputs] if isinstance(x, Node)]
        ends = {name: None for x in results for name in self.needs[x]}
        self.made.op(LOSS, control=[*ends, *(f"{name} copy" for name in copies)], once=True)
        for node in products:
            self._add_product(node)
        self._add_gradients(listed[outputs:])
        return self.made.build()

    def _add_product(self, node: Node) -> None:
        read = [f"{name} copy" for name in self._copies_read(node)]
        beside = list[Node]()
        for x in operands(node):
            maker = self.maker[storage_of(x)]
            if self._is_of_product(maker):
                read.append(maker.name)
            elif not is_copy(maker):
                beside.append(x)
        is_convolution = str(node.target).startswith("aten.convolution")
        workspace = self.hidden.workspaces.get(node.name, 0) if is_convolution else 0
        self.made.op(
            node.name,
            reads=dict.fromkeys(read),
            writes={x.name: made_bytes([x], self.inputs) for x in results_of(node)},
            control=self._before(node),
            workspace=workspace + made_bytes(beside, self.inputs),
        )

    def _add_gradients(self, results: Sequence[Any]) -> None:
        found: dict[Node, list[Node]] = {}
        for x in results:
            maker = self.maker[storage_of(x)] if storage_of(x) is not None else None
            # A result that needs no tangent, or is an input, may be live for another reason.
            if maker is not None and maker in self.late:
                found.setdefault(maker, []).append(x)
        for maker, views in found.items():
            if not self._is_of_product(maker):
                size = made_bytes(views, self.inputs)
                self.made.op(maker.name, writes={maker.name: size}, control=self._before(maker))
            self.made.output(maker.name)

    def _before(self, node: Node) -> list[str]:
        ahead = {name: None for x in node.all_input_nodes for name in self.needs[x]}
        return [*ahead, *[LOSS] * (node in self.late)]

    def _is_of_product(self, node: Node) -> bool:
        source = node.args[0] if node.target is operator.getitem else node
        return isinstance(source, Node) and is_product(source)

    def _copies_read(self, node: Node) -> list[str]:
        """Return the inputs whose saved copies a convolution of the backward graph reads."""
        if node not in self.late or not str(node.target).startswith("aten.convolution"):
            return []
        found = (self.copies.get(storage_of(x)) for x in node.all_input_nodes)
        return [name for name in found if name is not None]
