"""Conversion of graphs from and to NetworkX.

Two kinds of `networkx.DiGraph` are supported. A *bipartite* graph has a node for each op and each
buffer, marked by the node attribute `bipartite` (0 for ops, 1 for buffers); `to_networkx` creates
it, and nothing is lost in the conversion. An *op graph* has only ops, each with one output.

Bipartite graphs
    Edges run from a buffer to the op that uses it and from an op to the buffer that it writes; the
    edge attributes `reads`, `uses` and `writes` hold positions among the operands. An edge without
    them is one more read or write. Relations among ops or among buffers are attributes: `control`
    of an op, `alias_of` and `birth` of a buffer; `inplace`, `keep_apart` and `must_share` of the
    graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields
from numbers import Integral
from typing import TYPE_CHECKING, Any

from optsched.errors import FormatError, GraphError
from optsched.formats.native import GRAPH_FORMAT, graph_document, read_graph_document
from optsched.model.elements import Buffer
from optsched.model.graph import Graph
from optsched.runtime.keywords import keywords

if TYPE_CHECKING:
    import networkx as nx

_OP_KEYS = ("name", "kind", "control", "workspace", "stream", "cost", "once")
_BUFFER_KEYS = tuple(field.name for field in fields(Buffer))
_OPERANDS = ("reads", "uses", "writes")
_SHARING = ("keep_apart", "must_share")


@keywords
def to_networkx(graph: Graph) -> nx.DiGraph:
    """Return a graph as a bipartite `networkx.DiGraph`.

    Nodes are `("op", name)` and `("buffer", name)`, because an op and a buffer may share a name.
    Sizes are in bytes. Attributes with default values are left out.

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

    document = graph_document(graph)
    made = networkx.DiGraph(name=graph.name, memory_model=graph.memory_model)
    made.graph["inplace"] = [tuple(pair.values()) for pair in document.get("inplace", ())]
    made.graph |= {key: document.get(key, []) for key in _SHARING}
    made.graph["cost_unit"] = graph.cost_unit
    for op in document["ops"]:
        attributes = {key: op[key] for key in _OP_KEYS if key in op}
        made.add_node(("op", op["name"]), bipartite=0, **attributes)
    for buffer in document["buffers"]:
        made.add_node(("buffer", buffer["name"]), bipartite=1, **buffer)
    for op in document["ops"]:
        for key in _OPERANDS:
            for position, name in enumerate(op.get(key, ())):
                # Positions keep the order of operands, and an op that reads a buffer twice.
                ends = ("op", op["name"]), ("buffer", name)
                edge = ends if key == "writes" else ends[::-1]
                before = made.edges[edge].get(key, ()) if made.has_edge(*edge) else ()
                made.add_edge(*edge, **{key: (*before, position)})
    return made


