"""Kernels that go through a sequence of nodes: live bytes, and repeats that can be dropped.

They follow the rules of :mod:`optsched.model.runs` without making a graph, so that thousands of
sequences can be tried in a second: each run reads the latest copies, views keep the copy that they
were taken of, and all readers of a graph output take its first copy.

Example: in a, b, c, a, d, where `a` makes 5 bytes for b and d, the first copy of `a` is released
after b, and the second is live from the fourth run on. In a, b, a, c the second run of `a` has no
reader, and is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import BoolArray, IntArray
from optsched.model.wiring import find_kept, find_roots
from optsched.runtime.collector import paused_collector
from optsched.runtime.kernel import inner, kernel
from optsched.solver.recompute.kernels import Contracted


class Flat(NamedTuple):
    """Nodes and buffers of a graph; entries of row `i` lie between `ptr[i]` and `ptr[i + 1]`."""

    read_ptr: IntArray
    read: IntArray
    write_ptr: IntArray
    write: IntArray
    """`read_ptr`, `read`, `write_ptr` and `write`: buffers that each node reads and writes."""
    size: IntArray
    """Bytes of each buffer that a run makes; 0 for views."""
    first: IntArray
    """Bytes of its first copy, or of the input; 0 if the caller holds it."""
    source: IntArray
    root: IntArray
    maker: IntArray
    """`source`, `root` and `maker`: buffer that each one is a view of, or -1; the buffer at the end
    of this chain; the node that writes it, -1 for an input."""
    kept: BoolArray
    given: BoolArray
    """`kept` and `given`: True for buffers that stay to the end; for inputs."""
    price: IntArray
    """Rank of each node's price: repeats of the highest are dropped first."""
    fixed: int
    """Bytes live before the first run."""


@paused_collector()
def flat(graph: Contracted, price: Sequence[int]) -> Flat:
    """Return the arrays of a contracted graph, without making the graph."""
    used = [graph.used(nodes) for nodes in graph.members]
    buffers = graph.tables.buffers
    size = np.array([0 if x.alias_of is not None else x.size for x in buffers], np.int64)
    roots = find_roots(buffers)
    given = np.array([x.input is not None for x in buffers], np.bool_)
    first = np.where([buffer.external for buffer in buffers], 0, size)
    maker = np.full(len(buffers), -1, np.int64)
    write_ptr, write = rows([writes for _, writes in used])
    maker[write] = np.repeat(np.arange(len(used)), np.diff(write_ptr))
    return Flat(
        *rows([reads for reads, _ in used]),
        write_ptr,
        write,
        size=size,
        first=first,
        source=np.array([-1 if x.alias_of is None else x.alias_of for x in buffers], np.int64),
        root=np.array(roots, np.int64),
        maker=maker,
        kept=np.array(find_kept(buffers, roots), np.bool_),
        given=given,
        price=np.array(price, np.int64),
        # Inputs among the storages have readers, so all are live before the first run.
        fixed=int(first[given].sum()),
    )


