"""Values that do not depend on a model's data, so that the shapes made from them are known.

Exporters write a shape as a computation: the shape of a tensor is taken apart, changed and put
together again, and a Reshape reads the result. The onnx package's shape inference follows only some
of these chains. This module computes them: an op whose operands are all known is evaluated by the
package's reference implementation, and replaced by a constant. Inference then knows more shapes,
from which more values follow, until nothing new is found.

For example, let `x` have the shape 2 x 6, and let ops compute `Shape(x) = [2, 6]`,
`Gather(Shape(x), 1) = 6`, `Div(6, 2) = 3` and `Concat(4, 3) = [4, 3]`. Each of these values is
known, so `Reshape(x, [4, 3])` has the shape 4 x 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np

from optsched.formats.onnx.model import initializers, subgraphs

MOST_ELEMENTS: Final = 4096
"""Values with more elements are not computed: they are data, not shapes."""
_NAMES: Final = """
    Abs Add And Cast CastLike Ceil Clip Concat ConstantOfShape Cos Div Equal Expand EyeLike
    Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual Identity Less
    LessOrEqual Max Min Mod Mul Neg NonZero Not OneHot Or Pad Pow Range Reciprocal ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Sign Sin
    Slice Split Sqrt Squeeze Sub Sum Tile Transpose Trilu Unsqueeze Where Xor
"""
_FOLDED: Final = frozenset(_NAMES.split())
"""Ops of the standard domain whose results decide shapes; all of them are deterministic."""
_STANDARD: Final = ("", "ai.onnx")


class Folder:
    """The known values of a ModelProto, which is changed in place.

    Bodies of loops are left alone, since a value there may differ between iterations, and so are
    names that several graphs give to values of their own.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.values: dict[str, np.ndarray[Any, Any]] = {}
        for graph in list(run_graphs(model.graph))[1:]:
            # Inference looks at nodes of a branch, not at its initializers.
            _move_initializers(graph)
        made = Counter(name for graph in run_graphs(model.graph) for name in _names(graph))
        # A name with two meanings has no value that holds for both.
        self._ambiguous = {name for name, count in made.items() if count > 1}
        for graph in run_graphs(model.graph):
            self._add_initializers(graph)

    def fold(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Replace ops whose results follow from known shapes; return True if there were any.

        `shapes` are the known shapes by name of value.
        """
        before, copied = len(self.values), False
        for number, graph in enumerate(run_graphs(self.model.graph)):
            copied |= number > 0 and self._copy_captured(graph)
            for node in graph.node:
                if node.domain in _STANDARD and self._is_open(node):
                    self._fold_node(node, shapes)
        return copied or len(self.values) > before

    def branch_of(self, node: Any) -> str:
        """Return the attribute with the branch that an If always runs, or "" if that is unknown."""
        condition = self.values.get(node.input[0]) if node.input else None
        if condition is None or condition.size != 1:
            return ""
        return "then_branch" if condition.item() else "else_branch"

    def _add_initializers(self, graph: Any) -> None:
        for tensor in graph.initializer:
            # As floats, since a crafted shape may overflow.
            if 0 <= np.prod(tensor.dims, dtype=float) <= MOST_ELEMENTS:
                self._put(tensor.name, _array(tensor))

    def _fold_node(self, node: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
        if node.op_type == "Constant":
            found = [_constant(node)]
        elif node.op_type in ("Shape", "Size"):
            read = node.input[0] if node.input else ""
            found = [None if read in self._ambiguous else _of_shape(node, shapes.get(read))]
        elif node.op_type in _FOLDED and all(not x or x in self.values for x in node.input):
            # A result of known shape must be small before it is computed.
            large = any(
                np.prod(shapes.get(x, ()), dtype=float) > MOST_ELEMENTS for x in node.output
            )
            found = [] if large or self._is_long(node) else self._evaluate(node)
        else:
            return
        for name, value in zip(node.output, found, strict=False):
            self._put(name, value)
        # The node becomes a constant, so that inference sees its value.
        if node.op_type != "Constant" and len(node.output) == 1 and node.output[0] in self.values:
            made = constant_node(node.output[0], self.values[node.output[0]])
            # The name stays where it is: one that is not valid text can be read, but not written.
            for key, _ in node.ListFields():
                if key.name != "name":
                    node.ClearField(key.name)
            node.MergeFrom(made)

    def _copy_captured(self, graph: Any) -> bool:
        """Repeat known values of outer graphs in a branch, since inference looks only there."""
        # A branch's own names hide those outside.
        own = set(_names(graph))
        read = {name for node in graph.node for name in node.input if name and name not in own}
        nodes = [constant_node(x, self.values[x]) for x in sorted(read) if x in self.values]
        put_first(graph, nodes)
        return bool(nodes)

    def _is_open(self, node: Any) -> bool:
        """Return True if a result of an op is unknown, and its name has one meaning."""
        new = any(name and name not in self.values for name in node.output)
        return new and not self._ambiguous.intersection(node.output)

    def _is_long(self, node: Any) -> bool:
        """Return True if an op makes a large result of small operands."""
        read = [self.values[x] for x in node.input if x]
        if node.op_type in ("ConstantOfShape", "Expand", "Tile"):
            # Operands are small, but the result would have as many elements as they say.
            counts = read[-1].astype(float)
            own = read[0].size if node.op_type == "Tile" else 1
            return bool(own * np.prod(np.maximum(counts, 1)) > MOST_ELEMENTS)
        if node.op_type == "Range":
            start, limit, step = (float(x.item()) for x in read)
            return step == 0 or (limit - start) / step > MOST_ELEMENTS
        if node.op_type == "Pad":
            return bool(read[0].size + np.abs(read[1].astype(float)).sum() > MOST_ELEMENTS)
        # Its depth is a value as well; it is never folded.
        return bool(node.op_type == "OneHot")

    def _evaluate(self, node: Any) -> list[Any]:
        """Return the results of an op, by the onnx package's reference implementation."""
        from onnx import helper
        from onnx.reference import ReferenceEvaluator

        names = [x for x in dict.fromkeys(node.input) if x]
        inputs = [helper.make_empty_tensor_value_info(name) for name in names]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "op", inputs, outputs)
        made = helper.make_model(graph, opset_imports=self.model.opset_import)
        try:
            # Overflow and division by zero are the model's affair.
            with np.errstate(all="ignore"):
                found = ReferenceEvaluator(made).run(None, {x: self.values[x] for x in names})
        except Exception:
            # The op stays as it is: a value that is not computed only leaves a shape unknown.
            return []
        results = iter(found)
        return [next(results) if name else None for name in node.output]

    def _put(self, name: str, value: Any) -> None:
        is_array = isinstance(value, np.ndarray | np.generic)
        if name and name not in self._ambiguous and is_array and value.size <= MOST_ELEMENTS:
            self.values[name] = np.asarray(value)


