"""Random models: what is planned is what is held, in ONNX Runtime's order and in ours."""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path

import numpy as np

from optsched import apply_plan, peak_memory, read_graph, solve
from optsched.formats import read_recorded
from optsched.runtime.heap import Heap
from tests.support.onnx_models import Net, value
from tests.support.onnx_session import measured, random_inputs

Shape = tuple[int, ...]
_BLOCK = 64


def main(count: int) -> None:
    """Run a number of models.

    Raises
    ------
    SystemExit
        If one holds more or less than planned, comes to other outputs in our order, or holds more.
    """
    heap, wrong = Heap(), []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            trouble = _try(random_model(seed, Path(folder)), heap, Path(folder))
            wrong += [f"seed {seed}: {trouble}"] if trouble else []
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"{count} random models hold the planned bytes, in the default order and in ours")


def _try(model: Path, heap: Heap, folder: Path) -> str:
    """Return what is wrong with a model's plan; empty if all is well."""
    import onnx

    graph, feed = read_graph(model).with_inplace(), random_inputs(model, {})
    result = solve(graph, objective="peak", time_limit=3)
    ours = folder / "ours.onnx"
    apply_plan(model, result, ours)
    default_held, expected = measured(model, "DEFAULT", feed, heap)
    held, outputs = measured(ours, "PRIORITY_BASED", feed, heap)
    planned = peak_memory(graph, read_recorded(model)["ort"])
    # Where nothing is optimized, constants are made in each run, a block each.
    fills = sum(node.op_type == "ConstantOfShape" for node in onnx.load(model).graph.node)
    spare = _BLOCK * fills
    if not planned <= default_held <= planned + spare:
        return f"{planned} bytes planned, {default_held} held in the default order"
    if result.peak is None or not result.peak <= held <= result.peak + spare:
        return f"{result.peak} bytes planned, {held} held in our order"
    if held > default_held + spare:
        return f"{held} bytes held in our order, {default_held} in the default order"
    return "" if all(map(np.array_equal, expected, outputs)) else "outputs differ"


def random_model(seed: int, folder: Path) -> Path:
    """Write a model of up to 22 ops: views, kernels in place and not, one output or several."""
    draw, net = random.Random(seed), Net(f"random{seed}")
    values: list[tuple[str, Shape]] = [("x", (64, 64))]
    for _ in range(draw.randint(5, 22)):
        made = _random_op(draw, net, *draw.choice(values), *draw.choice(values))
        values += [made] if made else []
    if len(values) < 2:
        values.append((net.add("Exp", "x"), (64, 64)))
    read = {name for node in net.nodes for name in node.input}
    outputs = [made for made in values[1:] if made[0] not in read]
    # Now and then a value that others read is an output as well.
    outputs += [draw.choice(values[1:])] if draw.random() < 0.3 else []
    return net.save(
        [value("x", [64, 64])], [value(*made) for made in dict.fromkeys(outputs)], folder
    )


def _random_op(
    draw: random.Random, net: Net, one: str, shape: Shape, other: str, other_shape: Shape
) -> tuple[str, Shape] | None:
    kinds = ("Relu", "Exp", "LeakyRelu", "Softmax", "Identity", "Neg", "Add", "Max", "Mul")
    made: tuple[str, Shape] | None = None
    match draw.choice((*kinds, "Cast", "Concat", "Reshape", "Unsqueeze", "Slice")):
        case "Add" if shape == other_shape:
            made = net.add("Add", one, other), shape
        case "Max":
            made = net.add("Max", one, one), shape
        case "Mul":
            made = net.add("Mul", one, net.weight(1)), shape
        case "Cast":
            made = net.add("Cast", net.add("Cast", one, to=6), to=1), shape
        case "Concat" if shape[1:] == other_shape[1:] and shape[0] + other_shape[0] <= 512:
            joined = net.add("Concat", one, other, axis=0)
            made = joined, (shape[0] + other_shape[0], *shape[1:])
        case "Reshape":
            made = net.add("Reshape", one, net.integers(-1, 64)), (math.prod(shape) // 64, 64)
        case "Unsqueeze" if len(shape) == 2:
            made = net.add("Unsqueeze", one, net.integers(1)), (shape[0], 1, shape[1])
        case "Slice" if shape[0] > 1:
            half = net.integers(shape[0] // 2)
            made = net.add("Slice", one, net.integers(0), half), (shape[0] // 2, *shape[1:])
        case "Relu" | "Exp" | "LeakyRelu" | "Softmax" | "Identity" | "Neg" as kind:
            made = net.add(kind, one), shape
    return made
