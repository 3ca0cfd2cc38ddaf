"""One feature of the graph model each; the docstring of a maker holds the solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph


def chain() -> Graph:
    """From x 4 to a 8, b 2, c 6: one order; a and b are fullest beside x or each other.

    Step a: 4 + 8 = 12; step b: 8 + 2 = 10; step c: 2 + 6 = 8. Peak 12, slab 12.
    """
    build = GraphBuilder("chain")
    build.input("x", 4)
    build.op("a", reads=["x"], writes={"a": 8})
    build.op("b", reads=["a"], writes={"b": 2})
    build.op("c", reads=["b"], writes={"c": 6})
    build.output("c")
    return build.build()


def diamond() -> Graph:
    """Two branches of x 8 with workspace 2 on the right one.

    right first: 8 + 6 + 2 = 16, then left 8 + 6 + 4 = 18, then join 4 + 6 + 4 = 14: 18.
    left first: 12, then right 8 + 4 + 6 + 2 = 20. Peak 18.
    """
    build = GraphBuilder("diamond")
    build.input("x", 8)
    build.op("left", reads=["x"], writes={"a": 4})
    build.op("right", reads=["x"], writes={"b": 6}, workspace=2)
    build.op("join", reads=["a", "b"], writes={"y": 4})
    build.output("y")
    return build.build()


def two_towers() -> Graph:
    """Two towers, each big below and small above: finish one before starting the other.

    One after the other: 10 + 1 = 11 for the first, then 1 + 10 + 1 = 12. Side by side: 20 and
    more. Peak 12.
    """
    build = GraphBuilder("two_towers")
    for side in ("left", "right"):
        build.op(f"{side}_big", writes={f"{side}_b": 10})
        build.op(f"{side}_small", reads=[f"{side}_b"], writes={f"{side}_s": 1})
    build.op("join", reads=["left_s", "right_s"], writes={"y": 1})
    build.output("y")
    return build.build()


def swelling() -> Graph:
    """Two chains that each swell and shrink: 11 bytes one after the other, 19 in turn."""
    build = GraphBuilder("swelling")
    build.input("x", 1)
    for i in range(2):
        build.op(f"up{i}", reads=["x"], writes={f"big{i}": 9})
        build.op(f"down{i}", reads=[f"big{i}"], writes={f"small{i}": 1})
    build.op("join", reads=["small0", "small1"], writes={"y": 1})
    build.output("y")
    return build.build()


def mutation() -> Graph:
    """The update overwrites x in place, so the reader of the old x runs first; x is one buffer.

    make 6, read 6 + 2, update 6 + 2, use 6 + 2 + 3 = 11 with the old reader's 2 still wanted by
    it. Peak 11; x' is another name of x and has x's offset.
    """
    build = GraphBuilder("mutation")
    build.op("make", writes={"x": 6})
    build.op("update", reads=["x"], mutates={"x'": "x"})
    build.op("read", reads=["x"], writes={"r": 2})
    build.op("use", reads=["x'", "r"], writes={"y": 3})
    build.output("y")
    return build.build()


def multi_output() -> Graph:
    """The parent allocates both parts, 3 + 5; the ops that name the parts allocate nothing.

    Parent: 8. Then name and use one part before the other: using `big` first frees 5 and adds 1.
    parent 8, big, use_big 3 + 5 + 1 = 9, small, use_small 3 + 1 + 1 = 5. Peak 9.
    """
    build = GraphBuilder("multi_output")
    build.op("parent", writes={"both": 0})
    for part, size in (("small", 3), ("big", 5)):
        build.op(part, reads=["both"], writes={f"{part}_part": size})
        build.place(f"{part}_part", birth="parent")
        build.op(f"use_{part}", reads=[f"{part}_part"], writes={f"{part}_y": 1})
        build.output(f"{part}_y")
    return build.build()


def inputs() -> Graph:
    """Weights stay outside, one input is kept, one is freed after its last use.

    Before the first step 3 + 4 bytes; first 3 + 4 + 5 = 12, then 3 + 5 + 1 = 9. Peak 12.
    """
    build = GraphBuilder("inputs")
    build.input("weights", 1000, "excluded")
    build.input("state", 3, "kept")
    build.input("x", 4, "freed")
    build.op("first", reads=["x", "weights"], writes={"h": 5})
    build.op("second", reads=["h", "state"], writes={"y": 1})
    build.output("y")
    return build.build()


def control() -> Graph:
    """A control edge forbids the better order of the diamond: 20 instead of 18."""
    build = GraphBuilder("control")
    build.input("x", 8)
    build.op("left", reads=["x"], writes={"a": 4})
    build.op("right", reads=["x"], writes={"b": 6}, workspace=2, control=["left"])
    build.op("join", reads=["a", "b"], writes={"y": 4})
    build.output("y")
    return build.build()


def aligned() -> Graph:
    """Offsets are multiples of 8, so 5 + 5 live bytes need a slab of 13.

    first 5, second 5 + 5 = 10: one lies at 0, the other at 8. Peak 10, slab 13.
    """
    build = GraphBuilder("aligned", alignment=8)
    build.op("first", writes={"a": 5})
    build.op("second", reads=["a"], writes={"b": 5})
    build.output("b")
    return build.build()


def empty() -> Graph:
    """No ops, no buffers: a valid graph with a trivial plan of 0 bytes."""
    return GraphBuilder("empty").build()


SMALL_GRAPHS: dict[Callable[[], Graph], tuple[int, int]] = {
    chain: (12, 12),
    diamond: (18, 18),
    two_towers: (12, 12),
    mutation: (11, 11),
    multi_output: (9, 9),
    inputs: (12, 12),
    control: (20, 20),
    aligned: (10, 13),
    empty: (0, 0),
}
"""Maker of each graph: least peak and least slab, in bytes."""


def make_graph(name: str, size: Sequence[int], edges: Sequence[tuple[int, int]]) -> Graph:
    """One buffer an op; what nobody reads is an output."""
    build = GraphBuilder(name)
    names = [chr(ord("a") + v) for v in range(len(size))]
    for v, label in enumerate(names):
        reads = [names[u] for u, w in edges if w == v]
        build.op(label, reads=reads, writes={label: int(size[v])})
    read = {u for u, _ in edges}
    build.output(*(names[v] for v in range(len(size)) if v not in read))
    return build.build()
