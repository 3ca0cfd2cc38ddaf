"""The parts of Inductor's fused nodes, as a fused graph that can be cut.

Facts are read for the parts as if nothing were fused, by the same functions that read them for
fused nodes, so that bytes and rules are the same. Nodes of kinds whose parts cannot be run alone
stay whole, and are named with the reason.

Example: a fused node of two pointwise ops becomes two parts. The buffer between them is local.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch._inductor.codegen.cpp import OuterLoopFusedSchedulerNode
from torch._inductor.dependencies import WeakDep
from torch._inductor.scheduler import FusedSchedulerNode, NopKernelSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V

from optsched.model.dependencies import find_cycle
from optsched.model.digest import digest
from optsched.model.fused import Bytes, FusedGraph, Triple
from optsched.model.graph import Graph
from optsched.plugins.inductor.orders.runtime_graph import (
    RuntimeGraph,
    build_runtime_graph,
    overwritten_inside,
)
from optsched.plugins.inductor.reading.inplace import find_kept_rows, find_local_buffers
from optsched.plugins.inductor.reading.ownership import find_owned_inputs
from optsched.plugins.inductor.reading.planning import prepare
from optsched.plugins.inductor.reading.scheduler import read_facts
from optsched.plugins.inductor.sizes.kernels import KernelMemory
from optsched.plugins.inductor.wrapper.facts import WrapperFacts

_CUT = (FusedSchedulerNode, OuterLoopFusedSchedulerNode)
"""Kinds of nodes that can be rebuilt from some of their parts; a subclass may do more."""
SCRATCH = "a part has a workspace"


@dataclass(frozen=True, slots=True)
class FusedParts:
    """A fused graph and the scheduler's nodes of each of its parts."""

    fused: FusedGraph
    """The graph; parts of fused nodes are single nodes of the scheduler."""
    nodes: tuple[tuple[Any, ...], ...]
    """By part, the scheduler's nodes it stands for."""
    origin: tuple[Any, ...]
    """By fused node of the graph, the scheduler's node."""
    inputs: Mapping[str, str]
    """By buffer that holds an input, the input's name: the buffer is named after its storage."""
    digest: str
    """Digest of the fused graph without inputs: a simulated call may own others than a real one."""


def read_parts(
    nodes: Sequence[Any], kernels: Mapping[str, KernelMemory], name: str, facts: WrapperFacts
) -> FusedParts:
    """Read the parts of a graph's nodes.

    `nodes`: the scheduler's nodes in the order of the hook. `kernels`: memory of the extern
    kernels. `name`: name of the graph. `facts`: facts about the nodes.
    """
    scratch = {node.name for node in facts.nodes if node.scratch}
    whole = {n.get_name(): SCRATCH for n in nodes if n.get_name() in scratch and _is_fused(n)}
    whole |= {n.get_name(): reason for n in nodes if (reason := _kept_whole(n))}
    try:
        while True:
            parts = _Reader(nodes, kernels, name, whole)
            found = parts.unfit()
            if not found:
                return parts.read(facts)
            # Read again with these nodes whole, as facts depend on what is fused.
            whole |= found
    finally:
        prepare(nodes)


def _is_fused(node: Any) -> bool:
    return len(node.get_nodes()) > 1


def _kept_whole(node: Any) -> str:
    """Return the reason why a fused node stays whole; empty if it may be cut."""
    if not _is_fused(node):
        return ""
    if type(node) not in _CUT:
        return f"it is a {type(node).__name__}"
    for inner in node.get_nodes():
        if type(inner) is not SchedulerNode or inner.is_template():
            return f"it holds a {type(inner).__name__}"
    return ""


