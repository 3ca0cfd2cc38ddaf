"""Forward and backward graphs of AOTAutograd for a sequence of runs with repeats.

A joint graph is written again in the order of the sequence. First runs of forward ops belong to the
forward graph, all other runs to the backward graph; a repeat is a node of its own, tagged
`must_be_in_backward`. Views are made again where the backward graph reads them. What the backward
graph reads of the forward graph is saved.

This module imports torch at its top: import it inside the function that needs it.

Example: in the sequence a, b, loss, a, grad the nodes are a, b, loss, a_again, grad. `grad` reads
`a_again`, so `a` is not saved, but the inputs of `a` are.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch._functorch.compile_utils import raise_getitems
from torch._functorch.partitioners import _extract_fwd_bwd_modules
from torch.fx import Graph, GraphModule, Node
from torch.utils._ordered_set import OrderedSet

from optsched.plugins.inductor.recompute.joint_graph import is_size

TAG = "partitioner_tag"


def split_joint(
    joint: GraphModule,
    runs: Sequence[tuple[str, bool]],
    forward: Collection[str],
    outputs: int,
    static: Sequence[int],
) -> tuple[GraphModule, GraphModule]:
    """Return forward and backward graph modules.

    `joint`: the joint graph. `runs`: names of nodes that compute, in order, and whether each run is
    a repeat. `forward`: names of the nodes whose first runs are in the forward graph. `outputs`:
    number of outputs of the forward graph. `static`: positions of inputs that keep their addresses.
    """
    return _Splitter(joint, frozenset(forward)).split(runs, outputs, static)


class _Splitter:
    """A joint graph while its nodes are copied in another order."""

    def __init__(self, joint: GraphModule, forward: frozenset[str]) -> None:
        self.joint, self.forward, self.graph = joint, forward, Graph()
        self.nodes = {node.name: node for node in joint.graph.nodes}
        self.given: dict[Node, Node] = {}
        self.first: dict[Node, Node] = {}
        self.latest: dict[Node, Node] = {}
        """Present copy of each computed node, for the forward and for the backward graph."""
        self.views: dict[tuple[Node, bool], tuple[list[Node], Node]] = {}
        # Ops that the plan runs; all other nodes are views and members of tuples, made where
        # needed.
        self.computed: set[Node] = set()
        self.behind: dict[Node, None] = {}
        """New nodes of the backward graph."""

    def split(
        self, runs: Sequence[tuple[str, bool]], outputs: int, static: Sequence[int]
    ) -> tuple[GraphModule, GraphModule]:
        self.computed = {self.nodes[name] for name, _ in runs}
        for node in self.joint.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                # Inputs are copied first, in their order: the calling convention depends on it.
                self.given[node] = self.graph.node_copy(node, self.given.__getitem__)
        for name, again in runs:
            self._run(self.nodes[name], again)
        end = next(iter(self.joint.graph.find_nodes(op="output")))
        listed = torch.utils._pytree.tree_leaves(end.args)
        results = [
            # Results after the user's outputs belong to the backward graph.
            self.take(x, i >= outputs) if isinstance(x, Node) else x
            for i, x in enumerate(listed)
        ]
        made = self.graph.output(tuple(results))
        made.meta = end.meta
        module = GraphModule(self.joint, self.graph)
        module.meta.update(self.joint.meta)
        inputs = [x for x in self.graph.nodes if x.op == "placeholder"]
        saved = self._saved(results[outputs:])
        forward, backward = _extract_fwd_bwd_modules(
            module,
            [node for node in saved if not is_size(node)],
            saved_sym_nodes=[node for node in saved if is_size(node)],
            num_fwd_outputs=outputs,
            static_lifetime_input_nodes=OrderedSet(inputs[i] for i in static),
        )
        return raise_getitems(forward), raise_getitems(backward)

    def _run(self, node: Node, again: bool) -> None:
        behind = again or node.name not in self.forward
        made = self.graph.node_copy(node, lambda x: self.take(x, behind))
        made.meta = dict(node.meta)
        # PyTorch's extraction would move a repeat to the forward graph without this tag.
        if again:
            made.name = f"{node.name}_again"
            made.meta[TAG] = "must_be_in_backward"
        if behind:
            self.latest[node] = made
            self.behind[made] = None
        else:
            self.first[node] = made

    def take(self, node: Node, behind: bool) -> Node:
        """Return the new node by which a node of one of the two graphs reads an old one."""
        if node in self.given:
            return self.given[node]
        # A size is saved as a number: worked out again, it would need the tensor that has it.
        behind = behind and not is_size(node)
        # The backward graph reads the repeat if there was one, and otherwise the saved first run.
        if node in self.computed:
            return self.latest[node] if behind and node in self.latest else self.first[node]
        if behind and self._is_part_of_first(node):
            # A member of a tuple is saved itself, since tuples cannot be.
            behind = False
        sources = [self.take(x, behind) for x in node.all_input_nodes]
        known = self.views.get((node, behind))
        # A view whose sources are still the same is not made twice.
        if known is not None and known[0] == sources:
            return known[1]
        made = self.graph.node_copy(node, lambda x: self.take(x, behind))
        made.meta = dict(node.meta)
        if behind:
            made.meta[TAG] = "is_backward"
            self.behind[made] = None
        self.views[node, behind] = (sources, made)
        return made

    def _is_part_of_first(self, node: Node) -> bool:
        """Return True for a member of a tuple that only the forward graph makes."""
        if node.target is not operator.getitem:
            return False
        source = node.args[0]
        return source in self.first and source not in self.latest

    def _saved(self, results: Sequence[Any]) -> OrderedSet[Node]:
        found: OrderedSet[Node] = OrderedSet()
        read = [x for node in self.behind for x in node.all_input_nodes]
        for node in (*read, *(x for x in results if isinstance(x, Node))):
            tangent = node.op == "placeholder" and "tangents" in str(node.target)
            # A constant need not be saved, and gradients come with the call.
            if node not in self.behind and node.op != "get_attr" and not tangent:
                found.add(node)
        return found
