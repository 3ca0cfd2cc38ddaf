"""A name for a graph that survives other names and another order of its ops and buffers.

Every op and every buffer gets a colour, a number below a prime, of its own properties and of all
that comes before it; then of all that comes after; then both once more. The sorted colours are the
graph's key. Where colours are equal, a walk along the graph numbers what hangs together one after
the other, so that equal branches stay apart. Two graphs of one key could differ in spite of this:
what a key finds has to be checked.

A colour is a polynomial of the properties' hashes: numbers that belong together in no order are
added, and each sum is squared, with a summand that tells its role. All of it is plain arithmetic,
inlined: a compiler has a few milliseconds for a look-up.

References
----------
Weisfeiler, Leman, "The reduction of a graph to canonical form and the algebra which appears
therein" (1968); on an acyclic graph two sweeps see what takes that method many rounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optsched.model.dependencies import topological_order
from optsched.model.elements import Buffer
from optsched.model.graph import Graph

ROUNDS = 2
"""Of sweeps; the second sees what the ancestors of an op lead to elsewhere."""

_PRIME = (1 << 61) - 1


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % _PRIME


_READS, _USES, _WRITES, _WORKSPACE = map(_hash, ("reads", "uses", "writes", "workspace"))
_CONTROL, _ALIAS, _BIRTH = map(_hash, ("control", "alias", "birth"))
_OUTPUT, _SOURCE, _APART, _SHARE = map(_hash, ("output", "source", "apart", "share"))


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
    """Return key and canonical order; takes time in proportion to the graph's edges."""
    colours = _Colours(graph)
    for _ in range(ROUNDS):
        colours.sweep_down()
        colours.sweep_up()
        colours.add_inplace()
        colours.add_groups()
    digest = hashlib.sha256(b"optsched graph 2")
    for found in (colours.ops, colours.buffers):
        digest.update(len(found).to_bytes(8))
        digest.update(np.sort(np.array(found, "<i8")).tobytes())
    ops, buffers = _sort(graph, colours)
    return CanonicalGraph(digest.hexdigest(), ops, buffers)


class _Colours:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops = [_hash(op.stream) if graph.on_streams else 0 for op in graph.ops]
        self.buffers = _colours_of(graph.buffers)
        self.order = _topological(graph.predecessors)

    def sweep_down(self) -> None:
        """Colour every op by what it reads, and every buffer by what makes it."""
        ops, buffers, graph_ops = self.ops, self.buffers, self.graph.ops
        written = [(x + _WRITES) * (x + _WRITES) % _PRIME for x in buffers]
        related = self._relations()
        # What a reader sees of a buffer; of those that an op writes, once that has its colour.
        read = [(x + _READS) * (x + _READS) % _PRIME for x in buffers]
        for v in self.order:
            op = graph_ops[v]
            seen = ops[v]
            for b in op.reads:
                seen += read[b]
            for b in op.writes:
                seen += written[b]
            for b in op.uses:
                seen += _square(buffers[b], _USES)
            for u in op.control:
                seen += _square(ops[u], _CONTROL)
            ops[v] = seen = seen * seen % _PRIME
            for b in op.writes:
                x = buffers[b] + seen + related.get(b, 0)
                if b == op.workspace:
                    x += _WORKSPACE
                buffers[b] = x = x * x % _PRIME
                read[b] = (x + _READS) * (x + _READS) % _PRIME

    def _relations(self) -> dict[int, int]:
        """Colour what a buffer names: the buffer it is a view of, the op that allocates it."""
        found: dict[int, int] = {}
        for b, buffer in enumerate(self.graph.buffers):
            if buffer.alias_of is not None:
                found[b] = _square(self.buffers[buffer.alias_of], _ALIAS)
            if buffer.birth is not None:
                found[b] = found.get(b, 0) + _square(self.ops[buffer.birth], _BIRTH)
        return found

    def sweep_up(self) -> None:
        """Colour every buffer by its readers, and every op by what it writes."""
        ops, buffers, graph_ops = self.ops, self.buffers, self.graph.ops
        used, after = [0] * len(buffers), [0] * len(ops)
        for v in reversed(self.order):
            op = graph_ops[v]
            seen = ops[v] + after[v]
            for b in op.writes:
                x = buffers[b] + used[b]
                buffers[b] = x = x * x % _PRIME
                seen += (x + _WRITES) * (x + _WRITES) % _PRIME
            ops[v] = seen = seen * seen % _PRIME
            reads = (seen + _READS) * (seen + _READS) % _PRIME
            for b in op.reads:
                used[b] += reads
            for b in op.uses:
                used[b] += _square(seen, _USES)
            for u in op.control:
                after[u] += _square(seen, _CONTROL)
        for b, producer in enumerate(self.graph.producers):
            if producer is None:
                buffers[b] = _square(buffers[b], used[b])

    def add_inplace(self) -> None:
        """Let the in-place candidates of an op and of its buffers count."""
        graph, ops, buffers = self.graph, self.ops, self.buffers
        old = list(buffers)
        for role, pairs in ((_OUTPUT, graph.inplace_candidates), (_SOURCE, graph.inplace)):
            for v, output, source in pairs:
                pair = _square(_square(old[output], _OUTPUT) + _square(old[source], _SOURCE), role)
                ops[v] = (ops[v] + pair) % _PRIME
                buffers[output] = (buffers[output] + _square(pair, _OUTPUT)) % _PRIME
                buffers[source] = (buffers[source] + _square(pair, _SOURCE)) % _PRIME

    def add_groups(self) -> None:
        """Let those count that a buffer is kept apart from, or shares its offset with."""
        graph, buffers = self.graph, self.buffers
        old = list(buffers)
        for role, groups in ((_APART, graph.keep_apart), (_SHARE, graph.must_share)):
            for group in groups:
                seen = _square(sum(_square(old[b], role) for b in group), role)
                for b in group:
                    buffers[b] = (buffers[b] + seen) % _PRIME


