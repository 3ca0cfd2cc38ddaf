"""IF, WHILE and CALL_ONCE: all subgraphs in one arena, to the byte as the interpreter has them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the schema package is not installed: make test-frameworks")
pytest.importorskip("flatbuffers", reason="flatbuffers is not installed: make test-frameworks")
pytest.importorskip("tflite_micro", reason="TFLite Micro is not installed: make test-frameworks")

from optsched import solve
from optsched.errors import FormatError
from optsched.formats.tflite.apply import apply_tflite
from optsched.formats.tflite.graph import arena_head, read_tflite
from optsched.measure.tflm import run_model
from tests.support.tflite_builder import INT32, OpDraft, TfliteNet

BOOL = 6


def layers(net: TfliteNet, x: int, rng: np.random.Generator, most: int) -> int:
    """Add convolutions, sums and channel-wise layers that keep the size; return the last result."""
    made = [x]
    for _ in range(int(rng.integers(1, most))):
        source = made[int(rng.integers(len(made)))]
        same = [y for y in made if net.shape(y) == net.shape(source)]
        match int(rng.integers(3)):
            case 0:
                made.append(net.conv(source, int(rng.choice([2, 4, 8])), int(rng.choice([1, 3]))))
            case 1:
                made.append(net.add(source, same[int(rng.integers(len(same)))]))
            case _:
                made.append(net.depthwise(source))
    return net.conv(made[-1], net.shape(x)[-1], 1)


def branch(seed: int) -> TfliteNet:
    net, rng = TfliteNet(seed), np.random.default_rng(seed)
    x = net.input(1, 6, 6, 4)
    net.outputs = [layers(net, x, rng, 6)]
    return net


def forked(seed: int) -> TfliteNet:
    """A net with one or two IFs, each with two branches of its own."""
    net, rng = TfliteNet(seed), np.random.default_rng(seed)
    flag, x = net.input(1, type=BOOL), net.input(1, 6, 6, 4)
    for number in range(int(rng.integers(1, 3))):
        x = layers(net, x, rng, 4)
        net.more_subgraphs += [branch(10 * seed + number), branch(10 * seed + number + 5)]
        to = {"then": 2 * number + 1, "otherwise": 2 * number + 2}
        x = net.op("IF", [flag, x], *net.shape(x), **to)
    net.outputs = [layers(net, x, rng, 4)]
    return net


def looped() -> TfliteNet:
    """A loop that counts to three, with a layer in its body."""
    net, cond, inner = TfliteNet(), TfliteNet(), TfliteNet(1)
    start, x = net.input(1, type=INT32), net.input(1, 6, 6, 4)
    ends = [net.tensor(1, type=INT32), net.tensor(1, 6, 6, 4)]
    net.ops.append(OpDraft("WHILE", [start, x], ends, {"cond": 1, "body": 2}))
    net.outputs = [net.conv(ends[1], 4)]
    count, _ = cond.input(1, type=INT32), cond.input(1, 6, 6, 4)
    cond.outputs = [cond.tensor(1, type=BOOL)]
    cond.ops.append(OpDraft("LESS", [count, cond.integers(3)], cond.outputs))
    count, y = inner.input(1, type=INT32), inner.input(1, 6, 6, 4)
    more = inner.tensor(1, type=INT32)
    inner.ops.append(OpDraft("ADD", [count, inner.integers(1)], [more]))
    inner.outputs = [more, inner.conv(inner.conv(y, 8), 4)]
    net.more_subgraphs = [cond, inner]
    return net


def check(net: TfliteNet) -> None:
    """Compare the layout with the interpreter, before and after a plan."""
    data = net.bytes()
    made, before = read_tflite(data, "net"), run_model(data)
    assert arena_head(made.model) == before.head
    result = solve(made.graph, time_limit=5)
    assert result.plan is not None
    assert result.slab is not None
    numbers = [op.number for v in result.plan.order if (op := made.operators[v]) is not None]
    if arena_head(made.model, numbers) > result.slab:
        with pytest.raises(FormatError, match="takes no offsets for models with several subgraphs"):
            apply_tflite(data, made, result.plan)
        return
    after = run_model(apply_tflite(data, made, result.plan))
    assert after.head <= result.slab
    assert after.same_outputs(before)


@pytest.mark.parametrize("seed", range(12))
def test_branches(seed: int) -> None:
    check(forked(seed))


def test_a_loop() -> None:
    check(looped())


@pytest.mark.parametrize("seed", range(8))
def test_a_subgraph_that_nothing_runs(seed: int) -> None:
    """Offsets of the main subgraph would be those of its tensors as well."""
    net = branch(seed)
    net.more_subgraphs = [branch(seed + 50)]
    check(net)
