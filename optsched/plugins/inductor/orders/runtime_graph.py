"""The graph whose optimum is worth running: ops and buffers as the compiled graph has them.

Inductor's own estimate knows nothing of kernels that write in place, of buffers that never leave
a kernel, of what a saved tensor shares with another, of workspace. Here each storage is one
buffer. What depends on how many frees wait for the next extern kernel, or on the reuse pool, has
no place in a graph of ops and buffers: that is for
:mod:`optsched.plugins.inductor.wrapper.simulate`.

Example: `buf1` overwrites `buf0`, and `buf2` is a view of `buf1`. The three names are one buffer,
from the op that makes `buf0` to the last reader of `buf2`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from optsched.errors import GraphError
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.plugins.inductor.wrapper.facts import Allocation, Returned, WrapperFacts, WrapperNode

Unit = tuple[int, ...]
"""Positions of nodes that run one right after the other."""


@dataclass(frozen=True, slots=True)
class RuntimeGraph:
    """A graph, and the nodes that each of its ops stands for."""

    graph: Graph
    """With all that kernels may write in place."""
    units: tuple[Unit, ...]
    """The nodes of each op."""

    def node_order(self, order: Iterable[int]) -> tuple[int, ...]:
        """Return the order of the nodes that an order of the ops stands for."""
        return tuple(v for op in order for v in self.units[op])

    def op_order(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """Return the order of the ops in which each runs where the first of its nodes ran."""
        op_of = {v: op for op, unit in enumerate(self.units) for v in unit}
        return tuple(dict.fromkeys(op_of[v] for v in nodes))


def build_runtime_graph(
    facts: WrapperFacts, name: str, blocks: Sequence[Unit] = ()
) -> RuntimeGraph:
    """Make the graph.

    Raise `GraphError` if the order that mutations need is a cycle.

    `facts`, `name`: facts about the nodes, and a name for the graph. `blocks`: nodes that a kernel
    runs together. If several nodes write a storage, the one that makes it is chosen such that
    blocks do not wait for each other in a cycle.
    """
    try:
        units = _sort(find_units(facts.nodes), facts.nodes, blocks)
    except GraphError:
        # Another node has to run between a call and a member of what it returns.
        units = _sort([(v,) for v in range(len(facts.nodes))], facts.nodes, blocks)
    storages = _find_storages(facts)
    writer = _GraphWriter(facts, units, storages)
    return RuntimeGraph(writer.write(name), units)


def find_units(nodes: Sequence[WrapperNode]) -> tuple[Unit, ...]:
    """Join each call that returns a tuple with the nodes that unpack it.

    A tuple keeps all its members alive until the last of these has run: there is nothing to be
    gained by running another node in between.
    """
    caller = {
        node.extern.name: v
        for v, node in enumerate(nodes)
        if node.extern and node.extern.returned is Returned.TUPLE
    }
    units: dict[int, list[int]] = {}
    for v, node in enumerate(nodes):
        parent = node.extern.parent if node.extern else None
        units.setdefault(v if parent is None else caller.get(parent, v), []).append(v)
    return tuple(tuple(unit) for unit in units.values())


def _sort(
    units: Sequence[Unit], nodes: Sequence[WrapperNode], blocks: Sequence[Unit]
) -> tuple[Unit, ...]:
    """Order units so that none precedes what it needs: the hook's own order may not.

    Units of a block come one right after the other.

    If several nodes write a storage, the first of them makes it.
    """
    unit_of = {v: u for u, unit in enumerate(units) for v in unit}
    before = [
        {unit_of[p] for v in unit for p in nodes[v].predecessors} - {u}
        for u, unit in enumerate(units)
    ]
    order = _topological(before)
    if blocks:
        block_of = list(range(len(blocks), len(blocks) + len(units)))
        for k, block in enumerate(blocks):
            for v in block:
                block_of[unit_of[v]] = k
        outside: list[set[int]] = [set() for _ in range(len(blocks) + len(units))]
        for u, row in enumerate(before):
            outside[block_of[u]] |= {block_of[w] for w in row} - {block_of[u]}
        rank = {k: i for i, k in enumerate(_topological(outside))}
        order.sort(key=lambda u: rank[block_of[u]])
    return tuple(units[u] for u in order)


def _topological(before: Sequence[Collection[int]]) -> list[int]:
    try:
        # Not in the hook's order, which may break an edge that a mutation needs.
        return list(TopologicalSorter(dict(enumerate(before))).static_order())
    except CycleError as error:
        raise GraphError("the order that mutations need is a cycle") from error


@dataclass(frozen=True, slots=True)
class _Storages:
    """The storage that each name stands for, and each storage as a buffer."""

    of_name: dict[str, str]
    buffers: dict[str, Buffer]

    def store(self, name: str, size: int) -> None:
        if name not in self.of_name:
            self.of_name[name] = name
            self.buffers[name] = Buffer(name, size)

    def view(self, name: str, viewed: str) -> None:
        # A view of bytes that are not counted is not counted either.
        if viewed in self.of_name:
            self.of_name[name] = self.of_name[viewed]

    def keep(self, names: Iterable[str]) -> None:
        """Keep the storages of some names to the end."""
        for storage in {self.of_name[name] for name in names if name in self.of_name}:
            # LIVE: such an output has its bytes at the end, but is not copied.
            self.buffers[storage] = replace(self.buffers[storage], output=OutputPolicy.LIVE)


def _find_storages(facts: WrapperFacts) -> _Storages:
    found = _Storages({}, {})
    for given in facts.inputs:
        # The name cannot be that of a buffer, as it contains a space.
        storage = f"input {given.storage}"
        found.of_name[given.name] = storage
        found.buffers[storage] = Buffer(storage, given.size, input=InputPolicy.FREED)
    for node in facts.nodes:
        _add_outputs(facts, node, found)
    # The wrapper has no line that deletes them, so they live to the end of the call.
    never_deleted = {name for name, buffer in facts.buffers.items() if not buffer.freed}
    if not facts.tuples:
        never_deleted |= found.of_name.keys() - facts.buffers.keys() - facts.graph_inputs
    unread = facts.graph_inputs.difference(*(node.used for node in facts.nodes))
    found.keep(facts.outputs | never_deleted | unread)
    return found


def _add_outputs(facts: WrapperFacts, node: WrapperNode, found: _Storages) -> None:
    for member in node.extern.members if node.extern else ():
        if member.aliases:
            found.view(member.name, member.aliases[0])
        else:
            found.store(member.name, member.size)
    overwritten = overwritten_inside(facts, node)
    for name in node.outputs:
        buffer, call = facts.buffers[name], node.extern
        if buffer.view_of is not None:
            # The buffer it is a part of may be that of a later node, which joins the parts.
            whole = facts.buffers.get(buffer.view_of)
            if whole is not None and whole.allocation is Allocation.OWN:
                found.store(whole.name, whole.size)
            found.view(name, buffer.view_of)
        elif name in overwritten:
            found.view(name, overwritten[name])
        elif buffer.allocation is Allocation.OWN:
            # A buffer that stays inside its kernel is never allocated.
            if name not in facts.local:
                found.store(name, buffer.size)
        elif call is not None and call.returned is Returned.ALIAS:
            found.view(name, call.aliases[0])
        elif call is not None and call.returned is Returned.TENSOR:
            found.store(name, buffer.size)


def overwritten_inside(facts: WrapperFacts, node: WrapperNode) -> dict[str, str]:
    """Return the outputs of a kernel that overwrite an earlier output of it in every order."""
    found: dict[str, str] = {}
    for definition in node.definitions:
        # Only the first candidate: whether a later one is free depends on the order.
        for first in definition.candidates[:1]:
            inside = first.source in node.outputs and first.source not in facts.local
            if inside and not first.others and first.source not in found.values():
                found[definition.buffer] = first.source
    return found


class _GraphWriter:
    def __init__(self, facts: WrapperFacts, units: Sequence[Unit], storages: _Storages) -> None:
        self.facts = facts
        self.units = units
        self.storages = storages
        self.buffers: list[Buffer] = []
        self.ids: dict[str, int] = {}
        self.unit_of = {v: u for u, unit in enumerate(units) for v in unit}

    def write(self, name: str) -> Graph:
        """Write ops and buffers in the order of the hook."""
        ops = tuple(self._op(u, unit) for u, unit in enumerate(self.units))
        for given in self.facts.inputs:
            # An input that nothing reads is live as well.
            self._number(self.storages.buffers[self.storages.of_name[given.name]])
        pairs = {pair for u, unit in enumerate(self.units) for pair in self._pairs(ops[u], u, unit)}
        graph = Graph(name, ops, tuple(self.buffers), tuple(sorted(pairs)), "inductor runtime")
        # Pairs whose source has another use stay candidates; those that always hold become part of
        # the graph.
        return graph.with_inplace()

    def _op(self, u: int, unit: Unit) -> Op:
        nodes = [self.facts.nodes[v] for v in unit]
        reads: list[int] = []
        writes: list[int] = []
        for storage in sorted(self._storages_of(nodes)):
            buffer = self.storages.buffers[storage]
            # No earlier node uses it: these are the nodes that make it.
            made_here = storage not in self.ids and buffer.input is None
            (writes if made_here else reads).append(self._number(buffer))
        # Nodes of a unit run one after another, each with scratch of its own.
        scratch = max(map(self._scratch, nodes))
        workspace = None
        if scratch:
            workspace = self._number(Buffer(f"workspace of {nodes[0].name}", scratch))
            writes.append(workspace)
        before = {self.unit_of[p] for node in nodes for p in node.predecessors} - {u}
        return Op(
            name=nodes[0].name,
            reads=tuple(reads),
            writes=tuple(writes),
            control=tuple(sorted(before)),
            workspace=workspace,
            kind=nodes[0].kind,
        )

    def _scratch(self, node: WrapperNode) -> int:
        """Return the bytes that a node's kernel allocates and frees again, beside its outputs."""
        if node.extern:
            return node.extern.workspace
        return 0 if node.scratch is None else self.facts.buffers[node.scratch.buffer].size

    def _storages_of(self, nodes: Iterable[WrapperNode]) -> set[str]:
        names: set[str] = set()
        for node in nodes:
            names |= node.used | set(node.outputs)
            if node.extern:
                names |= {member.name for member in node.extern.members}
        of_name = self.storages.of_name
        return {of_name[name] for name in names if name in of_name}

    def _number(self, buffer: Buffer) -> int:
        if buffer.name not in self.ids:
            self.ids[buffer.name] = len(self.buffers)
            self.buffers.append(buffer)
        return self.ids[buffer.name]

    def _pairs(self, op: Op, u: int, unit: Unit) -> Iterable[tuple[int, int, int]]:
        """Find what the kernel may overwrite, also by way of a buffer that never leaves it."""
        sources: dict[str, list[str]] = {}
        for definition in (d for v in unit for d in self.facts.nodes[v].definitions):
            names = [
                name
                for candidate in definition.candidates
                # A source inside the kernel stands for the sources that it may overwrite itself.
                for name in sources.get(candidate.source, [candidate.source])
            ]
            sources[definition.buffer] = names
            for name in names:
                output, source = self._id(definition.buffer), self._id(name)
                if output in op.writes and source in op.reads:
                    yield u, output, source

    def _id(self, name: str) -> int:
        """Return the number of a name's storage, -1 where it has none."""
        return self.ids.get(self.storages.of_name.get(name, ""), -1)
