"""Several graphs that call each other: the computations of a module.

An op that calls computations runs them while it runs itself: one, one of several, or one after the
other. Whatever they need meanwhile lies in one block of bytes, live at that op alone: the largest
of them decides, since no two are live together. So a computation can be planned by itself once
those that it calls are, and every size that one of these is planned with may only grow its caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import lcm

from optsched.errors import GraphError
from optsched.model.dependencies import find_cycle, topological_order
from optsched.model.elements import Buffer
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.runtime.keywords import keywords
from optsched.runtime.text import counted, free_name


@keywords
@dataclass(frozen=True, slots=True)
class Call:
    """An op that runs computations of its module, never two at a time.

    Parameters
    ----------
    computation, op
        Names of the computation that has the op, and of the op.
    callees
        Names of the computations that it runs.
    results_inside
        Whether the op's own buffers lie in the block of what it calls, whose result they are, as
        XLA's memory scheduler counts: the block takes only the bytes beyond theirs. Such bytes
        have no place of their own, so that only peaks can be planned.
    """

    computation: str
    op: str
    callees: tuple[str, ...]
    results_inside: bool = False


@keywords
@dataclass(frozen=True)
class Module:
    """Graphs by name, checked: every call is of a graph that is there, and none calls itself.

    Parameters
    ----------
    name
        Shown in tables and reports.
    graphs
        The computations by name.
    entry
        The name of the one that is run.
    calls
        Which ops run which computations; each op at most once.
    computations
        Worked out: all names, each behind those that it calls.

    Raises
    ------
    GraphError
        On a name that is not there, a circle of calls, an op that calls twice, a called computation
        whose buffers name pools or are pinned (a block has one place a call), or ops on several
        streams in one that calls or is called.
    """

    name: str
    graphs: Mapping[str, Graph]
    entry: str
    calls: tuple[Call, ...] = ()
    computations: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _require(self.graphs, self.entry, f"module {self.name!r}: its entry is")
        _check_calls(self.graphs, self.calls)
        callees = {name: self.callees_of(name) for name in self.graphs}
        object.__setattr__(self, "computations", _callees_first(callees))
        for name in dict.fromkeys(c for call in self.calls for c in call.callees):
            _check_block(name, self.graphs[name])
        for call in self.calls:
            _refuse_streams(call.computation, self.graphs[call.computation])

    def __repr__(self) -> str:
        computations = counted(len(self.graphs), "computation")
        return f"Module({self.name!r}, {computations}, {counted(len(self.calls), 'call')})"

    @property
    def results_inside(self) -> bool:
        """Whether results of some call lie inside what is called."""
        return any(call.results_inside for call in self.calls)

    def calls_of(self, computation: str) -> tuple[Call, ...]:
        """Return the calls that ops of a computation make."""
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
        """Of the block of each computation: aligns every buffer in it and in those it calls."""
        found: dict[str, int] = {}
        for name in self.computations:
            own = [buffer.alignment for buffer in self.graphs[name].buffers]
            found[name] = lcm(*own, *(found[c] for c in self.callees_of(name)))
        return found

    def with_graphs(self, change: Callable[[Graph], Graph]) -> Module:
        """Return the module of the changed graphs: in another memory model, say."""
        return replace(self, graphs={name: change(graph) for name, graph in self.graphs.items()})

    def with_blocks(self, computation: str, sizes: Mapping[str, int]) -> Graph:
        """Return the graph of a computation in which each op that calls has its block.

        It has the largest of the `sizes` in bytes of what the op calls. The block is the op's
        workspace, or one more buffer that it alone uses where it has workspace of its own.
        """
        graph = self.graphs[computation]
        if not self.calls_of(computation):
            return graph
        ops, buffers = list(graph.ops), list(graph.buffers)
        for call in self.calls_of(computation):
            v = graph.op_ids[call.op]
            op, size = ops[v], max(sizes[name] for name in call.callees)
            if call.results_inside:
                # Views have no bytes of their own.
                size -= sum(buffers[b].size for b in op.writes if not buffers[b].external)
            if size <= 0:
                continue
            has_own = op.workspace is not None
            name = f"{op.name}.{'called' if has_own else 'workspace'}"
            name = free_name(name, graph.buffer_ids)
            aligned = lcm(*(self.alignments[c] for c in call.callees))
            ops[v] = replace(
                op,
                writes=(*op.writes, len(buffers)),
                workspace=op.workspace if has_own else len(buffers),
            )
            buffers.append(Buffer(name, size, alignment=aligned))
        return replace(graph, ops=tuple(ops), buffers=tuple(buffers))


def listed_graph(module: Module) -> Graph:
    """Return the entry's graph as it is before anything is planned.

    What an op calls is workspace, as large as its live bytes in the order in which it is listed.
    """
    peaks: dict[str, int] = {}
    for name in module.computations:
        graph = module.with_blocks(name, peaks)
        if name == module.entry:
            return graph
        peaks[name] = peak_memory(graph, tuple(range(len(graph.ops))))
    raise AssertionError(module.entry)


def module_of(graph: Graph) -> Module:
    """Return the module that has one graph and calls nothing."""
    return Module(graph.name, {graph.name: graph}, graph.name)


def _check_calls(graphs: Mapping[str, Graph], calls: Sequence[Call]) -> None:
    seen: set[tuple[str, str]] = set()
    for call in calls:
        label = f"op {call.op!r} of computation {call.computation!r}"
        _require(graphs, call.computation, f"op {call.op!r} calls out of")
        if call.op not in graphs[call.computation].op_ids:
            raise GraphError(f"{label} calls computations, but there is no such op")
        if (call.computation, call.op) in seen:
            raise GraphError(f"{label} has two rows of calls")
        if not call.callees:
            raise GraphError(f"{label} calls no computation")
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
        path = " -> ".join(repr(names[i]) for i in reversed(cycle))
        raise GraphError(f"computations call each other in a circle: {path}")
    return tuple(names[i] for i in topological_order(rows))


def _refuse_streams(name: str, graph: Graph) -> None:
    """Refuse ops that run side by side: two of them would want what they call at the same time."""
    if graph.on_streams:
        raise GraphError(
            f"ops of computation {name!r} run on several streams: no call can be there"
        )


def _check_block(name: str, graph: Graph) -> None:
    _refuse_streams(name, graph)
    for buffer in graph.buffers:
        for what, value in (("pool", buffer.pool), ("pin", buffer.pin)):
            if value not in ("", None):
                raise GraphError(
                    f"buffer {buffer.name!r} of computation {name!r} has the {what} {value!r}: "
                    "what is called lies wherever its caller has room"
                )