@keywords
def from_networkx(
    source: nx.DiGraph, *, name: str | None = None, memory_model: str | None = None
) -> Graph:
    """Return the graph of a `networkx.DiGraph`.

    Parameters
    ----------
    source
        A bipartite graph as :func:`to_networkx` makes it, known by the node attribute
        `bipartite`, or an op graph.

        In an op graph each node is an op that writes one buffer, both called by `str(node)`; an
        edge `(u, v)` says that `v` reads the output of `u`, or with `control=True` only that
        `u` must run first; with `sync=True` it reads and waits, as ops of different streams have
        to. Node attributes:

        - `size`: bytes of the output, required;
        - `output`: True if the output is a result, live to the end; by default, True for a node
          whose output has no reader, and False for any other node;
        - `workspace`: bytes needed while the op runs;
        - `kind`: op type, for reports;
        - `stream`: name of the queue that runs the op.

        All other attributes of nodes, edges and the graph are ignored.
    name, memory_model
        Name and memory model of the graph (default: the graph attributes of that name).

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
    kind = getattr(source, "is_directed", bool)(), getattr(source, "is_multigraph", bool)()
    # In a multigraph, edges between one pair could not be told apart.
    if kind != (True, False):
        raise GraphError(f"expected a networkx.DiGraph, got a {type(source).__name__}")
    bipartite = any("bipartite" in attributes for _, attributes in source.nodes(data=True))
    document = _bipartite_document(source) if bipartite else _op_graph_document(source)
    document["format"] = GRAPH_FORMAT
    document["name"] = str(source.graph.get("name") or "graph") if name is None else name
    if memory_model is None:
        memory_model = str(source.graph.get("memory_model", "default"))
    document["memory_model"] = memory_model
    try:
        return read_graph_document(document)
    except FormatError as error:
        raise GraphError(str(error)) from None


def _op_graph_document(source: nx.DiGraph) -> dict[str, Any]:
    """Return the `optsched-graph/1` document of a graph whose nodes are ops with one output."""
    ops, buffers = [], []
    for node, attributes in source.nodes(data=True):
        name = str(node)
        if attributes.get("size") is None:
            raise GraphError(f"node {name!r} has no size; every node needs the bytes of its output")
        edges = [(str(u), edge) for u, _, edge in source.in_edges(node, data=True)]
        workspace = _integer(attributes.get("workspace", 0), f"node {name!r}: workspace")
        ops.append(
            {
                "name": name,
                "kind": str(attributes.get("kind", "")),
                "stream": str(attributes.get("stream", "")),
                "reads": [u for u, edge in edges if not _is_control(edge)],
                "writes": [name],
                "control": [u for u, edge in edges if _is_control(edge) or edge.get("sync")],
                "workspace": workspace,
            }
        )
        # An output that no op reads is a result, unless the node says otherwise.
        read = any(not _is_control(edge) for _, _, edge in source.out_edges(node, data=True))
        size = _integer(attributes["size"], f"node {name!r}: size")
        output = {"output": "live"} if attributes.get("output", not read) else {}
        buffers.append({"name": name, "size": size, **output})
    return {"ops": ops, "buffers": buffers}


def _is_control(edge: Mapping[str, Any]) -> bool:
    return bool(edge.get("control", False))


def _bipartite_document(source: nx.DiGraph) -> dict[str, Any]:
    """Return the `optsched-graph/1` document of a bipartite graph as `to_networkx` creates it."""
    ops: list[dict[str, Any]] = []
    buffers: list[dict[str, Any]] = []
    names: dict[Hashable, str] = {}
    sides: dict[Hashable, int] = {}
    for node, attributes in source.nodes(data=True):
        side = attributes.get("bipartite")
        if side not in (0, 1):
            raise GraphError(f"node {node!r}: bipartite must be 0 (op) or 1 (buffer), got {side!r}")
        sides[node] = side
        names[node] = str(attributes.get("name", node))
    for u, v in source.edges:
        if sides[u] == sides[v]:
            raise GraphError(f"edge {u!r} -> {v!r} joins two ops or two buffers")
    for node, attributes in source.nodes(data=True):
        keys = (_OP_KEYS, _BUFFER_KEYS)[sides[node]]
        record = {key: _plain(attributes[key]) for key in keys if attributes.get(key) is not None}
        record["name"] = names[node]
        if sides[node]:
            buffers.append(record)
        else:
            operands = _operands(source, node, names)
            ops.append({**record, **{key: [name for _, name in operands[key]] for key in operands}})
    pairs = [
        dict(zip(("op", "output", "input"), map(str, pair), strict=True))
        for pair in source.graph.get("inplace", ())
    ]
    rows = {key: [list(row) for row in source.graph.get(key, ())] for key in _SHARING}
    unit = str(source.graph.get("cost_unit", ""))
    return {"ops": ops, "buffers": buffers, "inplace": pairs, "cost_unit": unit, **rows}


def _operands(
    source: nx.DiGraph, node: Hashable, names: Mapping[Hashable, str]
) -> dict[str, list[tuple[int, str]]]:
    """Return positions and names of the buffers that an op reads, uses and writes, in order.

    An edge without a position is one more read or write, after those with positions.
    """
    found: dict[str, list[tuple[int, str]]] = {key: [] for key in _OPERANDS}
    into = [(names[u], "reads", edge) for u, _, edge in source.in_edges(node, data=True)]
    out = [(names[v], "writes", edge) for _, v, edge in source.out_edges(node, data=True)]
    for name, usual, edge in (*into, *out):
        # Past all positions that a graph of this size could have.
        given = {key: edge[key] for key in _OPERANDS if key in edge} or {usual: (len(source),)}
        for key, positions in given.items():
            found[key] += [(position, name) for position in positions]
    # Equal positions keep the order of the edges.
    return {key: sorted(pairs, key=lambda pair: pair[0]) for key, pairs in found.items()}


def _plain(value: Any) -> Any:
    """Return a value as a JSON value: any integer, including NumPy's, becomes an `int`."""
    # True is an Integral.
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _integer(value: object, what: str) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise GraphError(f"{what} must be an integer, got {value!r}")
    return int(value)
