"""Reduction of a fused graph and a choice to an ordinary graph.

A *choice* is the set of local buffers that stay local. Its groups are the finest acyclic split of
the fused nodes that keeps each of these buffers inside one group (:func:`finest_split`).
:func:`merge` makes one op of each group. It reads and writes what its parts do; local buffers whose
users are all in one group are gone. An op may overwrite an input if one of its parts may, and no
other part of the group can use the input later or is a blocker of the pair. A part that
may overwrite a local buffer of the group may overwrite what that buffer may overwrite. A buffer
that is absorbed inside the group is gone, too, and what it may overwrite counts for the one that
absorbs it, whose other pairs do not count, and for no other part that may overwrite it.

*Exactness.* An order of the merged graph is, by this definition, the order in which the kernels of
the split run, so its peak is that of the split. Only choices need to be searched, although there
are more splits than choices, for this reason:

*Lemma.* Let the split `F` be finer than the split `P`, let `free` be local buffers that are inside
groups of `P`, and let all local buffers inside groups of `P` be inside groups of `F` or `free`.
Then each order of `merge(P)` gives an order of `merge(F, free)` with a peak that is not higher.

*Proof.* Replace each group `K` of `P` by its groups in `F`, in an order that keeps dependencies. A
buffer that is live while a group `A` of `K` runs is live while `K` runs, or it has no bytes in
both: it is inside `A`, or free. So without in-place writes `A` has no more live bytes than `K`. An
absorbed buffer counts as written in place: both buffers are there, and the pair saves the bytes of
one. (That is the most that can be saved: if the absorbing buffer took other bytes, the pair would
save nothing, as the two are of one size.) Let `K` use pairs `(o, x)` in which no buffer occurs
twice on one side; each saves the bytes of `o`, and `x` has at least as many. Let part `w` write
`o`. All parts of `K` that use `x` are `w` or run before it in every order; this is the condition
above, and it holds along chains of local buffers too.

- While a group before that of `w` runs, `o` is not live in `F`.
- While the group of `w` runs, either `x` has died, or the pair is there as well: a blocker, or a
  later user, that is in the group of `w` in `F` would be in `K`. The last user of `x` is in this
  group, as it is in `K`. If `x` is absorbed by `o` in `K` and made in an earlier group of `F`, the
  pair is an ordinary one.
- While a group after that of `w` runs, `x` has died.

A buffer can be the `o` of one pair and the absorbed `x` of another. It counts for the first before
it is live, and for the second after it has died. So for each pair `F` has at least the bytes of `o`
fewer, too. *End.*

With `free` empty and `F` the finest split of the choice that `P` makes, it follows that no split
has a lower peak than the best choice. With undecided buffers free it follows that the merged graph
of the decided ones is a relaxation: its least peak is a bound on all choices that agree with it
(:mod:`optsched.solver.fusion`). The lemma needs each buffer that is cut to have bytes in `P`; a
choice that cuts a buffer whose users are all in one group is a choice that keeps it. Undecided
buffers may also keep their bytes: :mod:`optsched.model.allowances`.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from optsched.model.dependencies import reachable
from optsched.model.elements import Op
from optsched.model.fused import Bytes, FusedGraph, Group, Split
from optsched.model.graph import Graph


def whole_split(fused: FusedGraph) -> Split:
    """Return the split in which every fused node is whole."""
    return arranged(fused, [*fused.nodes, *_single(fused)])


def finest_split(fused: FusedGraph, kept: Collection[int]) -> Split:
    """Return the finest acyclic split that keeps the given local buffers inside groups.

    Within a node, parts that share a kept buffer are joined, and then parts that wait for each
    other in a cycle. Nodes do not wait for each other in cycles, so no other cycle can arise.

    Examples
    --------
    >>> from optsched.model.builder import GraphBuilder
    >>> build = GraphBuilder("pair")
    >>> build.op("exp", writes={"t": 8})
    >>> build.op("sum", reads=["t"], writes={"y": 2})
    >>> build.output("y")
    >>> fused = FusedGraph(graph=build.build(), nodes=((0, 1),), local=frozenset({0}))
    >>> finest_split(fused, {0}), finest_split(fused, ())
    (((0, 1),), ((0,), (1,)))
    """
    links: dict[int, list[Sequence[int]]] = {}
    for b in kept:
        users = sorted(fused.users[b])
        links.setdefault(fused.node_of[users[0]], []).append(users)
    groups: list[Iterable[int]] = [*_single(fused)]
    for k, node in enumerate(fused.nodes):
        # Parts of a node that nothing ties together do not wait for each other in cycles.
        groups += _split_node(fused, node, links[k]) if k in links else [(v,) for v in node]
    return arranged(fused, groups)


def arranged(fused: FusedGraph, groups: Iterable[Iterable[int]]) -> Split:
    """Return groups in a topological order, of those that are ready the one of smallest id first.

    Parts of a group are in ascending order. Groups that wait for each other are left out.
    """
    found = [tuple(sorted(group)) for group in groups]
    owner = {v: i for i, group in enumerate(found) for v in group}
    waits = [
        {owner[u] for v in group for u in fused.graph.predecessors[v]} - {i}
        for i, group in enumerate(found)
    ]
    after: dict[int, list[int]] = {}
    for i, row in enumerate(waits):
        for j in row:
            after.setdefault(j, []).append(i)
    left = [len(row) for row in waits]
    ready = [(group[0], i) for i, group in enumerate(found) if not left[i]]
    heapq.heapify(ready)
    made = []
    while ready:
        _, i = heapq.heappop(ready)
        made.append(found[i])
        for j in after.get(i, ()):
            left[j] -= 1
            if not left[j]:
                heapq.heappush(ready, (found[j][0], j))
    return tuple(made)


def is_acyclic(fused: FusedGraph, groups: Sequence[Iterable[int]]) -> bool:
    """Return True if no groups wait for each other in a cycle."""
    return len(arranged(fused, groups)) == len(groups)


def inner_buffers(fused: FusedGraph, split: Split) -> frozenset[int]:
    """Return the local buffers whose users are all in one group: they take no bytes."""
    owner = {v: i for i, group in enumerate(split) for v in group}
    return frozenset(b for b in fused.local if len({owner[v] for v in fused.users[b]}) == 1)


def merge(fused: FusedGraph, split: Split, free: Collection[int] = ()) -> Graph:
    """Return the ordinary graph of a split; op `i` is the group `split[i]`.

    `fused`, `split`: the fused graph, and an acyclic split of its nodes as :func:`arranged` returns
    it. `free`: local buffers that are counted with 0 bytes although their users are in several
    groups.
    """
    graph, inside = fused.graph, _absorbed(fused, split)
    gone = inner_buffers(fused, split) | set(inside.values())
    owner = {v: i for i, group in enumerate(split) for v in group}
    ids = {b: i for i, b in enumerate(b for b in range(len(graph.buffers)) if b not in gone)}
    buffers = tuple(
        replace(graph.buffers[b], size=0) if b in free else graph.buffers[b] for b in ids
    )
    ops = tuple(_op(graph, group, owner, ids) for group in split)
    taken = frozenset(inside.values())
    rows = (_pairs(fused, i, group, ids, inside, taken) for i, group in enumerate(split))
    pairs = sorted({pair for row in rows for pair in row})
    merged = Graph(graph.name, ops, buffers, tuple(pairs), graph.memory_model)
    return merged.with_inplace() if graph.in_place else merged


def traffic(fused: FusedGraph, split: Split) -> int:
    """Return the bytes that the kernels of a split read and write in all.

    A kernel reads a tensor once, regardless of how many of its parts do. The local buffers inside
    it are not counted.
    """
    gone = {fused.graph.buffers[b].name for b in inner_buffers(fused, split)}
    return sum(_group_traffic(fused, group, gone) for group in split)


def kernels(fused: FusedGraph, split: Split) -> int:
    """Return the number of groups that read or write bytes; of all groups if that is not known."""
    if not fused.reads:
        return len(split)
    return sum(any(fused.reads[v] or fused.writes[v] for v in group) for group in split)


def _single(fused: FusedGraph) -> Iterator[Group]:
    return ((v,) for v in range(len(fused.graph.ops)) if v not in fused.node_of)


def _split_node(fused: FusedGraph, node: Group, links: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return the finest acyclic split of a node in which linked parts stay together."""
    inside = set(node)
    joined: dict[int, list[int]] = {v: [] for v in node}
    for row in links:
        # A cycle through its members makes them one component.
        for u, v in zip(row, (*row[1:], row[0]), strict=True):
            joined[v].append(u)
    for v in node:
        joined[v] += [u for u in fused.graph.predecessors[v] if u in inside]
    return components(joined)


