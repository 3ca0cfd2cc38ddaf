"""Graphs whose buffers lie in several pools: each pool has its own slab, and the sum counts.

Buffers of different pools never overlap, so for a given order each pool is a separate packing
problem. The pools only have the order in common. Consider the graph in which only the buffers of
one pool have bytes. A plan without the offsets of all other buffers is a plan of that graph, so the
slab in this pool is at least the minimum slab of that graph. The sum of these minima over all pools
is therefore a lower bound on the sum of the slabs of every plan. The minimum peak is another one,
since at each step the live bytes of each pool lie in its slab.

Example: 8 bytes live in pool `sram` at step 0, and 6 bytes in pool `dram` at step 1. The peak is 8
bytes, but the slabs have 8 and 6 bytes, 14 in total.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import SupportsIndex

import numpy as np

from optsched.errors import expect
from optsched.model.arrays import IntArray
from optsched.model.conflicts import Conflicts, Whole
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.model.reductions import ByPool
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.keywords import keywords


@keywords
@dataclass(frozen=True, slots=True, init=False)
class Pool:
    """A memory pool with a slab of its own.

    Parameters
    ----------
    name
        Name by which buffers refer to the pool.
    capacity
        Bytes (`65536` or `"64KiB"`), or None if unlimited.

    Raises
    ------
    UsageError
        If the name is not a string, or the capacity is not a number of bytes.

    Examples
    --------
    >>> Pool("fast", "64KiB")
    Pool(name='fast', capacity=65536)
    """

    name: str
    capacity: int | None

    def __init__(self, name: str, capacity: SupportsIndex | str | None = None) -> None:
        expect("the name of a pool", name, str)
        object.__setattr__(self, "name", name)
        bytes_ = None if capacity is None else parse_bytes(capacity)
        object.__setattr__(self, "capacity", bytes_)


def pools_of(graph: Graph) -> tuple[str, ...]:
    """Return the names of the pools in which buffers have bytes, in ascending order."""
    # Buffers without bytes need no slab.
    sized = np.flatnonzero(graph.arrays.size).tolist()
    return tuple(sorted({graph.buffers[b].pool for b in sized}))


def pool_graph(graph: Graph, pool: str) -> Graph:
    """Return the graph in which only the buffers of one pool have bytes."""
    buffers = tuple(
        buffer
        if buffer.pool == pool or buffer.alias_of is not None
        # A view has the bytes of its root, which is handled there.
        else replace(buffer, size=0, pin=None)
        for buffer in graph.buffers
    )
    return graph.with_sizes(buffers)


def pool_rows(graph: Graph, ids: IntArray) -> ByPool:
    """Return the positions in `ids`, shape `(k,)`, of the buffers of each pool, as a reduction."""
    return ByPool.of([graph.buffers[b].pool for b in ids.tolist()])


def pins_clash(graph: Graph, problem: PackingProblem, ids: IntArray) -> bool:
    """Return True if two pinned buffers of a pool overlap while both are live.

    No packing is valid in that case. `ids`, shape `(k,)`, are the graph's ids of the buffers of the
    problem.
    """
    # Most problems have no pins at all.
    if not (problem.pin >= 0).any():
        return False
    parts = pool_rows(graph, ids).reduce(problem)
    return any(part.clashing_pins() is not None for part in parts)


def sum_of_slabs(problem: PackingProblem, pools: ByPool, offsets: IntArray) -> int:
    """Return the sum of the slabs of all pools in bytes."""
    if len(pools) < 2:
        return problem.slab_size(offsets)
    return sum(part.slab_size(own) for part, own in pools.pieces(problem, offsets))


def pinned_bytes(graph: Graph) -> int:
    """Return the sum over all pools of the highest end of a pinned buffer, for every order."""
    return sum(_reach(graph, b) for b in highest_pinned(graph))


def highest_pinned(graph: Graph) -> list[int]:
    """Return the pinned buffer of each pool that ends highest, among those live in every order."""
    pinned = []
    for b, buffer in enumerate(graph.buffers):
        # Most graphs have no pins, and do not need arrays for this.
        if buffer.pin is None or not graph.arrays.size[b]:
            continue
        # An input that no op uses is never live, so its pin binds nothing.
        if graph.kept[b] or graph.producers[b] is not None or len(graph.arrays.user.row(b)):
            pinned.append(b)
    pinned.sort(key=lambda b: _reach(graph, b))
    # Sorted by reach, so that the last one of each pool stays in the dict.
    return list({graph.buffers[b].pool: b for b in pinned}.values())


def _reach(graph: Graph, b: int) -> int:
    return (graph.buffers[b].pin or 0) + graph.buffers[b].size


def apart_bytes(graph: Graph) -> int:
    """Return the bytes of :func:`apart_in_every_order`: a lower bound on the sum of the slabs."""
    return sum(graph.buffers[b].size for b in apart_in_every_order(graph))


def apart_in_every_order(graph: Graph) -> tuple[int, ...]:
    """Return heavy buffers of each pool that are disjoint in every order; empty without pairs.

    Two buffers are disjoint if they are a pair to keep apart, or if one op needs both and cannot
    write one into the other.
    """
    if not graph.keep_apart:
        return ()
    arrays = graph.arrays
    made = np.flatnonzero(arrays.producer >= 0)
    born = np.flatnonzero(arrays.birth >= 0)
    owner = np.concatenate([arrays.user.owners(), made, born])
    step = np.concatenate([arrays.user.idx, arrays.producer[made], arrays.birth[born]])
    used = np.zeros(arrays.buffer_count, np.bool_)
    # Kept buffers are live at some step even if no op uses them.
    used[owner] = used[np.flatnonzero(arrays.keep)] = True
    pools = np.array([buffer.pool for buffer in graph.buffers])
    pairs = np.array(graph.keep_apart, np.int64)
    found: list[int] = []
    for pool in pools_of(graph):
        takes_room = used & (arrays.size > 0) & (pools == pool)
        # In place, one op may write one of its buffers into another: they need not be disjoint.
        here = takes_room[owner] if not graph.in_place else np.zeros(len(owner), np.bool_)
        together = Whole(owner[here], step[here], step[here] + 1)
        rows = pairs[takes_room[pairs].all(axis=1)]
        sets = Conflicts(together, arrays.size, rows).cliques()
        # The heaviest set of each pool is a bound for that pool, and bounds of pools add up.
        weights = np.add.reduceat(arrays.size[sets.idx], sets.ptr[:-1])
        found += sets.row(int(weights.argmax())).tolist() if len(weights) else []
    return tuple(sorted(found))


def address_limit(graph: Graph) -> int:
    """Return a number of bytes that is enough for every order.

    All pinned buffers lie below this limit, and every other buffer has separate bytes above them.
    """
    # With padding for each alignment.
    ids = np.flatnonzero(graph.arrays.size).tolist()
    free = [graph.buffers[b] for b in ids if graph.buffers[b].pin is None]
    return pinned_bytes(graph) + sum(buffer.size + buffer.alignment - 1 for buffer in free)
