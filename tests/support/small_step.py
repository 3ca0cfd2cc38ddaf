"""A training step of four ops, as tests of repeats and of commands want one."""

from __future__ import annotations

from optsched import Graph, GraphBuilder


def small_step() -> Graph:
    """Return the step; the gradient reads `x`, which its first op makes."""
    build = GraphBuilder("step", cost_unit="ms")
    build.input("tangents_1", 0, "excluded")
    build.op("a", writes={"x": 5}, cost=2)
    build.op("b", reads=["x"], writes={"y": 1}, cost=3)
    build.op("loss", reads=["y"], writes={"l": 6}, cost=1)
    build.output("l")
    build.op("back", reads=["x", "tangents_1"], writes={"g": 1})
    build.output("g")
    return build.build()
