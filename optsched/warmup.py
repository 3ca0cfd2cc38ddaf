"""Compile every kernel once, so that the first real graph does not wait for it.

The compiled code is kept beside the sources (or in the user's cache folder where these can not be
written) and loaded from there ever after.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from heuristics import ORDERINGS, PACKINGS
from optsched.builder import GraphBuilder
from optsched.graph import Graph
from optsched.ordering import closure_bound, solve_order
from optsched.packing import solve_packing
from optsched.problem import PackingProblem, packing_problem
from optsched.result import Limits

SECONDS = 20.0
"""More than the searches below need, compilation included; a guard, not a budget."""


def warm_up(say: Callable[[str], None]) -> None:
    """Run everything compiled on made-up inputs just large enough; tell what is being done."""
    started = time.perf_counter()
    graph = training_graph(700)
    say("orderings and packings")
    for ordering in ORDERINGS.values():
        order = ordering(graph, 0)
    problem, _ = packing_problem(graph, order)
    for packing in PACKINGS.values():
        packing(problem)
    say("bounds and search of orders")
    closure_bound(graph, [order])
    solve_order(graph, limits=Limits(seconds=SECONDS), warm_start=order.tolist())
    wired = wired_graph(120)
    solve_order(wired, limits=Limits(seconds=SECONDS), warm_start=range(len(wired.ops)))
    say("search of packings")
    for seed in (0, 1):
        solve_packing(tight_packing(seed), limits=Limits(seconds=SECONDS / 2))
    say(f"done in {time.perf_counter() - started:.1f} s")


def training_graph(layers: int, seed: int = 0) -> Graph:
    """Return a training graph: forward with skips, backward, a weight gradient a layer."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 100, layers + 1).tolist()
    build = GraphBuilder("training")
    build.input("x0", size[0])
    for i in range(layers):
        skip = [f"x{i - 2}"] if i > 2 and i % 3 == 0 else []
        build.op(f"f{i}", reads=[f"x{i}", *skip], writes={f"x{i + 1}": size[i + 1]})
    build.op("loss", reads=[f"x{layers}"], writes={f"g{layers}": size[layers]})
    for i in reversed(range(layers)):
        build.op(f"b{i}", reads=[f"x{i}", f"g{i + 1}"], writes={f"g{i}": size[i]})
        build.op(f"w{i}", reads=[f"x{i}", f"g{i + 1}"], writes={f"dw{i}": size[i] // 7 + 1})
        build.op(f"u{i}", reads=[f"dw{i}"], writes={f"n{i}": 1})
        build.output(f"n{i}")
    return build.build()


def wired_graph(ops: int, seed: int = 0) -> Graph:
    """Return ops that read any three of the last thirty: nothing there is decided at sight."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder("wired")
    for i in range(ops):
        near = range(max(0, i - 30), i)
        reads = rng.choice(near, min(3, len(near)), replace=False).tolist() if near else []
        build.op(
            f"v{i}", reads=[f"b{u}" for u in reads], writes={f"b{i}": int(rng.integers(1, 99))}
        )
    return build.build()


def tight_packing(seed: int, buffers: int = 300) -> PackingProblem:
    """Return random buffers, dense enough that greedy packers leave something to search for."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 200, buffers)
    ones = np.ones(buffers, np.int64)
    return PackingProblem(
        names=tuple(str(i) for i in range(buffers)),
        start=start,
        end=start + rng.integers(1, 40, buffers),
        size=rng.integers(1, 1000, buffers),
        alignment=ones,
        pin=-ones,
    )
