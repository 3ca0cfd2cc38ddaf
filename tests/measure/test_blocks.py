"""Causes of a difference between planned and held bytes, on runs written down here."""

from __future__ import annotations

from collections.abc import Sequence

from optsched import GraphBuilder
from optsched.measure.blocks import ABSENT, APART, ROUNDING, SCRATCH, Blocks, explain
from optsched.model.graph import Graph


def run(*events: tuple[str, int]) -> Blocks:
    """Return the blocks of a run: `("x", 64)` takes a block, `("x", 0)` returns it."""
    numbers: dict[str, int] = {}
    sizes: list[int] = []
    steps: list[int] = []
    for name, size in events:
        if size:
            numbers[name] = len(sizes)
            sizes.append(size)
        steps.append((numbers[name] + 1) * (1 if size else -1))
    return Blocks(sizes, steps)


def chain(*sizes: int) -> Graph:
    """Return ops `o0`, `o1`, ... in a row, each a reader of the op before it."""
    build = GraphBuilder("chain")
    for i, size in enumerate(sizes):
        reads = [f"x{i - 1}"] if i else []
        build.op(f"o{i}", reads=reads, writes={f"x{i}": size})
        if i:
            build.inplace(f"o{i}", f"x{i}", f"x{i - 1}")
    build.output(f"x{len(sizes) - 1}")
    return build.build()


def held_as_planned(graph: Graph, order: Sequence[int], blocks: Blocks) -> int:
    """Return the bytes held less all parts."""
    return blocks.peak() - sum(explain(graph, order, blocks).values())


def test_a_run_as_planned_needs_no_cause() -> None:
    blocks = run(("a", 64), ("b", 128), ("a", 0), ("c", 64), ("b", 0))
    assert blocks.peak() == 192
    assert explain(chain(64, 128, 64), range(3), blocks) == {}


def test_blocks_of_other_sizes_are_scratch() -> None:
    blocks = run(("a", 64), ("b", 128), ("s", 640), ("s", 0), ("a", 0), ("c", 64))
    assert explain(chain(64, 128, 64), range(3), blocks) == {SCRATCH: 640}


def test_of_equal_blocks_the_shortest_lived_are_scratch() -> None:
    blocks = run(("a", 64), ("b", 128), ("s", 64), ("s", 0), ("a", 0), ("c", 64))
    assert explain(chain(64, 128, 64), range(3), blocks) == {SCRATCH: 64}


def test_sizes_are_rounded_up() -> None:
    blocks = run(("a", 64), ("b", 128), ("a", 0), ("c", 64))
    graph = chain(60, 100, 64)
    assert explain(graph, range(3), blocks) == {ROUNDING: 28}
    assert held_as_planned(graph, range(3), blocks) == 164


def test_outputs_that_are_not_written_in_place() -> None:
    graph = chain(128, 128, 128).with_inplace()
    assert explain(graph, range(3), run(("a", 128))) == {}
    blocks = run(("a", 128), ("b", 128), ("a", 0), ("c", 128))
    assert explain(graph, range(3), blocks) == {APART: 128}


def test_workspace_is_planned_and_subgraphs_are_one_cause() -> None:
    build = GraphBuilder("body")
    build.op("loop", writes={"y": 64}, workspace=128)
    build.output("y")
    blocks = run(("y", 64), ("a", 128), ("b", 64))
    assert explain(build.build(), (0,), blocks) == {"kernel scratch and subgraphs": 64}


def test_scratch_that_outlives_a_tensor_of_its_size_is_scratch() -> None:
    """The tensor `a` is returned before the scratch `s`, which has its size."""
    blocks = run(("s", 64), ("a", 64), ("b", 128), ("a", 0), ("c", 64), ("b", 0), ("s", 0))
    assert explain(chain(64, 128, 64), range(3), blocks) == {SCRATCH: 64}


def test_a_buffer_that_is_not_allocated_is_named() -> None:
    blocks = run(("a", 64), ("a", 0), ("c", 64))
    assert explain(chain(64, 128, 64), range(3), blocks) == {ABSENT: -128}


def test_scratch_of_the_size_of_a_buffer_that_the_runtime_folded() -> None:
    """The blocks have the sizes of the buffers, but one of 256 bytes is scratch."""
    build = GraphBuilder("folded")
    build.op("fold", writes={"shape": 256})
    build.op("p", writes={"a": 64})
    build.op("q", reads=["a", "shape"], writes={"b": 128})
    build.output("b")
    graph = build.build()
    # The peak is planned at `q`, but held at `p`, where `shape` would not be live.
    blocks = run(("a", 64), ("b", 128), ("s", 256), ("s", 0), ("a", 0))
    assert explain(graph, range(3), blocks, {"shape"}) == {ABSENT: -256, SCRATCH: 256}
    assert explain(graph, range(3), blocks) == {}


def test_scratch_of_the_size_of_an_output_that_is_written_in_place() -> None:
    """A block more of 64 bytes would be a copy, which does not explain what is held."""
    build = GraphBuilder("apart")
    build.op("p", writes={"a": 512})
    build.op("q", reads=["a"], writes={"b": 64})
    build.op("r", reads=["b"], writes={"c": 64})
    build.inplace("r", "c", "b")
    build.output("c")
    graph = build.build().with_inplace()
    blocks = run(("a", 512), ("s", 64), ("b", 64), ("s", 0), ("a", 0))
    assert explain(graph, range(3), blocks) == {SCRATCH: 64}
    assert held_as_planned(graph, range(3), blocks) == 576
