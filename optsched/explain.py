"""Why is the peak this high? The op that forces it, the buffers live then, and what would help.

The answer is the witness of the closure bound: an op and a state in which exactly the bound's bytes
are live while the op runs; in every other state in which it may run there are at least as many.
What a smaller buffer would bring is found by evaluating the bound of the changed graph anew, over
all of its ops: the next bottleneck may be an op elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heuristics import ORDERINGS
from optsched.bounds import op_bound
from optsched.graph import Graph
from optsched.inplace import Pair
from optsched.liveness import Order, peak_memory
from optsched.ordering import ClosureBound, closure_bound, closure_witness

CHANGES = 8
"""Buffers that are tried for what a smaller one would bring: the largest ones."""

QUICK = ("program", "lpmf", "lpmf_backward", "dfs")
"""Orderings whose orders say where to look for the bound."""


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A buffer that is live at the bottleneck.

    Parameters
    ----------
    buffer
        Its id.
    size
        Bytes.
    producer
        Id of the op that makes it; None for a graph input.
    holders
        Ids of the ops that use it and have not ended: the bottleneck itself or later ones.
    output
        Whether it stays live to the end.
    forced
        Whether it is live then in every order; otherwise an order may free it before, but only by
        running ops that make as many bytes live in its stead.
    """

    buffer: int
    size: int
    producer: int | None
    holders: tuple[int, ...]
    output: bool
    forced: bool


@dataclass(frozen=True, slots=True)
class Change:
    """What a smaller buffer would bring.

    Parameters
    ----------
    buffer
        Its id.
    smaller_by
        Bytes to take away; taking more brings nothing further.
    bound
        The bound then.
    op
        The op that holds it then; None if inputs or outputs do.
    """

    buffer: int
    smaller_by: int
    bound: int
    op: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why no order has a smaller peak than the bound.

    Parameters
    ----------
    bound
        Bytes.
    op
        The op that forces them; None if the start or the end of the graph does.
    at
        `"op"`, `"start"` or `"end"`.
    buffers
        All that is live then, largest first; the sizes add up to the bound, but for outputs that
        lie in inputs.
    shared
        Outputs of the op and the inputs that it may write them into then, in an in-place graph.
    peak
        Of the best order that quick heuristics find.
    changes
        For the largest of the buffers, those that help most first.
    """

    bound: int
    op: int | None
    at: str
    buffers: tuple[LiveBuffer, ...]
    shared: tuple[Pair, ...]
    peak: int
    changes: tuple[Change, ...]


def explain(graph: Graph, *, changes: int = CHANGES) -> Explanation:
    """Explain the closure bound of a graph.

    Parameters
    ----------
    graph
        The graph.
    changes
        So many of the largest live buffers are tried smaller.
    """
    orders = [ORDERINGS[name](graph, 0) for name in QUICK]
    found = closure_bound(graph, orders)
    arrays = graph.arrays
    shared: tuple[Pair, ...] = ()
    if found.op is None:
        at = "start" if arrays.initial == found.value else "end"
        done = set[int]() if at == "start" else set(range(arrays.op_count))
    else:
        witness = closure_witness(graph, found.op)
        at, done, shared = "op", set(witness.done), witness.shared
        found = replace(found, value=witness.value)
    live = _live_buffers(graph, found.op, done)
    tried = [row.buffer for row in live[:changes] if row.size]
    return Explanation(
        found.value,
        found.op,
        at,
        live,
        shared,
        min(peak_memory(graph, order) for order in orders),
        tuple(
            sorted(
                (_shrink(graph, orders, b, found) for b in tried),
                key=lambda change: (change.bound, change.smaller_by, change.buffer),
            )
        ),
    )


def _live_buffers(graph: Graph, op: int | None, done: set[int]) -> tuple[LiveBuffer, ...]:
    arrays = graph.arrays
    forced = set[int]() if op is None else set(op_bound(arrays, op).buffers)
    rows = []
    for b in np.flatnonzero(arrays.size > 0).tolist():
        birth, producer = int(arrays.birth[b]), int(arrays.producer[b])
        if birth >= 0 and birth != op and birth not in done:
            continue
        users = [v for v in arrays.user.row(b).tolist() if v not in done]
        waits = producer >= 0 and producer not in done
        kept = bool(arrays.keep[b])
        if users or kept or waits:
            holders = (*([producer] if waits and producer not in users else []), *users)
            rows.append(
                LiveBuffer(
                    b,
                    int(arrays.size[b]),
                    None if producer < 0 else producer,
                    holders,
                    kept,
                    op is None or b in forced,
                )
            )
    return tuple(sorted(rows, key=lambda row: (-row.size, row.buffer)))


def _shrink(graph: Graph, orders: Sequence[Order], buffer: int, found: ClosureBound) -> Change:
    """Find the least bound that a smaller buffer brings, and the largest size that brings it.

    Between two sizes at which its in-place pairs change, the bound of one op, as a function of the
    size, rises at rate 1 up to some size and is constant from there on. So an op that is above the
    least bound is at it where the buffer is as much larger than the smaller of the two as the op is
    below it there; the least such size over all ops counts.
    """

    def resized(size: int) -> Graph:
        smaller = replace(graph.buffers[buffer], size=size)
        buffers = (*graph.buffers[:buffer], smaller, *graph.buffers[buffer + 1 :])
        return replace(graph, buffers=buffers)

    full = graph.buffers[buffer].size
    bounds = {size: closure_bound(resized(size), orders) for size in _turns(graph, buffer)}
    least = min(bound.value for bound in bounds.values())
    if found.value <= least:
        return Change(buffer, 0, found.value, found.op)
    start = max(size for size, bound in bounds.items() if bound.value == least)
    base = resized(start)
    size = min((turn for turn in bounds if turn > start), default=full + 1) - 1
    at = closure_bound(resized(size), orders)
    while at.value > least:
        if at.op is None:
            size -= at.value - least
        else:
            size = start + least - closure_witness(base, at.op).value
        at = closure_bound(resized(size), orders)
    return Change(buffer, full - size, least, at.op)


def _turns(graph: Graph, buffer: int) -> set[int]:
    """Sizes, up to a buffer's own, from which on it is in other in-place pairs; and 0."""
    turns = {0}
    for _, output, named in graph.inplace if graph.in_place else ():
        pair = (output, graph.roots[named])
        if buffer in pair:
            size = graph.buffers[pair[pair[0] == buffer]].size
            turns |= {size, size + 1}
    return {size for size in turns if size <= graph.buffers[buffer].size}
