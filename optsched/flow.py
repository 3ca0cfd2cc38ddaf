"""Maximum flow on 64-bit capacities, in flat arrays.

Blocking flows along shortest paths. Arc `e` and its reverse are the pair `e`, `e ^ 1`; arcs that
leave a node are a linked list. An unbounded arc has room :data:`UNBOUNDED`: as no more than
2**62 units ever flow, its room stays positive and never leaves a signed 64-bit integer.

References
----------
Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation",
1970.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from optsched.arrays import IntArray
from optsched.jit import inner, kernel

Int: TypeAlias = Any
"""A whole number in a kernel, Python's or numpy's. Constants and 32-bit numbers are passed as
`np.int64`, else numba would compile the callee once more for them."""

UNBOUNDED = 2**63 - 1
"""Room of an arc without capacity."""


class Arcs(NamedTuple):
    """A residual network.

    Parameters
    ----------
    first
        Shape `(nodes,)`: an arc that leaves each node, or -1.
    following
        Shape `(arcs,)`: the next arc that leaves the same node, or -1.
    head
        Shape `(arcs,)`: the node an arc leads to.
    room
        Shape `(arcs,)`: what can still be sent along it.
    """

    first: IntArray
    following: IntArray
    head: IntArray
    room: IntArray


@inner
def empty_arcs(nodes: Int, pairs: Int) -> Arcs:
    """Return a network of `nodes` nodes with place for `pairs` arcs and their reverses."""
    return Arcs(
        np.full(nodes, -1, np.int64),
        np.empty(2 * pairs, np.int64),
        np.empty(2 * pairs, np.int64),
        np.zeros(2 * pairs, np.int64),
    )


@inner
def add_arc(arcs: Arcs, e: Int, tail: Int, head: Int, capacity: Int) -> Int:
    """Write an arc and its reverse at `e`, `e + 1`; return the next free place."""
    arcs.head[e] = head
    arcs.room[e] = capacity
    arcs.following[e] = arcs.first[tail]
    arcs.first[tail] = e
    arcs.head[e + 1] = tail
    arcs.room[e + 1] = 0
    arcs.following[e + 1] = arcs.first[head]
    arcs.first[head] = e + 1
    return e + 2


@inner
def find_distances(arcs: Arcs, distance: IntArray, queue: IntArray, source: Int, sink: Int) -> bool:
    """Fill in the residual distances to the sink; stop at the source. False if it has no path."""
    distance[:] = -1
    distance[sink] = 0
    queue[0] = sink
    taken, filled = 0, 1
    while taken < filled:
        node = queue[taken]
        taken += 1
        e = arcs.first[node]
        while e >= 0:
            tail = arcs.head[e]
            if arcs.room[e ^ 1] > 0 and distance[tail] < 0:
                distance[tail] = distance[node] + 1
                if tail == source:
                    return True
                queue[filled] = tail
                filled += 1
            e = arcs.following[e]
    return False


@inner
def push_blocking(
    arcs: Arcs, distance: IntArray, current: IntArray, path: IntArray, source: Int, sink: Int
) -> Int:
    """Send along shortest paths until each has a full arc; return how much was sent."""
    for i in range(len(current)):
        current[i] = arcs.first[i]
    sent = 0
    depth = 0
    node = source
    while True:
        if node == sink:
            tight = 0
            for k in range(1, depth):
                if arcs.room[path[k]] < arcs.room[path[tight]]:
                    tight = k
            amount = arcs.room[path[tight]]
            for k in range(depth):
                arcs.room[path[k]] -= amount
                arcs.room[path[k] ^ 1] += amount
            sent += amount
            depth = tight
            node = arcs.head[path[tight] ^ 1]
        e = current[node]
        while e >= 0 and not (arcs.room[e] > 0 and distance[arcs.head[e]] == distance[node] - 1):
            e = arcs.following[e]
        current[node] = e
        if e >= 0:
            path[depth] = e
            depth += 1
            node = arcs.head[e]
        elif depth == 0:
            return sent
        else:
            distance[node] = -2
            depth -= 1
            node = arcs.head[path[depth] ^ 1]


@kernel
def max_flow(arcs: Arcs, source: Int, sink: Int, enough: Int) -> Int:
    """Send from source to sink as much as fits, or until more than `enough` is sent.

    Parameters
    ----------
    arcs
        Changed in place into the residual network.
    source, sink
        Two different nodes.
    enough
        At a total above this the work stops: the flow is then valid but not maximal.

    Returns
    -------
    int
        Units sent.
    """
    nodes = len(arcs.first)
    distance = np.empty(nodes, np.int64)
    current = np.empty(nodes, np.int64)
    queue = np.empty(nodes, np.int64)
    path = np.empty(nodes + 1, np.int64)
    total = 0
    while total <= enough and find_distances(arcs, distance, queue, source, sink):
        total += push_blocking(arcs, distance, current, path, source, sink)
    return total


class Bench(NamedTuple):
    """Where :func:`send_from` works; made once for many flows that each touch few nodes.

    Parameters
    ----------
    level
        Shape `(nodes,)`: arcs from the source, all -1 between two flows.
    current
        Shape `(nodes,)`: the arc that a node tries next.
    queue
        Shape `(nodes,)`: the nodes met.
    path
        Shape `(nodes + 1,)`: arcs.
    """

    level: IntArray
    current: IntArray
    queue: IntArray
    path: IntArray


@inner
def make_bench(nodes: Int) -> Bench:
    """Return a bench for networks of so many nodes."""
    return Bench(
        np.full(nodes, -1, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes + 1, np.int64),
    )


@inner
def find_levels(arcs: Arcs, bench: Bench, source: Int, sink: Int) -> Int:
    """Number nodes by arcs from the source, up to the sink; return how many, or 0 without a way."""
    level, queue = bench.level, bench.queue
    level[source] = 0
    bench.current[source] = arcs.first[source]
    queue[0] = source
    taken, filled = 0, 1
    while taken < filled:
        node = queue[taken]
        taken += 1
        e = arcs.first[node]
        while e >= 0:
            head = arcs.head[e]
            if arcs.room[e] > 0 and level[head] < 0:
                level[head] = level[node] + 1
                bench.current[head] = arcs.first[head]
                queue[filled] = head
                filled += 1
                if head == sink:
                    return filled
            e = arcs.following[e]
    for i in range(filled):
        level[queue[i]] = -1
    return 0


@inner
def send_from(arcs: Arcs, bench: Bench, source: Int, sink: Int, enough: Int) -> Int:
    """Do what :func:`max_flow` does; only nodes near the source take time.

    A sink with many arcs costs nothing: the search is numbered from the source and walks from it.
    """
    level, current, path = bench.level, bench.current, bench.path
    sent = np.int64(0)
    while sent <= enough:
        met = find_levels(arcs, bench, source, sink)
        if met == 0:
            break
        node, depth = source, 0
        while True:
            if node == sink:
                tight = 0
                for k in range(1, depth):
                    if arcs.room[path[k]] < arcs.room[path[tight]]:
                        tight = k
                amount = arcs.room[path[tight]]
                for k in range(depth):
                    arcs.room[path[k]] -= amount
                    arcs.room[path[k] ^ 1] += amount
                sent += amount
                depth = tight
                node = arcs.head[path[tight] ^ 1]
            e = current[node]
            while e >= 0 and not (arcs.room[e] > 0 and level[arcs.head[e]] == level[node] + 1):
                e = arcs.following[e]
            current[node] = e
            if e >= 0:
                path[depth] = e
                depth += 1
                node = arcs.head[e]
            elif depth == 0:
                break
            else:
                level[node] = -2
                depth -= 1
                node = arcs.head[path[depth] ^ 1]
        for i in range(met):
            level[bench.queue[i]] = -1
    return sent


@kernel
def mark_side(arcs: Arcs, node: Int, backwards: Int) -> npt.NDArray[np.bool_]:
    """Mark the nodes that a node reaches in the residual network, or that reach it."""
    flip = 1 if backwards else 0
    marked = np.zeros(len(arcs.first), np.bool_)
    queue = np.empty(len(arcs.first), np.int64)
    marked[node] = True
    queue[0] = node
    taken, filled = 0, 1
    while taken < filled:
        e = arcs.first[queue[taken]]
        taken += 1
        while e >= 0:
            other = arcs.head[e]
            if arcs.room[e ^ flip] > 0 and not marked[other]:
                marked[other] = True
                queue[filled] = other
                filled += 1
            e = arcs.following[e]
    return marked