def components(before: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """Return the strongly connected components of nodes, each with the nodes it waits for."""
    after: dict[int, list[int]] = {v: [] for v in before}
    for v, row in before.items():
        for u in row:
            after[u].append(v)
    finished: list[int] = []
    seen: set[int] = set()
    for v in before:
        _walk(v, after, seen, finished)
    # Kosaraju: in descending order of finishing, what a node waits for and is not yet taken is in
    # its component.
    seen.clear()
    found = []
    for v in reversed(finished):
        if v not in seen:
            found.append(list[int]())
            _walk(v, before, seen, found[-1])
    return found


def _walk(
    start: int, rows: Mapping[int, Iterable[int]], seen: set[int], finished: list[int]
) -> None:
    """Visit what can be reached from a node, and append each node when its successors are done."""
    if start in seen:
        return
    seen.add(start)
    stack = [(start, iter(rows[start]))]
    while stack:
        v, left = stack[-1]
        unseen = next((u for u in left if u not in seen), None)
        if unseen is None:
            finished.append(v)
            stack.pop()
        else:
            seen.add(unseen)
            stack.append((unseen, iter(rows[unseen])))


def _op(graph: Graph, group: Group, owner: Mapping[int, int], ids: Mapping[int, int]) -> Op:
    if len(group) == 1:
        op = graph.ops[group[0]]
        control = {owner[u] for u in op.control}
        return replace(
            op,
            reads=tuple(ids[b] for b in op.reads),
            # A local buffer that no part reads is gone even here.
            writes=tuple(ids[b] for b in op.writes if b in ids),
            control=tuple(sorted(control)),
            workspace=None if op.workspace is None else ids[op.workspace],
        )
    ops = [graph.ops[v] for v in group]
    made = dict.fromkeys(b for op in ops for b in op.writes)
    reads = dict.fromkeys(b for op in ops for b in op.reads if b not in made)
    me = owner[group[0]]
    return Op(
        "+".join(op.name for op in ops),
        reads=tuple(ids[b] for b in reads),
        writes=tuple(ids[b] for b in made if b in ids),
        control=tuple(sorted({owner[u] for v in group for u in graph.predecessors[v]} - {me})),
        kind="fused",
    )


def _absorbed(fused: FusedGraph, split: Split) -> dict[int, int]:
    """Return the buffers whose bytes are taken inside of groups, by the buffer that takes them."""
    owner = {v: i for i, group in enumerate(split) for v in group}
    found = {}
    for output, source in fused.absorbed:
        v = fused.graph.producers[output]
        assert v is not None
        inside = set(split[owner[v]])
        if fused.users[source] <= inside and _survives(fused, v, output, source, inside):
            found[output] = source
    return found


def _pairs(
    fused: FusedGraph,
    i: int,
    group: Group,
    ids: Mapping[int, int],
    absorbed: Mapping[int, int],
    gone: Collection[int],
) -> Iterator[tuple[int, int, int]]:
    """Yield what the kernel of a group may overwrite, also by way of a buffer that is gone."""
    rows = [x for v in group for x in _candidates(fused)[v]]
    if not rows:
        return
    inside = set(group)
    made = {b for v in group for b in fused.graph.ops[v].writes}
    takes: dict[int, list[int]] = {}
    for v, output, source in _in_order(fused, rows):
        # The bytes of an absorbed buffer are those of the one that absorbs it, and of no other.
        if absorbed.get(output, source) != source or (source in gone and output not in absorbed):
            continue
        if not _survives(fused, v, output, source, inside):
            continue
        # What is made and used inside passes on its sources if it has no bytes of its own.
        passed = [] if source in ids else takes.get(source, [])
        found = passed if source in made else [source]
        if output not in ids:
            takes.setdefault(output, []).extend(found)
        else:
            yield from ((i, ids[output], ids[b]) for b in found)


def _survives(fused: FusedGraph, v: int, output: int, source: int, inside: set[int]) -> bool:
    """Return True if a part may overwrite a buffer that others in its group use, too."""
    if len(inside) == 1:
        return True
    earlier = _ancestors(fused)[v]
    used = (u for u in fused.users[source] if u in inside and u != v)
    return all(earlier >> u & 1 for u in used) and inside.isdisjoint(
        fused.blocked.get((v, output, source), ())
    )


def _in_order(
    fused: FusedGraph, rows: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Return candidates so that a buffer is made before it is overwritten."""
    ancestors = _ancestors(fused)
    count = {row[0]: ancestors[row[0]].bit_count() for row in rows}
    return sorted(rows, key=lambda row: (count[row[0]], row))


def _candidates(fused: FusedGraph) -> list[list[tuple[int, int, int]]]:
    """Return the in-place candidates of each part."""
    found: list[list[tuple[int, int, int]]] | None = fused.__dict__.get("_candidates")
    if found is None:
        found = [[] for _ in fused.graph.ops]
        for row in fused.graph.inplace_candidates:
            found[row[0]].append(row)
        fused.__dict__["_candidates"] = found
    return found


def _ancestors(fused: FusedGraph) -> tuple[int, ...]:
    """Return the set of parts that run before each part in every order, as bits."""
    found: tuple[int, ...] | None = fused.__dict__.get("_ancestors")
    if found is None:
        found = fused.__dict__["_ancestors"] = reachable(fused.graph.predecessors)
    return found


def _group_traffic(fused: FusedGraph, group: Group, gone: Collection[str]) -> int:
    if not fused.reads:
        return 0
    made = {name for v in group for name, _ in fused.writes[v]}
    read = _most([fused.reads[v] for v in group], {*gone, *made} if len(group) > 1 else gone)
    return read + _most([fused.writes[v] for v in group], gone)


def _most(rows: Iterable[Bytes], without: Collection[str]) -> int:
    """Return the sum over tensors of the most bytes that one of the parts moves."""
    found: dict[str, int] = {}
    for row in rows:
        for name, size in row:
            if name not in without:
                found[name] = max(found.get(name, 0), size)
    return sum(found.values())
