"""A graph in the shape that the sorters of TorchInductor take, so that they run on any graph.

They ask a scheduler node for few things; objects that answer these do for nodes. The functions
themselves are those of the installed torch, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch._inductor import config, memory
from torch.utils._ordered_set import OrderedSet

from optsched.model.elements import Op
from optsched.model.graph import Graph

ordered_set: Callable[..., Any] = OrderedSet


@dataclass(eq=False)
class BufferLike:
    """Stands for a scheduler buffer or a freeable input."""

    name: str
    mpi_buffer: Any

    def get_name(self) -> str:
        """Return the name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Dependency:
    """Names what a node waits for."""

    name: str


@dataclass(eq=False)
class NodeLike:
    """Stands for a scheduler node."""

    name: str
    outputs: list[BufferLike]
    unmet_dependencies: list[Dependency]
    mpi_node: Any = None

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def get_outputs(self) -> list[BufferLike]:
        """Return the buffers it writes."""
        return self.outputs

    def get_buffer_names(self) -> list[str]:
        """Return the names that dependencies may use, one for the op itself among them."""
        return [_op_name(self.name), *(b.name for b in self.outputs)]


@dataclass
class InductorGraph:
    """Arguments for Inductor's sorters."""

    nodes: list[NodeLike]
    freeable: dict[str, BufferLike] = field(default_factory=dict)
    buffers: dict[str, BufferLike] = field(default_factory=dict)
    outputs: Any = None

    def lpmf(self, size_threshold: int = 0) -> list[int]:
        """Run `topological_sort_lpmf`; return op ids."""
        with config.patch(size_threshold_for_succ_based_strategy=size_threshold):
            return self._ids(
                memory.topological_sort_lpmf(self.nodes, self.freeable, self.buffers, self.outputs)
            )

    def bfs(self) -> list[int]:
        """Run `topological_sort_bfs`; return op ids."""
        return self._ids(memory.topological_sort_bfs(self.nodes))

    def dfs(self) -> list[int]:
        """Run `topological_sort_dfs`; return op ids. It recurses as deep as the graph is."""
        return self._ids(memory.topological_sort_dfs(self.nodes))

    def _ids(self, order: list[NodeLike]) -> list[int]:
        return [node.mpi_node.index for node in order]


def as_inductor_graph(graph: Graph) -> InductorGraph:
    """Translate a graph."""
    arrays = graph.arrays
    size, user, succ = arrays.size.tolist(), arrays.user, arrays.succ
    buffers = [
        BufferLike(
            buffer.name,
            memory.MemoryPlanningInfoForBuffer(size_alloc=size[b], size_free=size[b]),
        )
        for b, buffer in enumerate(graph.buffers)
    ]
    nodes = [
        NodeLike(op.name, [buffers[b] for b in op.writes], _dependencies(graph, op))
        for op in graph.ops
    ]
    for b, buffer in enumerate(buffers):
        users = ordered_set(nodes[v] for v in user.row(b).tolist())
        buffer.mpi_buffer.succ_nodes = buffer.mpi_buffer.succ_nodes_for_ordering = users
    met = _successors_as_met(graph)
    for v, node in enumerate(nodes):
        node.mpi_node = memory.MemoryPlanningInfoForNode(
            index=v,
            size=int(arrays.alloc[v]),
            pred_buffers=ordered_set(buffers[b] for b in arrays.read.row(v).tolist()),
            pred_nodes=ordered_set(nodes[u] for u in graph.predecessors[v]),
            succ_nodes=ordered_set(nodes[w] for w in met[v]),
        )
        assert set(met[v]) == set(succ.row(v).tolist())
    return InductorGraph(
        nodes=nodes,
        freeable={
            x.name: x
            for b, x in enumerate(buffers)
            if graph.producers[b] is None and (len(user.row(b)) or arrays.keep[b])
        },
        buffers={x.name: x for b, x in enumerate(buffers) if graph.producers[b] is not None},
        outputs=ordered_set(x.name for b, x in enumerate(buffers) if arrays.keep[b]),
    )


def _dependencies(graph: Graph, op: Op) -> list[Dependency]:
    names = [graph.buffers[b].name for b in op.reads]
    names += [_op_name(graph.ops[u].name) for u in op.control]
    return [Dependency(name) for name in names]


def _op_name(name: str) -> str:
    return f"op {name}"


def _successors_as_met(graph: Graph) -> list[list[int]]:
    """Buffer by buffer: who reads it, who uses it; then who waits for other reasons."""
    readers: dict[int, list[int]] = {}
    users: dict[int, list[int]] = {}
    for v, op in enumerate(graph.ops):
        for table, names in ((readers, op.reads), (users, op.uses)):
            for b in names:
                table.setdefault(b, []).append(v)
    rows = []
    for v, op in enumerate(graph.ops):
        row = [w for b in op.writes for table in (readers, users) for w in table.get(b, [])]
        rows.append(list(dict.fromkeys([*row, *graph.arrays.succ.row(v).tolist()])))
    return rows
