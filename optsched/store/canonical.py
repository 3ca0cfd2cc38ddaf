"""A name for a graph that survives other names and another order of its ops and buffers.

Every op and every buffer gets a colour, a number of its own properties and of all that comes
before it, then of all that comes after. Rounds over all relations follow, which tell apart what
still looks alike, until they find nothing more. The sorted colours are the graph's key. Two graphs
of one key could differ in spite of this: what a key finds has to be compared.

Nodes are numbered by colour. What shares its colour is told apart one by one
(:mod:`optsched.store.partition`), so that a graph in other words gets the same numbers.

References
----------
Weisfeiler, Leman, "The reduction of a graph to canonical form and the algebra which appears
therein" (1968); on an acyclic graph two sweeps see what takes that method many rounds.
Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014), for :func:`_mix`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.elements import Op
from optsched.model.graph import Graph
from optsched.store.partition import Colours, Edges, count_equals, order_nodes

MOST_ROUNDS = 64
"""Of recolouring what is tied; what more would tell apart is left to the choice of nodes."""

_PRIME = (1 << 61) - 1


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % _PRIME


_OP, _GROUP, _USES, _CONTROL = map(_hash, ("op", "group", "uses", "control"))
_WORKSPACE = _hash("workspace")


@dataclass(frozen=True, slots=True)
class CanonicalGraph:
    """What stays of a graph when names and positions go.

    Parameters
    ----------
    key
        Equal for graphs that differ in nothing else.
    ops, buffers
        Ids in canonical order: the first op of one such graph is the first of all.
    """

    key: str
    ops: tuple[int, ...]
    buffers: tuple[int, ...]


def canonical_form(graph: Graph) -> CanonicalGraph:
    """Return key and canonical order; time is in proportion to the edges, but for many ties."""
    n, m, groups = len(graph.ops), len(graph.buffers), len(graph.must_share)
    edges = _edges_of(graph)
    start = np.array([*_sweep(graph), *[_GROUP] * groups], np.uint64)
    colours = _refine(_recolour(start, edges), edges)
    parts = (0, n), (n, n + m), (n + m, n + m + groups)
    digest = hashlib.sha256(b"optsched graph 3")
    for first, end in parts[:2]:
        digest.update((end - first).to_bytes(8))
        digest.update(np.sort(colours[first:end]).astype("<u8").tobytes())
    order = order_nodes(colours, parts, edges)
    ops, buffers = order[:n], order[n : n + m] - n
    return CanonicalGraph(digest.hexdigest(), tuple(ops.tolist()), tuple(buffers.tolist()))


def _sweep(graph: Graph) -> list[int]:
    """Colour ops and buffers by what is before them, then by what is behind them.

    A colour is a sum of colours, squared: what belongs together in no order is added. Python's
    integers are quicker at this than arrays would be, for each node waits for the one before it.
    """
    order, rare = _topological(graph.predecessors), _rare(graph)
    ops = [_hash(op.stream) if graph.on_streams else _OP for op in graph.ops]
    buffers = _colours_of(graph)
    reads, writes = [op.reads for op in graph.ops], [op.writes for op in graph.ops]
    for v in order:
        seen = ops[v]
        for b in reads[v]:
            seen += buffers[b]
        if v in rare:
            seen += _USES * sum(buffers[b] for b in rare[v].uses)
            seen += _CONTROL * sum(ops[u] for u in rare[v].control)
        ops[v] = seen = seen * seen % _PRIME
        for b in writes[v]:
            x = buffers[b] + seen
            buffers[b] = x * x % _PRIME
    for v in reversed(order):
        seen = ops[v]
        for b in writes[v]:
            x = buffers[b]
            buffers[b] = x = x * x % _PRIME
            seen += x
        ops[v] = seen = seen * seen % _PRIME
        for b in reads[v]:
            buffers[b] += seen
        if v in rare:
            for b in rare[v].uses:
                buffers[b] += _USES * seen
            for u in rare[v].control:
                ops[u] += _CONTROL * seen
    return [x % _PRIME for x in chain(ops, buffers)]


def _rare(graph: Graph) -> dict[int, Op]:
    """Return the ops that use buffers under other names, or wait for ops that give them nothing."""
    return {v: op for v, op in enumerate(graph.ops) if op.uses or op.control}


def _colours_of(graph: Graph) -> list[int]:
    """Colour what each buffer is by itself."""
    known: dict[tuple[object, ...], int] = {}
    found = []
    own = attrgetter("size", "input", "output", "alignment", "pool", "pin", "mutates")
    for key in map(own, graph.buffers):
        if key not in known:
            known[key] = _hash("\0".join(map(str, key)))
        found.append(known[key])
    for op in graph.ops:
        if op.workspace is not None:
            found[op.workspace] += _WORKSPACE
    return found


def _topological(predecessors: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return ids, each after its predecessors; mostly they are in such an order already."""
    if all(not before or before[-1] < v for v, before in enumerate(predecessors)):
        return range(len(predecessors))
    successors: list[list[int]] = [[] for _ in predecessors]
    for v, before in enumerate(predecessors):
        for u in before:
            successors[u].append(v)
    waiting = list(map(len, predecessors))
    ready = [v for v, count in enumerate(waiting) if not count]
    order = []
    while ready:
        v = ready.pop()
        order.append(v)
        for w in successors[v]:
            waiting[w] -= 1
            if not waiting[w]:
                ready.append(w)
    return order


