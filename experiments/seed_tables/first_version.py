"""The reordering as it was first merged (autumn 2024), to re-examine what it chose.

The notes' table was measured with it. Its estimator keeps outputs to the end, as today's does. But

- it counts and frees every graph input that is not named `primals_`: tangents, and in inference
  all weights;
- it counts each new name of a mutated buffer as a buffer of its own;
- a buffer dies at the last reader of its own name, so that a mutated one may die too early;
- its LPMF releases, after each op, what the op listed last would release: a slip of a name.

Later versions mended all four, at the latest that of September 2025. Where a node reads what it
writes itself, as some newer kinds of fused nodes do, this version would have lost its LPMF order;
such reads are left out.

References
----------
torch/_inductor/memory.py at 0095bd8a786103e970eed04330e4b80af9e035fe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heuristics import ORDERINGS
from optsched.formats.inductor import read_inductor
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory

UNCOUNTED = "primals_"
"""Beginnings of the names of inputs that the first version did not count."""


def first_orders(graph: Graph) -> dict[str, IntArray]:
    """Return the four orders in the sequence in which the first version tried them."""
    orders = {name: ORDERINGS[name](graph, 0) for name in ("program", "bfs", "dfs")}
    return {
        "baseline": orders["program"],
        "lpmf": first_lpmf(graph),
        "bfs": orders["bfs"],
        "dfs": orders["dfs"],
    }


def first_graph(document: Mapping[str, Any], name: str = "graph") -> Graph:
    """Make the graph whose peaks are the first version's estimates.

    Parameters
    ----------
    document
        A capture made with :func:`experiments.seed_tables.captures.note_reads`.
    name
        Name of the graph.
    """
    extra = document["extra"]
    outputs = set(extra["graph_outputs"])
    made = {b["name"]: b for b in document["buffers"] if not b["is_input"]}
    counted = {b: n for b, n in extra["read_bytes"].items() if not b.startswith(UNCOUNTED)}
    rows = [_row(b, size, size, True, b in outputs, ()) for b, size in counted.items()]
    for node, reads in zip(document["nodes"], extra["all_reads"], strict=True):
        names = node["buffer_names"]
        deps = [d for d in reads if (d in made or d in counted) and d not in names]
        for b in names:
            size = extra["renamed_bytes"].get(b)
            alloc, free = (
                (made[b]["size_alloc"], made[b]["size_free"])
                if size is None
                else (
                    size,
                    size,
                )
            )
            rows.append(_row(b, alloc, free, False, b in outputs, deps))
    return read_inductor({"nodes": document["nodes"], "buffers": rows}, name=name)


def _row(
    name: str, alloc: int, free: int, is_input: bool, is_output: bool, deps: Sequence[str]
) -> dict[str, Any]:
    return {
        "name": name,
        "size_alloc": alloc,
        "size_free": free,
        "is_input": is_input,
        "is_output": is_output,
        "deps": list(deps),
    }


def first_lpmf(graph: Graph) -> IntArray:
    """Return the order of the first version's LPMF, its slip included. O(n * ready ops)."""
    arrays = graph.arrays
    n = len(graph.ops)
    waiting = np.diff(arrays.pred.ptr).tolist()
    users_left = (np.diff(arrays.user.ptr) + arrays.keep).tolist()
    size, alloc = arrays.size.tolist(), arrays.alloc.tolist()
    freed = [
        int(arrays.own[v]) + sum(size[b] for b in arrays.read.row(v) if users_left[b] == 1)
        for v in range(n)
    ]
    live = arrays.initial
    highest = max(live, sum(size[b] for b in np.flatnonzero(arrays.keep)))
    ready = {v for v in range(n) if waiting[v] == 0}
    order = []
    while ready:
        v = min(ready, key=lambda u: (max(live + alloc[u], highest), alloc[u] - freed[u], u))
        ready.remove(v)
        order.append(v)
        live += alloc[v]
        highest = max(highest, live)
        # The slip: not what `v` frees.
        live -= freed[n - 1]
        for w in arrays.succ.row(v).tolist():
            waiting[w] -= 1
            if waiting[w] == 0:
                ready.add(w)
        for b in arrays.read.row(v).tolist():
            users_left[b] -= 1
            if users_left[b] == 1:
                for w in arrays.user.row(b).tolist():
                    freed[w] += size[b]
    return np.array(order, np.int64)


def first_choice(graph: Graph) -> tuple[dict[str, int], str, IntArray]:
    """Return the first version's estimates, the method it chose, and that order."""
    orders = first_orders(graph)
    peaks = {method: peak_memory(graph, order) for method, order in orders.items()}
    # The first of equals, as Inductor's `min`: the baseline wins ties.
    chosen = min(peaks, key=peaks.__getitem__)
    return peaks, chosen, orders[chosen]
