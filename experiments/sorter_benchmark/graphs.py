"""Graphs with wide fronts: at most steps a large share of all ops is ready."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optsched.model.elements import Buffer, InputPolicy, Op
from optsched.model.graph import Graph

MOST_BYTES = 2**20


def make_graph(name: str, reads: list[tuple[int, ...]], inputs: int, seed: int) -> Graph:
    """Make a graph of ops that each write one buffer; buffers are numbered inputs first."""
    sizes = np.random.default_rng(seed).integers(1, MOST_BYTES, inputs + len(reads)).tolist()
    buffers = [Buffer(f"in{b}", sizes[b], input=InputPolicy.FREED) for b in range(inputs)]
    buffers += [Buffer(f"b{b}", sizes[b]) for b in range(inputs, len(sizes))]
    ops = [Op(f"op{v}", reads=row, writes=(inputs + v,)) for v, row in enumerate(reads)]
    return Graph(f"{name}-{len(ops)}", tuple(ops), tuple(buffers))


def scattered(ops: int, seed: int) -> Graph:
    """Every op reads one to three buffers from anywhere before it."""
    rng = np.random.default_rng(seed)
    inputs = max(1, ops // 20)
    reads = [
        tuple(dict.fromkeys(rng.integers(0, inputs + v, rng.integers(1, 4)).tolist()))
        for v in range(ops)
    ]
    return make_graph("scattered", reads, inputs, seed)


def fan(ops: int, seed: int) -> Graph:
    """One source, a branch of three ops from it for each third of the ops, one join at the end."""
    branches = (ops - 2) // 3
    reads: list[tuple[int, ...]] = [(0,)]
    for branch in range(branches):
        first = 2 + 3 * branch
        reads += [(1,), (first,), (first + 1,)]
    reads.append(tuple(range(4, 4 + 3 * branches, 3)))
    return make_graph("fan", reads, 1, seed)


def shared(ops: int, seed: int) -> Graph:
    """Half of the ops all read the same twelve buffers; each of the others reads two of theirs."""
    rng = np.random.default_rng(seed)
    common = tuple(range(12))
    half = (ops - len(common)) // 2
    reads: list[tuple[int, ...]] = [()] * len(common) + [common] * half
    while len(reads) < ops:
        reads.append(tuple(set((len(common) + rng.integers(0, half, 2)).tolist())))
    return make_graph("shared", reads, 0, seed)


FAMILIES: dict[str, Callable[[int, int], Graph]] = {
    "scattered": scattered,
    "fan": fan,
    "shared": shared,
}
