"""Modules: several graphs, called computations, some of whose ops call other computations.

An op that calls computations runs them while it runs itself: one, one of several, or one after the
other. They are never live together, so a single block of bytes, live at the calling op only, serves
them all; its size is that of the largest one. A computation can therefore be planned once the
computations it calls are planned. If one of them needs more bytes, its caller can only need more as
well.

Example: `main` has an op `while` that calls `body` and `condition`. Their plans need 40 and 8
bytes, so the op `while` gets a block of 40 bytes in the graph of `main`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import lcm

from optsched.errors import GraphError, expect
from optsched.model.dependencies import find_cycle, topological_order
from optsched.model.elements import Buffer
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.runtime.collector import paused_collector
from optsched.runtime.keywords import keywords
from optsched.runtime.text import counted, free_name


@keywords
@dataclass(frozen=True, slots=True)
class Call:
    """An op that runs computations of its module, never two at a time.

    Parameters
    ----------
    computation
        Name of the computation that contains the op.
    op
        Name of the op.
    callees
        Names of the computations that it runs.
    results_inside
        True if the op's own buffers lie in the block of the called computations, whose results they
        are, as XLA's memory scheduler counts them. The block then adds only the bytes beyond
        theirs. Such buffers do not have offsets of their own, so only peaks can be planned.

    Examples
    --------
    >>> from optsched import Call
    >>> Call("main", "while", ("body", "condition")).callees
    ('body', 'condition')
    """

    computation: str
    op: str
    callees: tuple[str, ...]
    results_inside: bool = False


@keywords
@dataclass(frozen=True)
class Module:
    """Graphs by name, with calls between them, checked for unknown names and recursion.

    Parameters
    ----------
    name
        Name shown in tables and reports.
    graphs
        The computations by name.
    entry
        Name of the computation that is run first.
    calls
        The ops that run computations; each op at most once.

    Attributes
    ----------
    computations
        Derived: all names, each one after those it calls.

    Raises
    ------
    GraphError
        On an unknown name, recursive calls, two calls by the same op, a called computation whose
        buffers name pools or are pinned (a block can lie at a different place in each call), or ops
        on several streams in a computation that calls or is called.

    Examples
    --------
    >>> from optsched import Call, GraphBuilder, Module
    >>> body, main = GraphBuilder("body"), GraphBuilder("main")
    >>> body.op("step", workspace=40)
    >>> main.op("while", writes={"y": 8})
    >>> graphs = {"body": body.build(), "main": main.build()}
    >>> Module("loop", graphs, "main", (Call("main", "while", ("body",)),)).computations
    ('body', 'main')
    """

    name: str
    graphs: Mapping[str, Graph]
    entry: str
    calls: tuple[Call, ...] = ()
    computations: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect("graphs of a module", self.graphs, Mapping)
        for graph in self.graphs.values():
            expect("graphs of a module", graph, Graph)
        _require(self.graphs, self.entry, f"module {self.name!r}: its entry is")
        _check_calls(self.graphs, self.calls)
        callees = {name: self.callees_of(name) for name in self.graphs}
        # Callees first: bytes of what is called are known when its caller is planned.
        object.__setattr__(self, "computations", _callees_first(callees))
        # Only called computations become blocks; the entry may have pools and pins.
        for name in dict.fromkeys(c for call in self.calls for c in call.callees):
            _check_block(name, self.graphs[name])
        for call in self.calls:
            _refuse_streams(call.computation, self.graphs[call.computation])

    def __repr__(self) -> str:
        computations = counted(len(self.graphs), "computation")
        return f"Module({self.name!r}, {computations}, {counted(len(self.calls), 'call')})"

    @property
    def results_inside(self) -> bool:
        """Return True if results of some call lie inside the block of the called computations."""
        return any(call.results_inside for call in self.calls)

    @property
    def layouts(self) -> str:
        """Layouts that bounds on slabs are about, in words; empty if these are all of them."""
        # Parts of a callee could also fill gaps of its caller, which these bounds do not cover.
        blocks = "layouts in which each callee has one block while it runs"
        return blocks if self.calls and not self.results_inside else ""

    def calls_of(self, computation: str) -> tuple[Call, ...]:
        """Return the calls made by ops of a computation."""
        return self._by_caller.get(computation, ())

    def callees_of(self, computation: str) -> tuple[str, ...]:
        """Return the names of the computations that a computation calls, call by call."""
        return tuple(c for call in self.calls_of(computation) for c in call.callees)

    @cached_property
    def _by_caller(self) -> dict[str, tuple[Call, ...]]:
        found: dict[str, list[Call]] = {}
        for call in self.calls:
            found.setdefault(call.computation, []).append(call)
        return {name: tuple(calls) for name, calls in found.items()}

    @cached_property
    def alignments(self) -> dict[str, int]:
        """Alignment of the block of each computation.

        It is the least common multiple of the alignments of its buffers and of the blocks of the
        computations that it calls.
        """
        found: dict[str, int] = {}
        for name in self.computations:
            own = [buffer.alignment for buffer in self.graphs[name].buffers]
            found[name] = lcm(*own, *(found[c] for c in self.callees_of(name)))
        return found

    def with_graphs(self, change: Callable[[Graph], Graph]) -> Module:
        """Return the module with each graph replaced by `change(graph)`."""
        return replace(self, graphs={name: change(graph) for name, graph in self.graphs.items()})

    @paused_collector()
    def with_blocks(self, computation: str, sizes: Mapping[str, int]) -> Graph:
        """Return the graph of a computation in which each calling op has its block.

        The size of a block is the largest of the `sizes`, in bytes, of the computations that the op
        calls. The block is the workspace of the op, or a further buffer used by this op only if the
        op has a workspace of its own.
        """
        blocks = self._blocks(computation, sizes)
        known = self._with_blocks.setdefault(computation, {})
        # Graphs with the same blocks differ in sizes alone, whose wiring is found once.
        wired = known.get(tuple(blocks))
        if wired is None:
            wired = known[tuple(blocks)] = self._blocked(computation, blocks)
        # Only the sizes of the blocks differ, so the wiring is used again.
        made = list(wired.buffers)
        for at, size in enumerate(blocks.values(), len(self.graphs[computation].buffers)):
            made[at] = replace(made[at], size=size)
        return wired if tuple(made) == wired.buffers else wired.with_sizes(tuple(made))

    @cached_property
    def _with_blocks(self) -> dict[str, dict[tuple[int, ...], Graph]]:
        """Graphs of each computation by the ops that have blocks, as they were first asked for."""
        return {}

    def _blocks(self, computation: str, sizes: Mapping[str, int]) -> dict[int, int]:
        """Return the bytes of the block of each calling op that has one."""
        graph, blocks = self.graphs[computation], {}
        for call in self.calls_of(computation):
            v = graph.op_ids[call.op]
            size = max(sizes[name] for name in call.callees)
            if call.results_inside:
                # Views have size 0, so they do not count here.
                written = (graph.buffers[b] for b in graph.ops[v].writes)
                size -= sum(buffer.size for buffer in written if not buffer.external)
            if size > 0:
                blocks[v] = size
        return blocks

    def _blocked(self, computation: str, blocks: Mapping[int, int]) -> Graph:
        """Return the graph of a computation in which ops have blocks of these bytes."""
        graph = self.graphs[computation]
        if not blocks:
            return graph
        callees = {graph.op_ids[call.op]: call.callees for call in self.calls_of(computation)}
        ops, buffers = list(graph.ops), list(graph.buffers)
        for v, size in blocks.items():
            op = ops[v]
            # One workspace per op: a further block is an ordinary buffer that only this op uses.
            has_own = op.workspace is not None
            name = f"{op.name}.{'called' if has_own else 'workspace'}"
            name = free_name(name, graph.buffer_ids)
            aligned = lcm(*(self.alignments[c] for c in callees[v]))
            ops[v] = replace(
                op,
                writes=(*op.writes, len(buffers)),
                workspace=op.workspace if has_own else len(buffers),
            )
            buffers.append(Buffer(name, size, alignment=aligned))
        return replace(graph, ops=tuple(ops), buffers=tuple(buffers))


def listed_graph(module: Module) -> Graph:
    """Return the graph of the entry as it is before planning.

    The block of each calling op is as large as the peak of the called computations in the order in
    which their ops are listed, or in some valid order where the listing breaks a dependency.
    """
    peaks: dict[str, int] = {}
    for name in module.computations:
        graph = module.with_blocks(name, peaks)
        if name == module.entry:
            return graph
        peaks[name] = peak_memory(graph, _listed_order(graph))
    raise AssertionError(module.entry)


def _listed_order(graph: Graph) -> Sequence[int]:
    if all(u < v for v, before in enumerate(graph.predecessors) for u in before):
        return range(len(graph.ops))
    return topological_order(graph.predecessors)


def module_of(graph: Graph) -> Module:
    """Return the module that consists of a single graph without calls."""
    return Module(graph.name, {graph.name: graph}, graph.name)


def _check_calls(graphs: Mapping[str, Graph], calls: Sequence[Call]) -> None:
    seen: set[tuple[str, str]] = set()
    for call in calls:
        label = f"op {call.op!r} of computation {call.computation!r}"
        _require(graphs, call.computation, f"op {call.op!r} calls out of")
        if call.op not in graphs[call.computation].op_ids:
            raise GraphError(f"{label} calls computations, but the op does not exist")
        if (call.computation, call.op) in seen:
            raise GraphError(f"{label} appears in two calls")
        if not call.callees:
            raise GraphError(f"{label} does not call any computation")
        seen.add((call.computation, call.op))
        for name in call.callees:
            _require(graphs, name, f"{label} calls")


def _require(graphs: Mapping[str, Graph], name: str, what: str) -> None:
    if name not in graphs:
        raise GraphError(f"{what} computation {name!r}, which the module does not have")


def _callees_first(callees: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    names = list(callees)
    ids = {name: i for i, name in enumerate(names)}
    rows = [[ids[c] for c in called] for called in callees.values()]
    if cycle := find_cycle(rows):
        # The cycle is listed from callee to caller; messages read better the other way around.
        path = " -> ".join(repr(names[i]) for i in reversed(cycle))
        raise GraphError(f"computations call each other in a cycle: {path}")
    return tuple(names[i] for i in topological_order(rows))


def _refuse_streams(name: str, graph: Graph) -> None:
    """Reject concurrent ops: two of them could call the same computation at the same time."""
    if graph.on_streams:
        raise GraphError(
            f"ops of computation {name!r} run on several streams: calls are not supported there"
        )


def _check_block(name: str, graph: Graph) -> None:
    _refuse_streams(name, graph)
    for buffer in graph.buffers:
        for what, value in (("pool", buffer.pool), ("pin", buffer.pin)):
            if value not in ("", None):
                raise GraphError(
                    f"buffer {buffer.name!r} of computation {name!r} has the {what} {value!r}, "
                    "but its place depends on the caller"
                )
