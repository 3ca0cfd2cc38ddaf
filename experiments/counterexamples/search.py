"""Search for the smallest graph, or packing, on which a heuristic is strictly worse."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from experiments.counterexamples.graphs import one_buffer_per_op
from optsched.counterexamples.shrink import PACKING_MOVES, Shrinker
from optsched.counterexamples.spaces import make_problem
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem
from tests.support.brute import least_peak, least_slab

Ordering = Callable[[Graph, int], IntArray]
Packing = Callable[[PackingProblem], IntArray]
Row = tuple[int, int, int]
Wiring = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Bytes of each op's buffer, and edges from lower to higher op."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A heuristic's value on an instance, and the optimum, both by exhaustion."""

    value: int
    optimum: int
    examined: int
    exhaustive: bool


def build(wiring: Wiring, name: str = "candidate") -> Graph:
    """Make the graph of a wiring; ops are called a, b, c, ..."""
    sizes, edges = wiring
    names = [chr(ord("a") + v) for v in range(len(sizes))]
    return one_buffer_per_op(
        name,
        dict(zip(names, sizes, strict=True)),
        [(names[u], names[v]) for u, v in edges],
    )


def is_connected(ops: int, edges: Sequence[tuple[int, int]]) -> bool:
    """Return True if the ops are connected, regardless of the direction of the edges."""
    together = {0}
    grown = True
    while grown:
        more = {x for edge in edges if together & set(edge) for x in edge} - together
        together |= more
        grown = bool(more)
    return len(together) == ops


def all_wirings(ops: int, largest: int, *, connected: bool) -> Iterator[Wiring]:
    """Yield every wiring of a number of ops: few edges first, then few bytes."""
    pairs = list(combinations(range(ops), 2))
    sizes = sorted(product(range(1, largest + 1), repeat=ops), key=sum)
    for count in range(len(pairs) + 1):
        for edges in combinations(pairs, count):
            if connected and not is_connected(ops, edges):
                continue
            for size in sizes:
                yield size, edges


def smallest_graphs(
    orderings: dict[str, Ordering], *, most_ops: int, largest: int, connected: bool
) -> dict[str, tuple[Wiring, Loss]]:
    """Return the smallest losing graph of each ordering that loses at all within the limits.

    Every wiring is tried: few ops first, then few edges, then few bytes. So nothing smaller loses
    (with one buffer an op, sizes up to `largest`, sinks as outputs).
    """
    found: dict[str, tuple[Wiring, Loss]] = {}
    examined = 0
    for ops in range(1, most_ops + 1):
        for wiring in all_wirings(ops, largest, connected=connected):
            examined += 1
            graph = build(wiring)
            optimum: int | None = None
            for name in [name for name in orderings if name not in found]:
                value = peak_memory(graph, orderings[name](graph, 0))
                optimum = least_peak(graph) if optimum is None else optimum
                if value > optimum:
                    found[name] = (wiring, Loss(value, optimum, examined, True))
            if len(found) == len(orderings):
                return found
    return found


def smallest_packings(
    packings: dict[str, Packing], *, most: int, steps: int, largest: int, tries: int, seed: int
) -> dict[str, tuple[PackingProblem, Loss]]:
    """Return the smallest losing packing of each packer: few buffers first, then few bytes.

    Up to three buffers all are tried, beyond random ones, shrunk as graphs are.
    """
    found: dict[str, tuple[PackingProblem, Loss]] = {}
    ranges = [(s, e) for s in range(steps) for e in range(s + 1, steps + 1)]
    for count in range(1, 4):
        rows = sorted(
            product([(s, e, x) for s, e in ranges for x in range(1, largest + 1)], repeat=count),
            key=lambda r: sum(x for _, _, x in r),
        )
        for examined, candidate in enumerate(rows, start=1):
            _try_packings(packings, list(candidate), examined, True, found)
            if len(found) == len(packings):
                return found
    rng = random.Random(seed)
    for attempt in range(1, tries + 1):
        count = 4 + attempt * (most - 3) // (tries + 1)
        candidate = [(*rng.choice(ranges), rng.randint(1, largest)) for _ in range(count)]
        _try_packings(packings, candidate, attempt, False, found)
        if len(found) == len(packings):
            break
    return found


def _try_packings(
    packings: dict[str, Packing],
    rows: list[Row],
    examined: int,
    exhaustive: bool,
    found: dict[str, tuple[PackingProblem, Loss]],
) -> None:
    optimum: int | None = None
    problem = make_problem(tuple(rows))
    for name in [name for name in packings if name not in found]:
        value = problem.slab_size(packings[name](problem))
        if value == problem.max_load:
            continue
        optimum = least_slab(problem) if optimum is None else optimum
        if value > optimum:
            kept = rows if exhaustive else shrink_rows(rows, _loser(packings[name]))
            small = make_problem(tuple(kept))
            loss = Loss(
                small.slab_size(packings[name](small)), least_slab(small), examined, exhaustive
            )
            found[name] = (small, loss)


def _loser(packing: Packing) -> Callable[[PackingProblem], bool]:
    def loses(problem: PackingProblem) -> bool:
        if len(problem) == 0:
            return False
        return problem.slab_size(packing(problem)) > least_slab(problem)

    return loses


def shrink_rows(rows: Sequence[Row], loses: Callable[[PackingProblem], bool]) -> list[Row]:
    """Drop buffers, steps and bytes while the loss stays."""
    shrinker = Shrinker(make_problem(tuple(rows)), PACKING_MOVES, loses, lambda: False)
    shrinker.run()
    problem = shrinker.item
    columns = problem.start.tolist(), problem.end.tolist(), problem.size.tolist()
    return list(zip(*columns, strict=True))
