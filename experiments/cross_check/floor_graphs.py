"""Graphs of 30 ops and about 60 buffers, shaped like what frameworks plan."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph

KIB = 1024


def residual_inference(seed: int, ops: int = 30) -> Graph:
    """A chain with skips: weights are kept, every third op needs workspace."""
    rng, build = np.random.default_rng(seed), GraphBuilder(f"residual_inference_{seed}")
    build.input("x", _size(rng))
    chain = ["x"]
    for v in range(ops):
        reads = [chain[-1]]
        if v % 2:
            build.input(f"w{v}", _size(rng), InputPolicy.KEPT)
            reads.append(f"w{v}")
        if v > 3 and v % 3 == 0:
            reads.append(chain[-1 - int(rng.integers(1, 5))])
        build.op(
            f"op{v}",
            reads=dict.fromkeys(reads),
            writes={f"y{v}": _size(rng)},
            workspace=_size(rng) if v % 2 == 0 else 0,
        )
        chain.append(f"y{v}")
    build.output(chain[-1])
    return build.build()


def branches_inference(seed: int, ops: int = 30) -> Graph:
    """Inception-like: blocks of parallel branches that are split and joined."""
    rng, build = np.random.default_rng(seed), GraphBuilder(f"branches_inference_{seed}")
    build.input("x", _size(rng))
    at, v = "x", 0
    while v < ops:
        width = min(int(rng.integers(2, 5)), max(1, (ops - v - 2) // 2))
        parts = {f"s{v}_{i}": _size(rng) for i in range(width)}
        build.op(f"split{v}", reads=[at], writes=parts)
        tips, made = list(parts), 1
        while made + v < ops - 1 and made <= 2 * width:
            i = int(rng.integers(len(tips)))
            name = f"b{v}_{made}"
            build.op(
                name,
                reads=[tips[i]],
                writes={name: _size(rng), f"{name}.stats": KIB * int(rng.integers(1, 9))},
                workspace=_size(rng) if made % 3 == 0 else 0,
            )
            tips[i] = name
            made += 1
        build.op(f"join{v}", reads=tips, writes={f"j{v}": _size(rng)})
        at, v = f"j{v}", v + made + 1
    build.output(at)
    return build.build()


def training(seed: int, ops: int = 30) -> Graph:
    """Forward and backward of a chain with skips: activations wait, weight gradients stay."""
    rng, build = np.random.default_rng(seed), GraphBuilder(f"training_{seed}")
    depth = ops // 3
    sizes = [_size(rng) for _ in range(depth + 1)]
    weights = [_size(rng) for _ in range(depth)]
    build.input("x0", sizes[0])
    skip = {v: v - int(rng.integers(1, 4)) for v in range(3, depth) if rng.random() < 0.5}
    for v in range(depth):
        build.input(f"w{v}", weights[v], InputPolicy.KEPT)
        reads = [f"x{v}", f"w{v}", *([f"x{skip[v]}"] if v in skip else [])]
        writes = {f"x{v + 1}": sizes[v + 1], f"saved{v}": KIB * int(rng.integers(1, 65))}
        build.op(f"forward{v}", reads=dict.fromkeys(reads), writes=writes)
    grads: dict[int, list[str]] = {depth: [f"x{depth}"]}
    for v in reversed(range(depth)):
        incoming = grads[v + 1]
        build.op(
            f"backward{v}",
            reads=[*incoming, f"w{v}", f"saved{v}"],
            writes={f"d{v}": sizes[v], **({f"ds{v}": sizes[skip[v]]} if v in skip else {})},
        )
        build.op(f"weight{v}", reads=[*incoming, f"x{v}"], writes={f"dw{v}": weights[v]})
        grads.setdefault(v, []).append(f"d{v}")
        if v in skip:
            grads.setdefault(skip[v], []).append(f"ds{v}")
        build.output(f"dw{v}")
    return build.build()


def attention(seed: int, ops: int = 30) -> Graph:
    """Identical heads side by side, then a joining chain: symmetric on purpose."""
    rng, build = np.random.default_rng(seed), GraphBuilder(f"attention_{seed}")
    heads = (ops - 2) // 4
    row, score = _size(rng), _size(rng)
    build.input("x", 4 * row)
    for h in range(heads):
        build.op(f"qkv{h}", reads=["x"], writes={f"q{h}": row, f"k{h}": row, f"v{h}": row})
        build.op(f"score{h}", reads=[f"q{h}", f"k{h}"], writes={f"s{h}": score})
        build.op(f"softmax{h}", reads=[f"s{h}"], writes={f"p{h}": score}, workspace=KIB)
        build.op(f"mix{h}", reads=[f"p{h}", f"v{h}"], writes={f"o{h}": row})
    build.op("join", reads=[f"o{h}" for h in range(heads)], writes={"y": heads * row})
    build.op("project", reads=["y", "x"], writes={"z": 4 * row})
    build.output("z")
    return build.build()


FAMILIES: dict[str, Callable[[int], Graph]] = {
    "residual inference": residual_inference,
    "branches inference": branches_inference,
    "training": training,
    "attention": attention,
}


def _size(rng: np.random.Generator) -> int:
    return KIB * int(rng.integers(4, 257))
