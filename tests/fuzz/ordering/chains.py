"""Chains of parts that a certificate takes regions for, and whether an order is left by them.

    python -m tests.fuzz ordering.chains --count 4000 --seed 1

Of small graphs with regions, chains are proposed to the checker: those that `optsched.certificate`
finds, the same with mistakes, and any ops in any order. After those it accepts, the least peak of
the orders that run along all chains so far, each part at one go, is compared with that of all
orders, both by the definition. A line is printed for each mistake, and one at the end: of the
proposals that are refused, some would have cost bytes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from optsched.certificate.regions import find_regions
from optsched.check.network import Network
from optsched.check.region import check_region
from optsched.errors import PlanError
from optsched.formats.native import graph_document
from optsched.model.graph import Graph
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import build_problem
from tests.fuzz.ordering.regions import nested, side_by_side
from tests.support.definition import Model

Parts = list[list[int]]

MOST_OPS = 13
PROPOSALS = 12


def main(count: int = 4_000, seed: int = 0) -> int:
    counts: Counter[str] = Counter(wrong=0)
    for number in range(count):
        for mistake in examine(seed, number, counts):
            counts["wrong"] += 1
            print(f"seed {seed}, graph {number}: {mistake}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


def examine(seed: int, number: int, counts: Counter[str]) -> Iterator[str]:
    """Propose chains of one graph, right ones and others."""
    rng = random.Random(f"{seed}, {number}")
    graph = some_graph(seed, number)
    model = Model(graph_document(graph), in_place=False)
    optimum = least_peak(model, [])
    _, steps = find_regions(graph, SearchContext(build_problem(graph.arrays)))
    right = [[list(part) for part in step.parts] for step in steps]
    network, accepted = Network(graph), list[Parts]()
    for parts in right:
        check_region(network, parts)
        network.join(parts)
    counts["found"] += len(right)
    if least_peak(model, right) != optimum:
        yield f"found {right} cost bytes"
    for _ in range(PROPOSALS):
        if not accepted or rng.random() < 0.5:
            # Inner chains come first, and are single ops of the outer ones.
            accepted = right[: rng.randint(0, len(right))]
            network = Network(graph)
            for parts in accepted:
                network.join(parts)
        parts = propose(rng, graph, right)
        counts["proposed"] += 1
        try:
            check_region(network, parts)
        except PlanError:
            counts["refused"] += 1
            reached = least_peak(model, [*accepted, parts])
            counts["refused that cost bytes"] += reached is not None and reached > optimum
            continue
        network.join(parts)
        accepted = [*accepted, parts]
        if least_peak(model, accepted) != optimum:
            yield f"accepted {parts} after {accepted[:-1]} cost bytes"


def some_graph(seed: int, number: int) -> Graph:
    """A small graph with regions."""
    draw = np.random.default_rng([seed, number])
    graph = nested(draw, int(draw.integers(4, MOST_OPS + 1)))
    while not number % 3 and len((graph := side_by_side(draw)).ops) > MOST_OPS:
        continue
    return graph


def propose(rng: random.Random, graph: Graph, right: Sequence[Parts]) -> Parts:
    """A chain with a mistake or two, or just some ops in some order."""
    if right and rng.random() < 0.8:
        parts = [list(part) for part in rng.choice(right)]
    else:
        ops = rng.sample(range(len(graph.ops)), rng.randint(2, len(graph.ops)))
        parts = [[v] for v in some_order(rng, graph, ops)]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        change(rng, graph, parts)
        parts = [part for part in parts if part]
    return parts


def change(rng: random.Random, graph: Graph, parts: Parts) -> None:
    """Join two parts, take one apart, or have one op more or less, or all in another order."""
    kind = rng.choice(("join", "split", "drop", "add", "order", "swap"))
    at = rng.randrange(len(parts))
    if kind == "join" and at:
        parts[at - 1 : at + 1] = [parts[at - 1] + parts[at]]
    elif kind == "split":
        cut = rng.randint(0, len(parts[at]))
        parts[at : at + 1] = [parts[at][:cut], parts[at][cut:]]
    elif kind == "drop" and len(parts) > 1:
        parts[at].pop(rng.choice((0, -1)))
    elif kind == "add":
        ops = {v for part in parts for v in part}
        beside = {w for v in ops for w in graph.predecessors[v]}
        beside |= {w for w, row in enumerate(graph.predecessors) if not ops.isdisjoint(row)}
        if beside - ops:
            v = rng.choice(sorted(beside - ops))
            early = any(v in graph.predecessors[w] for w in ops)
            parts.insert(0 if early else len(parts), [v])
    elif kind == "order":
        ops = some_order(rng, graph, [v for part in parts for v in part])
        sizes = [len(part) for part in parts]
        parts[:] = [[ops.pop(0) for _ in range(size)] for size in sizes]
    elif kind == "swap" and at:
        parts[at - 1], parts[at] = parts[at], parts[at - 1]


def some_order(rng: random.Random, graph: Graph, ops: Sequence[int]) -> list[int]:
    """Some ops as they come in a random order of all."""
    order: list[int] = []
    left = set(range(len(graph.ops)))
    while left:
        ready = sorted(v for v in left if left.isdisjoint(graph.predecessors[v]))
        order.append(rng.choice(ready))
        left.remove(order[-1])
    return [v for v in order if v in ops]


def least_peak(model: Model, chains: Sequence[Parts]) -> int | None:
    """Least peak over all orders that run along all chains, by the definition; None without any."""
    needs, following = list(model.needs), dict[int, int]()
    for parts in chains:
        for u, v in pairwise(v for part in parts for v in part):
            needs[v] |= 1 << u
        for u, v in (pair for part in parts for pair in pairwise(part)):
            if following.setdefault(u, v) != v:
                return None
    inner = set(following.values())
    layer, full = {0: model.live(0, 0)}, (1 << model.n) - 1
    best: int | None = None
    while layer:
        later: dict[int, int] = {}
        for start, peak in layer.items():
            for first in set(range(model.n)) - inner:
                done, reached, v = start, peak, first
                while not done >> v & 1 and not needs[v] & ~done:
                    reached, done = max(reached, model.during(done, v)), done | 1 << v
                    if v not in following:
                        later[done] = min(later.get(done, reached), reached)
                        break
                    v = following[v]
        layer = later
        if full in layer:
            best = layer[full] if best is None else min(best, layer[full])
    return best
