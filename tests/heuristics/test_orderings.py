"""Orderings against naive re-implementations, on random graphs of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from heuristics import ORDERINGS
from heuristics.orderings.lpmf import lpmf, lpmf_backward_random, lpmf_random
from optsched.model.arrays import IntArray
from optsched.model.builder import GraphBuilder
from optsched.model.elements import Buffer, InputPolicy, Op
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.steps import steps_of
from tests.heuristics import reference_inductor, reference_xla
from tests.support.generators import FEATURES, graphs, random_graph

REFERENCES: dict[str, Callable[[Graph], Sequence[int]]] = {
    "program": reference_inductor.program,
    "lpmf": reference_inductor.lpmf,
    "eager_free": reference_inductor.eager_free,
    "bfs": reference_inductor.bfs,
    "dfs": reference_inductor.dfs,
    "lpmf_backward": reference_inductor.lpmf_backward,
    "xla_list": reference_xla.list_schedule,
    "xla_dfs": reference_xla.depth_first,
    "xla_post_order": reference_xla.post_order,
}
ALL_BUT_PLACES = FEATURES - {"pins", "pools"}


def graphs_for_test(count: int) -> list[Graph]:
    """Small and middling graphs; sizes from few values, so that ties abound, and from many."""
    made = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        wanted = [f for f in sorted(ALL_BUT_PLACES) if seed % 3 == 0 or rng.integers(2)]
        ops = 40 if seed % 25 == 24 else 2 + seed % 13
        size = (2, 8, 2**40)[seed % 3]
        made.append(random_graph(rng, ops, max_size=size, max_reads=2 + seed % 4, features=wanted))
    return made


def shared_reads(rng: np.random.Generator) -> Graph:
    """Ops that share what they read: each that runs makes others the last user of something."""
    sources = int(rng.integers(3, 8))
    ops = [Op(f"s{b}", writes=(b,)) for b in range(sources)]
    for b in range(sources, sources + 12):
        reads = rng.permutation(sources)[: rng.integers(1, 5)].tolist()
        ops.append(Op(f"u{b}", reads=tuple(reads), writes=(b,)))
    buffers = [Buffer(f"b{b}", int(rng.integers(1, 3))) for b in range(len(ops))]
    return Graph("shared reads", tuple(ops), tuple(buffers))


def ladder(rng: np.random.Generator) -> Graph:
    """Rungs of ops that read several of the rung below: the paths to an op are many."""
    ops: list[Op] = []
    below: tuple[int, ...] = ()
    count = 0
    for rung in range(8):
        width = int(rng.integers(2, 5))
        for i in range(width):
            reads = tuple(b for b in below if rng.integers(4))
            ops.append(Op(f"{rng.integers(100)}-{rung}-{i}", reads=reads, writes=(count + i,)))
        below = tuple(range(count, count + width))
        count += width
    buffers = [Buffer(f"b{b}", int(rng.integers(1, 4))) for b in range(count)]
    return Graph("ladder", tuple(ops), tuple(buffers))


@cache
def many_graphs() -> list[Graph]:
    rngs = (np.random.default_rng(seed) for seed in range(100))
    return [*graphs_for_test(450), *(make(rng) for rng in rngs for make in (shared_reads, ladder))]


@cache
def wanted_orders(name: str) -> list[list[int]]:
    """By the naive re-implementation, once for all forms."""
    return [list(REFERENCES[name](graph)) for graph in many_graphs()]


@pytest.mark.parametrize("name", REFERENCES)
def test_equals_reference(name: str, form: str) -> None:
    for seed, (graph, wanted) in enumerate(zip(many_graphs(), wanted_orders(name), strict=True)):
        assert ORDERINGS[name](graph, 0).tolist() == wanted, seed


def test_lpmf_equals_reference_with_a_threshold(form: str) -> None:
    for seed, graph in enumerate(many_graphs()):
        threshold = (1, 3, 2**38)[seed % 3]
        wanted = reference_inductor.lpmf(graph, threshold)
        assert lpmf(graph, size_threshold=threshold).tolist() == wanted, seed


def test_large_means_above_the_median_unless_it_is_said() -> None:
    differs = 0
    for graph in many_graphs()[:300]:
        allocated = sorted(a for a in graph.arrays.alloc.tolist() if a)
        threshold = allocated[len(allocated) // 2] if allocated else 0
        order = ORDERINGS["lpmf_successors"](graph, 0)
        assert (order == lpmf(graph, size_threshold=threshold)).all()
        differs += (order != lpmf(graph)).any()
    assert differs > 30


def test_eager_free_keeps_the_order_where_nothing_is_gained_at_once() -> None:
    """`c` frees 8 bytes and allocates 1, so it goes before `b`, which is listed first."""
    build = GraphBuilder("pair")
    build.op("a", writes={"x": 8})
    build.op("b", writes={"y": 4})
    build.op("c", reads=["x"], writes={"z": 1})
    build.op("d", reads=["y", "z"], writes={"out": 1})
    build.output("out")
    graph = build.build()
    assert ORDERINGS["eager_free"](graph, 0).tolist() == [0, 2, 1, 3]
    wider = GraphBuilder("wider")
    wider.op("a", writes={"x": 8})
    wider.op("b", writes={"y": 4})
    wider.op("c", reads=["x"], writes={"z": 8})
    wider.output("z")
    assert ORDERINGS["eager_free"](wider.build(), 0).tolist() == [0, 1, 2]


def test_xla_default_is_the_first_of_the_best() -> None:
    for graph in many_graphs()[:200]:
        orders = [ORDERINGS[x](graph, 0) for x in ("xla_list", "xla_dfs", "xla_post_order")]
        peaks = [peak_memory(graph, order) for order in orders]
        wanted = orders[peaks.index(min(peaks))]
        assert (ORDERINGS["xla_default"](graph, 0) == wanted).all()


def check_orderings(graph: Graph, seed: int) -> dict[str, IntArray]:
    made = {name: ordering(graph, seed) for name, ordering in ORDERINGS.items()}
    for name, order in made.items():
        assert order.dtype == np.int64, name
        steps_of(graph, order)
        assert (order == ORDERINGS[name](graph, seed)).all(), name
    return made


@settings(max_examples=60, deadline=None)
@given(graphs(10, features=ALL_BUT_PLACES))
def test_orders_are_valid_and_deterministic(graph: Graph) -> None:
    check_orderings(graph, 3)


@pytest.mark.parametrize("name", ["lpmf_random", "lpmf_backward_random"])
def test_random_orders_agree_between_twin_and_compiled(name: str) -> None:
    from heuristics.kernels.lpmf import run_backward, run_forward

    kernel = run_forward if name == "lpmf_random" else run_backward
    for seed, graph in enumerate(many_graphs()[:150]):
        twin = ORDERINGS[name](graph, seed)
        assert kernel.compiled is not None
        assert (ORDERINGS[name](graph, seed) == twin).all()


def test_random_orders_differ_by_seed() -> None:
    graph = random_graph(np.random.default_rng(1), 30, max_reads=2)
    for ordering in (lpmf_random, lpmf_backward_random):
        assert len({ordering(graph, seed).tobytes() for seed in range(8)}) > 1


EDGE_CASES = {
    "empty": Graph("empty"),
    "no ops": Graph("no ops", buffers=(Buffer("x", 4, input=InputPolicy.KEPT),)),
    "one op": Graph("one op", (Op("f", writes=(0,)),), (Buffer("y", 4),)),
    "no buffers": Graph("no buffers", (Op("f", control=(1,)), Op("g"))),
}


@pytest.mark.parametrize("name", EDGE_CASES)
def test_edge_cases(name: str, form: str) -> None:
    made = check_orderings(EDGE_CASES[name], 0)
    if name == "no buffers":
        assert all(order.tolist() == [1, 0] for order in made.values())


def test_sizes_near_the_limit(form: str) -> None:
    """Sums over all that leads to an op would leave 64 bits in XLA's DFS."""
    half = 2**61
    ops = [Op("a", writes=(0,)), Op("b", reads=(0,), writes=(1,))]
    ops += [Op(f"c{i}", reads=(0, 1), writes=(2 + i,)) for i in range(3)]
    ops.append(Op("d", reads=(2, 3, 4)))
    buffers = [Buffer("x", half), Buffer("y", half - 8), *(Buffer(f"z{i}", 2) for i in range(3))]
    graph = Graph("huge", tuple(ops), tuple(buffers))
    for name, reference in REFERENCES.items():
        assert ORDERINGS[name](graph, 0).tolist() == list(reference(graph)), name