def _edges_of(graph: Graph) -> Edges:
    """Return all relations between ops, buffers, behind the ops, and groups, behind the buffers."""
    n, ops, buffers = len(graph.ops), graph.ops, graph.buffers
    groups = n + len(buffers)
    sources, targets, roles = list[IntArray](), list[IntArray](), list[Colours]()

    def add(role: str, source: IntArray, target: IntArray) -> None:
        sources.append(source)
        targets.append(target)
        roles.append(np.full(len(source), _hash(role), np.uint64))

    for role in ("reads", "uses", "writes"):
        owner, entry = _flat([getattr(op, role) for op in ops])
        add(role, owner, n + entry)
    add("control", *_flat([op.control for op in ops]))
    views = [(b, x.alias_of) for b, x in enumerate(buffers) if x.alias_of is not None]
    add("alias", *_columns(views, n, n))
    births = [(b, x.birth) for b, x in enumerate(buffers) if x.birth is not None]
    add("birth", *_columns(births, n, 0))
    # An output is enough: it is its op that may write it in place.
    for role, pairs in (("candidate", graph.inplace_candidates), ("inplace", graph.inplace)):
        add(role, *_columns([pair[1:] for pair in pairs], n, n))
    apart = _columns(graph.keep_apart, n, n)
    add("apart", *apart)
    add("apart", *reversed(apart))
    members = [(b, g) for g, group in enumerate(graph.must_share) for b in group]
    add("share", *_columns(members, n, groups))
    return Edges(np.concatenate(sources), np.concatenate(targets), np.concatenate(roles))


def _flat(rows: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return the owner and the value of each entry."""
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    entries = np.fromiter(chain.from_iterable(rows), np.int64, int(counts.sum()))
    return np.repeat(np.arange(len(rows)), counts), entries


def _columns(pairs: Sequence[Sequence[int]], first: int, second: int) -> tuple[IntArray, IntArray]:
    """Return pairs of ids as two arrays of nodes; each kind of node begins at its first one."""
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return rows[:, 0] + first, rows[:, 1] + second


def _refine(colours: Colours, edges: Edges) -> Colours:
    """Recolour what shares a colour until no more of it is told apart."""
    classes = 0
    for _ in range(MOST_ROUNDS):
        alike = count_equals(colours)
        tied, before, classes = alike > 1, classes, round(float((1 / alike).sum()))
        if classes == before or not tied.any():
            break
        colours = np.where(tied, _recolour(colours, edges.touching(tied)), colours)
    return colours


def _recolour(colours: Colours, edges: Edges) -> Colours:
    """Return new colours, of the old one and those of all related nodes with their roles."""
    total = np.zeros(len(colours), np.uint64)
    np.add.at(total, edges.target, _mix(colours[edges.source] + edges.role))
    np.add.at(total, edges.source, _mix(colours[edges.target] - edges.role))
    return _mix(_mix(colours) + total)


def _mix(x: Colours) -> Colours:
    """Return numbers of 64 bits that have nothing to do with each other, whatever came in."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
