"""Graphs of grouped parts, as the checker reads :mod:`optsched.model.fusion`.

Example: parts `a` and `b` pass `t`, a local buffer. Grouped as `a+b` the graph has one op and no
`t`; apart it has two ops and `t`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from optsched.errors import PlanError
from optsched.model.elements import Buffer, Op
from optsched.model.fused import FusedGraph
from optsched.model.graph import Graph


def finest_groups(fused: FusedGraph, stay: Collection[int]) -> list[list[int]]:
    """Return the finest acyclic groups that keep some local buffers, in order of their ids.

    Two parts of a node are in one group if each reaches the other, where parts that share a buffer
    that stays reach each other. Of the groups whose predecessors are listed, the one with the
    smallest part comes next.
    """
    graph = fused.graph
    group_of = {v: [v] for v in range(len(graph.ops))}
    node_of = {v: node for node in fused.nodes for v in node}
    tied: dict[tuple[int, ...], list[list[int]]] = {}
    for users in (fused.users[b] & node_of.keys() for b in stay):
        # A certificate may name any buffer, so its users may be in several nodes.
        for node in {node_of[v] for v in users}:
            tied.setdefault(node, []).append([v for v in users if node_of[v] == node])
    for node in fused.nodes:
        bit = {v: 1 << i for i, v in enumerate(node)}
        reach = {v: bit[v] | sum(bit.get(u, 0) for u in graph.predecessors[v]) for v in node}
        for row in tied.get(node, ()):
            for v in row:
                reach[v] |= sum(bit[u] for u in row if not reach[v] & bit[u])
        for u in node:
            for v in node:
                if reach[v] & bit[u]:
                    reach[v] |= reach[u]
        for v in node:
            group_of[v] = [u for u in node if reach[v] & bit[u] and reach[u] & bit[v]]
    return _listed(graph, {min(group): sorted(group) for group in group_of.values()})


def _listed(graph: Graph, groups: dict[int, list[int]]) -> list[list[int]]:
    first = {v: head for head, group in groups.items() for v in group}
    waits = {
        head: {first[u] for v in group for u in graph.predecessors[v]} - {head}
        for head, group in groups.items()
    }
    after: dict[int, list[int]] = {head: [] for head in groups}
    for head, row in waits.items():
        for other in row:
            after[other].append(head)
    found: list[list[int]] = []
    ready = [head for head in groups if not waits[head]]
    heapify(ready)
    while ready:
        head = heappop(ready)
        found.append(groups[head])
        for other in after[head]:
            waits[other].discard(head)
            if not waits[other]:
                heappush(ready, other)
    if len(found) < len(groups):
        raise PlanError(f"{graph.name}: groups wait for each other in a cycle")
    return found


def grouped_graph(
    fused: FusedGraph, groups: Sequence[Sequence[int]], free: Collection[int] = ()
) -> Graph:
    """Return the graph with one op per group; `free` local buffers have 0 bytes."""
    graph = fused.graph
    inner, taken = inside(fused, groups), _taken(fused, groups)
    gone = {*taken.values()}
    place = {v: i for i, group in enumerate(groups) for v in group}
    ids: dict[int, int] = {}
    buffers: list[Buffer] = []
    for b, buffer in enumerate(graph.buffers):
        if b not in inner and b not in gone:
            ids[b] = len(buffers)
            buffers.append(replace(buffer, size=0) if b in free else buffer)
    ops, pairs = [], []
    candidates: dict[int, list[tuple[int, int, int]]] = {}
    for row in graph.inplace_candidates:
        candidates.setdefault(row[0], []).append(row)
    for i, group in enumerate(groups):
        writes = [b for v in group for b in graph.ops[v].writes]
        reads = [b for v in group for b in graph.ops[v].reads if b not in writes]
        before = {place[u] for v in group for u in graph.predecessors[v]} - {i}
        scratch = graph.ops[group[0]].workspace
        ops.append(
            Op(
                "+".join(graph.ops[v].name for v in group),
                reads=tuple(ids[b] for b in dict.fromkeys(reads)),
                writes=tuple(ids[b] for b in writes if b in ids),
                control=tuple(sorted(before)),
                workspace=None if scratch is None else ids[scratch],
            )
        )
        own = [row for v in group for row in candidates.get(v, ())]
        rows = _overwrites(fused, group, own, inner, taken, gone)
        pairs += [(i, ids[output], ids[source]) for output, source in rows]
    made = Graph(graph.name, tuple(ops), tuple(buffers), tuple(sorted(set(pairs))))
    return made.with_inplace() if graph.in_place else made


def inside(fused: FusedGraph, groups: Iterable[Iterable[int]]) -> set[int]:
    """Return the local buffers that only parts of one group use."""
    found: set[int] = set()
    for group in groups:
        parts = set(group)
        made = {b for v in group for b in fused.graph.ops[v].writes}
        found |= {b for b in made & fused.local if fused.users[b] <= parts}
    return found


def _taken(fused: FusedGraph, groups: Iterable[Sequence[int]]) -> dict[int, int]:
    """Return by buffer the one of its kernel whose bytes it takes while the kernel runs."""
    found = {}
    pairs = dict(fused.absorbed)
    for group in groups:
        for v in group:
            for output in pairs.keys() & set(fused.graph.ops[v].writes):
                source = pairs[output]
                used_here = fused.users[source] <= set(group)
                if used_here and _may_overwrite(fused, group, (v, output, source)):
                    found[output] = source
    return found


def _overwrites(
    fused: FusedGraph,
    group: Sequence[int],
    candidates: Sequence[tuple[int, int, int]],
    inner: Collection[int],
    taken: Mapping[int, int],
    gone: Collection[int],
) -> Iterator[tuple[int, int]]:
    """Yield what a group writes and may overwrite with it, by the `candidates` of its parts."""
    direct: dict[int, list[int]] = {}
    for v, output, source in candidates:
        if _may_overwrite(fused, group, (v, output, source)):
            direct.setdefault(output, []).append(source)
    # A buffer that takes bytes inside the kernel takes no others, and nothing else takes them.
    direct = {output: [x for x in row if x not in gone] for output, row in direct.items()}
    direct.update({output: [taken[output]] for output in direct if output in taken})
    made = {b for v in group for b in fused.graph.ops[v].writes}
    for output, sources in direct.items():
        left, seen = list(sources), set[int]()
        while left and output not in inner and output not in gone:
            source = left.pop()
            if source not in made:
                yield output, source
            elif (source in inner or source in gone) and source not in seen:
                # The bytes that such a buffer takes over are taken over from it.
                seen.add(source)
                left += direct.get(source, ())


def _may_overwrite(
    fused: FusedGraph, group: Sequence[int], candidate: tuple[int, int, int]
) -> bool:
    """Return True if all parts of a group that use a buffer run before the one that overwrites."""
    v, _, source = candidate
    if len(group) == 1:
        return True
    earlier, left = set[int](), [v]
    while left:
        found = [u for u in fused.graph.predecessors[left.pop()] if u in group]
        left += [u for u in found if u not in earlier]
        earlier.update(found)
    others = fused.users[source] & set(group) - {v}
    return others <= earlier and not fused.blocked.get(candidate, frozenset()) & set(group)
