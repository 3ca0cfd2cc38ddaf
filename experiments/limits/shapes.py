"""Graphs that are hard to stop at: very wide, very long, in many pieces, of many users."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from tests.support.families.shapes import layered
from tests.support.families.stacks import transformer
from tests.support.families.wiring import random_wiring, training

LARGEST = 1_000
"""Random sizes are 1 to this many bytes."""

SPOKES, CROWD, LAYER, PART = 40, 10_000, 50, 5
"""Ops below each op of a fan; users of a chain's widest buffer; ops in a complete layer; ops of a
part of a forest."""


def independent(ops: int) -> Graph:
    """Ops that have nothing to do with one another; half of what they make is kept."""
    rng = np.random.default_rng(ops)
    build = GraphBuilder(f"independent{ops}")
    for i in range(ops):
        build.op(f"op{i}", writes={f"b{i}": _size(rng)})
        if i % 2:
            build.output(f"b{i}")
    return build.build()


def grid(ops: int) -> Graph:
    """Return a square of ops; each reads the results of the op above it and the op before it."""
    rng = np.random.default_rng(ops)
    build = GraphBuilder(f"grid{ops}")
    # The ops done at a time form a staircase: the number of states is exponential in the side.
    side = math.isqrt(ops)
    for i in range(side):
        for j in range(side):
            near = ((i - 1, j), (i, j - 1))
            reads = [f"b{a}_{b}" for a, b in near if min(a, b) >= 0]
            build.op(f"op{i}_{j}", reads=reads, writes={f"b{i}_{j}": _size(rng)})
    return build.build()


def star(ops: int) -> Graph:
    """Ops that read one buffer, and one that reads what all of them make."""
    rng = np.random.default_rng(ops)
    build = GraphBuilder(f"star{ops}")
    build.input("x", LARGEST)
    for i in range(ops - 1):
        build.op(f"leaf{i}", reads=["x"], writes={f"b{i}": _size(rng)})
    return _join(build, [f"b{i}" for i in range(ops - 1)])


def apart(ops: int) -> Graph:
    """Pairs of ops that have nothing to do with one another until the end."""
    rng = np.random.default_rng(ops)
    build = GraphBuilder(f"apart{ops}")
    for i in range(ops // 2):
        build.op(f"up{i}", writes={f"u{i}": _size(rng)})
        build.op(f"down{i}", reads=[f"u{i}"], writes={f"d{i}": _size(rng)})
    return _join(build, [f"d{i}" for i in range(ops // 2)])


def fan(ops: int) -> Graph:
    """A star of stars, which come together again."""
    rng = np.random.default_rng(ops)
    build = GraphBuilder(f"fan{ops}")
    build.input("x", LARGEST)
    # Each hub takes its spokes and a rim.
    hubs = ops // (SPOKES + 2)
    for h in range(hubs):
        build.op(f"hub{h}", reads=["x"], writes={f"h{h}": _size(rng)})
        for i in range(SPOKES):
            build.op(f"spoke{h}_{i}", reads=[f"h{h}"], writes={f"s{h}_{i}": _size(rng)})
        inner = [f"s{h}_{i}" for i in range(SPOKES)]
        build.op(f"rim{h}", reads=inner, writes={f"r{h}": _size(rng)})
    return _join(build, [f"r{h}" for h in range(hubs)])


def complete(ops: int) -> Graph:
    """Return layers of ops; each op reads all results of the layer before it."""
    rng = np.random.default_rng(ops)
    build = GraphBuilder(f"complete{ops}")
    build.input("x", LARGEST)
    row = ["x"]
    for layer in range(ops // LAYER):
        made = [f"b{layer}_{i}" for i in range(LAYER)]
        for name in made:
            build.op(f"op{name}", reads=row, writes={name: _size(rng)})
        row = made
    return _join(build, row)


def crowded(ops: int) -> Graph:
    """A chain in which each buffer of one in a thousand is read by the next 10,000 ops."""
    rng = np.random.default_rng(ops)
    build = GraphBuilder(f"crowded{ops}")
    build.input("b-1", LARGEST)
    wide: list[int] = []
    for i in range(ops):
        # A buffer is read by the ops up to 10,000 steps after it.
        wide = [j for j in wide if i - j <= CROWD]
        reads = dict.fromkeys([f"b{i - 1}", *(f"b{j}" for j in wide)])
        build.op(f"op{i}", reads=reads, writes={f"b{i}": _size(rng)})
        wide += [i] if i % 1_000 == 0 else []
    build.output(f"b{ops - 1}")
    return build.build()


def crowd(ops: int) -> Graph:
    """Buffers that 10,000 ops each read, in any order, and a chain of sums of what they make."""
    rng = np.random.default_rng(ops)
    build = GraphBuilder(f"crowd{ops}")
    build.input("sum-1", LARGEST)
    for i in range(ops // 2):
        wide = i // CROWD
        if i % CROWD == 0:
            build.op(f"wide{wide}", writes={f"w{wide}": 100 * _size(rng)})
        build.op(f"use{i}", reads=[f"w{wide}"], writes={f"u{i}": _size(rng)})
        build.op(f"sum{i}", reads=[f"sum{i - 1}", f"u{i}"], writes={f"sum{i}": _size(rng)})
    build.output(f"sum{ops // 2 - 1}")
    return build.build()


def forest(ops: int) -> Graph:
    """Very many small graphs with nothing between them; what each makes is kept."""
    rng = np.random.default_rng(ops)
    build = GraphBuilder(f"forest{ops}")
    for part in range(ops // PART):
        build.input(f"x{part}", _size(rng))
        for i in range(PART):
            back = {f"b{part}_{int(rng.integers(i))}"} if i else {f"x{part}"}
            also = {f"b{part}_{int(rng.integers(i))}"} if i > 1 else set()
            build.op(
                f"op{part}_{i}", reads=sorted(back | also), writes={f"b{part}_{i}": _size(rng)}
            )
        build.output(f"b{part}_{PART - 1}")
    return build.build()


def layers(ops: int) -> Graph:
    """Return layers of 8,000 ops; each op reads one to three buffers of the layer before."""
    # At least two layers.
    width = min(8_000, ops // 2)
    return layered(ops // width, 0, width)


SHAPES: dict[str, Callable[[int], Graph]] = {
    "independent": independent,
    "grid": grid,
    "random": lambda ops: random_wiring(ops, 0, unit=False),
    "star": star,
    "apart": apart,
    "fan": fan,
    "complete": complete,
    "crowded": crowded,
    "crowd": crowd,
    "forest": forest,
    "layers": layers,
    "narrow": lambda ops: layered(ops // 8, 0, 8),
    "training": lambda ops: training(ops // 4, 1),
    "transformer": lambda ops: transformer(max(1, ops // 60)),
}
"""Makers of graphs with about a number of ops."""


def _join(build: GraphBuilder, buffers: list[str]) -> Graph:
    build.op("join", reads=buffers, writes={"y": 1})
    build.output("y")
    return build.build()


def _size(rng: np.random.Generator) -> int:
    return int(rng.integers(1, LARGEST + 1))
