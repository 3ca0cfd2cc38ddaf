"""Cells of irregularly wired networks, as SERENITY plans them: DARTS and RandWire.

One op per operator that a mobile runtime has (a separable convolution is two), batch 1, a byte per
activation; weights are outside. Ops are in the order in which the networks' own programs call them.

References: Liu, Simonyan, Yang 2019 (DARTS); Xie, Kirillov, Girshick, He 2019 (RandWire); Ahn et
al. 2020 (SERENITY).
"""

from __future__ import annotations

import networkx as nx

from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph

DARTS_NORMAL = (
    (("sep", 0), ("sep", 1)),
    (("sep", 0), ("sep", 1)),
    (("sep", 1), ("skip", 0)),
    (("skip", 0), ("dil", 2)),
)
"""The normal cell that DARTS found (second order): per node, two operators and what they read."""

SEPARABLE = {"sep": 2, "dil": 1}
"""Separable convolutions, one after the other, in an operator of DARTS."""


def darts_cell(channels: int = 48, side: int = 28, *, preprocess: bool = True) -> Graph:
    """The first normal cell of DARTS for ImageNet; its two inputs are outputs of earlier cells.

    Without `preprocess` the inputs already have the cell's number of channels.
    """
    size = channels * side * side
    build = GraphBuilder(f"darts_{channels}x{side}{'' if preprocess else '_inner'}")
    states = []
    for name in ("before", "last"):
        build.input(name, 4 * size if preprocess else size, InputPolicy.FREED)
        states.append(_op(build, f"preprocess.{name}", [name], size) if preprocess else name)
    for number, operators in enumerate(DARTS_NORMAL):
        made = []
        for i, (operator, source) in enumerate(operators):
            at = states[source]
            for round_ in range(SEPARABLE.get(operator, 0)):
                prefix = f"node{number}.{i}.{operator}{round_}"
                at = _separable(build, prefix, at, size)
            made.append(at)
        states.append(_op(build, f"node{number}.add", made, size))
    build.output(_op(build, "concat", states[2:], 4 * size))
    return build.build()


def randwire_cell(seed: int, *, nodes: int = 32, channels: int = 78, side: int = 16) -> Graph:
    """A cell of RandWire: WS(nodes, 4, 0.75); a node adds up what it reads, then convolves."""
    size = channels * side * side
    wiring = nx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed)
    build = GraphBuilder(f"randwire{nodes}_{seed}")
    build.input("x", size, InputPolicy.FREED)
    ends = []
    for v in range(nodes):
        reads = [f"node{u}.pointwise" for u in sorted(wiring.neighbors(v)) if u < v] or ["x"]
        at = reads[0] if len(reads) == 1 else _op(build, f"node{v}.add", reads, size)
        made = _separable(build, f"node{v}", at, size)
        if not any(u > v for u in wiring.neighbors(v)):
            ends.append(made)
    build.output(_op(build, "mean", ends, size))
    return build.build()


def _separable(build: GraphBuilder, prefix: str, source: str, size: int) -> str:
    return _op(
        build, f"{prefix}.pointwise", [_op(build, f"{prefix}.depthwise", [source], size)], size
    )


def _op(build: GraphBuilder, name: str, reads: list[str], size: int) -> str:
    build.op(name, reads=dict.fromkeys(reads), writes={name: size})
    return name
