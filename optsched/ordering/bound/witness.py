"""Why an op forces its bytes: the witness of a closure bound, for people and for the checker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from optsched.model.arrays import GraphArrays
from optsched.model.graph import Graph
from optsched.model.inplace import Pair, heaviest_matching
from optsched.ordering.inplace import find_ways
from optsched.ordering.kernels.max_flow import (
    UNBOUNDED,
    Arcs,
    add_arc,
    empty_arcs,
    mark_side,
    max_flow,
)


@dataclass(frozen=True, slots=True)
class ClosureWitness:
    """Why an op forces its bytes, in terms of the graph: checked by adding up.

    Releasing buffer `b` before `op` runs needs all its users to have run, with their ancestors;
    each charge `(b, u, bytes)` says that `u` is among these, and that so many of the bytes that `u`
    allocates must be counted against the release. If no buffer is charged beyond its size and no op
    beyond its allocation, then while `op` runs there are live at least: the initial bytes, all that
    the ancestors of `op` allocate, less every buffer that can be dead by then, plus all charges,
    plus what `op` allocates.

    In an in-place graph this holds where the other users of the inputs that `op` writes into have
    ended too, and less what it writes there; where other inputs can be written into, no fewer are
    live.

    Parameters
    ----------
    op
        The op that runs.
    value
        Bytes that are live at least.
    done
        A downset at which exactly these are live: which ops to have run for the least.
    charges
        `(buffer, op, bytes)`.
    shared
        Outputs of `op` and the inputs that it writes them into at that downset.
    """

    op: int
    value: int
    done: tuple[int, ...]
    charges: tuple[tuple[int, int, int], ...]
    shared: tuple[Pair, ...] = ()


def closure_witness(
    graph: Graph, op: int, *, before: Iterable[int] = (), after: Iterable[int] = ()
) -> ClosureWitness:
    """Return the witness of the bytes that an op forces.

    Parameters
    ----------
    graph
        The graph.
    op
        Op id.
    before, after
        Further ops that are known to have run before `op`, or to run after it.
    """
    arrays = graph.arrays
    done = _closed(arrays.pred.row, {op, *before}) - {op}
    later = _closed(arrays.succ.row, {op, *after})
    if done & later:
        raise ValueError(f"op {op}: some ops are said to run both before and after it")
    at = np.flatnonzero(arrays.inplace_op == op).tolist()
    pairs = [(int(arrays.inplace_output[i]), int(arrays.inplace_source[i])) for i in at]
    others = {s: set(arrays.user.row(s).tolist()) - {op} for _, s in pairs}
    pairs = [pair for pair in pairs if others[pair[1]].isdisjoint(later)]
    certain = [s for s in others if others[s] <= done]
    best = _least(arrays, op, done, later)
    always, ways = find_ways(pairs, arrays.size, certain)
    least = best.value - always
    for saved, needs in ways:
        more = _closed(arrays.pred.row, {op, *done, *(u for s in needs for u in others[s])}) - {op}
        case = _least(arrays, op, more, later)
        if case.value - always - saved < least:
            best, least = case, case.value - always - saved
    return replace(best, value=least, shared=written_over(graph, op, set(best.done)))


def written_over(graph: Graph, op: int, done: set[int]) -> tuple[Pair, ...]:
    """Outputs of an op, and the inputs that it writes them into where the ops `done` have ended."""
    arrays = graph.arrays
    free = []
    for i in np.flatnonzero(arrays.inplace_op == op).tolist():
        output, source = int(arrays.inplace_output[i]), int(arrays.inplace_source[i])
        if done.issuperset(set(arrays.user.row(source).tolist()) - {op}):
            free.append((output, source))
    return tuple(sorted((b, s) for s, b in heaviest_matching(free, arrays.size).items()))


def _least(arrays: GraphArrays, op: int, done: set[int], later: set[int]) -> ClosureWitness:
    """Return the witness where the op writes into no inputs; the ops `done` have ended."""
    deaths = {b: _deaths(arrays, b) for b in range(arrays.buffer_count) if arrays.size[b] > 0}
    value = arrays.initial + int(arrays.alloc[op]) + sum(int(arrays.alloc[u]) for u in done)
    releasable = []
    for b, users in deaths.items():
        if users and not users & later:
            value -= int(arrays.size[b])
            if not users <= done:
                releasable.append(b)
    n = arrays.op_count
    source, sink = n + len(releasable), n + len(releasable) + 1
    pairs = n + len(arrays.pred.idx) + sum(1 + len(deaths[b]) for b in releasable)
    arcs = empty_arcs(sink + 1, pairs)
    e = 0
    for i, b in enumerate(releasable):
        e = add_arc(arcs, e, source, n + i, int(arrays.size[b]))
        for v in sorted(deaths[b] - done):
            e = add_arc(arcs, e, n + i, v, UNBOUNDED)
    for v in range(n):
        if v not in done and v not in later:
            e = add_arc(arcs, e, v, sink, int(arrays.alloc[v]))
            for u in arrays.pred.row(v).tolist():
                if u not in done:
                    e = add_arc(arcs, e, v, u, UNBOUNDED)
    value += max_flow.for_work(8 * pairs)(arcs, source, sink, UNBOUNDED)
    chosen = mark_side.for_work(8 * pairs)(arcs, source, np.int64(0))
    charges = _charges(arcs, n, releasable, sink)
    state = tuple(v for v in range(n) if v in done or chosen[v])
    return ClosureWitness(op, int(value), state, charges)


def _closed(row: Callable[[int], np.ndarray], start: set[int]) -> set[int]:
    found, stack = set(start), list(start)
    while stack:
        for w in row(stack.pop()).tolist():
            if w not in found:
                found.add(w)
                stack.append(w)
    return found


def _deaths(arrays: GraphArrays, buffer: int) -> set[int]:
    """Ops that must all have ended for a buffer to be dead; empty if it never is."""
    if arrays.keep[buffer]:
        return set()
    users = set(arrays.user.row(buffer).tolist())
    if not users and arrays.producer[buffer] >= 0:
        users.add(int(arrays.producer[buffer]))
    return users


def _charges(
    arcs: Arcs, ops: int, releasable: list[int], sink: int
) -> tuple[tuple[int, int, int], ...]:
    """Split the flow into paths; its arcs have no cycle, so each walk ends at the sink."""
    charges: dict[tuple[int, int], int] = {}
    for i, b in enumerate(releasable):
        while True:
            path, node = [], ops + i
            while node != sink:
                e = int(arcs.first[node])
                while e >= 0 and (e & 1 or arcs.room[e ^ 1] == 0):
                    e = int(arcs.following[e])
                if e < 0:
                    break
                path.append(e)
                node = int(arcs.head[e])
            if node != sink:
                break
            amount = min(int(arcs.room[e ^ 1]) for e in path)
            for e in path:
                arcs.room[e ^ 1] -= amount
            payer = int(arcs.head[path[-1] ^ 1])
            charges[b, payer] = charges.get((b, payer), 0) + amount
    return tuple((b, u, amount) for (b, u), amount in sorted(charges.items()))
