"""Families of graphs on which what an ordering loses grows with their size."""

from __future__ import annotations

from collections.abc import Callable

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph

BIG = 1000
"""Bytes of what is large; links have 1."""


def ladder(rungs: int) -> Graph:
    """`x1 .. xk` are large, each a byte less than the one before; `y` adds them up in turn.

    The optimum makes an `x` and uses it up. Who runs what is ready and least, or what is listed
    first, makes all of them before the first can go. `2 k` ops.
    """
    build = GraphBuilder(f"growth_ladder{rungs}")
    _add_ladder(build, rungs)
    return build.build()


def mirror(rungs: int) -> Graph:
    """The ladder backwards: `y1 -> y2 -> ...` each also makes something large for an op of its own.

    The optimum runs that op at once. Who decides from the end, or visits sinks as listed, lets all
    that is large wait. `2 k` ops.
    """
    build = GraphBuilder(f"growth_mirror{rungs}")
    _add_mirror(build, rungs)
    return build.build()


def both(rungs: int) -> Graph:
    """Both, side by side: no ordering of ours gets through. `4 k` ops."""
    build = GraphBuilder(f"growth_both{rungs}")
    _add_ladder(build, rungs)
    _add_mirror(build, rungs)
    return build.build()


def _add_ladder(build: GraphBuilder, rungs: int) -> None:
    for i in range(1, rungs + 1):
        build.op(f"x{i}", writes={f"x{i}": BIG + rungs - i})
    for i in range(1, rungs + 1):
        build.op(f"y{i}", reads=[f"x{i}", *([f"y{i - 1}"] if i > 1 else [])], writes={f"y{i}": 1})
    build.output(f"y{rungs}")


def _add_mirror(build: GraphBuilder, rungs: int) -> None:
    for i in range(1, rungs + 1):
        reads = [f"link{i - 1}"] if i > 1 else []
        build.op(f"m{i}", reads=reads, writes={f"big{i}": BIG + i, f"link{i}": 1})
    for i in reversed(range(1, rungs + 1)):
        build.op(f"use{i}", reads=[f"big{i}"])
    build.op("end", reads=[f"link{rungs}"])


GRAPHS: dict[str, Callable[[int], Graph]] = {"ladder": ladder, "mirror": mirror, "both": both}
"""By name, with the number of rungs as parameter."""