def _of_shape(node: Any, shape: tuple[int, ...] | None) -> Any:
    if shape is None:
        return None
    if node.op_type == "Size":
        return np.array(np.prod(shape, dtype=np.int64))
    ends = {x.name: x.i for x in node.attribute}
    return np.array(shape[slice(ends.get("start", 0), ends.get("end"))], np.int64)


def _constant(node: Any) -> Any:
    for attribute in node.attribute:
        match attribute.name:
            case "value" if np.prod(attribute.t.dims, dtype=float) <= MOST_ELEMENTS:
                return _array(attribute.t)
            case "value_int" | "value_float":
                return np.array(attribute.i if attribute.name == "value_int" else attribute.f)
            case "value_ints":
                return np.array(attribute.ints, np.int64)
            case "value_floats":
                return np.array(attribute.floats, np.float32)
    return None


def _array(tensor: Any) -> Any:
    """Return the numbers of a tensor; None if its data is elsewhere or damaged."""
    from onnx import numpy_helper

    # Data in another file is not opened.
    if tensor.data_location == 1:
        return None
    try:
        return numpy_helper.to_array(tensor)
    except Exception:
        return None


def constant_node(name: str, value: np.ndarray[Any, Any]) -> Any:
    """Return a Constant that makes a value of these numbers."""
    from onnx import helper, numpy_helper

    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def put_first(graph: Any, nodes: Sequence[Any]) -> None:
    """Put nodes before all others of a GraphProto, which is changed in place."""
    if nodes:
        every = [*nodes, *map(deepcopy, graph.node)]
        del graph.node[:]
        graph.node.extend(every)


def _move_initializers(graph: Any) -> None:
    """Turn small initializers of a branch into Constant nodes, which inference looks into."""
    from onnx import helper

    small = [x for x in graph.initializer if np.prod(x.dims, dtype=float) <= MOST_ELEMENTS]
    put_first(graph, [helper.make_node("Constant", [], [x.name], value=x) for x in small])
    names = {x.name for x in small}
    rest = [deepcopy(x) for x in graph.initializer if x.name not in names]
    del graph.initializer[:]
    graph.initializer.extend(rest)


def run_graphs(graph: Any) -> Iterator[Any]:
    """Return a graph and the branches of its Ifs, at any depth, outer graphs first."""
    yield graph
    for node in graph.node:
        if node.op_type == "If":
            for inner in subgraphs(node):
                yield from run_graphs(inner)


def _names(graph: Any) -> Iterator[str]:
    """Return the names that a graph gives to values of its own, each once."""
    yield from {
        *initializers(graph),
        *(value.name for value in graph.input),
        *(name for node in graph.node for name in node.output if name),
    }
