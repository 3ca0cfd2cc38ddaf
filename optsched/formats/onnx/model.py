"""The protobuf of an ONNX model: parsed, checked, its functions inlined; op names; constants."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from heapq import heappop, heappush
from typing import Any, Final

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.format import Source

RANDOM: Final = frozenset(
    {
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    }
)
"""Ops whose outputs differ from run to run although their inputs are constant."""
_GENERIC: Final = re.compile(
    r"(main|onnx|spox|jax|sub)?[_-]?(graph|model)|main|tf2onnx.*|tensorflow.*"
    r"|torch[-_]jit([-_]export)?|mxnet[-_]converted[-_]model|extracted from .*"
    r"|(model from )?paddle(paddle|-onnx)\b.*|(keras_)?functional(_\d+)?|\d+|[0-9a-f]{32}",
    re.IGNORECASE,
)
"""Names of graphs that exporters give to every model."""
_NOT_FOLDED: Final = frozenset(
    {
        *RANDOM,
        *(
            "CastLike",
            "DequantizeLinear",
            "Optional",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
        ),
        *("SequenceInsert", "SplitToSequence", "ZipMap"),
    }
)
"""Ops that ONNX Runtime runs each time although their inputs are constant: it keeps weights
quantized, has no constant sequences, and replaces `CastLike` too late."""
_EXTERNAL: Final = 1
_KEPT_BYTES: Final = 4096


def parse_model(data: bytes) -> Any:
    """Return a checked and sorted ModelProto without functions; no other file is opened.

    `FormatError` is raised if the bytes are not a model, or the model refers to files outside its
    folder, has a body that is not sorted, or defines a value twice.
    """
    import onnx

    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's own classes differ between its implementations
        raise FormatError(f"no ONNX model: {first_line(error)}") from None
    if not model.HasField("graph"):
        raise FormatError("the ONNX model has no graph; export it again")
    if not model.opset_import:
        raise FormatError("the ONNX model names no operator set; export it again")
    _check_external(model)
    if model.functions:
        from onnx.inliner import inline_local_functions

        try:
            model = inline_local_functions(model)
        except Exception as error:  # whatever a malformed function raises inside of onnx
            message = f"cannot inline the model's functions: {first_line(error)}"
            raise FormatError(message) from None
    # Functions were replaced by their ops, so that the next walks see all of them.
    _sort_nodes(model.graph)
    _check_graph(model.graph, set(), "")
    return model


def _sort_nodes(graph: Any) -> None:
    """Put the nodes of a GraphProto in an order that can run, as ONNX Runtime does.

    Of the nodes that can run, the first one in the file comes next. Bodies of If, Loop and Scan are
    left alone: ONNX Runtime refuses those that are not sorted.
    """
    read = sources_of(graph.node)
    if all(max(before, default=-1) < v for v, before in enumerate(read)):
        return
    # Names go by positions in the file, so that they are fixed before nodes move.
    for node, name in zip(graph.node, node_names(graph), strict=True):
        node.name = node.name or name
    waits = [len(before) for before in read]
    readers: list[list[int]] = [[] for _ in read]
    for v, before in enumerate(read):
        for u in before:
            readers[u].append(v)
    ready, order = [v for v, count in enumerate(waits) if not count], list[int]()
    while ready:
        order.append(v := heappop(ready))
        for w in readers[v]:
            waits[w] -= 1
            if not waits[w]:
                heappush(ready, w)
    # Nodes of cycles are left; the check of the graph names them.
    rest = sorted(set(range(len(read))) - set(order))
    nodes = [deepcopy(graph.node[v]) for v in (*order, *rest)]
    del graph.node[:]
    graph.node.extend(nodes)


def name_graph(graph: Any, file: str) -> str:
    """Return the name of a GraphProto, or of its file if the exporter names every model so.

    `FormatError` is raised if the name is not UTF-8.
    """
    if isinstance(graph.name, bytes):
        # protobuf returns the bytes of a text that is damaged.
        raise FormatError(f"name of the graph is not UTF-8: {graph.name[:40]!r}")
    return graph.name if graph.name and not _GENERIC.fullmatch(graph.name) else file


def opset_of(model: Any) -> int:
    """Return the version of the standard operator set that a ModelProto uses; 0 if it has none."""
    standard = ("", "ai.onnx")
    return max((int(x.version) for x in model.opset_import if x.domain in standard), default=0)


def first_line(error: Exception) -> str:
    """Return the first line of another package's error, printable and of limited length."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = lines[0] if lines[0].isprintable() else repr(lines[0])
    return text[:160]


