"""Small ONNX models whose order matters, made here; `instances/onnx` holds what this writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "instances" / "onnx"


def value(name: str, shape: Sequence[Any], kind: str = "FLOAT") -> Any:
    """Return the description of a value; a dimension may be a name."""
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.DataType.Value(kind), shape)


class Net:
    """Nodes and weights of a model that grows op by op; values are known by their names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, kind: str, *reads: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node and return the name of its output, or the names of its outputs."""
        from onnx import helper

        name = f"{kind.lower()}{len(self.nodes)}"
        made = [f"{name}.{i}" if i else name for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, reads, made, name=name, **attributes))
        return made[0] if outputs == 1 else made

    def integers(self, *numbers: int) -> str:
        """Return an initializer that holds a list of integers."""
        from onnx import TensorProto, helper

        name = f"integers{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers))
        return name

    def weight(self, *shape: int) -> str:
        """Return a weight of this shape, filled by an op so that the file stays small.

        Each has another number in it: ops with equal weights would be found to be one.
        """
        from onnx import TensorProto, helper

        fill = 0.01 + 0.0001 * len(self.weights)
        filled = helper.make_tensor("fill", TensorProto.FLOAT, [1], [fill])
        return str(self.add("ConstantOfShape", self.integers(*shape), value=filled))

    def conv(self, source: str, inner: int, outer: int, window: int = 1, **attributes: Any) -> str:
        """Add a convolution that keeps height and width."""
        pads = [window // 2] * 4
        weight = self.weight(outer, inner, window, window)
        return str(self.add("Conv", source, weight, pads=pads, **attributes))

    def save(self, inputs: Sequence[Any], outputs: Sequence[Any], folder: Path = FOLDER) -> Path:
        """Write the model and return its path."""
        import onnx
        from onnx import helper

        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version, model.producer_name = 8, "optsched"
        onnx.checker.check_model(model, full_check=True)
        path = folder / f"{self.name}.onnx"
        path.write_bytes(model.SerializeToString(deterministic=True))
        return path


def branches(folder: Path = FOLDER) -> Path:
    """Six branches widen a batch of rows; the file widens all before it narrows any."""
    net = Net("branches")
    wide = [net.add("Relu", net.add("MatMul", "x", net.weight(64, 1024))) for _ in range(6)]
    narrow = [net.add("MatMul", branch, net.weight(1024, 64)) for branch in wide]
    net.add("Softmax", net.add("Sum", *narrow))
    net.nodes[-1].output[0] = "y"
    return net.save([value("x", [32, 64])], [value("y", [32, 64])], folder)


def cell(folder: Path = FOLDER) -> Path:
    """Three cells of convolutions; in the file the heads of all branches stand first."""
    net, source = Net("cell"), "x"
    for _ in range(3):
        heads = [net.add("Relu", net.conv(source, 16, 48)) for _ in range(4)]
        tails = [net.add("Relu", net.conv(head, 48, 4)) for head in heads]
        source = net.add("Concat", *tails, axis=1)
    net.add("GlobalAveragePool", source)
    net.nodes[-1].output[0] = "y"
    return net.save([value("x", [1, 16, 56, 56])], [value("y", [1, 16, 1, 1])], folder)


def encoder(folder: Path = FOLDER) -> Path:
    """A transformer layer of four heads, the heads apart; the size of the batch is open."""
    net, width, length = Net("encoder"), 64, 128
    rows = []
    for _ in range(4):
        query, key, values = (net.add("MatMul", "x", net.weight(width, 16)) for _ in range(3))
        scores = net.add("MatMul", query, net.add("Transpose", key, perm=[0, 2, 1]))
        rows.append((net.add("Softmax", scores, axis=-1), values))
    mixed = net.add("Concat", *(net.add("MatMul", a, v) for a, v in rows), axis=2)
    middle = net.add("Add", "x", net.add("MatMul", mixed, net.weight(width, width)))
    inner = net.add("Relu", net.add("MatMul", middle, net.weight(width, 256)))
    net.add("Add", middle, net.add("MatMul", inner, net.weight(256, width)))
    net.nodes[-1].output[0] = "y"
    shape = ["batch", length, width]
    return net.save([value("x", shape)], [value("y", shape)], folder)


def forks(folder: Path = FOLDER) -> Path:
    """Forks of a wide result and of a narrow one that is wide on the way, in either order.

    The narrow side is to run first, so that the wide result is not there yet while it is wide
    itself. A runtime that goes by the positions of nodes in the file is right in one fork only.
    """
    net, source, width = Net("forks"), "x", 64

    def wide() -> str:
        return str(net.add("Relu", net.add("MatMul", source, net.weight(width, 512))))

    def narrow() -> str:
        high = net.add("Sigmoid", net.add("MatMul", source, net.weight(width, 1024)))
        return str(net.add("MatMul", high, net.weight(1024, width)))

    for sides in ((wide, narrow), (narrow, wide), (wide, narrow)):
        joined = net.add("Concat", *(side() for side in sides), axis=1)
        source = net.add("Tanh", net.add("MatMul", joined, net.weight(512 + width, width)))
    net.add("Softmax", source)
    net.nodes[-1].output[0] = "y"
    return net.save([value("x", [64, width])], [value("y", [64, width])], folder)


def control(folder: Path = FOLDER) -> Path:
    """A loop and a branch between ops that can wait for them."""
    from onnx import helper

    net = Net("control")
    first = net.add("Transpose", "x", perm=[1, 0])
    second = net.add("Tile", "x", net.integers(3, 1))
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Exp", ["state"], ["power"]),
            helper.make_node("Sigmoid", ["power"], ["next"]),
        ],
        "body",
        [value("i", [], "INT64"), value("go", [], "BOOL"), value("state", [256, 64])],
        [value("on", [], "BOOL"), value("next", [256, 64])],
        value_info=[value("power", [256, 64])],
    )
    net.weights.append(helper.make_tensor("times", 7, [], [3]))
    looped = net.add("Loop", "times", "", first, body=body)

    then = helper.make_graph(
        [helper.make_node("Exp", [looped], ["high"]), helper.make_node("Neg", ["high"], ["low"])],
        "then",
        [],
        [value("low", [256, 64])],
    )
    other = helper.make_graph(
        [helper.make_node("Abs", [looped], ["size"])], "other", [], [value("size", [256, 64])]
    )
    chosen = net.add("If", "flag", then_branch=then, else_branch=other)
    sums = [net.add("ReduceSum", x, keepdims=0) for x in (chosen, second)]
    net.add("Add", *sums)
    net.nodes[-1].output[0] = "y"
    inputs = [value("x", [64, 256]), value("flag", [], "BOOL")]
    return net.save(inputs, [value("y", [])], folder)


def iterations(folder: Path = FOLDER) -> Path:
    """A Loop and a Scan that stack a part of each iteration, beside an input that is widened."""
    from onnx import helper

    net, side = Net("iterations"), [96, 64]
    first = net.add("Transpose", "x", perm=[1, 0])
    wide = net.add("Tile", "x", net.integers(4, 1))
    inside = [
        helper.make_node("Exp", ["state"], ["power"]),
        helper.make_node("Relu", ["power"], ["capped"]),
        helper.make_node("Neg", ["capped"], ["next"]),
    ]
    loop = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            *inside,
            helper.make_node("Abs", ["state"], ["part"]),
        ],
        "loop",
        [value("i", [], "INT64"), value("go", [], "BOOL"), value("state", side)],
        [value("on", [], "BOOL"), value("next", side), value("part", side)],
    )
    net.weights.append(helper.make_tensor("times", 7, [], [4]))
    looped, parts = net.add("Loop", "times", "", first, outputs=2, body=loop)
    scan = helper.make_graph(
        [*inside, helper.make_node("Add", ["capped", "row"], ["part"])],
        "scan",
        [value("state", side), value("row", side)],
        [value("next", side), value("part", side)],
    )
    scanned, stacked = net.add("Scan", looped, parts, outputs=2, body=scan, num_scan_inputs=1)
    sums = [net.add("ReduceSum", x, keepdims=0) for x in (scanned, stacked, wide)]
    net.add("Sum", *sums)
    net.nodes[-1].output[0] = "y"
    return net.save([value("x", [64, 96])], [value("y", [])], folder)


MODELS = (branches, cell, encoder, forks, control, iterations)


def main() -> None:
    """Write the models of `instances/onnx`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for make in MODELS:
        path = make()
        print(f"{path.name}: {path.stat().st_size:,} bytes")
