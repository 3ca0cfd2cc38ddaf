"""Ops on several streams: who runs on which, in which order, and what is waited for.

The ops of a stream run one after another, those of several streams side by side. An order of all
ops stands for the order in each stream; between streams only the edges of the graph hold. A data
dependency across streams wants a *sync*: a control edge (an event that is waited for), or a chain
of these and of dependencies inside a stream. Which buffers may share bytes then is told in
:mod:`optsched.model.stream_relation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from optsched.errors import GraphError, UsageError
from optsched.model.dependencies import reachable, topological_order
from optsched.model.elements import Op
from optsched.model.graph import Graph
from optsched.runtime.keywords import keywords

MOST_EDGES = 1_000_000
"""Levels may be joined by as many syncs."""


@keywords
def with_streams(graph: Graph, streams: Sequence[str]) -> Graph:
    """Return the graph whose ops run on the streams named, with the syncs that this takes.

    A runtime does the same that records an event for each tensor that crosses streams.

    Parameters
    ----------
    graph
        The graph.
    streams
        The stream of each op, by op id.
    """
    if len(streams) != len(graph.ops):
        raise UsageError(f"{len(streams)} streams are given for {len(graph.ops)} ops")
    ops = []
    for v, op in enumerate(graph.ops):
        waits = (u for u in graph.predecessors[v] if streams[u] != streams[v])
        ops.append(replace(_waiting(op, waits), stream=streams[v]))
    return replace(graph, ops=tuple(ops))


def _waiting(op: Op, waits: Iterable[int]) -> Op:
    """Return an op that waits for others as well."""
    return replace(op, control=tuple(dict.fromkeys((*op.control, *waits))))


@keywords
def in_streams(graph: Graph, orders: Mapping[str, Sequence[int]]) -> Graph:
    """Return the graph whose streams run their ops in the orders given.

    Each op waits for the one before it, so only one order of each stream is left.

    Parameters
    ----------
    graph
        A graph on one stream; the control edges among its ops are the syncs.
    orders
        Op ids of each stream, first to run first. Ops in none stay in a stream without a name.

    Raises
    ------
    GraphError
        If an op is in two streams or twice in one, or stands before an op that it needs.
    """
    ops, stream = list(graph.ops), dict[int, str]()
    if len({op.stream for op in ops}) > 1:
        raise UsageError(f"{graph.name}: its ops name streams already")
    for name, order in orders.items():
        for v in order:
            if v in stream:
                where = f"{stream[v]!r} and {name!r}" if stream[v] != name else f"{name!r} twice"
                raise GraphError(f"op {ops[v].name!r} is in stream {where}")
            stream[v] = name
        _refuse_going_back(graph, name, order)
        for u, v in pairwise(order):
            ops[v] = _waiting(ops[v], [u])
    for v, name in stream.items():
        ops[v] = replace(ops[v], stream=name)
    return replace(graph, ops=tuple(ops))


def _refuse_going_back(graph: Graph, name: str, order: Sequence[int]) -> None:
    """Stop where a stream has an op before another one that it needs."""
    needs, later = reachable(graph.predecessors), 0
    for v in reversed(order):
        needed = needs[v] & later
        if needed:
            u = needed.bit_length() - 1
            raise GraphError(
                f"stream {name!r} goes back: op {graph.ops[v].name!r} stands before "
                f"{graph.ops[u].name!r}, which it needs"
            )
        later |= 1 << v


def parallel_levels(graph: Graph, most: int) -> list[list[int]]:
    """Group the ops by depth, at most so many at a time: AITemplate's simple multi-stream.

    The level of an op is one behind the last of its predecessors'; a level of more than `most` ops
    is cut into pieces that run one after another, as listed.

    References
    ----------
    AITemplate, `split_simple_multistream_parallel_ops`.
    """
    if most < 1:
        raise UsageError(f"a level has at least 1 op, got {most}")
    depth = [0] * len(graph.ops)
    for v in topological_order(graph.predecessors):
        depth[v] = 1 + max((depth[u] for u in graph.predecessors[v]), default=-1)
    levels: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for v, level in enumerate(depth):
        levels[level].append(v)
    return [row[at : at + most] for row in levels for at in range(0, len(row), most)]


@keywords
def in_levels(
    graph: Graph, levels: Sequence[Sequence[int]] | None = None, most: int | None = None
) -> Graph:
    """Return the graph whose ops run in levels: those of one side by side, one level after another.

    Each op of a level has a stream of its own and waits for all of the level before. So whatever
    lives in a level conflicts with all that does, and what may share bytes is told by intervals of
    levels: packing is as for one stream.

    Parameters
    ----------
    graph
        A graph on one stream.
    levels
        Op ids; those of :func:`parallel_levels` if None.
    most
        Ops that a level may have; any number if None.

    Raises
    ------
    GraphError
        If a level has more ops, an op is in no level or in two, or in one with or before an op
        that it needs.
    """
    ops = graph.ops
    if len({op.stream for op in ops}) > 1:
        raise UsageError(f"{graph.name}: its ops run on streams already and go into no levels")
    if levels is None:
        levels = parallel_levels(graph, len(ops) + 1 if most is None else most)
    _check_levels(graph, levels, most)
    made = list(ops)
    for number, row in enumerate(levels):
        waits = levels[number - 1] if number else ()
        for place, v in enumerate(row):
            made[v] = replace(_waiting(ops[v], waits), stream=str(place))
    return replace(graph, ops=tuple(made))


def _check_levels(graph: Graph, levels: Sequence[Sequence[int]], most: int | None) -> None:
    ops, level_of = graph.ops, dict[int, int]()
    for number, row in enumerate(levels):
        if most is not None and len(row) > most:
            raise GraphError(f"level {number} has {len(row)} ops ({_some(ops, row)}), above {most}")
        for v in row:
            if level_of.setdefault(v, number) != number or row.count(v) > 1:
                raise GraphError(f"op {ops[v].name!r} is in two levels, or twice in one")
    if len(level_of) != len(ops):
        missing = next(v for v in range(len(ops)) if v not in level_of)
        raise GraphError(f"op {ops[missing].name!r} is in no level")
    for v, row in enumerate(graph.predecessors):
        for u in row:
            if level_of[u] >= level_of[v]:
                raise GraphError(
                    f"op {ops[v].name!r} of level {level_of[v]} needs {ops[u].name!r} of level "
                    f"{level_of[u]}: it goes into a later one"
                )
    if sum(len(a) * len(b) for a, b in pairwise(levels)) > MOST_EDGES:
        raise GraphError(f"{graph.name}: levels this wide take more than {MOST_EDGES} syncs")


def _some(ops: Sequence[Op], row: Sequence[int]) -> str:
    names = ", ".join(repr(ops[v].name) for v in row[:3])
    return f"{names}, ..." if len(row) > 3 else names


def has_one_order(graph: Graph) -> bool:
    """Whether each stream's ops can run in one order only, whatever the others do."""
    ancestors = reachable(graph.predecessors)
    last: dict[str, int] = {}
    for v in topological_order(graph.predecessors):
        before = last.setdefault(graph.ops[v].stream, v)
        if before != v and not ancestors[v] >> before & 1:
            return False
        last[graph.ops[v].stream] = v
    return True
