"""Maximum flow with 64-bit capacities, in flat arrays, by Dinic's algorithm.

Each phase computes the distances of the nodes (levels) in the residual network, then sends flow
along shortest paths until every such path has a full arc. Arc `e` and its reverse are the pair `e`,
`e ^ 1`; the arcs that leave a node are a linked list. An unbounded arc has the residual capacity
("room") :data:`UNBOUNDED`: as at most 2**62 units ever flow, it stays positive and fits a signed
64-bit integer.

Example: source to `a` (5), `a` to sink (3), `a` to `b` (4), `b` to sink (1). The first phase sends
3 along the two arcs by `a`, the second 1 by `a` and `b`; then the source reaches only `a` and `b`,
and the cut has 3 + 1 units.

References
----------
Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation",
1970.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy import int64

from optsched.model.arrays import IntArray
from optsched.runtime.kernel import inner, kernel

Int: TypeAlias = Any
"""An integer in a kernel, of Python or numpy. Constants and 32-bit numbers are passed as
`np.int64`, since numba would otherwise compile the callee once more for them."""

UNBOUNDED = 2**63 - 1
"""Residual capacity of an arc without a limit."""


class Arcs(NamedTuple):
    """A residual network."""

    first: IntArray
    """Shape `(nodes,)`: an arc that leaves each node, or -1."""
    following: IntArray
    """Shape `(arcs,)`: the next arc that leaves the same node, or -1."""
    head: IntArray
    """Shape `(arcs,)`: the node that an arc leads to."""
    room: IntArray
    """Shape `(arcs,)`: units that can still be sent along it."""


@inner
def empty_arcs(nodes: Int, pairs: Int) -> Arcs:
    """Return a network of `nodes` nodes with room for `pairs` arcs and their reverses."""
    return Arcs(
        np.full(nodes, -1, np.int64),
        np.empty(2 * pairs, np.int64),
        np.empty(2 * pairs, np.int64),
        np.zeros(2 * pairs, np.int64),
    )


@inner
def add_arc(arcs: Arcs, e: Int, tail: Int, head: Int, capacity: Int) -> Int:
    """Write an arc and its reverse at `e`, `e + 1`; return the next free index."""
    arcs.head[e] = head
    arcs.room[e] = capacity
    # The newest arc is first in the list, so an arc can be added in constant time.
    arcs.following[e] = arcs.first[tail]
    arcs.first[tail] = e
    arcs.head[e + 1] = tail
    arcs.room[e + 1] = 0
    arcs.following[e + 1] = arcs.first[head]
    arcs.first[head] = e + 1
    return e + 2


class Bench(NamedTuple):
    """Work space of a flow; it can be reused, as each flow leaves it in its initial state."""

    level: IntArray
    """Shape `(nodes,)`: distance from the node where the search started; -1 between two flows."""
    current: IntArray
    """Shape `(nodes,)`: the arc that a node tries next."""
    queue: IntArray
    """Shape `(nodes,)`: the nodes visited."""
    path: IntArray
    """Shape `(nodes + 1,)`: arcs of the present path."""
    log: IntArray
    logged: IntArray
    """`log` and `logged`: arcs whose flow has changed, as far as they fit; shape `(1,)`: their
    number, or -1 if they did not fit."""
    left: IntArray
    """Shape `(1,)`: nodes and arcs of paths that may still be visited before the work stops with a
    flow that need not be maximal."""


@inner
def make_bench(nodes: Int, log: Int) -> Bench:
    """Return the work space for networks with `nodes` nodes and a log of `log` arcs."""
    return Bench(
        np.full(nodes, -1, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes + 1, np.int64),
        np.empty(log, np.int64),
        np.zeros(1, np.int64),
        np.full(1, UNBOUNDED, np.int64),
    )


@inner
def take_back(arcs: Arcs, bench: Bench, before: IntArray) -> None:
    """Undo all flow sent since the log was empty; `before` has the rooms at that time."""
    # The log overflowed, so all arcs are restored instead of the changed ones.
    if bench.logged[0] < 0:
        for e in range(len(before)):
            arcs.room[e] = before[e]
    for k in range(bench.logged[0]):
        e = bench.log[k]
        arcs.room[e] = before[e]
        arcs.room[e ^ 1] = before[e ^ 1]
    bench.logged[0] = 0


@inner
def find_levels(arcs: Arcs, bench: Bench, start: Int, goal: Int, backwards: Int) -> Int:
    """Write the distance of nodes from `start` (or to it, if backwards) until `goal` is visited.

    Returns the number of nodes visited, or 0 if a path does not exist.
    """
    level, queue = bench.level, bench.queue
    level[start] = 0
    bench.current[start] = arcs.first[start]
    queue[0] = start
    taken, filled = 0, 1
    while taken < filled:
        node = queue[taken]
        taken += 1
        e = arcs.first[node]
        while e >= 0:
            other = arcs.head[e]
            if arcs.room[e ^ backwards] > 0 and level[other] < 0:
                level[other] = level[node] + 1
                bench.current[other] = arcs.first[other]
                queue[filled] = other
                filled += 1
                # Nodes farther away than the goal lie on no shortest path.
                if other == goal:
                    return filled
            e = arcs.following[e]
    for i in range(filled):
        # Only visited nodes are reset, as flows are many and mostly local.
        level[queue[i]] = -1
    return 0


@inner
def note_arcs(bench: Bench, depth: Int) -> None:
    """Add the first `depth` arcs of the path to the log."""
    noted = bench.logged[0]
    if noted < 0 or noted + depth > len(bench.log):
        # Too many changes to list: :func:`take_back` then copies all rooms.
        bench.logged[0] = -1
        return
    for k in range(depth):
        bench.log[noted + k] = bench.path[k]
    bench.logged[0] = noted + depth


@inner
def push_blocking(arcs: Arcs, bench: Bench, source: Int, sink: Int, step: Int) -> Int:
    """Send flow along shortest paths until each has a full arc; return the units sent.

    Sketch: extend the path by an arc with room to a node of the next level. At the sink, send as
    much as the tightest arc allows, and go back to the tail of that arc. At a dead end, mark the
    node and go back by one arc. `step` is the change of the level per arc, 1 or -1.
    """
    level, current, path = bench.level, bench.current, bench.path
    sent = int64(0)
    depth = 0
    node = source
    while True:
        if node == sink:
            # Send as much as the tightest arc allows, and continue from the tail of that arc.
            tight = 0
            for k in range(1, depth):
                if arcs.room[path[k]] < arcs.room[path[tight]]:
                    tight = k
            amount = arcs.room[path[tight]]
            for k in range(depth):
                arcs.room[path[k]] -= amount
                arcs.room[path[k] ^ 1] += amount
            sent += amount
            note_arcs(bench, depth)
            # Work is counted in arcs of paths, so that it is the same on every machine.
            bench.left[0] -= depth
            if bench.left[0] < 0:
                return sent
            depth = tight
            node = arcs.head[path[tight] ^ 1]
        e = current[node]
        wanted = level[node] + step
        while e >= 0 and not (arcs.room[e] > 0 and level[arcs.head[e]] == wanted):
            e = arcs.following[e]
        current[node] = e
        if e >= 0:
            path[depth] = e
            depth += 1
            node = arcs.head[e]
        elif depth == 0:
            return sent
        else:
            # A dead end: no arc leads to this level any more.
            level[node] = -2
            depth -= 1
            node = arcs.head[path[depth] ^ 1]


@inner
def send(arcs: Arcs, bench: Bench, source: Int, sink: Int, enough: Int, from_sink: Int) -> Int:
    """Compute :func:`max_flow` in a given work space.

    Levels are distances to the sink (`from_sink` is 1) or from the source (0). In the second case
    only nodes near the source are visited, so a sink with many arcs costs no time.
    """
    start, goal, step = source, sink, int64(1)
    if from_sink:
        start, goal, step = sink, source, int64(-1)
    total = int64(0)
    while total <= enough and bench.left[0] >= 0:
        met = find_levels(arcs, bench, start, goal, from_sink)
        if met == 0:
            break
        bench.left[0] -= met
        total += push_blocking(arcs, bench, source, sink, step)
        for i in range(met):
            bench.level[bench.queue[i]] = -1
    return total


@kernel
def max_flow(arcs: Arcs, source: Int, sink: Int, enough: Int, work: Int) -> Int:
    """Send a maximum flow from source to sink, or stop once more than `enough` units are sent.

    `arcs`: changed in place into the residual network. `source`, `sink`: two different nodes.
    `enough`: the work stops at a total above this: the flow is then valid but need not be maximal.
    `work`: nodes that may be visited before the work stops. The flow is maximal if no path is left
    from source to sink.

    Returns
    -------
    int
        Units sent.
    """
    bench = make_bench(len(arcs.first), int64(0))
    bench.left[0] = work
    return send(arcs, bench, source, sink, enough, int64(1))


@kernel
def mark_side(arcs: Arcs, node: Int, backwards: Int) -> npt.NDArray[np.bool_]:
    """Return flags of the nodes that `node` reaches in the residual network, or that reach it."""
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
