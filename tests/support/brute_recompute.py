"""The least extra compute under a peak, by enumeration: any order, any op again at any time.

States are the ops that have run and the storages that are live. Dijkstra's algorithm moves from
state to state: run an op whose operands are live, or release a storage. Only graphs without views
of views, mutation and births are understood.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

import numpy as np

from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph


def least_extra(graph: Graph, peak: int, again: Collection[int]) -> int | None:
    """Return the least extra cost of a sequence with at most `peak` bytes; None if there is none.

    `again` are the ops that may run more than once.
    """
    size = [0 if x.external or x.alias_of is not None else x.size for x in graph.buffers]
    roots, every = graph.roots, (1 << len(graph.ops)) - 1
    reads, writes, before = [], [], []
    for v, op in enumerate(graph.ops):
        made = sum(1 << b for b in op.writes if roots[b] == b)
        read = 0
        for b in (*op.reads, *op.uses, *op.writes):
            read |= 1 << roots[b]
        writes.append(made)
        reads.append(read & ~made)
        before.append(sum(1 << u for u in graph.predecessors[v]))
    kept = sum(1 << b for b in range(len(size)) if roots[b] == b and graph.kept[b])

    def weigh(live: int) -> int:
        return sum(n for b, n in enumerate(size) if live >> b & 1)

    # An input that nobody uses is never live, as in the library's definition.
    given = [b for b, x in enumerate(graph.buffers) if x.input is not None and _is_used(graph, b)]
    inputs = sum(1 << b for b in given)
    if weigh(inputs) > peak:
        return None
    best = {(0, inputs): 0}
    heap = [(0, 0, inputs)]
    while heap:
        cost, done, live = heapq.heappop(heap)
        # A cheaper way to this state was found after this entry was put on the heap.
        if best[done, live] < cost:
            continue
        if done == every:
            return cost
        released = [b for b in range(len(size)) if (live & ~kept) >> b & 1]
        # Every release is a move of its own: the search, not a rule, says when a storage is
        # dropped.
        found = [(cost, done, live & ~(1 << b)) for b in released]
        for v in range(len(graph.ops)):
            # Operands and the ops that must come first bind a repeat just as they bind the first
            # run.
            is_again = done >> v & 1
            if (is_again and v not in again) or reads[v] & ~live or before[v] & ~done:
                continue
            # A kept copy stays beside the one that a repeat makes and drops at once.
            held = live & ~writes[v] | (live & kept)
            if weigh(held) + weigh(writes[v]) <= peak:
                more = graph.ops[v].cost if is_again else 0
                found.append((cost + more, done | 1 << v, live | writes[v]))
        for state in found:
            if state[0] < best.get(state[1:], 1 << 62):
                best[state[1:]] = state[0]
                heapq.heappush(heap, state)
    return None


def _is_used(graph: Graph, b: int) -> bool:
    used = {graph.roots[x] for op in graph.ops for x in (*op.reads, *op.uses, *op.writes)}
    return graph.kept[b] or b in used


def training_graph(rng: np.random.Generator, rich: bool = True) -> Graph:
    """Return a tiny forward graph with a loss, and a backward graph that reads its activations."""

    def below(n: int) -> int:
        return int(rng.integers(n))

    forward, backward = 3 + below(3), 2 + below(3)
    build = GraphBuilder("tiny", cost_unit="units")
    build.input("tangents_1", below(2), "excluded")
    if rich and below(3) == 0:
        build.input("x", 1 + below(6), ("freed", "kept", "excluded")[below(3)])
    given = ["x"] if "x" in build._buffers else []
    bytes_: dict[str, int] = {}
    names: list[list[str]] = []
    for v in range(forward):
        reads = [x for row in names[-1:] for x in row[:1] if below(5)]
        reads += [x for row in names for x in row if below(10) < 3] + [x for x in given if below(2)]
        count = 1 + (rich and below(5) == 0)
        made = {f"f{v}.{k}": 1 + below(9) for k in range(count)}
        build.op(
            f"f{v}",
            reads=list(dict.fromkeys(reads)),
            writes=made,
            workspace=below(4) if rich and below(4) == 0 else 0,
            cost=below(10),
            once=rich and below(6) == 0,
        )
        bytes_ |= made
        names.append(list(made))
    loss = names[-1][0]
    activations = [x for row in names for x in row]
    last = loss
    for v in range(backward):
        reads = [last] if v else [loss, "tangents_1"]
        reads += [x for x in activations if below(20) < 7]
        build.op(f"b{v}", reads=list(dict.fromkeys(reads)), writes={f"g{v}": 1 + below(9)})
        last = f"g{v}"
    build.output(last)
    build.output(loss)
    if rich and below(3) == 0:
        build.output(activations[below(len(activations))])
    return build.build()
