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
from optsched.inplace import refuse_inplace
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
        All that is live then, largest first; the sizes add up to the bound.
    peak
        Of the best order that quick heuristics find.
    changes
        For the largest of the buffers, those that help most first.
    """

    bound: int
    op: int | None
    at: str
    buffers: tuple[LiveBuffer, ...]
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
    refuse_inplace(graph, "explain")
    orders = [ORDERINGS[name](graph, 0) for name in QUICK]
    found = closure_bound(graph, orders)
    arrays = graph.arrays
    if found.op is None:
        at = "start" if arrays.initial == found.value else "end"
        done = set[int]() if at == "start" else set(range(arrays.op_count))
    else:
        at, done = "op", set(closure_witness(graph, found.op).done)
    live = _live_buffers(graph, found.op, done)
    tried = [row.buffer for row in live[:changes] if row.size]
    return Explanation(
        found.value,
        found.op,
        at,
        live,
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

    The bound of one op, as a function of one size, rises at rate 1 from size 0 to some size and is
    constant from there on. So an op that is above the least bound is at it where the buffer is as
    much larger than 0 bytes as the op is below it at 0; the least such size over all ops counts.
    """

    def resized(size: int) -> Graph:
        smaller = replace(graph.buffers[buffer], size=size)
        buffers = (*graph.buffers[:buffer], smaller, *graph.buffers[buffer + 1 :])
        return replace(graph, buffers=buffers)

    without = resized(0)
    least, size = closure_bound(without, orders).value, graph.buffers[buffer].size
    while found.value > least:
        if found.op is None:
            size -= found.value - least
        else:
            size = least - closure_witness(without, found.op).value
        found = closure_bound(resized(size), orders)
    return Change(buffer, graph.buffers[buffer].size - size, least, found.op)
