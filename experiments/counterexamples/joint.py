"""Graphs on which no order of least peak packs into its peak: found by search, then thinned out.

The search looks at live ranges first. With one buffer an op, the buffer of the op at step `i` is
born at step `i`, so an order is told by the ends of the ranges; one that does not pack into its
fullest step is the seed of a graph. Its buffers are read where they end, and as often before as it
takes to keep away all orders that would pack; of these reads as many as possible are dropped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.counterexamples.gap_kernels import every_gap, fits, random_chain_gap, random_gaps
from experiments.counterexamples.search import shrink_rows
from optsched.model.arrays import IntArray
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, packing_problem
from tests.support.families.small import make_graph

Edge = tuple[int, int]
Range = tuple[int, int, int]
"""First step, step after the last, bytes."""
Row = tuple[int, IntArray, IntArray, IntArray, tuple[int, ...]]
"""Bytes of the fullest step, starts, ends, sizes, and the order."""

NONE_BELOW, MOST_SIZE = 7, 3
"""No graph of fewer ops, with one buffer of at most this size per op, has a gap: all were tried."""


@dataclass(frozen=True, slots=True)
class Joint:
    """The least peak and the least slab of a graph, each over all orders."""

    peak: int
    slab: int
    """`peak` and `slab`: bytes."""
    slab_at_peak: int
    """Least slab of the orders of least peak."""
    order: tuple[int, ...]
    """An order of minimum slab; its offsets come from an exhaustive search."""
    orders: int
    least: int
    """`orders` and `least`: number of orders, and of those with the minimum peak."""


def least_joint(graph: Graph) -> Joint:
    """Pack every order: no bound, no rule, no solver; up to some thousand orders of 8 ops."""
    # All orders are kept, since the least slab may need one whose peak is not the least.
    rows: list[Row] = []
    for order in all_orders(graph.predecessors):
        problem, _ = packing_problem(graph, order)
        rows.append((problem.max_load, problem.start, problem.end, problem.size, order))
    peak = min(row[0] for row in rows)
    leanest = [row for row in rows if row[0] == peak]
    slab, order = _least_slab(rows, peak)
    at_peak, _ = _least_slab(leanest, slab)
    return Joint(peak, slab, at_peak, order, len(rows), len(leanest))


def _least_slab(rows: Sequence[Row], slab: int) -> tuple[int, tuple[int, ...]]:
    """Least slab of some orders, from a lower bound upwards, and an order that has it."""
    while True:
        for load, start, end, size, order in rows:
            # An order whose fullest step exceeds the slab cannot fit it.
            if load <= slab and fits.compiled(start, end, size, slab):
                return slab, order
        # By single bytes: sizes are at most a few bytes.
        slab += 1


def all_orders(predecessors: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Yield every valid order."""
    needs = [sum(1 << u for u in before) for before in predecessors]

    def extend(order: tuple[int, ...], done: int) -> Iterator[tuple[int, ...]]:
        if len(order) == len(needs):
            yield order
        for v, need in enumerate(needs):
            if not done >> v & 1 and not need & ~done:
                yield from extend((*order, v), done | 1 << v)

    return extend((), 0)


def thin_out(size: IntArray, end: IntArray, rng: random.Random) -> tuple[Joint, list[Edge]] | None:
    """Make a graph of a seed and drop reads while the gap stays; None if the seed bears none."""
    n = len(size)
    last, spare = _reads(end)
    unread = set(range(n)) - {v for v, _ in last}
    # A buffer without readers is an output, and lives to the end.
    if any(end[v] != n for v in unread):
        return None
    kept = set(spare)
    found = least_joint(make_graph("candidate", size.tolist(), sorted(last | kept)))
    if found.slab == found.peak:
        return None
    # Which reads can go depends on the sequence of the trials.
    rng.shuffle(spare)
    for edge in spare:
        # One read less allows more orders; the gap must hold in all of them.
        fewer = least_joint(make_graph("candidate", size.tolist(), sorted(last | kept - {edge})))
        if fewer.slab > fewer.peak:
            kept.discard(edge)
            found = fewer
    return found, sorted(last | kept)


def _reads(end: IntArray) -> tuple[set[Edge], list[Edge]]:
    """Reads at which live ranges end, and those that could come before."""
    n = len(end)
    last = {(v, int(end[v]) - 1) for v in range(n) if end[v] > v + 1}
    return last, [(u, v) for u in range(n) for v in range(u + 1, int(end[u]) - 1)]


