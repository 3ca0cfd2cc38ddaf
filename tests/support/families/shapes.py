"""Generated graphs of a given shape: layers, series-parallel, U-Net."""

from __future__ import annotations

import numpy as np

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from tests.support.families.wiring import Tape

LARGEST = 100
"""Random sizes are 1 to this many units."""


def layered(layers: int, seed: int, width: int = 4) -> Graph:
    """Layers of `width` ops; each reads one to three buffers, now and then of an older layer."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(f"layered{layers}x{width}_{seed}")
    build.input("x", _size(rng))
    rows = [["x"]]
    for layer in range(layers):
        row = []
        for i in range(width):
            back = 2 if len(rows) > 1 and rng.random() < 0.2 else 1
            source = rows[-back]
            reads = rng.choice(source, size=min(len(source), int(rng.integers(1, 4))))
            row.append(f"b{layer}_{i}")
            build.op(f"op{layer}_{i}", reads=dict.fromkeys(reads), writes={row[-1]: _size(rng)})
        rows.append(row)
    build.op("join", reads=rows[-1], writes={"y": 1})
    build.output("y")
    return build.build()


def series_parallel(ops: int, seed: int) -> Graph:
    """A series-parallel graph: a part of `ops` ops is split in two, one after or beside the other.

    Beside means that both parts read what a fork op makes, and a join op reads what both make.
    """
    rng = np.random.default_rng(seed)
    build = GraphBuilder(f"series_parallel{ops}_{seed}")
    build.input("x", _size(rng))
    made = 0

    def op(reads: list[str]) -> str:
        nonlocal made
        name, made = f"b{made}", made + 1
        build.op(f"op{name[1:]}", reads=reads, writes={name: _size(rng)})
        return name

    def part(count: int, at: str) -> str:
        if count <= 1:
            return op([at])
        if count < 4 or rng.random() < 0.4:
            left = int(rng.integers(1, count))
            return part(count - left, part(left, at))
        # Two ops are the fork and the join.
        left = int(rng.integers(1, count - 2))
        fork = op([at])
        return op([part(left, fork), part(count - 2 - left, fork)])

    build.output(part(ops, "x"))
    return build.build()


def unet(depth: int, *, train: bool = False, width: int = 64) -> Graph:
    """A U-Net of `depth` levels: two convolutions each, skips over the middle; or its training.

    Sizes are in pixels times channels of the coarsest level's area: each level down has a
    quarter of the pixels and twice the channels.
    """
    build = GraphBuilder(f"unet{depth}{'_train' if train else ''}")
    # Half the height and half the width per level.
    area = [4 ** (depth - level) for level in range(depth + 1)]
    channels = [width << level for level in range(depth + 1)]
    sizes = {"x": 3 * area[0]}
    build.input("x", sizes["x"])
    tape = Tape(build)

    def op(name: str, reads: tuple[str, ...], size: int, weight: int = 0) -> str:
        made = tape.op(name, reads, size, weight)
        sizes[made] = size
        return made

    def convolutions(prefix: str, at: str, level: int) -> str:
        for i in range(2):
            name = f"{prefix}{level}.conv{i}"
            at = op(name, (at,), channels[level] * area[level], weight=9 * channels[level])
            at = op(f"{prefix}{level}.relu{i}", (at,), channels[level] * area[level])
        return at

    at, skips = "x", []
    for level in range(depth):
        skips.append(convolutions("down", at, level))
        at = op(f"pool{level}", (skips[-1],), channels[level] * area[level + 1])
    at = convolutions("middle", at, depth)
    for level in reversed(range(depth)):
        at = op(f"up{level}", (at,), channels[level] * area[level], weight=4 * channels[level])
        at = op(f"concat{level}", (skips[level], at), 2 * channels[level] * area[level])
        at = convolutions("right", at, level)
    if train:
        build.op("loss", reads=[at], writes={"grad": sizes[at]})
        at = tape.backward("grad", at, sizes, "x")
    build.output(at)
    return build.build()


def _size(rng: np.random.Generator) -> int:
    return int(rng.integers(1, LARGEST + 1))