def rows(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return lists as compressed rows."""
    ptr = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(row) for row in lists], out=ptr[1:])
    return ptr, np.array([x for row in lists for x in row], np.int64)


@kernel
def live_bytes(flat: Flat, nodes: IntArray, running: IntArray) -> int:
    """Write the live bytes during each run to `running`, one longer than `nodes`; return the peak.

    Copies are numbered as they are made, after the inputs.
    """
    count, total = len(flat.size), len(flat.size)
    for v in nodes:
        total += flat.write_ptr[v + 1] - flat.write_ptr[v]
    end, freed = np.full(total, -1, np.int64), np.zeros(total, np.int64)
    latest, made = np.full(count, -1, np.int64), count
    for b in range(count):
        if flat.given[b]:
            latest[b] = b
            freed[b] = 0 if flat.kept[b] else flat.first[b]
    running[:] = 0
    for i in range(len(nodes)):
        v = nodes[i]
        for k in range(flat.read_ptr[v], flat.read_ptr[v + 1]):
            end[latest[flat.read[k]]] = i
        for k in range(flat.write_ptr[v], flat.write_ptr[v + 1]):
            b = flat.write[k]
            is_first = latest[b] < 0
            size = flat.first[b] if is_first else flat.size[b]
            copy = made if flat.source[b] < 0 else latest[flat.source[b]]
            if copy == made:
                running[i] += size
                # What stays to the end is never released.
                freed[copy] = 0 if is_first and flat.kept[b] else size
                made += 1
            end[copy] = i
            if is_first or not flat.kept[flat.root[b]]:
                latest[b] = copy
    for copy in range(made):
        running[end[copy] + 1] -= freed[copy] if end[copy] >= 0 else 0
    live = peak = flat.fixed
    for i in range(len(nodes)):
        live += running[i]
        running[i] = live
        peak = max(peak, live)
    return peak


@kernel
def drop_unread(flat: Flat, nodes: IntArray) -> int:
    """Drop repeats that no run reads, in place; return the number of runs that are left."""
    n = len(nodes)
    while True:
        run = np.full(len(flat.size), -1, np.int64)
        seen, used = np.zeros(len(flat.price), np.bool_), np.zeros(n, np.bool_)
        for i in range(n):
            v = nodes[i]
            for k in range(flat.read_ptr[v], flat.read_ptr[v + 1]):
                if run[flat.read[k]] >= 0:
                    used[run[flat.read[k]]] = True
            for k in range(flat.write_ptr[v], flat.write_ptr[v + 1]):
                b = flat.write[k]
                if not seen[v] or not flat.kept[flat.root[b]]:
                    run[b] = i
            used[i] = used[i] or not seen[v]
            seen[v] = True
        left = 0
        for i in range(n):
            if used[i]:
                nodes[left] = nodes[i]
                left += 1
        # A repeat may have been read by a dropped one alone.
        if left == n:
            return n
        n = left


@inner
def next_repeat(flat: Flat, nodes: IntArray, price: int, at: int) -> int:
    """Return the position of the repeat to try after one of some price and position, or -1.

    They come by price, the highest first, then by position.
    """
    seen, found = np.zeros(len(flat.price), np.bool_), -1
    for i in range(len(nodes)):
        v = nodes[i]
        is_later = flat.price[v] < price or (flat.price[v] == price and i > at)
        is_first = found < 0 or flat.price[v] > flat.price[nodes[found]]
        if seen[v] and is_later and is_first:
            found = i
        seen[v] = True
    return found


@kernel
def drop_repeats(flat: Flat, nodes: IntArray, peak: int, most: int) -> int:
    """Drop repeats, in place, without which the rest fits a peak; return the number of runs left.

    The most expensive ones are tried first, until none can be dropped, or `most` runs were gone
    through.
    """
    n, price, at, is_done = len(nodes), len(flat.price), -1, True
    running, tried = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    while True:
        i = next_repeat(flat, nodes[:n], price, at)
        most -= n
        if most < 0 or (i < 0 and is_done):
            return n
        # Some were dropped since the most expensive ones were tried, so all are tried again.
        if i < 0:
            price, at, is_done = len(flat.price), -1, True
            continue
        price, at = flat.price[nodes[i]], i
        for k in range(n - 1):
            tried[k] = nodes[k] if k < i else nodes[k + 1]
        left = drop_unread(flat, tried[: n - 1])
        if live_bytes(flat, tried[:left], running[: left + 1]) <= peak:
            nodes[:left] = tried[:left]
            # The next one may have moved to this place.
            n, at, is_done = left, i - 1, False


@inner
def next_reads(flat: Flat, nodes: IntArray, at: int) -> IntArray:
    """Return by node the first run after a position that reads what it made before; -1 if none."""
    found = np.full(len(flat.price), -1, np.int64)
    is_new = np.zeros(len(flat.price), np.bool_)
    for i in range(at + 1, len(nodes)):
        for k in range(flat.read_ptr[nodes[i]], flat.read_ptr[nodes[i] + 1]):
            u = flat.maker[flat.read[k]]
            if u >= 0 and found[u] < 0 and not is_new[u]:
                found[u] = i
        is_new[nodes[i]] = True
    return found


@kernel
def replace_repeat(
    flat: Flat, nodes: IntArray, at: int, able: IntArray, barrier: int, peak: int, most: int
) -> int:
    """Replace a repeat by a cheaper one, in place; return the number of runs, 0 if none fits.

    `at`: position of the repeat. `able`: nodes that may run again, the cheapest first. Each is
    tried before the first run that reads it after the one of most live bytes. `barrier`, `peak`:
    position after which nodes may run again; bytes that must not be exceeded. `most`: number of
    runs to go through at most.
    """
    n = len(nodes) - 1
    tried, trial = np.empty(n, np.int64), np.empty(n + 1, np.int64)
    running = np.empty(n + 2, np.int64)
    for k in range(n):
        tried[k] = nodes[k] if k < at else nodes[k + 1]
    n = drop_unread(flat, tried)
    live_bytes(flat, tried[:n], running[: n + 1])
    worst = 0
    for i in range(n):
        worst = i if running[i] > running[worst] else worst
    reads = next_reads(flat, tried[:n], worst)
    for u in able:
        if flat.price[u] >= flat.price[nodes[at]] or most < 0:
            break
        # Before the barrier, or without a reader.
        if reads[u] <= barrier:
            continue
        most -= n
        for k in range(n + 1):
            trial[k] = u if k == reads[u] else tried[k - (k > reads[u])]
        if live_bytes(flat, trial[: n + 1], running[: n + 2]) <= peak:
            nodes[: n + 1] = trial[: n + 1]
            return n + 1
    return 0
