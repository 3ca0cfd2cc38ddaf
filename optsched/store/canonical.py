"""Canonical form of a graph: a key and an order of ops that do not depend on names and positions.

Every op and every buffer gets a color, a number computed from its properties and those of all nodes
before it, then of all nodes after it. Rounds over all relations follow, which distinguish nodes of
one color, until they find no more differences. The sorted colors are the graph's key. Two different
graphs could have one key, so a graph that is found by its key must be compared.

Nodes are numbered by color. Nodes that share a color are distinguished one by one
(:mod:`optsched.store.partition`), so that a renamed and renumbered graph gets the same numbers.

References
----------
Weisfeiler, Leman, "The reduction of a graph to canonical form and the algebra which appears
therein" (1968); on an acyclic graph two sweeps do the work of many rounds of that method.
Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014), for :func:`mixed`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from optsched.model.arrays import IntArray, distinct
from optsched.model.graph import Graph
from optsched.runtime.kernel import kernel
from optsched.store.partition import Colors, Edges, count_equals, mixed, order_nodes

MOST_ROUNDS = 64
"""Most rounds of recoloring tied nodes; remaining ties are left to the choice of nodes."""

PRIME = (1 << 31) - 1
"""Limit of the colors of the sweep, so that products of two fit a 64-bit word."""


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7])


_OP, _GROUP, _WORKSPACE = map(_hash, ("op", "group", "workspace"))


class FlatRows(NamedTuple):
    """Distinct entries of rows, ascending by owner, then by entry."""

    owner: IntArray
    entry: IntArray


@dataclass(frozen=True, slots=True)
class CanonicalGraph:
    """The parts of a graph that do not depend on names and positions.

    Parameters
    ----------
    key
        Key, equal for graphs that differ only in names and positions.
    ops, buffers
        Ids in canonical order: ops of the same rank correspond in all such graphs.
    operands
        Result of :func:`operands_of`, if it is known.
    """

    key: str
    ops: tuple[int, ...]
    buffers: tuple[int, ...]
    operands: Mapping[str, FlatRows] | None = field(default=None, repr=False, compare=False)


def canonical_form(graph: Graph) -> CanonicalGraph:
    """Return key and canonical order, in time linear in the edges unless there are many ties."""
    n, m, groups = len(graph.ops), len(graph.buffers), len(graph.must_share)
    operands = operands_of(graph)
    relations = _relations(graph, operands)
    edges = Edges.joined(list(relations.values()))
    # Groups that share a place have no properties of their own, so all start with one color.
    start = np.full(n + m + groups, _GROUP, np.uint64)
    start[: n + m] = _swept(graph, relations)
    colors = _refine(_recolor(start, edges), edges)
    parts = (0, n), (n, n + m), (n + m, n + m + groups)
    # The number is the version of this scheme: keys of other versions never match.
    digest = hashlib.sha256(b"optsched graph 4")
    # Groups are left out of the key: they have shown in the colors of their members already.
    for first, end in parts[:2]:
        digest.update((end - first).to_bytes(8))
        # Sorted: the key must not depend on the sequence of the nodes. Little-endian on every
        # machine.
        digest.update(np.sort(colors[first:end]).astype("<u8").tobytes())
    order = order_nodes(colors, parts, edges)
    ops, buffers = order[:n], order[n : n + m] - n
    ids = tuple(ops.tolist()), tuple(buffers.tolist())
    return CanonicalGraph(digest.hexdigest(), *ids, operands)


def identity_form(graph: Graph) -> CanonicalGraph:
    """Return the form of a graph that was made of a document: its ids are its numbers."""
    return CanonicalGraph("", tuple(range(len(graph.ops))), tuple(range(len(graph.buffers))))


def _swept(graph: Graph, relations: Mapping[str, Edges]) -> IntArray:
    """Return colors of ops and buffers, from the nodes before and after each."""
    n = len(graph.ops)
    color = np.full(n + len(graph.buffers), _OP, np.int64)
    # One stream for all is the same as none: the name is left out then.
    if graph.on_streams:
        color[:n] = [_hash(op.stream) for op in graph.ops]
    color[n:] = _colors_of_buffers(graph)
    color %= PRIME
    before = Edges.joined([relations[role] for role in ("reads", "uses", "control")])
    # Colors flow from what an op reads or waits for into the op, and from the op into what it
    # writes.
    written = relations["writes"]
    sweep.for_work(len(before.source) + len(written.source))(
        np.array(_topological(graph.predecessors), np.int64),
        *_rows(n, before),
        *_rows(n, written)[:2],
        color,
    )
    return color


def _rows(count: int, edges: Edges) -> tuple[IntArray, IntArray, IntArray]:
    """Return the start of each source's targets, the targets, and their roles below PRIME."""
    turn = np.argsort(edges.source, kind="stable")
    ptr = np.searchsorted(edges.source[turn], np.arange(count + 1))
    return ptr, edges.target[turn], (edges.role[turn] % PRIME).astype(np.int64)


