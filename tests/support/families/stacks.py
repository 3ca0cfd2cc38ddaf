"""Generated training steps of equal blocks, nothing recomputed: attention, experts, recurrence."""

from __future__ import annotations

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from tests.support.families.wiring import Tape, block


def transformer(blocks: int, width: int = 1000) -> Graph:
    """A training step of transformer blocks that keeps all that the backward reads."""
    build, sizes = _begin(f"transformer{blocks}", width)
    tape = Tape(build)
    at = "x"
    for i in range(blocks):
        at = block(tape, f"f{i}", at, width, sizes)
    return _finish(build, tape, at, sizes)


def experts(blocks: int, width: int = 1000, count: int = 8) -> Graph:
    """A training step of mixtures: a router sends each token to one of `count` feed-forward parts.

    Expert `i` gets more tokens than expert `i + 1`: its buffers are larger by a part of `width`.
    """
    build, sizes = _begin(f"experts{blocks}x{count}", width)
    tape = Tape(build)

    def op(name: str, reads: tuple[str, ...], size: int, weight: int = 0) -> str:
        made = tape.op(name, reads, size, weight)
        sizes[made] = size
        return made

    at = "x"
    for block_ in range(blocks):
        normed = op(f"f{block_}.norm", (at,), width)
        routed = op(f"f{block_}.router", (normed,), width // 10, weight=width // 10)
        ends = []
        for i in range(count):
            name, tokens = f"f{block_}.expert{i}", width * (2 * count - i) // (2 * count)
            taken = op(f"{name}.take", (normed, routed), tokens)
            up = op(f"{name}.up", (taken,), 4 * tokens, weight=width)
            active = op(f"{name}.gelu", (up,), 4 * tokens)
            ends.append(op(f"{name}.down", (active,), tokens, weight=width))
        mixed = op(f"f{block_}.mix", (routed, *ends), width)
        at = op(f"f{block_}.skip", (at, mixed), width)
    return _finish(build, tape, at, sizes)


def recurrent(steps: int, width: int = 100, layers: int = 2) -> Graph:
    """A training step of stacked recurrent cells, unrolled: a grid of `layers` by `steps` cells."""
    build, sizes = _begin(f"recurrent{steps}x{layers}", width)
    tape = Tape(build)

    def op(name: str, reads: tuple[str, ...], size: int, weight: int = 0) -> str:
        made = tape.op(name, reads, size, weight)
        sizes[made] = size
        return made

    row = [op(f"in{t}", ("x",), width) for t in range(steps)]
    for layer in range(layers):
        state: tuple[str, ...] = ()
        hidden: tuple[str, ...] = ()
        for t in range(steps):
            name = f"cell{layer}.{t}"
            gates = op(f"{name}.gates", (row[t], *hidden), 4 * width, weight=width)
            state = (op(f"{name}.state", (gates, *state), width),)
            hidden = (op(f"{name}.hidden", (gates, *state), width),)
            row[t] = hidden[0]
    at = op("join", tuple(row), width)
    return _finish(build, tape, at, sizes)


def _begin(name: str, width: int) -> tuple[GraphBuilder, dict[str, int]]:
    build = GraphBuilder(name)
    build.input("x", width)
    return build, {"x": width}


def _finish(build: GraphBuilder, tape: Tape, at: str, sizes: dict[str, int]) -> Graph:
    build.op("loss", reads=[at], writes={"grad": sizes[at]})
    build.output(tape.backward("grad", at, sizes, "x"))
    return build.build()