def smallest_and_freest() -> tuple[Graph, Graph]:
    """Return the 7-op graphs of fewest bytes and of most orders, over all seeds of 7 ops."""
    # "Smallest" is proved here, every time the study runs: nothing below has a gap.
    for ops in range(1, NONE_BELOW):
        if len(every_gap(ops, MOST_SIZE)[0]):
            raise RuntimeError(f"a gap with {ops} ops: the note is wrong")
    rng = random.Random(0)
    ends, sizes = every_gap(NONE_BELOW, MOST_SIZE)
    made = [
        (size, *thinned)
        for end, size in zip(ends, sizes, strict=True)
        if (thinned := thin_out(size, end, rng))
    ]
    few = min(made, key=lambda m: (int(m[0].sum()), len(m[2])))
    free = max(made, key=lambda m: (m[1].orders, m[1].least, -len(m[2])))
    return (
        make_graph("joint_gap_smallest", few[0].tolist(), few[2]),
        make_graph("joint_gap_orders7", free[0].tolist(), free[2]),
    )


def freest_of_eight() -> tuple[Graph, Graph]:
    """Return 8-op graphs of most orders, and of most orders of least peak; seeds are random."""
    rng = random.Random(0)
    ends, sizes = random_gaps(8, 4, tries=6_000_000, seed=1)
    made = [
        (size, *thinned)
        for end, size in zip(ends, sizes, strict=True)
        if (thinned := thin_out(size, end, rng))
    ]
    most = max(made, key=lambda m: (m[1].orders, -len(m[2])))
    least = max(made, key=lambda m: (m[1].least, m[1].orders, -len(m[2])))
    return (
        make_graph("joint_gap_orders8", most[0].tolist(), most[2]),
        make_graph("joint_gap_least8", least[0].tolist(), least[2]),
    )


def peak_given_up(tries: int = 4_000) -> Graph:
    """Return the graph of fewest bytes found whose least slab needs more than the least peak.

    The sizes of seeds are doubled and moved by a byte, and some reads are dropped, at random.
    """
    rng = random.Random(0)
    ends, sizes = every_gap(NONE_BELOW, MOST_SIZE)
    best: Graph | None = None
    least = 0
    for _ in range(tries):
        at = rng.randrange(len(ends))
        # Doubled, so that a byte more or less is half a unit: room for a slab between peak and
        # seed.
        size = [max(1, 2 * int(x) + rng.choice((-1, 0, 0, 1))) for x in sizes[at]]
        last, spare = _reads(ends[at])
        edges = sorted(last | {edge for edge in spare if rng.random() < 0.3})
        # Cheap test first: a graph of no fewer bytes is of no use.
        if best is not None and sum(size) >= least:
            continue
        graph = make_graph("joint_gap_above_peak", size, edges)
        found = least_joint(graph)
        if found.slab < found.slab_at_peak:
            best, least = graph, sum(size)
    if best is None:
        raise RuntimeError("no such graph within the tries")
    return best


def shortest_chain() -> Graph:
    """Return a chain of 5 ops with several outputs each: its only order does not pack."""
    rows = random_chain_gap(5, 8, 4, tries=20_000_000, seed=1)
    return chain("joint_gap_chain", shrink_rows(rows, _has_gap))


def chain(name: str, rows: Sequence[Range]) -> Graph:
    """Return a chain of ops; each writes the buffers that start at its step, and reads others.

    A buffer that starts and ends at one step is like workspace: an output without a reader.
    """
    build = GraphBuilder(name)
    rows = sorted(rows)
    steps = max(end for _, end, _ in rows)
    labels = [chr(ord("a") + i) for i in range(len(rows))]
    for step in range(steps):
        build.op(
            f"op{step}",
            reads=[x for x, (s, e, _) in zip(labels, rows, strict=True) if s < step == e - 1],
            writes={x: z for x, (s, _, z) in zip(labels, rows, strict=True) if s == step},
            control=[f"op{step - 1}"] if step else [],
        )
    return build.build()


def _has_gap(problem: PackingProblem) -> bool:
    columns = problem.start, problem.end, problem.size
    return len(problem) > 0 and not fits.compiled(*columns, problem.max_load)