def node_names(graph: Any) -> list[str]:
    """Return a unique name for each node, in the file's order.

    A node without a name gets the name that ONNX Runtime gives it, from op type and position among
    the nodes other than `Constant`; a duplicate name gets its position appended.
    """
    names: list[str] = []
    position = 0
    taken = {node.name for node in graph.node}
    used: set[str] = set()
    for node in graph.node:
        # A counter over nodes that are not constants, as in ONNX Runtime.
        name = node.name or f"{node.op_type}_{position}"
        # A made-up name must not be that of another node.
        while name in used or (not node.name and name in taken):
            name = f"{name}#{position}"
        used.add(name)
        names.append(name)
        position += node.op_type != "Constant"
    return names


def find_constants(graph: Any, outer: Iterable[str] = (), sized: Collection[str] = ()) -> set[str]:
    """Return the values that are the same in every run: nothing is allocated for them.

    These are initializers (which files of IR version 3 list as graph inputs as well), the outputs
    of `Constant`, of `Shape` and `Size` of a value in `sized`, whose shape is known before a run,
    and of any op all of whose inputs are such values, `ConstantOfShape` say.
    """
    found = {*outer, *initializers(graph)}
    for node in graph.node:
        if _is_constant(node, found, sized):
            found.update(filter(None, node.output))
    return found


def _is_constant(node: Any, constants: set[str], sized: Collection[str]) -> bool:
    """Return True if ONNX Runtime computes the results of a node once, when it loads the model."""
    # A subgraph may read values from outside, which differ from run to run.
    if node.op_type in _NOT_FOLDED or any(True for _ in subgraphs(node)):
        return False
    read = [name for name in node.input if name]
    if node.op_type in ("Shape", "Size") and read and read[0] in sized:
        return True
    return node.op_type == "Constant" or bool(read and constants.issuperset(read))


def operation_nodes(graph: Any, constants: set[str] | None = None) -> list[tuple[str, Any]]:
    """Return the nodes that are ops of the planned graph, with their names: all but constants."""
    known = find_constants(graph) if constants is None else constants
    pairs = zip(node_names(graph), graph.node, strict=True)
    return [(name, node) for name, node in pairs if not _makes_only(node, known)]


def _makes_only(node: Any, constants: set[str]) -> bool:
    made = [name for name in node.output if name]
    return bool(made) and constants.issuperset(made)


def initializers(graph: Any) -> Iterator[str]:
    """Return the names of a graph's initializers, dense and sparse."""
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)


def subgraphs(node: Any) -> Iterator[Any]:
    """Return the graphs among a node's attributes: branches, bodies."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs_in(graph: Any) -> Iterator[Any]:
    """Return a graph and its subgraphs, at any depth."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from graphs_in(inner)


def values_in(graph: Any) -> Iterator[Any]:
    """Return the values that a graph and its subgraphs describe."""
    for each in graphs_in(graph):
        yield from (*each.value_info, *each.input, *each.output)


def sizes_of(kind: Any) -> list[int]:
    """Return the dimensions of a tensor's TypeProto, 0 for one without a number."""
    return [dim.dim_value for dim in kind.tensor_type.shape.dim]


def attribute_of(node: Any, name: str, field: str, default: Any) -> Any:
    """Return a field of a node's attribute, or the default without one of this name."""
    return next((getattr(x, field) for x in node.attribute if x.name == name), default)


def sources_of(nodes: Sequence[Any]) -> list[set[int]]:
    """Return by node the numbers of the nodes whose results it reads, also in its subgraphs."""
    makers = {name: v for v, node in enumerate(nodes) for name in node.output if name}
    return [{makers[x] for x in (*node.input, *captures(node)) if x in makers} for node in nodes]


def captures(node: Any) -> list[str]:
    """Return the values of enclosing graphs that a node's subgraphs read, each once."""
    found: dict[str, None] = {}
    for graph in subgraphs(node):
        # Names made inside hide those outside.
        own = {*initializers(graph), *(value.name for value in graph.input)}
        own.update(name for inner in graph.node for name in inner.output)
        reads = [name for inner in graph.node for name in (*inner.input, *captures(inner))]
        reads += [value.name for value in graph.output]
        found.update(dict.fromkeys(name for name in reads if name and name not in own))
    return list(found)


def drop_weights(graph: Any) -> None:
    """Forget the data of large initializers: no shape depends on it, and a copy costs time."""
    for tensor in (x for each in graphs_in(graph) for x in each.initializer):
        # Small ones may be shapes, whose values are needed.
        if len(tensor.raw_data) > _KEPT_BYTES:
            tensor.ClearField("raw_data")