def _square(colour: int, role: int) -> int:
    return (colour + role) * (colour + role) % _PRIME


def _colours_of(buffers: Sequence[Buffer]) -> list[int]:
    """Colour what each buffer is by itself."""
    known: dict[tuple[object, ...], int] = {}
    found = []
    for x in buffers:
        own = (x.size, x.input, x.output, x.alignment, x.pool, x.pin, x.mutates)
        if own not in known:
            known[own] = _hash("\0".join(map(str, own)))
        found.append(known[own])
    return found


def _topological(predecessors: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return ids, each after its predecessors; mostly they are in such an order already."""
    if all(not before or before[-1] < v for v, before in enumerate(predecessors)):
        return range(len(predecessors))
    return topological_order(predecessors)


def _sort(graph: Graph, colours: _Colours) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Order ops, and buffers, by colour and, among equals, by their turn in the walk."""
    turn: Sequence[int] = ()
    if any(len(set(found)) < len(found) for found in (colours.ops, colours.buffers)):
        turn = _walk(_neighbours(graph), [*colours.ops, *colours.buffers])
    sorted_ids = []
    for first, found in ((0, colours.ops), (len(colours.ops), colours.buffers)):
        if turn:
            keys = list(zip(found, turn[first : first + len(found)], strict=True))
            sorted_ids.append(tuple(sorted(range(len(found)), key=keys.__getitem__)))
        else:
            sorted_ids.append(tuple(sorted(range(len(found)), key=found.__getitem__)))
    return sorted_ids[0], sorted_ids[1]


def _neighbours(graph: Graph) -> list[list[int]]:
    """Return what each op and, behind the ops, each buffer has to do with."""
    first = len(graph.ops)
    found: list[list[int]] = [[] for _ in range(first + len(graph.buffers))]

    def join(v: int, others: Iterable[int]) -> None:
        found[v].extend(others)
        for w in others:
            found[w].append(v)

    for v, op in enumerate(graph.ops):
        join(v, [first + b for b in (*op.reads, *op.uses, *op.writes)])
        join(v, op.control)
    for b, buffer in enumerate(graph.buffers):
        if buffer.alias_of is not None:
            join(first + b, (first + buffer.alias_of,))
        if buffer.birth is not None:
            join(first + b, (buffer.birth,))
    for group in (*graph.keep_apart, *graph.must_share):
        for b, other in pairwise(group):
            join(first + b, (first + other,))
    return found


def _walk(neighbours: Sequence[Sequence[int]], colours: Sequence[int]) -> list[int]:
    """Return the turn of each node in a walk into the depth.

    From each node it goes on by colour; among equals, what earlier nodes lead to as well comes
    first. Which of several that are equal in this too makes no difference where they can be
    exchanged for each other.
    """
    turn = [-1] * len(neighbours)
    # By node, of its neighbours that had their turn: which, as a number.
    met = [0] * len(neighbours)
    waiting = sorted(range(len(neighbours)), key=colours.__getitem__, reverse=True)
    count = 0
    while waiting:
        v = waiting.pop()
        if turn[v] >= 0:
            continue
        turn[v], mark = count, _square(count, _OUTPUT)
        count += 1
        new = [w for w in neighbours[v] if turn[w] < 0]
        for w in new:
            met[w] += mark
        if len(new) > 1:
            new.sort(key=lambda w: (colours[w], met[w]), reverse=True)
        waiting += new
    return turn