class _Reader:
    """Facts about the parts, with some nodes left whole."""

    def __init__(
        self,
        nodes: Sequence[Any],
        kernels: Mapping[str, KernelMemory],
        name: str,
        whole: Mapping[str, str],
    ) -> None:
        self.whole = whole
        self.cut = [n for n in nodes if _is_fused(n) and n.get_name() not in whole]
        cut = set(self.cut)
        self.flat = [x for n in nodes for x in (n.get_nodes() if n in cut else [n])]
        prepare(self.flat)
        self.local = set[str]().union(*map(find_local_buffers, self.cut))
        self.facts = read_facts(self.flat, find_owned_inputs(self.flat), kernels)
        self.runtime = self._build(self.facts, name)
        self.inputs: dict[str, set[str]] = {}
        for given in self.facts.inputs:
            # The name of the storage in the runtime graph.
            self.inputs.setdefault(f"input {given.storage}", set()).add(given.name)
        self.op_of = {v: op for op, unit in enumerate(self.runtime.units) for v in unit}
        at = {node: self.op_of[v] for v, node in enumerate(self.flat)}
        self.rows = set[str]().union(*map(find_kept_rows, self.cut))
        self.outer = {
            at[part]: i
            for node in self.cut
            for i, each in enumerate(_outer_nodes(node))
            for part in each.get_nodes()
        }
        self.nodes = [tuple(at[part] for part in node.get_nodes()) for node in self.cut]

    def _build(self, facts: WrapperFacts, name: str) -> RuntimeGraph:
        """Return the graph of the parts, in which fused nodes do not wait for each other."""
        position = {node: v for v, node in enumerate(self.flat)}
        blocks = [tuple(position[part] for part in node.get_nodes()) for node in self.cut]
        plain = build_runtime_graph(facts, name)
        # Two nodes may each write slices of two tensors. In the plain order one of them makes the
        # first tensor, and the other one the second.
        if find_cycle(_waits(plain, blocks)):
            return build_runtime_graph(facts, name, blocks)
        return plain

    def unfit(self) -> dict[str, str]:
        """Return the nodes that cannot be cut, by what the facts of their parts say."""
        graph, found = self.runtime.graph, {}
        owner = {v: node for node, row in zip(self.cut, self.nodes, strict=True) for v in row}
        for v, node in owner.items():
            if graph.ops[v].workspace is not None:
                found[node.get_name()] = SCRATCH
        return found

    def read(self, facts: WrapperFacts) -> FusedParts:
        """Return the fused graph; `facts` are those of the whole nodes."""
        graph = self.runtime.graph
        users = _users(graph)
        node_of = {v: k for k, row in enumerate(self.nodes) for v in row}
        local = frozenset(
            b
            for name in self.local
            if (b := graph.buffer_ids.get(name)) is not None
            and len({node_of.get(v) for v in users[b]}) == 1
        )
        reads, writes = self._traffic()
        fused = FusedGraph(
            graph=graph,
            nodes=tuple(self.nodes),
            local=local,
            blockers=tuple(self._blockers(node_of)),
            absorbed=tuple(self._absorbed(facts, local)),
            reads=reads,
            writes=writes,
            whole=tuple(self.whole.items()),
        )
        units = tuple(tuple(self.flat[v] for v in unit) for unit in self.runtime.units)
        inputs = {name: min(names) for name, names in self.inputs.items()}
        return FusedParts(fused, units, tuple(self.cut), inputs, self._digest(sorted(self.local)))

    def _digest(self, local: Sequence[str]) -> str:
        graph = self._build(self.facts.with_inputs(()), "").graph
        ids = [graph.buffer_ids.get(name) for name in local]
        return digest(f"{graph.digest.hex()} {self.nodes} {ids}".encode()).hex()

    def _blockers(self, node_of: Mapping[int, int]) -> Iterator[tuple[Triple, frozenset[int]]]:
        """Yield the parts that access what another part may overwrite by another index."""
        graph = self.runtime.graph
        for row in graph.inplace_candidates:
            v, _, source = row
            if v not in node_of:
                continue
            name = graph.buffers[source].name
            names = self.inputs.get(name, {name})
            accesses = {u: self._accesses(u, names) for u in self.nodes[node_of[v]]}
            others = {u for u, a in accesses.items() if u != v and a and len(a | accesses[v]) > 1}
            others |= self._row_blockers(v, name)
            if others:
                yield row, frozenset(others)

    def _row_blockers(self, v: int, name: str) -> set[int]:
        """Return the parts beside which a buffer is a row of a common outer loop.

        A row is not overwritten, and takes no other bytes over.
        """
        if name not in self.rows:
            return set()
        outer, maker = self.outer, self.runtime.graph.producers[self.runtime.graph.buffer_ids[name]]
        assert maker is not None
        if outer[maker] != outer[v]:
            return {maker}
        node = next(row for row in self.nodes if v in row)
        return {u for u in node if outer[u] != outer[v]}

    def _absorbed(self, facts: WrapperFacts, local: frozenset[int]) -> Iterator[tuple[int, int]]:
        """Yield the buffers that take the bytes of another inside of a whole node's kernel."""
        graph = self.runtime.graph
        known = {(output, source) for _, output, source in graph.inplace_candidates}
        cut = {node.get_name() for node in self.cut}
        for node in facts.nodes:
            if node.name not in cut:
                continue
            for names in overwritten_inside(facts, node).items():
                pair = tuple(graph.buffer_ids.get(name, -1) for name in names)
                if pair in known and not local & set(pair):
                    yield pair[0], pair[1]

    def _accesses(self, op: int, names: Collection[str]) -> frozenset[Any]:
        node = self.flat[self.runtime.units[op][0]]
        dependencies = node.read_writes.reads_and_writes()
        return frozenset(d for d in dependencies if d.name in names)

    def _traffic(self) -> tuple[tuple[Bytes, ...], tuple[Bytes, ...]]:
        rows = [_bytes_of(self.flat[unit[0]], self.facts) for unit in self.runtime.units]
        return tuple(row[0] for row in rows), tuple(row[1] for row in rows)


