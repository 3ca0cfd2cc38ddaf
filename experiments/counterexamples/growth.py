"""Families in which a method's loss grows with the size of the instance."""

from __future__ import annotations

from collections.abc import Callable

from heuristics import PACKINGS
from optsched.builder import GraphBuilder
from optsched.graph import Graph
from optsched.hunt.spaces import make_problem
from optsched.problem import PackingProblem

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


def strangers(count: int) -> PackingProblem:
    """Buffers that never meet: no reuse costs a factor of their number."""
    return make_problem(tuple((i, i + 1, 1) for i in range(count)), f"growth_strangers{count}")


def halving(doublings: int, packing: str) -> PackingProblem:
    """Robson's adversary against a packer that places buffers as they start.

    `2**doublings` bytes are filled with bytes; of every two neighbours one is freed, and buffers of
    2 bytes that fit nowhere take the bytes set free; of every four bytes one buffer stays, and so
    on: the slab grows by a share of these bytes each time, the live bytes never.

    References
    ----------
    J. M. Robson, "Bounds for some functions concerning dynamic storage allocation", JACM 21, 1974.
    """
    full, clock = 1 << doublings, 0
    rows: list[list[int]] = []
    for level in range(doublings + 1):
        width = 1 << level
        live = sum(size for _, end, size in rows if end < 0)
        for _ in range((full - live) // width):
            rows.append([clock, -1, width])
            clock += 1
        _free(rows, 2 * width, clock, packing)
        clock += 1
    closed = tuple((start, clock if end < 0 else end, size) for start, end, size in rows)
    return make_problem(closed, f"growth_{packing}{doublings}")


def _free(rows: list[list[int]], window: int, clock: int, packing: str) -> None:
    """Free all live buffers but one in each aligned window of the slab."""
    closed = tuple((start, clock if end < 0 else end, size) for start, end, size in rows)
    offsets = PACKINGS[packing](make_problem(closed))
    kept: set[int] = set()
    for i, row in enumerate(rows):
        if row[1] >= 0:
            continue
        at = int(offsets[i]) // window
        if at in kept:
            row[1] = clock
        kept.add(at)


GRAPHS: dict[str, Callable[[int], Graph]] = {"ladder": ladder, "mirror": mirror, "both": both}
"""By name, with the number of rungs as parameter."""
