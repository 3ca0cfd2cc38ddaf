"""Compile every kernel once, so that the first real graph does not wait for it.

The compiled code is kept beside the sources (or in the user's cache folder where these can not be
written) and loaded from there ever after.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from heuristics import ORDERINGS, PACKINGS
from heuristics.orderings.pooled import pooled_orders
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.ordering import closure_bound, solve_order
from optsched.ordering.bound.precedences import related
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.state import follow
from optsched.ordering.problem import build_problem
from optsched.ordering.rules import ALL_RULES
from optsched.ordering.tree.search import Splitter
from optsched.packing import Rules as PackingRules
from optsched.packing import solve_packing
from optsched.packing.beam import search_beam
from optsched.packing.components import make_components
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels.branch import TIGHTEST
from optsched.packing.rules import PackingEffort
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

WALK = 100_000
"""Work of a walk over orders: enough that it is compiled."""
BRANCHES = 4
"""Branches of a tree that call every kernel of it."""
SECONDS = 20.0
"""More than the searches below need, compilation included; a guard, not a budget."""

SORTERS = ("bfs", "dfs", "xla_list", "xla_dfs", "lpmf", "lpmf_backward")
"""These call every kernel of a sorter."""


def warm_up(say: Callable[[str], None]) -> None:
    """Run everything compiled on made-up inputs just large enough; tell what is being done.

    Half of it in a process of its own: numba compiles one function at a time.
    """
    started = time.perf_counter()
    gc.disable()  # there is little garbage in compiling, and this process ends soon
    say("search of packings and trees of precedences, in a second process")
    command = f"import gc; gc.disable(); from {__name__} import warm_packings; warm_packings()"
    beside = subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.DEVNULL)
    say("bounds and search of orders")
    warm_orders()
    if beside.wait():
        warm_packings()
    gc.freeze()
    gc.enable()
    say(f"done in {time.perf_counter() - started:.1f} s")


def warm_orders() -> None:
    """Compile the sorters, the bounds, and the search of orders but for its trees."""
    graph = training_graph(700)
    for name in SORTERS:
        ORDERINGS[name](graph, 0)
    limits = Limits(seconds=SECONDS)
    peak_lower_bound(graph, [range(len(graph.ops))])
    closure_bound(graph, [range(len(graph.ops))])
    solve_order(graph, limits=limits)
    rules = replace(ALL_RULES, split=False)
    wired = wired_graph(100, seed=5)
    solve_order(wired, limits=limits, warm_start=range(len(wired.ops)), rules=rules)


def warm_packings() -> None:
    """Compile the trees of precedences, the packers, and the search of packings."""
    warm_trees(wired_graph(100, seed=5))
    graph = training_graph(700)
    order = np.arange(len(graph.ops))
    next(pooled_orders(graph, order, work=WALK))
    problem, _ = packing_problem(graph, order)
    for packing in PACKINGS.values():
        packing(problem)
    for seed in (0, 1):
        solve_packing(tight_packing(seed), limits=Limits(seconds=SECONDS / 2))
    warm_beam(tight_packing(0))


def warm_trees(graph: Graph) -> None:
    """Take up some branches of a tree; the graph's own order should be a poor one."""
    problem = SearchContext(build_problem(graph.arrays), graph.arrays.initial)
    during = np.empty(problem.ops, np.int64)
    # As Python: the other process compiles it.
    budget = follow(problem.problem, problem.base, np.arange(problem.ops), during) - 1
    blame = np.zeros(len(during), np.int64)
    tree = Splitter(problem, related(problem.problem), budget, during, blame)
    tree.known()
    tree.run(BRANCHES, lambda _: False)


def warm_beam(problem: PackingProblem) -> None:
    """Search a problem with a beam of some states."""
    rules = PackingRules(components=False)
    component = next(make_components(problem, rules))
    search_beam(
        PackingEngine(component, rules, PackingEffort()),
        component.bound,
        width=4,
        softness=1.0,
        rule=TIGHTEST,
        random=np.random.default_rng(0),
        clock=Clock.of(Limits()),
    )


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
