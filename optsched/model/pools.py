"""Graphs whose buffers lie in several pools: a slab each, and what counts is their sum.

Buffers of different pools never meet, so for a given order each pool is a packing problem by
itself. What the pools share is the order. No plan's slab in a pool is smaller than the least slab
of the graph in which only that pool's buffers have bytes: leave all other offsets out of the plan
and a plan of that graph remains. So the sum of these is a bound on every plan, and so is the least
peak, since at each step the live bytes of each pool lie in its slab.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optsched.errors import expect
from optsched.model.arrays import IntArray
from optsched.model.conflicts import Conflicts, Whole
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, select
from optsched.runtime.bytes import parse_bytes


@dataclass(frozen=True, slots=True)
class Pool:
    """A slab of its own.

    Parameters
    ----------
    name
        Name by which buffers choose it.
    capacity
        Bytes (`65536`, or `"64KiB"` as text), or None for any number.

    Raises
    ------
    UsageError
        If the name is no text, or the capacity no number of bytes.
    """

    name: str
    capacity: int | None = None

    def __post_init__(self) -> None:
        expect("the name of a pool", self.name, str)
        if self.capacity is not None:
            object.__setattr__(self, "capacity", parse_bytes(self.capacity))


def pools_of(graph: Graph) -> tuple[str, ...]:
    """Return the names of the pools in which buffers have bytes, ascending."""
    sized = np.flatnonzero(graph.arrays.size).tolist()
    return tuple(sorted({graph.buffers[b].pool for b in sized}))


def pool_graph(graph: Graph, pool: str) -> Graph:
    """Return the graph in which only the buffers of one pool have bytes."""
    buffers = tuple(
        buffer
        if buffer.pool == pool or buffer.alias_of is not None
        else replace(buffer, size=0, pin=None)
        for buffer in graph.buffers
    )
    return replace(graph, buffers=buffers)


def pool_rows(graph: Graph, ids: IntArray) -> list[IntArray]:
    """Return which of the buffers `ids`, shape `(k,)`, lie together: their positions, by pool."""
    pools = [graph.buffers[b].pool for b in ids.tolist()]
    return [
        np.array([i for i, name in enumerate(pools) if name == pool], np.int64)
        for pool in sorted(set(pools))
    ]


def pins_clash(graph: Graph, problem: PackingProblem, ids: IntArray) -> bool:
    """Whether pinned buffers of a pool overlap while both are live: no packing is valid.

    `ids`, shape `(k,)`, are the graph's ids of the problem's buffers.
    """
    rows = pool_rows(graph, ids) if (problem.pin >= 0).any() else []
    return any(select(problem, row).clashing_pins() is not None for row in rows)


def sum_of_slabs(problem: PackingProblem, rows: Sequence[IntArray], offsets: IntArray) -> int:
    """Return the bytes of all slabs, those of the pools whose buffers are at `rows`."""
    if len(rows) < 2:
        return problem.slab_size(offsets)
    return sum(select(problem, row).slab_size(offsets[row]) for row in rows)


def pinned_bytes(graph: Graph) -> int:
    """Return the bytes up to which pinned buffers reach, of all pools together, in every order."""
    return sum(_reach(graph, b) for b in highest_pinned(graph))


def highest_pinned(graph: Graph) -> list[int]:
    """Return the pinned buffer of each pool that reaches highest, whatever the order."""
    pinned = []
    for b in np.flatnonzero(graph.arrays.size).tolist():
        if graph.buffers[b].pin is None:
            continue
        if graph.kept[b] or graph.producers[b] is not None or len(graph.arrays.user.row(b)):
            pinned.append(b)
    pinned.sort(key=lambda b: _reach(graph, b))
    return list({graph.buffers[b].pool: b for b in pinned}.values())


def _reach(graph: Graph, b: int) -> int:
    return (graph.buffers[b].pin or 0) + graph.buffers[b].size


def apart_bytes(graph: Graph) -> int:
    """Return the bytes of :func:`apart_in_every_order`: a bound on all slabs together."""
    return sum(graph.buffers[b].size for b in apart_in_every_order(graph))


def apart_in_every_order(graph: Graph) -> tuple[int, ...]:
    """Return heavy buffers of each pool, all kept apart in every order; none without pairs.

    Two are apart if they are a pair, or if one op needs both and can not write the one into the
    other.
    """
    if not graph.keep_apart:
        return ()
    arrays = graph.arrays
    made = np.flatnonzero(arrays.producer >= 0)
    born = np.flatnonzero(arrays.birth >= 0)
    owner = np.concatenate([arrays.user.owners(), made, born])
    step = np.concatenate([arrays.user.idx, arrays.producer[made], arrays.birth[born]])
    used = np.zeros(arrays.buffer_count, np.bool_)
    used[owner] = used[np.flatnonzero(arrays.keep)] = True
    pools = np.array([buffer.pool for buffer in graph.buffers])
    pairs = np.array(graph.keep_apart, np.int64)
    found: list[int] = []
    for pool in pools_of(graph):
        takes_room = used & (arrays.size > 0) & (pools == pool)
        here = takes_room[owner] if not graph.in_place else np.zeros(len(owner), np.bool_)
        together = Whole(owner[here], step[here], step[here] + 1)
        rows = pairs[takes_room[pairs].all(axis=1)]
        sets = Conflicts(together, arrays.size, rows).cliques()
        found += max(sets, key=lambda ids: int(arrays.size[ids].sum())).tolist() if sets else []
    return tuple(sorted(found))


def roof(graph: Graph) -> int:
    """Return bytes that suffice whatever the order: above the pins each buffer has its own."""
    ids = np.flatnonzero(graph.arrays.size).tolist()
    free = [graph.buffers[b] for b in ids if graph.buffers[b].pin is None]
    return pinned_bytes(graph) + sum(buffer.size + buffer.alignment - 1 for buffer in free)
