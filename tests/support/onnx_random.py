"""Random ONNX models that ONNX Runtime runs.

A random model is made of ops on values of a few shapes and element types, of node tests between
them, and of what is odd in real files: results that nothing reads, constants that ops compute,
outputs that are inputs, weights or each other's names, bodies, functions, nodes in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.support.onnx_nodes import OPSET, Case, single_cases

KINDS = {
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "FLOAT16": np.float16,
    "INT64": np.int64,
    "INT32": np.int32,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}
_UNARY = [
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh"),
    *("Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "Identity", "IsNaN"),
    *("LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu"),
    *("Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt"),
    *("Tan", "Tanh", "ThresholdedRelu"),
]
_BINARY = [
    *("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu", "Sum", "Mean", "Mod", "Less"),
    *("Greater", "Equal"),
]
_SHAPES = ((48, 64), (64, 48), (4, 16, 48), (32,), (1, 8, 12, 16), (), (3, 5))


class Value(NamedTuple):
    """Name, element type and shape of a value."""

    name: str
    kind: str
    shape: tuple[int, ...]


def random_model(seed: int) -> Case:
    """Return a random model, which ONNX Runtime may refuse, and its inputs."""
    return _Model(random.Random(seed), seed).make()


class _Model:
    """A model that grows op by op."""

    def __init__(self, draw: random.Random, seed: int) -> None:
        self.draw, self.seed, self.count = draw, seed, 0
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.functions: list[Any] = []
        self.inputs: list[Value] = []
        self.values: list[Value] = []
        self.feed: dict[str, Any] = {}
        # Element types of a model are few, as in real ones.
        kinds = [["FLOAT"], ["FLOAT"], ["FLOAT", "DOUBLE"], ["FLOAT16"], ["FLOAT16", "FLOAT"]]
        self.kinds = draw.choice([*kinds, ["FLOAT", "INT64", "INT32"]])
        self.shapes = draw.sample(_SHAPES, 3)

    def make(self) -> Case:
        """Return the model."""
        for kind in self.kinds:
            self.values.append(self.input(kind, self.draw.choice(self.shapes)))
        for _ in range(self.draw.randint(3, 18)):
            self.step(self.draw.choice(_STEPS))
        return f"seed {self.seed}", self.model(), self.feed

    # Parts of a model.

    def name(self) -> str:
        """Return a new name."""
        self.count += 1
        return f"v{self.count}"

    def input(self, kind: str, shape: Sequence[int], data: Any = None) -> Value:
        """Add a graph input with random numbers, or the given ones."""
        made = Value(self.name(), kind, tuple(shape))
        self.inputs.append(made)
        self.feed[made.name] = self.numbers(kind, shape) if data is None else data
        return made

    def numbers(self, kind: str, shape: Sequence[int]) -> Any:
        """Return numbers between -1 and 3, where integers are 1."""
        rng = np.random.default_rng(self.seed + len(self.feed))
        if kind in ("FLOAT", "DOUBLE", "FLOAT16"):
            return rng.uniform(-1, 3, tuple(shape)).astype(KINDS[kind])
        return np.ones(tuple(shape), KINDS[kind])

    def weight(self, data: Any) -> str:
        """Add an initializer, or now and then a `Constant`, and return its name."""
        from onnx import helper, numpy_helper

        name, tensor = self.name(), numpy_helper.from_array(np.asarray(data))
        if self.draw.random() < 0.2:
            self.nodes.append(helper.make_node("Constant", [], [name], name, value=tensor))
        else:
            tensor.name = name
            self.weights.append(tensor)
        return name

    def integers(self, *numbers: int) -> str:
        """Add a list of integers."""
        return self.weight(np.array(numbers, np.int64))

    def add(self, kind: str, *reads: str, outputs: int = 1, domain: str = "", **more: Any) -> Any:
        """Add a node; return the name of its output, or the names of its outputs."""
        from onnx import helper

        made = [self.name() for _ in range(outputs)]
        node = helper.make_node(kind, reads, made, f"{kind}.{made[0]}", domain=domain, **more)
        self.nodes.append(node)
        return made[0] if outputs == 1 else made

    def put(self, name: str, kind: str, shape: Sequence[int]) -> Value:
        """Note a value that later ops may read."""
        made = Value(name, kind, tuple(shape))
        self.values.append(made)
        return made

    def floats(self, rank: int = 0) -> Value:
        """Return a float value of at least this rank, widened if there is none."""
        known = [v for v in self.values if "FLOAT" in v.kind and len(v.shape) >= rank]
        known = [v for v in known if 0 not in v.shape]
        if known:
            # Later values more often, so that chains grow.
            return self.draw.choice(known[-4:] if self.draw.random() < 0.6 else known)
        made = self.input("FLOAT", (8, 6, 10, 4)[: max(1, rank)])
        self.values.append(made)
        return made

    def step(self, make: Callable[[_Model], None]) -> None:
        make(self)

    def model(self) -> Any:
        """Return the ModelProto: outputs are chosen, and nodes may lose their order."""
        from onnx import TensorProto, helper

        draw = self.draw
        read = {x for node in self.nodes for x in node.input}
        ends = [v for v in self.values if v.name not in read and v not in self.inputs]
        outputs = [v for v in ends if draw.random() < 0.7] or ends[-1:]
        inner = [v for v in self.values if v not in self.inputs and v not in outputs]
        if not outputs:
            outputs = [self.put(self.add("Identity", self.inputs[0].name), *self.inputs[0][1:])]
        if draw.random() < 0.3 and inner:
            outputs.append(draw.choice(inner))
        if draw.random() < 0.15:
            outputs.append(draw.choice(self.inputs))
        names = [v.name for v in outputs]
        if draw.random() < 0.15 and self.weights:
            names.append(draw.choice(self.weights).name)
        if draw.random() < 0.05:
            names.append(names[0])
        if draw.random() < 0.15:
            draw.shuffle(self.nodes)
        types = {v.name: v for v in self.values}
        described = [
            helper.make_tensor_value_info(x, getattr(TensorProto, types[x].kind), types[x].shape)
            if x in types
            else helper.make_empty_tensor_value_info(x)
            for x in names
        ]
        given = [
            helper.make_tensor_value_info(v.name, getattr(TensorProto, v.kind), v.shape)
            for v in self.inputs
        ]
        if draw.random() < 0.1:
            for node in self.nodes:
                node.name = ""
        graph = helper.make_graph(self.nodes, f"random{self.seed}", given, described, self.weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]
        made = helper.make_model(graph, opset_imports=opsets, functions=self.functions)
        made.ir_version = 10
        return made


# Steps: each adds an op or a few.


def _unary(m: _Model) -> None:
    v = m.floats()
    kind = m.draw.choice(_UNARY)
    result = "BOOL" if kind == "IsNaN" else v.kind
    shape = v.shape
    if kind in ("Softmax", "LogSoftmax"):
        v = m.floats(1)
        axis = m.draw.randrange(len(v.shape))
        m.put(m.add(kind, v.name, axis=axis), v.kind, v.shape)
        return
    m.put(m.add(kind, v.name), result, shape)


def _binary(m: _Model) -> None:
    v = m.floats()
    same = [w for w in m.values if w[1:] == v[1:]]
    other = m.draw.choice(same).name
    if m.draw.random() < 0.3:
        other = m.weight(m.numbers(v.kind, v.shape[-1:]))
    kind = m.draw.choice(_BINARY)
    more = {"fmod": 1} if kind == "Mod" else {}
    result = "BOOL" if kind in ("Less", "Greater", "Equal") else v.kind
    reads = [v.name, other]
    if kind in ("Sum", "Max", "Min", "Mean"):
        reads += [v.name] * m.draw.randrange(3)
    m.put(m.add(kind, *reads, **more), result, v.shape)


def _views(m: _Model) -> None:
    v = m.floats(1)
    kind = m.draw.choice(("Reshape", "Unsqueeze", "Flatten", "Identity", "Dropout", "Squeeze"))
    size = int(np.prod(v.shape))
    if kind == "Reshape":
        m.put(
            m.add(kind, v.name, m.integers(-1, v.shape[-1])),
            v.kind,
            (size // v.shape[-1], v.shape[-1]),
        )
    elif kind == "Unsqueeze":
        m.put(m.add(kind, v.name, m.integers(0)), v.kind, (1, *v.shape))
    elif kind == "Squeeze" and v.shape[0] == 1:
        m.put(m.add(kind, v.name, m.integers(0)), v.kind, v.shape[1:])
    elif kind == "Flatten":
        m.put(m.add(kind, v.name, axis=0), v.kind, (1, size))
    elif kind == "Dropout":
        outputs = m.add(kind, v.name, outputs=m.draw.choice((1, 2)))
        names = [outputs] if isinstance(outputs, str) else outputs
        m.put(names[0], v.kind, v.shape)
        if len(names) > 1:
            m.put(names[1], "BOOL", v.shape)
    else:
        m.put(m.add("Identity", v.name), v.kind, v.shape)


def _computed_shape(m: _Model) -> None:
    """Constants that follow from a fixed shape."""
    v = m.floats(1)
    shape = m.add("Shape", v.name)
    filled = m.add("ConstantOfShape", shape)
    if m.draw.random() < 0.5:
        filled = m.add("Cast", m.add("Exp", filled), to=1)
    if v.kind == "FLOAT":
        m.put(m.add("Add", v.name, filled), v.kind, v.shape)
    else:
        m.put(filled, "FLOAT", v.shape)
    if m.draw.random() < 0.4:
        flat = m.add("ReduceProd", shape, keepdims=1)
        m.put(m.add("Reshape", v.name, flat), v.kind, (int(np.prod(v.shape)),))


def _constants(m: _Model) -> None:
    """Weights that ops compute from weights."""
    v = m.floats(1)
    if v.kind != "FLOAT":
        return
    data = m.weight(m.numbers("FLOAT", v.shape[-1:]))
    match m.draw.randrange(5):
        case 0:
            made = m.add("Sin", data)
        case 1:
            scale, zero = m.weight(np.float32(0.1)), m.weight(np.uint8(2))
            made = m.add("DequantizeLinear", m.weight(np.ones(v.shape[-1:], np.uint8)), scale, zero)
        case 2:
            made = m.add("Clip", data, "", m.weight(np.float32(1)))
        case 3:
            made = m.add("CastLike", m.weight(np.ones(v.shape[-1:], np.int64)), data)
        case _:
            made = m.add("Tile", m.weight(np.ones(1, np.float32)), m.integers(v.shape[-1]))
    m.put(m.add("Mul", v.name, made), v.kind, v.shape)


def _reduce(m: _Model) -> None:
    v = m.floats(1)
    kind = m.draw.choice(
        ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd"]
    )
    axis = m.draw.randrange(len(v.shape))
    shape = tuple(1 if i == axis else n for i, n in enumerate(v.shape))
    m.put(m.add(kind, v.name, m.integers(axis)), v.kind, shape)


def _pieces(m: _Model) -> None:
    """Ops of several results, where some are not read."""
    v = m.floats(1)
    last = v.shape[-1]
    if m.draw.random() < 0.5 and last > 1:
        sizes = [last // 2, last - last // 2]
        names = m.add("Split", v.name, m.integers(*sizes), outputs=2, axis=-1)
        for name, size in zip(names, sizes, strict=True):
            m.put(name, v.kind, (*v.shape[:-1], size))
    else:
        count = max(1, last // 2)
        names = m.add("TopK", v.name, m.integers(count), outputs=2)
        m.put(names[0], v.kind, (*v.shape[:-1], count))
        m.put(names[1], "INT64", (*v.shape[:-1], count))


def _moves(m: _Model) -> None:
    v = m.floats(1)
    match m.draw.randrange(7):
        case 0:
            order = list(range(len(v.shape)))[::-1]
            m.put(m.add("Transpose", v.name, perm=order), v.kind, v.shape[::-1])
        case 1:
            joined = m.add("Concat", v.name, v.name, axis=0)
            m.put(joined, v.kind, (2 * v.shape[0], *v.shape[1:]))
        case 2 if v.shape[0] > 1:
            half = v.shape[0] // 2
            made = m.add("Slice", v.name, m.integers(0), m.integers(half), m.integers(0))
            m.put(made, v.kind, (half, *v.shape[1:]))
        case 3:
            pads = [0] * len(v.shape) + [1] * len(v.shape)
            m.put(m.add("Pad", v.name, m.integers(*pads)), v.kind, [n + 1 for n in v.shape])
        case 4:
            m.put(m.add("Gather", v.name, m.integers(0, 0, 0)), v.kind, (3, *v.shape[1:]))
        case 5:
            m.put(m.add("Expand", v.name, m.integers(2, *v.shape)), v.kind, (2, *v.shape))
        case _:
            times = [2, *[1] * (len(v.shape) - 1)]
            m.put(m.add("Tile", v.name, m.integers(*times)), v.kind, (2 * v.shape[0], *v.shape[1:]))


def _casts(m: _Model) -> None:
    from onnx import TensorProto

    v = m.draw.choice(m.values)
    kind = m.draw.choice(
        ("FLOAT", "FLOAT", "FLOAT16", "BFLOAT16", "INT32", "INT64", "INT8", "BOOL")
    )
    made = m.add("Cast", v.name, to=getattr(TensorProto, kind))
    if kind == "BFLOAT16":
        m.put(m.add("Cast", made, to=TensorProto.FLOAT), "FLOAT", v.shape)
    else:
        m.put(made, kind, v.shape)


def _products(m: _Model) -> None:
    v = m.floats(2)
    weight = m.weight(m.numbers(v.kind, (v.shape[-1], 24)))
    made = m.add("MatMul", v.name, weight)
    if m.draw.random() < 0.5:
        made = m.add("Add", made, m.weight(m.numbers(v.kind, (24,))))
    m.put(made, v.kind, (*v.shape[:-1], 24))


def _images(m: _Model) -> None:
    v = m.floats(4)
    if len(v.shape) != 4 or min(v.shape) < 1:
        return
    match m.draw.randrange(5):
        case 0:
            window = m.draw.choice((1, 3))
            weight = m.weight(m.numbers(v.kind, (6, v.shape[1], window, window)))
            made = m.add("Conv", v.name, weight, pads=[window // 2] * 4)
            m.put(made, v.kind, (v.shape[0], 6, *v.shape[2:]))
        case 1:
            pool = m.add("MaxPool", v.name, kernel_shape=[3, 3], pads=[1] * 4, outputs=2)
            m.put(pool[0], v.kind, v.shape)
            m.put(pool[1], "INT64", v.shape)
        case 2:
            m.put(m.add("AveragePool", v.name, kernel_shape=[3, 3], pads=[1] * 4), v.kind, v.shape)
        case 3:
            m.put(m.add("GlobalAveragePool", v.name), v.kind, (*v.shape[:2], 1, 1))
        case _:
            rows = [m.weight(m.numbers(v.kind, v.shape[1:2])) for _ in range(2)]
            m.put(m.add("InstanceNormalization", v.name, *rows), v.kind, v.shape)


def _quantized(m: _Model) -> None:
    v = m.floats(1)
    if v.kind != "FLOAT":
        return
    scale, zero = m.weight(np.float32(0.1)), m.weight(np.uint8(3))
    small = m.add("QuantizeLinear", v.name, scale, zero)
    m.put(m.add("DequantizeLinear", small, scale, zero), v.kind, v.shape)
    if m.draw.random() < 0.5:
        m.put(small, "UINT8", v.shape)


def _where(m: _Model) -> None:
    v = m.floats()
    chosen = m.add("Less", v.name, m.weight(m.numbers(v.kind, ())))
    m.put(m.add("Where", chosen, v.name, m.weight(m.numbers(v.kind, ()))), v.kind, v.shape)


def _function(m: _Model) -> None:
    from onnx import helper

    v = m.floats()
    if not m.functions:
        inside = [
            helper.make_node("Sin", ["a"], ["b"]),
            helper.make_node("Neg", ["b"], ["c"]),
            helper.make_node("Mul", ["c", "b"], ["d"]),
        ]
        opsets = [helper.make_opsetid("", OPSET)]
        m.functions.append(helper.make_function("local", "twice", ["a"], ["d"], inside, opsets))
    m.put(m.add("twice", v.name, domain="local"), v.kind, v.shape)


def _body(m: _Model, name: str, v: Value, source: str, inputs: Sequence[Any] = ()) -> Any:
    """Return a body that makes a value like `v` of one."""
    from onnx import TensorProto, helper

    last, nodes = source, []
    for _ in range(m.draw.randint(1, 3)):
        made = m.name()
        nodes.append(helper.make_node(m.draw.choice(("Sin", "Neg", "Relu", "Abs")), [last], [made]))
        if m.draw.random() < 0.3:
            nodes.append(helper.make_node("Cos", [last], [m.name()]))
        last = made
    result = helper.make_tensor_value_info(last, getattr(TensorProto, v.kind), v.shape)
    return helper.make_graph(nodes, name, list(inputs), [result])


def _if(m: _Model) -> None:
    v = m.floats()
    flag = m.input("BOOL", ()).name if m.draw.random() < 0.7 else m.weight(np.bool_(True))
    branches = {name: _body(m, name, v, v.name) for name in ("then_branch", "else_branch")}
    m.put(m.add("If", flag, **branches), v.kind, v.shape)


def _loop(m: _Model) -> None:
    from onnx import TensorProto, helper

    v = m.floats()
    kind = getattr(TensorProto, v.kind)
    state, going, on = m.name(), m.name(), m.name()
    inputs = [
        helper.make_tensor_value_info(m.name(), TensorProto.INT64, []),
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        helper.make_tensor_value_info(state, kind, v.shape),
    ]
    body = _body(m, "body", v, state, inputs)
    body.node.insert(0, helper.make_node("Identity", [going], [on]))
    body.output.insert(0, helper.make_tensor_value_info(on, TensorProto.BOOL, []))
    m.put(m.add("Loop", m.weight(np.int64(3)), "", v.name, body=body), v.kind, v.shape)


def _node_case(m: _Model) -> None:
    """A node test in the model: its inputs are inputs, weights, or made by an op."""
    from onnx import TensorProto

    _, case, data = m.draw.choice(single_cases())
    names = {"": ""}
    for value in case.graph.input:
        kind = TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        if value.name not in data:
            return
        array = data[value.name]
        made = m.draw.random()
        if made < 0.3 and kind in KINDS:
            names[value.name] = m.weight(array)
        else:
            given = m.input(kind, array.shape, array).name
            wide = made < 0.7 and kind == "FLOAT"
            names[value.name] = m.add("Sum", given) if wide else given
    made = type(case.graph.node[0])()
    made.CopyFrom(case.graph.node[0])
    for i, name in enumerate(made.input):
        made.input[i] = names[name]
    for i, name in enumerate(made.output):
        names[name] = m.name() if name else ""
        made.output[i] = names[name]
    made.name = f"{made.op_type}.{m.name()}"
    m.nodes.append(made)
    for value in case.graph.output:
        tensor = value.type.tensor_type
        kind = TensorProto.DataType.Name(tensor.elem_type)
        if kind in KINDS and value.type.HasField("tensor_type"):
            m.put(names[value.name], kind, [d.dim_value for d in tensor.shape.dim])


_STEPS: tuple[Callable[[_Model], None], ...] = (
    *[_unary] * 6,
    *[_binary] * 3,
    *[_views] * 3,
    *[_node_case] * 3,
    *[_pieces] * 2,
    *[_moves] * 3,
    *(_computed_shape, _constants, _reduce, _casts, _products, _images, _quantized, _where),
    *(_function, _if, _loop),
)