def light_copy(model: Any) -> Any:
    """Return a copy of a ModelProto without the data of large initializers of its main graph."""
    made = type(model)()
    for source, target in ((model, made), (model.graph, made.graph)):
        for key, value in source.ListFields():
            if key.name == "initializer":
                for tensor in value:
                    # As a whole a copy would take the bytes of all weights once more.
                    _copy_light(tensor, target.initializer.add())
            elif key.name != "graph" and key.type != key.TYPE_MESSAGE:
                setattr(target, key.name, value)
            elif key.name != "graph":
                getattr(target, key.name).MergeFrom(value)
    return made


def _copy_light(tensor: Any, target: Any) -> None:
    if tensor.ByteSize() <= 2 * _KEPT_BYTES:
        target.CopyFrom(tensor)
    else:
        target.name, target.data_type = tensor.name, tensor.data_type
        target.dims.extend(tensor.dims)


def _check_graph(graph: Any, outer: set[str], where: str) -> None:
    """Refuse values that are made twice, or read before they are made; cycles are among these."""
    known = {*outer, *initializers(graph), *(value.name for value in graph.input)}
    names = node_names(graph)
    for name, node in zip(names, graph.node, strict=True):
        label = f"{where}op {show(name)} ({show(node.op_type)[1:-1]})"
        if not node.op_type:
            raise FormatError(f"{where}op {show(name)} has no operator type")
        for read in (*node.input, *captures(node)):
            if read and read not in known:
                raise FormatError(f"{label} reads {show(read)}, {_reason(graph, name, read)}")
        for graph_inside in subgraphs(node):
            _check_graph(graph_inside, known, f"{label}: ")
        for written in filter(None, node.output):
            if written in known:
                raise FormatError(f"{label} writes {show(written)}, which is there already")
            known.add(written)
    for value in graph.output:
        if value.name not in known:
            raise FormatError(f"{where}graph output {show(value.name)} is made by no op")


def _reason(graph: Any, reader: str, value: str) -> str:
    """Return the end of the message for a value that an op reads before it is made."""
    pairs = [*zip(node_names(graph), graph.node, strict=True)]
    # In reverse, so that the first maker of a name remains.
    makers = {x: name for name, node in reversed(pairs) for x in node.output if x}
    if value not in makers:
        return "which nothing makes"
    read = {
        name: [makers[x] for x in (*node.input, *captures(node)) if x in makers]
        for name, node in pairs
    }
    return not_made_yet(reader, makers[value], read)


def external_files(source: Source) -> list[str]:
    """Return the files of a model's folder that hold data of its tensors, each once."""
    found: dict[str, None] = {}
    for tensor in _tensors(parse_model(source.data).graph):
        if tensor.data_location == _EXTERNAL:
            places = (x.value for x in tensor.external_data if x.key == "location")
            found.update(dict.fromkeys(place.replace("\\", "/") for place in places))
    return list(found)


def _check_external(model: Any) -> None:
    """Refuse tensors whose data is said to lie outside the model's folder."""
    for tensor in _tensors(model.graph):
        if tensor.data_location != _EXTERNAL:
            continue
        places = [entry.value for entry in tensor.external_data if entry.key == "location"]
        for place in places or [""]:
            parts = place.replace("\\", "/").split("/")
            # Windows paths count too: a model may come from anywhere.
            if not place or parts[0] == "" or ":" in parts[0] or ".." in parts:
                raise FormatError(
                    f"initializer {show(tensor.name)}: its external data, {show(place)}, "
                    "is not a file inside the model's folder"
                )


def _tensors(graph: Any) -> Iterator[Any]:
    for each in graphs_in(graph):
        yield from each.initializer
        for sparse in each.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for attribute in (x for node in each.node for x in node.attribute):
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


_SHOWN: Final = 6
"""Ops of a cycle that a message names."""


def not_made_yet(reader: str, maker: str, read: Mapping[str, Iterable[str]]) -> str:
    """Return the end of a message about an op that reads what a later one, `maker`, makes.

    `read` are the ops from which each op reads, by name.
    """
    cycle = _path(reader, maker, read)
    later = f"which op {show(maker)} makes later"
    if not cycle:
        return f"{later}; sort the model's ops first"
    more = ["..."] if len(cycle) > _SHOWN else []
    names = " -> ".join([*map(show, cycle[:_SHOWN]), *more, show(reader)])
    return f"{later}, in a cycle: {names}"


def _path(first: str, last: str, read: Mapping[str, Iterable[str]]) -> list[str]:
    """Return ops from `first` to `last` where each reads from the one before; empty if none."""
    # Backwards from the maker: all that it reads from, until the reader is among it.
    next_op = {last: ""}
    stack = [last]
    while stack and first not in next_op:
        name = stack.pop()
        for source in read.get(name, ()):
            if source not in next_op:
                next_op[source] = name
                stack.append(source)
    if first not in next_op:
        return []
    found = [first]
    while next_op[found[-1]]:
        found.append(next_op[found[-1]])
    return found
