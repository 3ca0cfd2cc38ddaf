"""Graphs from and to NetworkX.

Two kinds of `networkx.DiGraph` are understood. A *bipartite* one has a node for each op and each
buffer, marked by the node attribute `bipartite` (0 for ops, 1 for buffers): `to_networkx` makes
it, and nothing is lost on the way back. An *op graph* has only ops, each with one output.

Bipartite graphs
    Edges run from a buffer to the op that uses it and from an op to the buffer it writes; the edge
    attributes `reads`, `uses` and `writes` hold positions among the operands. An edge
    without them is one more read or write. What joins ops with ops or buffers with buffers is an
    attribute: `control` of an op, `alias_of` and `birth` of a buffer, `inplace` of the graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from optsched.errors import GraphError
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph

if TYPE_CHECKING:
    import networkx as nx

_Policy = TypeVar("_Policy", bound=StrEnum)

_BUFFER_KEYS = {field.name for field in fields(Buffer)}


def to_networkx(graph: Graph) -> nx.DiGraph:
    """Return a graph as a bipartite `networkx.DiGraph`.

    Nodes are `("op", name)` and `("buffer", name)`, since an op and a buffer may share a name.
    Attributes that have their default value are left out.

    Examples
    --------
    >>> from optsched.model.builder import GraphBuilder
    >>> build = GraphBuilder("pair")
    >>> build.op("a", writes={"x": 4})
    >>> build.op("b", reads=["x"], writes={"y": 8})
    >>> build.output("y")
    >>> made = to_networkx(build.build())
    >>> list(made.successors(("buffer", "x")))
    [('op', 'b')]
    >>> from_networkx(made) == build.build()
    True
    """
    import networkx

    graph = graph.without_inplace()
    made = networkx.DiGraph(name=graph.name, memory_model=graph.memory_model)
    ops = [("op", op.name) for op in graph.ops]
    buffers = [("buffer", buffer.name) for buffer in graph.buffers]
    made.graph["inplace"] = [
        (ops[v][1], buffers[output][1], buffers[source][1])
        for v, output, source in graph.inplace_candidates
    ]
    for v, op in enumerate(graph.ops):
        more: dict[str, Any] = {"kind": op.kind} if op.kind else {}
        if op.control:
            more["control"] = [graph.ops[u].name for u in op.control]
        if op.workspace is not None:
            more["workspace"] = graph.buffers[op.workspace].name
        made.add_node(ops[v], bipartite=0, name=op.name, **more)
    for b, buffer in enumerate(graph.buffers):
        made.add_node(buffers[b], bipartite=1, **_buffer_attributes(graph, buffer))
    for v, op in enumerate(graph.ops):
        for key, ids in (("reads", op.reads), ("uses", op.uses), ("writes", op.writes)):
            for position, b in enumerate(ids):
                edge = (ops[v], buffers[b]) if key == "writes" else (buffers[b], ops[v])
                before = made.edges[edge].get(key, ()) if made.has_edge(*edge) else ()
                made.add_edge(*edge, **{key: (*before, position)})
    return made


def _buffer_attributes(graph: Graph, buffer: Buffer) -> dict[str, Any]:
    found = {
        field.name: getattr(buffer, field.name)
        for field in fields(Buffer)
        if field.default is MISSING or getattr(buffer, field.name) != field.default
    }
    if buffer.alias_of is not None:
        found["alias_of"] = graph.buffers[buffer.alias_of].name
    if buffer.birth is not None:
        found["birth"] = graph.ops[buffer.birth].name
    return found


def from_networkx(
    source: nx.DiGraph, *, name: str | None = None, memory_model: str | None = None
) -> Graph:
    """Make a graph of a `networkx.DiGraph`.

    Parameters
    ----------
    source
        A bipartite graph as :func:`to_networkx` makes it, known by the node attribute
        `bipartite`, or an op graph.

        In an op graph each node is an op that writes one buffer, both called by `str(node)`; an
        edge `(u, v)` says that `v` reads the output of `u`, or with `control=True` only that
        `u` must run first. Node attributes:

        - `size`: bytes of the output, required;
        - `output`: whether it is a result, live to the end. A node whose output nobody reads is
          one unless it says `output=False`; any other is not unless it says `output=True`;
        - `workspace`: bytes needed while the op runs;
        - `kind`: for people.

        Attributes of any other name, of nodes, edges or the graph, are not looked at.
    name, memory_model
        Of the graph; by default the graph attributes of that name.

    Raises
    ------
    GraphError
        If the graph is undirected or a multigraph, a node has no size, or any rule
        of :class:`Graph` is broken.

    Examples
    --------
    >>> import networkx as nx
    >>> source = nx.DiGraph([("conv", "relu")])
    >>> source.nodes["conv"]["size"] = 16
    >>> source.nodes["relu"]["size"] = 8
    >>> graph = from_networkx(source, name="tiny")
    >>> [buffer.name for buffer in graph.buffers if buffer.output]
    ['relu']
    """
    if not source.is_directed() or source.is_multigraph():
        raise GraphError(f"a networkx.DiGraph is wanted, got a {type(source).__name__}")
    name = str(source.graph.get("name") or "graph") if name is None else name
    if memory_model is None:
        memory_model = str(source.graph.get("memory_model", "default"))
    if any("bipartite" in attributes for _, attributes in source.nodes(data=True)):
        return _Bipartite(source).graph(name, memory_model)
    return _from_op_graph(source, name, memory_model)


def _from_op_graph(source: nx.DiGraph, name: str, memory_model: str) -> Graph:
    ids = {node: v for v, node in enumerate(source)}
    ops: list[Op] = []
    buffers: list[Buffer] = []
    scratch: list[Buffer] = []
    for node, attributes in source.nodes(data=True):
        label = f"node {str(node)!r}"
        if attributes.get("size") is None:
            raise GraphError(f"{label} has no size; every node needs the bytes of its output")
        writes = [ids[node]]
        workspace = _integer(attributes.get("workspace", 0), f"{label}: workspace")
        if workspace:
            writes.append(len(ids) + len(scratch))
            scratch.append(Buffer(f"{node}.workspace", workspace))
        into = [(ids[u], _is_control(edge)) for u, _, edge in source.in_edges(node, data=True)]
        ops.append(
            Op(
                name=str(node),
                reads=tuple(u for u, control in into if not control),
                writes=tuple(writes),
                control=tuple(u for u, control in into if control),
                workspace=writes[1] if workspace else None,
                kind=str(attributes.get("kind", "")),
            )
        )
        read = any(not _is_control(edge) for _, _, edge in source.out_edges(node, data=True))
        output = OutputPolicy.LIVE if attributes.get("output", not read) else None
        size = _integer(attributes["size"], f"{label}: size")
        buffers.append(Buffer(str(node), size, output=output))
    return Graph(name, tuple(ops), (*buffers, *scratch), memory_model=memory_model)


def _is_control(edge: Mapping[str, Any]) -> bool:
    return bool(edge.get("control", False))


class _Bipartite:
    """Reads the graph that `to_networkx` makes, or one made by hand in its likeness."""

    def __init__(self, source: nx.DiGraph) -> None:
        self.source = source
        sides: tuple[dict[Hashable, int], dict[Hashable, int]] = ({}, {})
        for node, attributes in source.nodes(data=True):
            side = attributes.get("bipartite")
            if side not in (0, 1):
                raise GraphError(
                    f"node {node!r}: bipartite must be 0 (op) or 1 (buffer), got {side!r}"
                )
            sides[side][node] = len(sides[side])
        self.ops, self.buffers = sides
        self.op_names = {self.name(node): v for node, v in self.ops.items()}
        self.buffer_names = {self.name(node): b for node, b in self.buffers.items()}
        for u, v in source.edges:
            if (u in self.ops) == (v in self.ops):
                raise GraphError(f"edge {u!r} -> {v!r} joins two ops or two buffers")

    def name(self, node: Hashable) -> str:
        """Return the attribute `name`, else the node itself."""
        return str(self.source.nodes[node].get("name", node))

    def graph(self, name: str, memory_model: str) -> Graph:
        """Return the graph."""
        return Graph(
            name,
            tuple(self.op(node) for node in self.ops),
            tuple(self.buffer(node) for node in self.buffers),
            tuple(
                (
                    _find(self.op_names, op, "in-place candidate names op"),
                    _find(self.buffer_names, output, "in-place candidate names buffer"),
                    _find(self.buffer_names, read, "in-place candidate names buffer"),
                )
                for op, output, read in self.source.graph.get("inplace", ())
            ),
            memory_model,
        )

    def op(self, node: Hashable) -> Op:
        """Return the op of a node, its operands by the edges."""
        attributes, label = self.source.nodes[node], f"op {self.name(node)!r}"
        into = [(self.buffers[u], edge) for u, _, edge in self.source.in_edges(node, data=True)]
        out = [(self.buffers[b], edge) for _, b, edge in self.source.out_edges(node, data=True)]
        reads = [(b, {"reads": (len(into),)} | edge) for b, edge in into if "uses" not in edge]
        reads += [(b, edge) for b, edge in into if "uses" in edge]
        workspace = attributes.get("workspace")
        return Op(
            name=self.name(node),
            reads=_operands(reads, "reads"),
            uses=_operands(into, "uses"),
            writes=_operands([(b, {"writes": (len(out),)} | edge) for b, edge in out], "writes"),
            control=tuple(
                _find(self.op_names, u, f"{label}: control names op")
                for u in attributes.get("control", ())
            ),
            workspace=None
            if workspace is None
            else _find(self.buffer_names, workspace, f"{label}: workspace names buffer"),
            kind=str(attributes.get("kind", "")),
        )

    def buffer(self, node: Hashable) -> Buffer:
        """Return the buffer of a node."""
        attributes = self.source.nodes[node]
        given = {key: attributes[key] for key in _BUFFER_KEYS & attributes.keys()}
        label = f"buffer {self.name(node)!r}"
        if given.get("size") is None and given.get("alias_of") is None:
            raise GraphError(f"{label} has no size")
        given = {key: value for key, value in given.items() if value is not None}
        given |= {"name": self.name(node), "size": given.get("size", 0)}
        for key in ("size", "alignment", "pin"):
            if key in given:
                given[key] = _integer(given[key], f"{label}: {key}")
        if "alias_of" in given:
            given["alias_of"] = _find(self.buffer_names, given["alias_of"], f"{label} is a view of")
        if "birth" in given:
            given["birth"] = _find(self.op_names, given["birth"], f"{label} is born at op")
        for key, policy in (("input", InputPolicy), ("output", OutputPolicy)):
            if key in given:
                given[key] = _policy(policy, given[key], f"{label}: {key}")
        return Buffer(**given)


def _operands(edges: list[tuple[int, dict[str, Any]]], key: str) -> tuple[int, ...]:
    """Return buffers by their positions; equal positions keep the order of the edges."""
    placed = [(position, b) for b, edge in edges for position in edge.get(key, ())]
    return tuple(b for _, b in sorted(placed, key=lambda pair: pair[0]))


def _find(ids: Mapping[str, int], name: object, by: str) -> int:
    if str(name) not in ids:
        raise GraphError(f"{by} {name!r}, which is not in the graph")
    return ids[str(name)]


def _policy(kind: type[_Policy], value: object, label: str) -> _Policy:
    if value not in list(kind):
        raise GraphError(f"{label} {value!r} is none of {', '.join(kind)}")
    return kind(str(value))


def _integer(value: object, what: str) -> int:
    """Return any integer, NumPy's too, as an `int`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise GraphError(f"{what} must be an integer, got {value!r}")
    return int(value)
