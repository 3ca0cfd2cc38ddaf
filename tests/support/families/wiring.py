"""Generated graphs: training steps, checkpointed ones, random wiring."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph


@dataclass
class Tape:
    """Ops with sizes, and a backward op for each input of each op, last op first."""

    build: GraphBuilder
    """Collects the graph."""
    records: list[tuple[str, tuple[str, ...], int]] = field(default_factory=list)
    """Name, inputs and bytes of weight gradient of each op."""
    keep: bool = True
    """True if weight gradients are outputs of the graph."""

    def op(self, name: str, inputs: tuple[str, ...], size: int, weight: int = 0) -> str:
        """Add an op with one output; with `weight` its backward makes a gradient of that size."""
        self.build.op(name, reads=inputs, writes={f"{name}.y": size})
        self.records.append((name, inputs, weight))
        return f"{name}.y"

    def backward(self, seed: str, target: str, sizes: dict[str, int], stop: str) -> str:
        """Add the backward of all records; return the gradient with respect to `stop`."""
        gradients = {target: seed}
        for name, inputs, weight in reversed(self.records):
            gradient = gradients.pop(f"{name}.y")
            # The gradient of an op needs that of its result, and what the op read.
            saved = dict.fromkeys([gradient, *inputs])
            if weight:
                self.build.op(f"{name}.dw", reads=saved, writes={f"{name}.dw": weight})
                if self.keep:
                    self.build.output(f"{name}.dw")
            for i, source in enumerate(inputs):
                if source not in sizes:
                    continue
                made = f"{name}.dx{i}"
                self.build.op(made, reads=saved, writes={made: sizes[source]})
                if source in gradients:
                    # A value with several readers: their gradients are added up one by one.
                    total = f"{made}.sum"
                    self.build.op(
                        total, reads=[gradients[source], made], writes={total: sizes[source]}
                    )
                    made = total
                gradients[source] = made
        self.records.clear()
        return gradients[stop]


def block(tape: Tape, prefix: str, x: str, width: int, sizes: dict[str, int]) -> str:
    """A transformer block: attention and a feed-forward part, each with a skip."""

    def op(name: str, inputs: tuple[str, ...], size: int, weight: int = 0) -> str:
        made = tape.op(f"{prefix}.{name}", inputs, size, weight)
        sizes[made] = size
        return made

    normed = op("norm1", (x,), width)
    query, key, value = (
        op(part, (normed,), width, weight=width // 4) for part in ("query", "key", "value")
    )
    scores = op("scores", (query, key), 3 * width)
    weights = op("softmax", (scores,), 3 * width)
    mixed = op("mix", (weights, value), width)
    projected = op("project", (mixed,), width, weight=width // 4)
    middle = op("skip1", (x, projected), width)
    normed = op("norm2", (middle,), width)
    up = op("up", (normed,), 4 * width, weight=width)
    active = op("gelu", (up,), 4 * width)
    down = op("down", (active,), width, weight=width)
    return op("skip2", (middle, down), width)


def checkpointed(blocks: int, width: int = 1000) -> Graph:
    """A training step that keeps only the inputs of each block and recomputes the rest."""
    build = GraphBuilder(f"checkpointed{blocks}")
    build.input("x", width)
    sizes = {"x": width}
    at, inputs = "x", []
    for i in range(blocks):
        inputs.append(at)
        at = block(Tape(build), f"f{i}", at, width, sizes)
    build.op("loss", reads=[at], writes={"grad": width})
    gradient = "grad"
    for i in reversed(range(blocks)):
        tape = Tape(build)
        end = block(tape, f"r{i}", inputs[i], width, sizes)
        # The block runs again just before its backward, from its input alone.
        gradient = tape.backward(gradient, end, sizes, inputs[i])
    build.output(gradient)
    return build.build()


def training(layers: int, seed: int, skip: float = 0.3) -> Graph:
    """A training step of a chain with random sizes and skips; weight gradients are outputs."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder(f"training{layers}_{seed}")
    tape = Tape(build)
    build.input("x", 32)
    sizes = {"x": 32}
    names = ["x"]
    for i in range(layers):
        inputs = [names[-1]]
        if i > 3 and rng.random() < skip:
            inputs.append(names[-int(rng.integers(2, 12)) % len(names)])
        size = int(rng.integers(1, 65))
        made = tape.op(f"f{i}", tuple(dict.fromkeys(inputs)), size, weight=int(rng.integers(1, 33)))
        sizes[made] = size
        names.append(made)
    build.op("loss", reads=[names[-1]], writes={"grad": sizes[names[-1]]})
    build.output(tape.backward("grad", names[-1], sizes, "x"))
    return build.build()


def random_wiring(nodes: int, seed: int, *, unit: bool = True) -> Graph:
    """A Watts-Strogatz graph WS(nodes, 4, 0.75), edges from lower to higher number."""
    import networkx

    rng = np.random.default_rng(seed)
    wiring = networkx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed)
    build = GraphBuilder(f"wiring{nodes}_{seed}{'' if unit else 'r'}")
    sinks = []
    for v in range(nodes):
        # Edges have no direction in that model; here they go from lower to higher number.
        before = sorted(u for u in wiring.neighbors(v) if u < v)
        size = 1 if unit else int(rng.integers(1, 101))
        build.op(f"op{v}", reads=[f"b{u}" for u in before], writes={f"b{v}": size})
        if not any(u > v for u in wiring.neighbors(v)):
            sinks.append(f"b{v}")
    build.op("join", reads=sinks, writes={"y": 1})
    build.output("y")
    return build.build()