def _waits(runtime: RuntimeGraph, blocks: Sequence[Sequence[int]]) -> list[set[int]]:
    """Return what each block, and each op outside of blocks, waits for."""
    block_of = {v: k for k, block in enumerate(blocks) for v in block}
    at = [block_of.get(unit[0], len(blocks) + op) for op, unit in enumerate(runtime.units)]
    found: list[set[int]] = [set() for _ in range(len(blocks) + len(at))]
    for op, row in enumerate(runtime.graph.predecessors):
        found[at[op]] |= {at[u] for u in row} - {at[op]}
    return found


def _outer_nodes(node: Any) -> Sequence[Any]:
    """Return the nodes that share an outer loop; the node itself if it has no such loop."""
    return node.get_outer_nodes() if type(node) is OuterLoopFusedSchedulerNode else [node]


def _users(graph: Graph) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in graph.buffers]
    for v, op in enumerate(graph.ops):
        for b in (*op.reads, *op.writes):
            found[b].add(v)
    return found


def _bytes_of(node: Any, facts: WrapperFacts) -> tuple[Bytes, Bytes]:
    """Return the bytes that the kernel of a node reads and writes, by buffer."""
    if isinstance(node, NopKernelSchedulerNode):
        return (), ()
    made = {b.get_name() for b in node.get_outputs()} if _is_fused(node) else set()
    gone = find_local_buffers(node) if _is_fused(node) else set()
    reads = _most(node.read_writes.reads, facts, made | gone)
    return reads, _most(node.read_writes.writes, facts, gone)


def _most(dependencies: Iterable[Any], facts: WrapperFacts, without: Collection[str]) -> Bytes:
    found: dict[str, int] = defaultdict(int)
    for d in dependencies:
        if isinstance(d, WeakDep) or d.name in without:
            continue
        found[d.name] += _size_hint(d)
    # Several accesses of a buffer move it once, as a cache holds it in between.
    return tuple(
        (name, min(size, facts.buffers[name].size) if name in facts.buffers else size)
        for name, size in sorted(found.items())
    )


def _size_hint(dependency: Any) -> int:
    try:
        return int(V.graph.get_dep_size_hint(dependency))
    except (KeyError, TypeError, ValueError):
        return 0
