"""Generated graphs of identical blocks: micro-batches of a training step, parallel branches."""

from __future__ import annotations

import numpy as np

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from tests.support.families.wiring import Tape, block

LARGEST = 100
"""Most units of a size."""


def microbatches(count: int, layers: int, seed: int = 0) -> Graph:
    """Forward and backward of some equal micro-batches; the sums of their weight gradients.

    Micro-batches share the weights and nothing else. A skip joins every third layer.
    """
    rng = np.random.default_rng(seed)
    size = rng.integers(20, LARGEST, layers + 1).tolist()
    weight = rng.integers(1, LARGEST, layers).tolist()
    build = GraphBuilder(f"microbatches{count}x{layers}_{seed}")
    for i in range(layers):
        build.input(f"w{i}", weight[i])
    for j in range(count):
        build.input(f"x{j}_0", size[0])
        for i in range(layers):
            skip = [f"x{j}_{i - 2}"] if i > 2 and i % 3 == 0 else []
            reads = [f"x{j}_{i}", f"w{i}", *skip]
            build.op(f"f{j}_{i}", reads=reads, writes={f"x{j}_{i + 1}": size[i + 1]})
        build.op(f"loss{j}", reads=[f"x{j}_{layers}"], writes={f"g{j}_{layers}": size[layers]})
        for i in reversed(range(layers)):
            reads = [f"x{j}_{i}", f"g{j}_{i + 1}"]
            build.op(f"b{j}_{i}", reads=[*reads, f"w{i}"], writes={f"g{j}_{i}": size[i]})
            build.op(f"d{j}_{i}", reads=reads, writes={f"d{j}_{i}": weight[i]})
    for i in range(layers):
        build.op(f"sum{i}", reads=[f"d{j}_{i}" for j in range(count)], writes={f"s{i}": weight[i]})
        build.output(f"s{i}")
    return build.build()


def accumulated(count: int, blocks: int, width: int = 1000) -> Graph:
    """A stack of transformer blocks, with all ops of a block and their weight gradients."""
    build = GraphBuilder(f"accumulated{count}x{blocks}")
    weights: list[tuple[str, int]] = []
    for j in range(count):
        at, tape = f"x{j}", Tape(build, keep=False)
        sizes = {at: width}
        build.input(at, width)
        for i in range(blocks):
            at = block(tape, f"{j}.{i}", at, width, sizes)
        weights = [(name.split(".", 1)[1], size) for name, _, size in tape.records if size]
        build.op(f"loss{j}", reads=[at], writes={f"grad{j}": width})
        tape.backward(f"grad{j}", at, sizes, f"x{j}")
    for name, size in weights:
        reads = [f"{j}.{name}.dw" for j in range(count)]
        build.op(f"sum.{name}", reads=reads, writes={f"{name}.sum": size})
        build.output(f"{name}.sum")
    return build.build()


def branches(count: int, ops: int, seed: int = 0) -> Graph:
    """Equal branches between one input and one op: each a random graph with a number of ops."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, LARGEST, ops).tolist()
    reads: list[list[int]] = [[]]
    for i in range(1, ops):
        near = range(max(0, i - 6), i)
        reads.append(sorted(rng.choice(near, min(2, len(near)), replace=False).tolist()))
    last = sorted(set(range(ops)).difference(*reads))
    build = GraphBuilder(f"branches{count}x{ops}_{seed}")
    build.input("x", 50)
    for j in range(count):
        for i, row in enumerate(reads):
            read = [f"b{j}_{u}" for u in row] or ["x"]
            build.op(f"o{j}_{i}", reads=read, writes={f"b{j}_{i}": size[i]})
    build.op("join", reads=[f"b{j}_{i}" for j in range(count) for i in last], writes={"y": 10})
    build.output("y")
    return build.build()
