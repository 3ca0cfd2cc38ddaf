"""The checker of fused graphs: splits with an order, and proofs that no choice has a lower peak.

A plan is a sequence of groups of parts. The checker makes an ordinary graph of it by its own
reading of :mod:`optsched.model.fusion`, and replays that.

A proof is a tree. Each branch takes one local buffer: either it stays inside one group, or it does
not and has its bytes. So the leaves cover all splits. A leaf has an ordinary certificate
(:mod:`optsched.check.certificate`) for the graph in which the buffers that stay tie their parts
together, those that are cut have their bytes, and those not decided have none; no split of the leaf
has a lower peak in any order, by the lemma there. A leaf needs no certificate if a buffer that is
cut lies inside one group anyway: no split is of that leaf.

Example: one local buffer `t`. The leaf in which `t` stays refutes 9 bytes for the fused graph, the
leaf in which it is cut refutes 9 bytes for the graph with `t`. So every split in every order needs
10 bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from optsched.check.certificate import check_certificate
from optsched.check.facts import OrderFacts
from optsched.check.peak import peak_of
from optsched.check.steps import Certificate
from optsched.errors import GraphError, PlanError
from optsched.model.elements import Buffer, Op
from optsched.model.fused import FusedGraph
from optsched.model.graph import Graph
from optsched.runtime.integers import as_integer


@dataclass(frozen=True, slots=True)
class FusionLeaf:
    """Choices that agree with the branches above; without a certificate, there are none."""

    certificate: Certificate | None


@dataclass(frozen=True, slots=True)
class FusionBranch:
    """A local buffer that stays inside one group, or is cut."""

    buffer: int
    stays: FusionTree
    cut: FusionTree


FusionTree: TypeAlias = FusionLeaf | FusionBranch


@dataclass(frozen=True, slots=True)
class FusionCertificate:
    """A proof that no split has a peak below `bound` in any order."""

    graph: str
    bound: int
    tree: FusionTree


@dataclass(frozen=True, slots=True)
class CheckedSplit:
    """Peak of a split in its order, its kernels, and the bytes that they read and write."""

    peak: int
    kernels: int
    traffic: int


def check_split(fused: FusedGraph, groups: Sequence[Sequence[int]]) -> CheckedSplit:
    """Return the figures of groups that run in the given order.

    Raises
    ------
    PlanError
        If a part is missing, unknown or listed twice, a group is empty or holds parts of two nodes,
        or a group runs before one that it needs.
    """
    groups = _part_ids(fused, groups)
    listed = [v for group in groups for v in group]
    if sorted(listed) != list(range(len(fused.graph.ops))):
        raise PlanError(f"{fused.graph.name}: a split lists each part once")
    inside = [set(node) for node in fused.nodes]
    for group in groups:
        if len(group) > 1 and not any(node.issuperset(group) for node in inside):
            name = fused.graph.ops[group[0]].name
            raise PlanError(f"the group of op {name!r} is not part of one fused node")
    try:
        graph = grouped_graph(fused, groups)
    except GraphError as error:
        raise PlanError(str(error)) from None
    facts = OrderFacts.of_order(graph, range(len(groups)))
    moved = [_moved(fused, group) for group in groups]
    count = sum(map(bool, moved)) if fused.reads else len(groups)
    return CheckedSplit(peak_of(facts), count, sum(sum(row.values()) for row in moved))


def _part_ids(fused: FusedGraph, groups: object) -> list[list[int]]:
    """Return groups as lists of ids; a caller may hand over anything that came from outside."""
    rows = groups if isinstance(groups, Sequence) and not isinstance(groups, str) else None
    if rows is None or not all(isinstance(row, Sequence) for row in rows):
        raise PlanError(f"{fused.graph.name}: a split is a list of groups of part ids")
    for row in rows:
        if not row:
            raise PlanError(f"{fused.graph.name}: a group of the split is empty")
        for v in row:
            if as_integer(v) is None:
                raise PlanError(f"{fused.graph.name}: expected the id of a part, got {v!r}")
    return [[int(v) for v in row] for row in rows]


def check_fusion(fused: FusedGraph, certificate: FusionCertificate) -> str:
    """Return the proof that a valid certificate gives: L2 (order bound) or L3 (order search).

    It is L2 if the tree is a single leaf with an order bound.

    Raises
    ------
    PlanError
        On the first leaf that does not hold.
    """
    if certificate.graph != fused.graph.name:
        raise PlanError(
            f"certificate is of graph {certificate.graph!r}, this is {fused.graph.name!r}"
        )
    if type(certificate.bound) is not int:
        raise PlanError(f"the bound must be a number of bytes, got {certificate.bound!r}")
    proofs = list(_check_tree(fused, certificate.bound, certificate.tree))
    return "L2" if proofs == ["L2"] else "L3"


def _check_tree(fused: FusedGraph, bound: int, tree: FusionTree) -> Iterator[str]:
    """Yield the proof of each leaf that has one."""
    stack: list[tuple[FusionTree, frozenset[int], frozenset[int]]]
    stack = [(tree, frozenset(), frozenset())]
    while stack:
        at, stay, cut = stack.pop()
        if isinstance(at, FusionBranch):
            # True would be read as buffer 1.
            known = type(at.buffer) is int and at.buffer in fused.local
            if not known or at.buffer in stay | cut:
                raise PlanError("a branch is about a buffer that is not local, or is decided")
            stack.append((at.stays, stay | {at.buffer}, cut))
            stack.append((at.cut, stay, cut | {at.buffer}))
        elif not isinstance(at, FusionLeaf):
            raise PlanError(f"a tree consists of branches and leaves, got {at!r}")
        elif proof := _check_leaf(fused, bound, at, stay, cut):
            yield proof


def _check_leaf(
    fused: FusedGraph, bound: int, leaf: FusionLeaf, stay: frozenset[int], cut: frozenset[int]
) -> str | None:
    groups = finest_groups(fused, stay)
    if leaf.certificate is None:
        if not cut & _inside(fused, groups):
            raise PlanError("a leaf without a certificate excludes no buffer that is cut")
        return None
    if not isinstance(leaf.certificate, Certificate) or type(leaf.certificate.bound) is not int:
        raise PlanError(f"expected the certificate of a leaf, got {leaf.certificate!r}")
    if leaf.certificate.bound < bound:
        raise PlanError(f"a leaf proves {leaf.certificate.bound} bytes, not {bound}")
    return check_certificate(leaf_graph(fused, stay, cut), leaf.certificate)


def leaf_graph(fused: FusedGraph, stay: frozenset[int], cut: frozenset[int]) -> Graph:
    """Return the graph that the certificate of a leaf is about; undecided buffers have 0 bytes."""
    return grouped_graph(fused, finest_groups(fused, stay), fused.local - stay - cut)


def finest_groups(fused: FusedGraph, stay: Collection[int]) -> list[list[int]]:
    """Return the finest acyclic groups that keep some local buffers, in order of their ids.

    Two parts of a node are in one group if each reaches the other, where parts that share a buffer
    that stays reach each other. Of the groups whose predecessors are listed, the one with the
    smallest part comes next.
    """
    graph = fused.graph
    group_of = {v: [v] for v in range(len(graph.ops))}
    for node in fused.nodes:
        bit = {v: 1 << i for i, v in enumerate(node)}
        reach = {v: bit[v] | sum(bit.get(u, 0) for u in graph.predecessors[v]) for v in node}
        for b in stay:
            row = [v for v in node if v in fused.users[b]]
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
    found: list[list[int]] = []
    done: set[int] = set()
    heads = sorted(groups)
    while heads:
        head = next((x for x in heads if waits[x] <= done), None)
        if head is None:
            raise PlanError(f"{graph.name}: groups wait for each other in a cycle")
        heads.remove(head)
        done.add(head)
        found.append(groups[head])
    return found


def grouped_graph(
    fused: FusedGraph, groups: Sequence[Sequence[int]], free: Collection[int] = ()
) -> Graph:
    """Return the graph with one op per group; `free` local buffers have 0 bytes."""
    graph = fused.graph
    inner, taken = _inside(fused, groups), _taken(fused, groups)
    place = {v: i for i, group in enumerate(groups) for v in group}
    ids: dict[int, int] = {}
    buffers: list[Buffer] = []
    for b, buffer in enumerate(graph.buffers):
        if b not in inner and b not in taken.values():
            ids[b] = len(buffers)
            buffers.append(replace(buffer, size=0) if b in free else buffer)
    ops, pairs = [], []
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
        rows = _overwrites(fused, group, inner, taken)
        pairs += [(i, ids[output], ids[source]) for output, source in rows]
    made = Graph(graph.name, tuple(ops), tuple(buffers), tuple(sorted(set(pairs))))
    return made.with_inplace() if graph.in_place else made


def _inside(fused: FusedGraph, groups: Iterable[Iterable[int]]) -> set[int]:
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
    fused: FusedGraph, group: Sequence[int], inner: Collection[int], taken: Mapping[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield what a group writes and what it may overwrite with it, both outside of the group."""
    direct: dict[int, list[int]] = {}
    for v, output, source in fused.graph.inplace_candidates:
        if v in group and _may_overwrite(fused, group, (v, output, source)):
            direct.setdefault(output, []).append(source)
    # A buffer that takes bytes inside the kernel takes no others, and nothing else takes them.
    gone = set(taken.values())
    direct = {output: [x for x in row if x not in gone] for output, row in direct.items()}
    direct.update({output: [source] for output, source in taken.items() if output in direct})
    inner = {*inner, *taken.values()}
    made = {b for v in group for b in fused.graph.ops[v].writes}
    for output, sources in direct.items():
        left, seen = list(sources), set[int]()
        while left and output not in inner:
            source = left.pop()
            if source not in made:
                yield output, source
            elif source in inner and source not in seen:
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


def _moved(fused: FusedGraph, group: Sequence[int]) -> dict[tuple[str, bool], int]:
    """Return the bytes that a kernel reads and writes, by tensor and whether it is written."""
    if not fused.reads:
        return {}
    inner = {fused.graph.buffers[b].name for b in _inside(fused, [group])}
    made = {name for v in group for name, _ in fused.writes[v]} if len(group) > 1 else set()
    found: dict[tuple[str, bool], int] = {}
    for written, rows in ((False, fused.reads), (True, fused.writes)):
        for name, size in (row for v in group for row in rows[v]):
            if name not in inner and (written or name not in made):
                found[name, written] = max(size, found.get((name, written), 0))
    return found
