"""Stages: which ops may run in bands together."""

from __future__ import annotations

from optsched.errors import GraphError
from optsched.model.graph import Graph
from optsched.model.rows import RowOp, Rows
from optsched.model.tiled import Stage


def cuts(height: int, bands: int) -> list[int]:
    """Return the first row of each band, and the height."""
    return [band * height // bands for band in range(bands + 1)]


def check_stage(rows: Rows, stage: Stage) -> None:
    """Raise an error if ops cannot run as a stage.

    Raise `GraphError` if an op is not row-local or is listed before one that it needs, another
    tensor than the last op's is used outside, other ops run between them, or there are too few
    rows.
    """
    graph, own = rows.graph, set(stage.ops)
    if len(own) < len(stage.ops) or not own <= set(range(len(graph.ops))) or not own:
        raise GraphError("a stage lists each of its ops once")
    made = {b for v in stage.ops for b in graph.ops[v].writes}
    _check_ops(rows, stage, made)
    result = row_op(rows, stage.ops[-1]).output
    for v, op in enumerate(graph.ops):
        if v not in own and (out := made.intersection((*op.reads, *op.uses)) - {result}):
            name = graph.buffers[min(out)].name
            raise GraphError(f"buffer {name!r} inside of a stage is used outside of it")
    if any(graph.buffers[b].output is not None for b in made - {result}):
        raise GraphError("a stage computes a graph output that is not its result")
    _check_convex(graph, own)
    if not 2 <= stage.bands <= rows.heights[result]:
        raise GraphError(
            f"a stage that makes {graph.buffers[result].name!r} of {rows.heights[result]} rows "
            f"cannot have {stage.bands} bands"
        )


def _check_ops(rows: Rows, stage: Stage, made: set[int]) -> None:
    """Raise an error unless each op can run in bands, in this order, for the stage's result."""
    graph = rows.graph
    read = {b for v in stage.ops for b in graph.ops[v].reads}
    place = {v: k for k, v in enumerate(stage.ops)}
    for v in stage.ops:
        op, name = row_op(rows, v), graph.ops[v].name
        if inner := made.intersection(graph.ops[v].reads) - {x.buffer for x in op.maps}:
            whole = graph.buffers[min(inner)].name
            raise GraphError(f"op {name!r} reads all rows of {whole!r}, made in bands")
        if v != stage.ops[-1] and op.output not in read:
            raise GraphError(f"op {name!r} makes nothing that its stage needs")
        if any(place.get(u, -1) > place[v] for u in graph.predecessors[v]):
            raise GraphError("a stage lists an op before one that it needs")


def _check_convex(graph: Graph, own: set[int]) -> None:
    """Raise an error if an op outside of a stage runs between ops of it."""
    after: set[int] = set()
    for v in range(len(graph.ops)):
        # Ops are listed in an order in which they can run.
        between = after.intersection(graph.predecessors[v])
        if v in own and between:
            raise GraphError(f"op {graph.ops[v].name!r} of a stage needs what the stage makes")
        if v not in own and (between or own.intersection(graph.predecessors[v])):
            after.add(v)


def row_op(rows: Rows, v: int) -> RowOp:
    """Return the row map of an op; raise GraphError if it cannot run in bands."""
    op = rows.ops[v]
    if isinstance(op, str):
        raise GraphError(f"op {rows.graph.ops[v].name!r} cannot run in bands: {op}")
    return op
