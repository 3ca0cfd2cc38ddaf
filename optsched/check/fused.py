"""The checker of fused graphs: splits with an order, and proofs that no choice has a lower peak.

A plan is a sequence of groups of parts. The checker makes an ordinary graph of it by its own
reading of :mod:`optsched.model.fusion`, and replays that.

A proof is a tree. Each branch takes one local buffer: either it stays inside one group, or it does
not and has its bytes. So the leaves cover all splits. A leaf has an ordinary certificate
(:mod:`optsched.check.certificate`) for the graph in which the buffers that stay tie their parts
together, those that are cut have their bytes, and those not decided have none, or have theirs as
:mod:`optsched.model.allowances` describes; no split of the leaf has a lower peak in any order, by
the lemmas there. A leaf needs no certificate if a buffer that is cut lies inside one group anyway:
no split is of that leaf.

Example: one local buffer `t`. The leaf in which `t` stays refutes 9 bytes for the fused graph, the
leaf in which it is cut refutes 9 bytes for the graph with `t`. So every split in every order needs
10 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from optsched.check.certificate import Certificate, check_certificate
from optsched.check.facts import OrderFacts
from optsched.check.grouped import finest_groups, grouped_graph, inside
from optsched.check.peak import peak_of
from optsched.errors import GraphError, PlanError
from optsched.model.elements import Buffer
from optsched.model.fused import FusedGraph
from optsched.model.graph import Graph
from optsched.runtime.integers import as_integer


@dataclass(frozen=True, slots=True)
class FusionLeaf:
    """The choices that agree with the branches above; without a certificate, no choice does.

    If `allowed`, undecided buffers have their bytes in the graph of the certificate.
    """

    certificate: Certificate | None
    allowed: bool = False


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

    Raise `PlanError` if a part is missing, unknown or listed twice, a group is empty or holds parts
    of two nodes, or a group runs before one that it needs.
    """
    groups = _part_ids(fused, groups)
    listed = [v for group in groups for v in group]
    if sorted(listed) != list(range(len(fused.graph.ops))):
        raise PlanError(f"{fused.graph.name}: a split lists each part once")
    node_of = {v: k for k, node in enumerate(fused.nodes) for v in node}
    for group in groups:
        if len(group) > 1 and len({node_of.get(v, -1 - v) for v in group}) > 1:
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

    Raise `PlanError` on the first leaf that does not hold.
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
    if leaf.certificate is None:
        if not cut & inside(fused, finest_groups(fused, stay)):
            raise PlanError("a leaf without a certificate excludes no buffer that is cut")
        return None
    if not isinstance(leaf.certificate, Certificate) or type(leaf.certificate.bound) is not int:
        raise PlanError(f"expected the certificate of a leaf, got {leaf.certificate!r}")
    graph, above = leaf_graph(fused, stay, cut, allowed=leaf.allowed)
    if leaf.certificate.bound - above < bound:
        raise PlanError(f"a leaf proves {leaf.certificate.bound - above} bytes, not {bound}")
    return check_certificate(graph, leaf.certificate)


def leaf_graph(
    fused: FusedGraph, stay: frozenset[int], cut: frozenset[int], *, allowed: bool
) -> tuple[Graph, int]:
    """Return the graph that the certificate of a leaf is about, and by how much its peak is above.

    Undecided buffers have 0 bytes. If they are allowed, they have theirs, and each group has a
    scratch buffer of the largest allowance minus its own.
    """
    groups = finest_groups(fused, stay)
    if not allowed:
        return grouped_graph(fused, groups, fused.local - stay - cut), 0
    graph = grouped_graph(fused, groups)
    rows = _allowances(fused, graph, groups, stay, cut)
    most = max(rows)
    ops, buffers = list(graph.ops), list(graph.buffers)
    mark = "'" * max(len(buffer.name) for buffer in buffers)
    for i, bytes_ in enumerate(rows):
        if bytes_ < most:
            ops[i] = replace(ops[i], writes=(*ops[i].writes, len(buffers)))
            buffers.append(Buffer(f"{i}{mark}", most - bytes_))
    return replace(graph, ops=tuple(ops), buffers=tuple(buffers)), most


def _allowances(
    fused: FusedGraph,
    graph: Graph,
    groups: Sequence[Sequence[int]],
    stay: frozenset[int],
    cut: frozenset[int],
) -> list[int]:
    """Return by group the bytes of undecided buffers that may be live and inside its kernel."""
    earlier: list[set[int]] = []
    for row in graph.predecessors:
        # Groups are listed after those that they wait for.
        earlier.append(set(row).union(*(earlier[u] for u in row)))
    place = {v: i for i, group in enumerate(groups) for v in group}
    found = [0] * len(groups)
    undecided = fused.local - stay - cut - inside(fused, groups)
    for group in finest_groups(fused, fused.local - cut):
        here = {place[v] for v in group}
        for b in undecided & {b for v in group for b in fused.graph.ops[v].writes}:
            users = {place[v] for v in fused.users[b]}
            maker = next(place[v] for v in group if b in fused.graph.ops[v].writes)
            for i in here - earlier[maker]:
                if not users <= earlier[i]:
                    found[i] += fused.graph.buffers[b].size
    return found


def _moved(fused: FusedGraph, group: Sequence[int]) -> dict[tuple[str, bool], int]:
    """Return the bytes that a kernel reads and writes, by tensor and whether it is written."""
    if not fused.reads:
        return {}
    inner = {fused.graph.buffers[b].name for b in inside(fused, [group])}
    made = {name for v in group for name, _ in fused.writes[v]} if len(group) > 1 else set()
    found: dict[tuple[str, bool], int] = {}
    for written, rows in ((False, fused.reads), (True, fused.writes)):
        for name, size in (row for v in group for row in rows[v]):
            if name not in inner and (written or name not in made):
                found[name, written] = max(size, found.get((name, written), 0))
    return found
