"""Ops on several streams: assignment to streams, orders within them, and syncs.

Ops of one stream run one after another; ops of different streams run concurrently. An order of all
ops defines the order within each stream. Between streams only the edges of the graph hold. A data
dependency across streams requires a *sync*: a control edge (an event that is waited for), or a
chain of control edges and dependencies within a stream. The module
:mod:`optsched.model.stream_relation` determines which buffers may share bytes.
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
"""Maximum number of syncs between levels."""


@keywords
def with_streams(graph: Graph, streams: Sequence[str]) -> Graph:
    """Return the graph with its ops on the given streams, and with the syncs that this requires.

    A runtime that records an event for each tensor that crosses streams does the same.

    Parameters
    ----------
    graph
        The graph, with `n` ops.
    streams
        Stream name of each op, by op id; length `n`.

    Returns
    -------
    Graph
        The graph with a control edge for each dependency across streams.

    Raises
    ------
    UsageError
        If the number of stream names is not that of the ops.

    Examples
    --------
    >>> from optsched import GraphBuilder, with_streams
    >>> build = GraphBuilder("copy")
    >>> build.op("load", writes={"x": 4})
    >>> build.op("use", reads=["x"])
    >>> graph = with_streams(build.build(), ["copy", "main"])
    >>> graph.streams, graph.ops[1].control
    (('copy', 'main'), (0,))
    """
    if len(streams) != len(graph.ops):
        raise UsageError(f"expected {len(graph.ops)} streams, one per op, got {len(streams)}")
    ops = []
    for v, op in enumerate(graph.ops):
        # A dependency within a stream is kept by the stream itself.
        waits = (u for u in graph.predecessors[v] if streams[u] != streams[v])
        ops.append(replace(_waiting(op, waits), stream=streams[v]))
    return replace(graph, ops=tuple(ops))


def _waiting(op: Op, waits: Iterable[int]) -> Op:
    """Return an op that also waits for the given ops."""
    return replace(op, control=tuple(dict.fromkeys((*op.control, *waits))))


@keywords
def in_streams(graph: Graph, orders: Mapping[str, Sequence[int]]) -> Graph:
    """Return the graph whose streams run their ops in the given orders.

    Each op waits for the one before it, so each stream has a single order.

    Parameters
    ----------
    graph
        A graph on one stream; control edges between its ops become the syncs.
    orders
        Op ids of each stream, first to run first. Unlisted ops stay in a stream without a
        name.

    Returns
    -------
    Graph
        The graph with ops on streams and control edges along each stream.

    Raises
    ------
    GraphError
        If an op is in two streams or twice in one, or comes before an op that it needs.
    UsageError
        If ops of the graph are on several streams already.

    Examples
    --------
    >>> from optsched import GraphBuilder, in_streams
    >>> build = GraphBuilder("pair")
    >>> build.op("p", writes={"a": 4})
    >>> build.op("q", writes={"b": 4})
    >>> in_streams(build.build(), {"s0": [0], "s1": [1]}).streams
    ('s0', 's1')
    """
    ops, stream = list(graph.ops), dict[int, str]()
    if len({op.stream for op in ops}) > 1:
        raise UsageError(f"{graph.name}: ops are on several streams already")
    for name, order in orders.items():
        for v in order:
            if v in stream:
                where = f"{stream[v]!r} and {name!r}" if stream[v] != name else f"{name!r} twice"
                raise GraphError(f"op {ops[v].name!r} is in stream {where}")
            stream[v] = name
        _refuse_going_back(graph, name, order)
        # A chain of edges leaves a single order to the stream.
        for u, v in pairwise(order):
            ops[v] = _waiting(ops[v], [u])
    for v, name in stream.items():
        ops[v] = replace(ops[v], stream=name)
    return replace(graph, ops=tuple(ops))


def _refuse_going_back(graph: Graph, name: str, order: Sequence[int]) -> None:
    """Raise an error if a stream has an op before another one that it needs."""
    # From the end: `later` has the ops that run after this one in the stream.
    needs, later = reachable(graph.predecessors), 0
    for v in reversed(order):
        needed = needs[v] & later
        if needed:
            u = needed.bit_length() - 1
            raise GraphError(
                f"stream {name!r} runs op {graph.ops[v].name!r} before "
                f"{graph.ops[u].name!r}, which it needs"
            )
        later |= 1 << v


def parallel_levels(graph: Graph, most: int) -> list[list[int]]:
    """Group the ops by depth into levels of at most `most` ops.

    The level of an op comes directly after the last level of its predecessors. A level of more than
    `most` ops is split into several levels, in the order in which the ops are listed. This is
    AITemplate's simple multi-stream mode.

    References
    ----------
    AITemplate, `split_simple_multistream_parallel_ops`.
    """
    if most < 1:
        raise UsageError(f"most must be at least 1, got {most}")
    depth = [0] * len(graph.ops)
    for v in topological_order(graph.predecessors):
        depth[v] = 1 + max((depth[u] for u in graph.predecessors[v]), default=-1)
    levels: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for v, level in enumerate(depth):
        levels[level].append(v)
    # Levels that are too wide are cut into several, one after another.
    return [row[at : at + most] for row in levels for at in range(0, len(row), most)]


@keywords
def in_levels(
    graph: Graph, levels: Sequence[Sequence[int]] | None = None, most: int | None = None
) -> Graph:
    """Return the graph whose ops run in levels: concurrently within a level, level after level.

    Each op of a level has its own stream and waits for all ops of the level before. Buffers that
    are live in the same level therefore conflict, and conflicts are given by intervals of levels,
    as in packing on one stream.

    Parameters
    ----------
    graph
        A graph on one stream.
    levels
        Op ids of each level (default: those of :func:`parallel_levels`).
    most
        Maximum number of ops in a level (default: any number).

    Returns
    -------
    Graph
        The graph with ops on streams and the control edges between levels.

    Raises
    ------
    GraphError
        If a level has more than `most` ops, an op is in no level or in two, or an op is not in a
        later level than every op it needs.
    UsageError
        If ops of the graph are on several streams already.

    Examples
    --------
    >>> from optsched import GraphBuilder, in_levels
    >>> build = GraphBuilder("fork")
    >>> build.op("p", writes={"x": 4})
    >>> build.op("q", reads=["x"])
    >>> build.op("r", reads=["x"])
    >>> in_levels(build.build(), [[0], [1, 2]]).streams
    ('0', '1')
    """
    ops = graph.ops
    if len({op.stream for op in ops}) > 1:
        raise UsageError(
            f"{graph.name}: ops are on several streams already and cannot be put into levels"
        )
    if levels is None:
        levels = parallel_levels(graph, len(ops) + 1 if most is None else most)
    _check_levels(graph, levels, most)
    made = list(ops)
    # Every op of a level waits for all ops of the level before.
    for number, row in enumerate(levels):
        waits = levels[number - 1] if number else ()
        for place, v in enumerate(row):
            # The position within the level names the stream.
            made[v] = replace(_waiting(ops[v], waits), stream=str(place))
    return replace(graph, ops=tuple(made))


def _check_levels(graph: Graph, levels: Sequence[Sequence[int]], most: int | None) -> None:
    ops, level_of = graph.ops, dict[int, int]()
    for number, row in enumerate(levels):
        if most is not None and len(row) > most:
            raise GraphError(
                f"level {number} has {len(row)} ops ({_some(ops, row)}), more than {most}"
            )
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
                    f"{level_of[u]}: it must be in a later level"
                )
    # The number of edges is the product of neighboring widths, so wide levels are refused.
    if sum(len(a) * len(b) for a, b in pairwise(levels)) > MOST_EDGES:
        raise GraphError(f"{graph.name}: levels this wide need more than {MOST_EDGES} syncs")


def _some(ops: Sequence[Op], row: Sequence[int]) -> str:
    names = ", ".join(repr(ops[v].name) for v in row[:3])
    return f"{names}, ..." if len(row) > 3 else names


def has_one_order(graph: Graph) -> bool:
    """Return True if the ops of each stream can run in one order only."""
    ancestors = reachable(graph.predecessors)
    last: dict[str, int] = {}
    # Each op of a stream must need the one before it, or the two could trade places.
    for v in topological_order(graph.predecessors):
        before = last.setdefault(graph.ops[v].stream, v)
        if before != v and not ancestors[v] >> before & 1:
            return False
        last[graph.ops[v].stream] = v
    return True
