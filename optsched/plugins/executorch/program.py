"""The graph of an ExecuTorch program, and the program in another order.

The nodes that run are ops. `memory.alloc`, `memory.view` and `getitem` only name bytes: they stay
next to the op that writes or made these bytes, where they cost nothing. All tensors that share
storage are one buffer. An op that overwrites a buffer runs after all readers of the old bytes, and
before all readers of the new ones; the program does not have edges for this (`copy_` into a mutable
buffer), so they are added.

Example: `copy_` overwrites the mutable buffer `cache`, which `attend` reads before. An edge from
`attend` to `copy_` keeps the read first in every order.

This module imports executorch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from executorch.exir import memory
from executorch.exir.memory_planning import get_node_tensor_specs

from optsched.errors import OptschedError
from optsched.formats.fx.schema import draws_random_numbers, named_arguments, written_arguments
from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph

SILENT = (memory.alloc, memory.view, memory.free, operator.getitem)
"""Targets of nodes that do not run anything."""


class FixedOrderError(OptschedError):
    """Raised with the reason for which the ops of a program cannot be moved."""


def is_op(node: Any) -> bool:
    """Return True if a node runs something."""
    return node.op == "call_function" and node.target not in SILENT


def storage(spec: Any) -> Any:
    """Return the tensor that owns the storage of another one."""
    while spec.storage_base is not None:
        spec = spec.storage_base
    return spec


class ProgramGraph:
    """The main graph of a program as a graph that can be planned.

    Raise `FixedOrderError` if the program has an op whose place among the others is unknown.

    `module`: the graph module, before memory planning. `sizes`: bytes of each tensor that is
    planned, rounded up to the alignment. `mutable`: names of the placeholders that live throughout:
    buffers that the method changes. `alignment`: alignment of every offset.

    Attributes
    ----------
    graph
        The graph: op `v` is node `nodes[v]`; one more op may stand for the output. The pool of a
        buffer is the `mem_id` of its tensor, if it has one.
    """

    def __init__(
        self, module: Any, sizes: Mapping[Any, int], mutable: frozenset[str], alignment: int
    ) -> None:
        self.module, self.sizes, self.mutable = module, sizes, mutable
        self.nodes = [node for node in module.graph.nodes if is_op(node)]
        self.memories: dict[str, str] = {}
        self._name: dict[Any, str] = {}
        """The current name of each storage, that of its last change."""
        self._build = GraphBuilder("executorch", "executorch: constants are not counted", alignment)
        self._add_inputs()
        # Ops that draw random numbers keep their sequence, so that a seed gives the same numbers.
        seeded = [node.name for node in self.nodes if draws_random_numbers(node)]
        before = {second: first for first, second in pairwise(seeded)}
        for node in self.nodes:
            self._add_op(node, before.get(node.name))
        self._add_outputs(next(node for node in module.graph.nodes if node.op == "output"))
        for name, memory_id in self.memories.items():
            self._build.place(name, pool=memory_id)
        self.graph: Graph = self._build.build()

    def _add_inputs(self) -> None:
        for node in self.module.graph.nodes:
            # The graph of a branch has an order of its own, which this pass does not know.
            if node.op == "get_attr" and _is_subgraph(self.module, node):
                raise FixedOrderError("it has control flow")
            if node.op == "placeholder":
                kept = InputPolicy.KEPT if node.name in self.mutable else InputPolicy.FREED
                for number, spec in enumerate(_specs(node)):
                    # Two inputs may name one storage; the first stands for both.
                    if storage(spec) not in self._name:
                        self._build.input(self._new(node, number, spec), self._size(spec), kept)

    def _add_op(self, node: Any, after: str | None) -> None:
        reads = list(dict.fromkeys(self._reads(node)))
        changed = {storage(spec) for value in _overwritten(node) for spec in _specs(value)}
        # The framework lets the op write into its argument's bytes, which the graph does not say.
        if "_share_alloc_with_arg_idx" in node.meta:
            raise FixedOrderError(f"{node.name} writes into a part of another tensor")
        mutates = {}
        # A change makes a new name of the same bytes: readers of the old one run before it.
        for root in sorted(changed & self._name.keys(), key=self._name.__getitem__):
            old = self._name[root]
            self._name[root] = f"{old} after {node.name}"
            mutates[self._name[root]] = old
        writes = {}
        for number, spec in enumerate(_specs(node)):
            if storage(spec) in changed:
                continue
            if spec.storage_base is not None or storage(spec) in self._name:
                raise FixedOrderError(f"{node.name} writes into a part of another tensor")
            writes[self._new(node, number, spec)] = self._size(spec)
        # An op without tensors, such as an assertion, has nothing that others read, only a place.
        control = [source.name for source in _ops_before(node) if not _specs(source)]
        control += [after] if after else []
        self._build.op(
            node.name,
            reads=reads,
            writes=writes,
            mutates=mutates,
            control=dict.fromkeys(control),
            kind=str(node.target),
        )

    def _add_outputs(self, output: Any) -> None:
        """Keep the results to the end, and add copies of changed buffers, which no op fills.

        The framework plans these copies: the output has tensors of its own for the results of
        `copy_`.
        """
        results = list(dict.fromkeys(self._reads(output)))
        copies = {
            self._new(output, number, spec): self._size(spec)
            for number, spec in enumerate(_specs(output))
            if storage(spec) not in self._name
        }
        if copies:
            # Copies are made when all ops have run.
            everyone = [node.name for node in self.nodes]
            self._build.op("output", reads=results, writes=copies, control=everyone)
        self._build.output(*results)

    def _reads(self, node: Any) -> Iterator[str]:
        for value in node.all_input_nodes:
            if value.target is not memory.alloc:
                for spec in _specs(value):
                    yield self._name[storage(spec)]

    def _new(self, node: Any, number: int, spec: Any) -> str:
        many = len(_specs(node)) > 1
        name = f"{node.name}.{number}" if many else str(node.name)
        self._name[storage(spec)] = name
        if spec.mem_id is not None:
            self.memories[name] = str(spec.mem_id)
        return name

    def _size(self, spec: Any) -> int:
        return self.sizes.get(spec, 0)


def _specs(node: Any) -> list[Any]:
    """Return the tensors of a node, without constants."""
    return [spec for spec in get_node_tensor_specs(node) if not spec.const]


def _is_subgraph(module: Any, node: Any) -> bool:
    return isinstance(getattr(module, node.target, None), torch.fx.GraphModule)


def _overwritten(node: Any) -> list[Any]:
    """Return the nodes whose bytes an op changes, other than those made for its results."""
    given = dict(named_arguments(node))
    found = [given.get(name) for name in written_arguments(node, results=False)]
    return [value for value in found if isinstance(value, torch.fx.Node)]


def _ops_before(node: Any) -> Iterator[Any]:
    """Yield the ops whose results a node reads, also through nodes that only name bytes."""
    for value in node.all_input_nodes:
        if is_op(value):
            yield value
        elif value.op == "call_function":
            yield from _ops_before(value)


# Depth first, so that views follow their operand at once.
def reorder(module: Any, order: Sequence[Any]) -> None:
    """Put the nodes of a graph into the order of its ops.

    Each `alloc` is put right before its op, each view and `getitem` right after its operand, where
    they do not lengthen a live range.
    """
    graph = module.graph
    done: dict[Any, None] = {}

    def put(node: Any) -> None:
        if node in done:
            return
        for value in node.all_input_nodes:
            put(value)
        done[node] = None
        for user in node.users:
            named = user.target in (memory.view, operator.getitem)
            if named and all(value in done for value in user.all_input_nodes):
                put(user)

    nodes = list(graph.nodes)
    fixed = [node for node in nodes if node.op in ("placeholder", "get_attr")]
    # The rest of the nodes come last: unused views, for example.
    for node in (*fixed, *order, *nodes):
        if node.op != "output":
            put(node)
    output = nodes[-1]
    for node in done:
        # Placeholders must come first, in the order of the signature.
        if node.op != "placeholder":
            output.prepend(node)
    graph.lint()
    module.recompile()