@kernel
def sweep(
    order: IntArray,
    before_ptr: IntArray,
    before: IntArray,
    role: IntArray,
    written_ptr: IntArray,
    written: IntArray,
    color: IntArray,
) -> None:
    """Color ops and buffers by the nodes before them, then by the nodes after them.

    Sketch: a color is the square of a sum of colors, since a sum does not depend on the sequence of
    its terms. Ops are visited in topological order, then in reverse, so two sweeps reach all nodes.

    Parameters
    ----------
    order
        Ops in topological order.
    before_ptr, before, role
        By op: the nodes that it waits for, and the role of each.
    written_ptr, written
        By op: the buffers that it writes.
    color
        By node: its own color, below :data:`PRIME`; replaced by the result.
    """
    for k in range(len(order)):
        v = order[k]
        seen = color[v]
        for i in range(before_ptr[v], before_ptr[v + 1]):
            # Multiplied by the role: reading a buffer and waiting for its op must differ.
            seen += color[before[i]] * role[i] % PRIME
        seen %= PRIME
        # Squared: with sums alone every color would be a linear function of the first ones, and
        # many different graphs would have equal sums.
        color[v] = seen * seen % PRIME
        for i in range(written_ptr[v], written_ptr[v + 1]):
            x = (color[written[i]] + color[v]) % PRIME
            color[written[i]] = x * x % PRIME
    for k in range(len(order) - 1, -1, -1):
        v = order[k]
        seen = color[v]
        for i in range(written_ptr[v], written_ptr[v + 1]):
            x = color[written[i]]
            color[written[i]] = x * x % PRIME
            seen += color[written[i]]
        seen %= PRIME
        color[v] = seen = seen * seen % PRIME
        for i in range(before_ptr[v], before_ptr[v + 1]):
            color[before[i]] = (color[before[i]] + seen * role[i]) % PRIME


def _colors_of_buffers(graph: Graph) -> list[int]:
    """Return the color of each buffer from its own properties."""
    known: dict[tuple[object, ...], int] = {}
    found = []
    own = attrgetter("size", "input", "output", "alignment", "pool", "pin", "mutates")
    for key in map(own, graph.buffers):
        color = known.get(key)
        if color is None:
            # A null character separates the fields, so that 1, 23 and 12, 3 differ.
            known[key] = color = _hash("\0".join(map(str, key)))
        found.append(color)
    for op in graph.ops:
        if op.workspace is not None:
            # Added, not hashed again: a workspace keeps what its own properties say.
            found[op.workspace] += _WORKSPACE
    return found


def _topological(predecessors: Sequence[Sequence[int]]) -> Sequence[int]:
    """Return ids, each after its predecessors; mostly they are in such an order already."""
    # The common case costs no copy of the graph.
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


def operands_of(graph: Graph) -> dict[str, FlatRows]:
    """Return the ids that ops refer to, by role."""
    counts = dict.fromkeys(("reads", "uses", "writes"), len(graph.buffers))
    counts["control"] = len(graph.ops)
    return {
        role: flat_rows(list(map(attrgetter(role), graph.ops)), count)
        for role, count in counts.items()
    }


def _relations(graph: Graph, operands: Mapping[str, FlatRows]) -> dict[str, Edges]:
    """Return all relations by role; buffers are numbered after ops, groups after both."""
    n, buffers = len(graph.ops), graph.buffers
    groups = n + len(buffers)
    found: dict[str, tuple[IntArray, IntArray]] = {}
    for role, (owner, entry) in operands.items():
        found[role] = owner, entry + (0 if role == "control" else n)
    views = [(b, x.alias_of) for b, x in enumerate(buffers) if x.alias_of is not None]
    found["alias"] = _columns(views, n, n)
    births = [(b, x.birth) for b, x in enumerate(buffers) if x.birth is not None]
    found["birth"] = _columns(births, n, 0)
    # An output is enough: it is its op that may write it in place.
    for role, pairs in (("candidate", graph.inplace_candidates), ("inplace", graph.inplace)):
        found[role] = _columns([pair[1:] for pair in pairs], n, n)
    # Symmetric: both directions are stored, since the pair has no first.
    apart = [*graph.keep_apart, *(pair[::-1] for pair in graph.keep_apart)]
    found["apart"] = _columns(apart, n, n)
    members = [(b, g) for g, group in enumerate(graph.must_share) for b in group]
    found["share"] = _columns(members, n, groups)
    return {role: Edges.of_role(*ends, _hash(role)) for role, ends in found.items()}


def flat_rows(rows: Sequence[Sequence[int]], width: int) -> FlatRows:
    """Return the entries of rows, which are below `width`.

    Planners do not distinguish a buffer that an op reads twice from one that it reads once.
    """
    # Few graphs have control edges, for example.
    if not any(rows):
        return FlatRows(np.zeros(0, np.int64), np.zeros(0, np.int64))
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    entries = np.fromiter(chain.from_iterable(rows), np.int64, int(counts.sum()))
    # Sorted with a plain array instead of a set per row: a graph may have millions of operands.
    return FlatRows(
        *np.divmod(distinct(np.repeat(np.arange(len(rows)), counts) * width + entries), width)
    )


def _columns(pairs: Sequence[Sequence[int]], first: int, second: int) -> tuple[IntArray, IntArray]:
    """Return pairs of ids as two arrays of nodes; each kind of node begins at its first one."""
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return rows[:, 0] + first, rows[:, 1] + second


def _refine(colors: Colors, edges: Edges) -> Colors:
    """Recolor nodes that share a color until no further ones are distinguished."""
    classes = 0
    # Each round looks one step further; a round without a new class changes nothing any more.
    for _ in range(MOST_ROUNDS):
        alike = count_equals(colors)
        # A class of k nodes adds 1/k for each, so 1 in all: the sum is the number of classes.
        tied, before, classes = alike > 1, classes, round(float((1 / alike).sum()))
        if classes == before or not tied.any():
            break
        # Nodes alone in their class keep their color, which saves most of the work.
        colors = np.where(tied, _recolor(colors, edges.touching(tied)), colors)
    return colors


def _recolor(colors: Colors, edges: Edges) -> Colors:
    """Return new colors, of the old one and those of all related nodes with their roles."""
    return mixed(mixed(colors) + edges.seen(colors))
