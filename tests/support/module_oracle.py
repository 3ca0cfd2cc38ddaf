"""Random modules, and their least peak and slab by enumeration of all orders of all computations.

Blocks are not made with :meth:`Module.with_blocks` but counted by hand, and nothing rests on the
argument that the least of every callee is part of the least of the whole: every combination of
orders is weighed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import lcm

import numpy as np

from optsched.model.graph import Graph
from optsched.model.module import Call, Module
from optsched.model.packing_problem import packing_problem
from tests.support.brute import (
    inplace_pairs,
    least_slab,
    live_bytes,
    most_saved,
    orders,
    storage_of,
)
from tests.support.generators import random_graph

FEATURES = frozenset(
    {"alignment", "control", "external", "inputs", "multi", "mutation", "views", "workspace"}
)


def random_module(
    rng: np.random.Generator,
    *,
    computations: int = 3,
    ops: int = 4,
    max_size: int = 12,
    features: Collection[str] = FEATURES,
    inside: bool = False,
) -> Module:
    """Make a module in which every computation but the last may be called by later ones."""
    count = int(rng.integers(1, computations + 1))
    graphs: dict[str, Graph] = {}
    calls: list[Call] = []
    for number in range(count):
        size = int(rng.integers(1, ops + 1))
        name = f"c{number}"
        graph = random_graph(rng, size, max_size=max_size, features=features, name=name)
        for op in graph.ops:
            if number and rng.random() < 0.5:
                chosen = rng.choice(number, size=int(rng.integers(1, number + 1)), replace=False)
                callees = tuple(f"c{c}" for c in chosen.tolist())
                calls.append(Call(name, op.name, callees, inside and bool(rng.integers(2))))
        graphs[name] = graph
    listed = [list(graphs)[i] for i in rng.permutation(count)]
    by_name = {name: graphs[name] for name in listed}
    return Module("random", by_name, f"c{count - 1}", tuple(calls))


def block_of(module: Module, name: str, v: int, sizes: Mapping[str, int]) -> int:
    """Bytes that an op needs for what it calls."""
    graph = module.graphs[name]
    op = graph.ops[v]
    block = 0
    for call in module.calls:
        if (call.computation, call.op) == (name, op.name):
            block = max(sizes[callee] for callee in call.callees)
            if call.results_inside:
                own = [graph.buffers[b] for b in op.writes]
                # The callee's peak already contains the op's results, which would count twice.
                block -= sum(buffer.size for buffer in own if not buffer.external)
    return max(0, block)


def peak_of(module: Module, name: str, order: Sequence[int], peaks: Mapping[str, int]) -> int:
    """Live bytes of an order, those of callees among them."""
    graph = module.graphs[name]
    storage, pairs = storage_of(graph), inplace_pairs(graph)
    done, peak = 0, live_bytes(storage, 0, 0)
    for v in order:
        # What an op writes in place saves its bytes while the op runs.
        live = live_bytes(storage, done | 1 << v, done) - most_saved(graph, pairs, v, done)
        peak = max(peak, live + block_of(module, name, v, peaks))
        done |= 1 << v
    return peak


def slab_of(module: Module, name: str, order: Sequence[int], slabs: Mapping[str, int]) -> int:
    """Least slab of an order in which each callee has a block of bytes while its op runs."""
    graph = module.graphs[name]
    problem, _ = packing_problem(graph, order)
    rows = [*zip(problem.start, problem.end, problem.size, problem.alignment, strict=True)]
    for step, v in enumerate(order):
        size = block_of(module, name, v, slabs)
        if size:
            called = [
                c for x in module.calls_of(name) if x.op == graph.ops[v].name for c in x.callees
            ]
            # A callee's block must suit all who may live in it: the common multiple of their
            # alignments.
            rows.append((step, step + 1, size, lcm(*(alignment_of(module, c) for c in called))))
    start, end, size, alignment = (
        (np.array(x, np.int64) for x in zip(*rows, strict=True))
        if rows
        else [np.zeros(0, np.int64)] * 4
    )
    found = least_slab(type(problem)(start=start, end=end, size=size, alignment=alignment))
    assert found is not None
    return found


def alignment_of(module: Module, name: str) -> int:
    own = [buffer.alignment for buffer in module.graphs[name].buffers]
    called = [c for call in module.calls_of(name) for c in call.callees]
    return lcm(*own, *(alignment_of(module, c) for c in called))


Weigh = Callable[[Module, str, Sequence[int], Mapping[str, int]], int]


def least_of(module: Module, weigh: Weigh) -> int:
    """Least bytes of the entry over every combination of orders of all computations."""
    # What a combination of orders gives so far, by computation; equal ones are kept once.
    known: set[tuple[tuple[str, int], ...]] = {()}
    for name in sorted(module.graphs, key=lambda name: int(name[1:])):
        all_orders = list(orders(module.graphs[name]))
        known = {
            (*sizes, (name, found))
            for sizes in known
            for found in {weigh(module, name, order, dict(sizes)) for order in all_orders}
        }
    return min(dict(sizes)[module.entry] for sizes in known)
