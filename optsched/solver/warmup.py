"""Compile every kernel once, so that no graph ever waits for it.

All kernels are made to run compiled on a few small inputs; the compiled code is kept on disk
(:mod:`optsched.runtime.disk_cache`) and loaded from there ever after.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from heuristics import ORDERINGS, PACKINGS
from heuristics.kernels.walks import run_smallest_first
from heuristics.orderings.pooled import pooled_orders
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.parts import Gap
from optsched.model.rows import RowMap, RowOp, RowRule, Rows
from optsched.ordering import closure_bound, closure_witness, solve_order
from optsched.ordering.bound.precedences import BudgetPrecedences
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.ordering.context import SearchContext
from optsched.ordering.improve.anneal import Annealer
from optsched.ordering.problem import build_problem
from optsched.ordering.rules import ALL_RULES
from optsched.ordering.tree import PrecedenceTree
from optsched.packing import Rules as PackingRules
from optsched.packing import solve_packing
from optsched.packing.beam import search_beam
from optsched.packing.components import make_components
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels.branch import TIGHTEST
from optsched.packing.rules import PackingEffort
from optsched.runtime import disk_cache
from optsched.runtime import kernel as kernels
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute.evict import Evictions
from optsched.solver.recompute.problem import make_problem
from optsched.solver.recompute.runs import Unroller, repeats
from optsched.solver.tiling.solve import tile

LIMITS = Limits(work=2_000)
"""Of each search: more than it needs to call every kernel."""
MOVES, BRANCHES = 200, 4
"""Steps of a walk over orders, and branches of a tree of precedences; likewise."""
FEW_OPS, OPS, MANY_OPS = 30, 100, 1_100
"""Of a graph that is soon searched, of a hard one, and of one with many buffers."""


def warm_up(say: Callable[[str], None]) -> None:
    """Compile all kernels, and report each part.

    Half of it in a process of its own: numba compiles one function at a time.

    `say`: called with a description of the part that is compiled next.
    """
    started = time.perf_counter()
    say("search of packings and trees of precedences, in a second process")
    command = f"from {__name__} import compile_packings; compile_packings()"
    nowhere = subprocess.DEVNULL  # a failure there is repeated here, with its message
    # A second interpreter compiles at the same time, as numba holds a lock while it compiles.
    arguments = [sys.executable, "-c", command]
    beside = subprocess.Popen(arguments, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    try:
        say("bounds and search of orders")
        compile_orders()
        # If the other process failed, the kernels are compiled here, where an error is seen.
        if beside.wait():
            compile_packings()
    finally:
        beside.kill()
    say(f"done in {time.perf_counter() - started:.1f} s")


def count_compiled() -> tuple[int, int]:
    """Return the numbers of kernels on disk and of all kernels; parts of others do not count."""
    whole = [x for x in kernels.Kernel.known if not x.part]
    return sum(disk_cache.has_file(x.file_name) for x in whole), len(whole)


@contextmanager
def _all_compiled() -> Iterator[None]:
    """Run the compiled form in every call, also where Python would be faster."""
    before, kernels.policy.force = kernels.policy.force, kernels.compiled_form
    try:
        yield
    finally:
        kernels.policy.force = before


@_all_compiled()
def compile_orders() -> None:
    """Compile the sorters, the bounds, and the search of orders without its trees."""
    use_orders(wired_graph(OPS, 5), 0)
    use_orders(wired_graph(FEW_OPS, 5, reach=12), 0)
    use_repeats()


@_all_compiled()
def compile_packings() -> None:
    """Compile the trees of precedences, the packers, and the search of packings."""
    use_tree(wired_graph(OPS, 5))
    use_packings(wired_graph(OPS, 5))
    problem, _ = packing_problem(wired_graph(MANY_OPS), np.arange(MANY_OPS))
    for packing in PACKINGS.values():
        packing(problem)
    problem, _ = packing_problem(wired_graph(OPS, 5), np.arange(OPS))
    solve_packing(with_halves(problem), limits=LIMITS)
    solve_packing(with_pair(problem), limits=LIMITS)
    use_bands()


def with_halves(problem: PackingProblem) -> PackingProblem:
    """Let half of each buffer be free between the first and the last step of its live range.

    Such problems have kernels of their own, since others are searched sooner without looking.
    """
    halves = zip(problem.start, problem.end, problem.size // 2, strict=True)
    gaps = (
        (Gap(int(start) + 1, int(end) - 1, (0, int(half))),) if end - start > 2 else ()
        for start, end, half in halves
    )
    return replace(problem, gaps=tuple(gaps))


def with_pair(problem: PackingProblem) -> PackingProblem:
    """Keep two buffers apart that are never live together, so that sections become sets of bits."""
    last = int(problem.start.argmax())
    first = int(problem.end.argmin())
    return replace(problem, keep_apart=np.array([[first, last]]))


def use_orders(graph: Graph, seed: int) -> None:
    """Run everything that makes or bounds orders, except trees of precedences."""
    ops, pred, succ = np.arange(len(graph.ops)), graph.arrays.pred, graph.arrays.succ
    run_smallest_first.for_work(len(ops))(pred.ptr, succ.ptr, succ.idx)
    for ordering in ORDERINGS.values():
        ordering(graph, seed)
    peak_lower_bound(graph, [ops])
    closure_bound(graph, [ops])
    closure_witness(graph, len(ops) // 2)
    solve_order(
        graph, limits=LIMITS, warm_start=ops.tolist(), rules=replace(ALL_RULES, split=False)
    )
    context = SearchContext(build_problem(graph.arrays))
    Annealer(context, ops.tolist(), seed).improve(MOVES, 0)
    peak, running = context.follow(ops)
    BudgetPrecedences(context).refute(peak - 1, running, near=True)


def use_repeats() -> None:
    """Plan a step of three layers within a peak that takes repeats."""
    build = GraphBuilder("layers")
    build.input("tangents_1", 0, "excluded")
    for i in range(3):
        build.op(f"f{i}", reads=[f"x{i - 1}"] if i else [], writes={f"x{i}": 9})
    build.op("loss", reads=["x2"], writes={"loss": 1})
    build.output("loss")
    for i in reversed(range(3)):
        reads = [f"g{i + 1}" if i < 2 else "tangents_1", f"x{i}"]
        build.op(f"b{i}", reads=reads, writes={f"g{i}": 9})
    problem = make_problem(build.build())
    unroller = Unroller(problem)
    tries = Evictions(unroller, tuple(range(len(problem.ops))), 29)
    tries.next()
    unroller.clean(range(len(problem.ops)))
    if tries.best is not None:
        unroller.replaced(tries.best, repeats(tries.best.nodes)[0], tries.peak)


def use_bands() -> None:
    """Tile a chain of three convolutions."""
    build = GraphBuilder("convolutions")
    build.input("x0", 256)
    for i in range(3):
        build.op(f"f{i}", reads=[f"x{i}"], writes={f"x{i + 1}": 256})
    build.output("x3")
    ops = (RowOp(i + 1, (RowMap(i, window=3, pad=1),), RowRule.SAME, cost=9) for i in range(3))
    rows = Rows(build.build(), tuple(ops), (16,) * 4, (16,) * 4)
    tile(rows, extra=1.0, bands=3, limits=LIMITS)


def use_tree(graph: Graph) -> None:
    """Take up some branches of a tree that looks for a lower peak than the program's order has."""
    context = SearchContext(build_problem(graph.arrays))
    peak, live = context.follow(np.arange(context.ops))
    failures = np.zeros(len(live), np.int64)
    tree = PrecedenceTree(context, peak - 1, live, failures)
    if tree.parts.waiting:
        tree.strengthened()
    # Branches are not searched here: that kernel is compiled by `compile_orders`.
    tree.run(BRANCHES, lambda _: False)


