"""Streams by enumeration: precedence by closure, antichains by subsets, slabs by placing buffers.

The definitions of the design are written down directly, with sets; flat arrays, clocks of streams
and flows are not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from optsched.model.graph import Graph
from optsched.model.streams import with_streams
from tests.support.brute import limit_of, orders
from tests.support.generators import random_graph

FEATURES = frozenset({"inputs", "external", "multi", "births", "views", "mutation", "workspace"})
FEATURES |= {"uses", "control", "zeros", "shuffled"}
"""Features of graphs on streams, beside places."""


def random_stream_graph(
    rng: np.random.Generator, ops: int, streams: int, *, more: frozenset[str] = frozenset()
) -> Graph:
    """A graph whose ops are dealt out to streams at random, with the syncs that this takes."""
    graph = random_graph(rng, ops, max_size=8, features=FEATURES | more)
    return with_streams(graph, [f"s{s}" for s in rng.integers(streams, size=len(graph.ops))])


def preceding(graph: Graph, order: Sequence[int]) -> list[set[int]]:
    """The ops that precede each op in every execution."""
    found: list[set[int]] = [set() for _ in graph.ops]
    for at, v in enumerate(order):
        direct = [*graph.predecessors[v]]
        # Ops of one stream run in their sequence.
        direct += [u for u in order[:at] if graph.ops[u].stream == graph.ops[v].stream]
        for u in direct:
            found[v] |= {u} | found[u]
    return found


class Held:
    """A buffer with bytes that is ever live, the op that allocates it, and its users."""

    def __init__(self, graph: Graph, b: int) -> None:
        buffer = graph.buffers[b]
        self.id, self.size, self.kept = b, buffer.size, graph.kept[b]
        self.alignment, self.pin, self.pool = buffer.alignment, buffer.pin, buffer.pool
        self.limit = limit_of(graph, b)
        self.maker = graph.producers[b] if buffer.birth is None else buffer.birth
        self.users = {
            v
            for v, op in enumerate(graph.ops)
            if any(graph.roots[i] == b for i in (*op.reads, *op.uses, *op.writes))
        }

    def before(self, other: Held, precede: Sequence[set[int]]) -> bool:
        """Return True if the other buffer may take the place of this one."""
        # An input is there from the start, so nothing can free its place before.
        if self.kept or other.maker is None:
            return False
        return self.users <= precede[other.maker]


def held_by(graph: Graph) -> list[Held]:
    """All buffers that want bytes in a slab."""
    rows = [
        Held(graph, b)
        for b, buffer in enumerate(graph.buffers)
        if buffer.alias_of is None and not buffer.external and buffer.size
    ]
    return [row for row in rows if row.maker is not None or row.kept or row.users]


def conflict_pairs(graph: Graph, order: Sequence[int]) -> set[tuple[int, int]]:
    """Pairs of buffers that must not share bytes, the lesser id first."""
    precede, rows = preceding(graph, order), held_by(graph)
    return {
        (b.id, c.id)
        for b, c in combinations(rows, 2)
        # Neither may take the other's place.
        if not b.before(c, precede) and not c.before(b, precede)
    }


def antichain_bytes(graph: Graph, order: Sequence[int]) -> int:
    """Largest total size of buffers that pairwise conflict; up to about 12 buffers."""
    return _heaviest(held_by(graph), conflict_pairs(graph, order))


def _heaviest(rows: Sequence[Held], pairs: set[tuple[int, int]]) -> int:
    def most(left: Sequence[Held], chosen: tuple[int, ...]) -> int:
        if not left:
            return 0
        first, rest = left[0], left[1:]
        best = most(rest, chosen)
        # A clique of conflicts: each new member must conflict with all chosen ones.
        if all((c, first.id) in pairs for c in chosen):
            best = max(best, first.size + most(rest, (*chosen, first.id)))
        return best

    return most(rows, ())


def least_slab_on_streams(graph: Graph, order: Sequence[int]) -> int | None:
    """Least slab of an order, of all pools together; None where pins contradict each other."""
    total, pairs = 0, conflict_pairs(graph, order) | set(graph.keep_apart)
    for pool in {row.pool for row in held_by(graph)}:
        slab = _least_slab([row for row in held_by(graph) if row.pool == pool], pairs)
        if slab is None:
            return None
        total += slab
    return total


def _least_slab(rows: Sequence[Held], pairs: set[tuple[int, int]]) -> int | None:
    """Place the buffers by ascending offset, each at its lowest free offset."""
    floor, best = _heaviest(rows, pairs), list[int | None]([None])
    near = [
        [
            j
            for j, other in enumerate(rows)
            if (row.id, other.id) in pairs or (other.id, row.id) in pairs
        ]
        for row in rows
    ]
    top = [0] * len(rows)

    def place(left: tuple[int, ...], slab: int, last: tuple[int, int]) -> None:
        # The heaviest clique is a bound on the slab.
        if best[0] is not None and (slab >= best[0] or best[0] == floor):
            return
        if not left:
            best[0] = slab
            return
        for i in left:
            row = rows[i]
            low = max((top[j] for j in near[i]), default=0)
            offset = -(-low // row.alignment) * row.alignment
            if row.pin is not None:
                if row.pin < low:
                    continue
                offset = row.pin
            if offset + row.size > row.limit:
                continue
            # Ascending offsets, as in the packing without streams.
            if (offset, i) < last:
                continue
            top[i] = offset + row.size
            place(tuple(j for j in left if j != i), max(slab, top[i]), (offset, i))
            top[i] = 0

    place(tuple(range(len(rows))), 0, (0, -1))
    return best[0]


def stream_orders(graph: Graph) -> Iterator[tuple[int, ...]]:
    """One order of all ops for each choice of an order in every stream."""
    seen = set()
    for order in orders(graph):
        key = tuple(
            tuple(v for v in order if graph.ops[v].stream == stream) for stream in graph.streams
        )
        # Orders with the same sequence in each stream are one execution plan.
        if key not in seen:
            seen.add(key)
            yield order


def least_antichain(graph: Graph) -> int:
    """Least of the largest antichains over all orders of the streams; up to about 6 ops."""
    return min(antichain_bytes(graph, order) for order in stream_orders(graph))


def least_slab_of_orders(graph: Graph) -> int | None:
    """Least slab over all orders of the streams; up to about 6 ops."""
    best: int | None = None
    for order in stream_orders(graph):
        # The slab is at least the antichain, so this order cannot be better.
        if best is None or antichain_bytes(graph, order) < best:
            slab = least_slab_on_streams(graph, order)
            best = slab if best is None else best if slab is None else min(best, slab)
    return best


def live_at_once(graph: Graph, order: Sequence[int]) -> int:
    """Most bytes live at once in any execution of an order on its streams, one op a stream."""
    precede, rows = preceding(graph, order), held_by(graph)
    seen: set[tuple[frozenset[int], frozenset[int]]] = set()
    # A state is the set of ended ops and the set of running ones.
    stack = [(frozenset[int](), frozenset[int]())]
    best = 0
    while stack:
        ended, running = stack.pop()
        if (ended, running) in seen:
            continue
        seen.add((ended, running))
        started = ended | running
        live = sum(
            row.size
            for row in rows
            if (row.maker is None or row.maker in started) and (row.kept or row.users - ended)
        )
        best = max(best, live)
        stack += [(ended | {v}, running - {v}) for v in running]
        stack += [
            (ended, running | {v})
            for v in range(len(graph.ops))
            # An op starts when all that precede it have ended.
            if v not in started and precede[v] <= ended
        ]
    return best