def use_packings(graph: Graph) -> None:
    """Pack the program's order in all ways there are."""
    order = np.arange(len(graph.ops))
    next(pooled_orders(graph, order, work=MOVES), None)
    problem, _ = packing_problem(graph, order)
    paired = replace(problem, keep_apart=np.array([[0, len(problem) - 1]]))
    for packing in PACKINGS.values():
        packing(problem)
        packing(paired)
    solve_packing(problem, limits=LIMITS)
    use_beam(problem)


def use_beam(problem: PackingProblem) -> None:
    """Search a problem with a beam of some states."""
    rules = PackingRules(components=False)
    for component in make_components(problem, rules):
        search_beam(
            PackingEngine(component, rules, PackingEffort()),
            component.bound,
            width=4,
            softness=1.0,
            rule=TIGHTEST,
            random=np.random.default_rng(0),
            clock=Clock.of(LIMITS),
        )


def wired_graph(ops: int, seed: int = 0, *, reach: int = 30) -> Graph:
    """Return a graph whose ops read three random recent results, so that searches are needed."""
    rng = np.random.default_rng(seed)
    build = GraphBuilder("wired")
    for i in range(ops):
        near = range(max(0, i - reach), i)
        reads = rng.choice(near, min(3, len(near)), replace=False).tolist() if near else []
        build.op(
            f"v{i}", reads=[f"b{u}" for u in reads], writes={f"b{i}": int(rng.integers(1, 99))}
        )
    return build.build()
