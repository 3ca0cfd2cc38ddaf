"""Stages: which ops may run in bands together."""

from __future__ import annotations

from collections.abc import Iterable

from optsched.errors import GraphError
from optsched.model.rows import RowOp, Rows
from optsched.model.tiled import Stage


def cuts(height: int, bands: int) -> list[int]:
    """Return the first row of each band, and the height."""
    return [band * height // bands for band in range(bands + 1)]


def stage_inputs(rows: Rows, ops: Iterable[int]) -> list[int]:
    """Return the buffers that ops of a stage read by rows and that others make, ascending."""
    ops = list(ops)
    made = {b for v in ops for b in rows.graph.ops[v].writes}
    mapped = {x.buffer for v in ops for x in row_op(rows, v).maps}
    return sorted(mapped - made)


def check_stage(rows: Rows, stage: Stage) -> None:
    """Raise an error if ops cannot run as a stage.

    Raises
    ------
    GraphError
        If an op is not row-local or is listed before one that it needs, another tensor than the
        last op's is used outside, other ops run between them, or there are too few rows.
    """
    graph, own = rows.graph, set(stage.ops)
    if len(own) < len(stage.ops) or not own <= set(range(len(graph.ops))) or not own:
        raise GraphError("a stage lists each of its ops once")
    for v in stage.ops:
        if isinstance(why := rows.ops[v], str):
            raise GraphError(f"op {graph.ops[v].name!r} cannot run in bands: {why}")
    result = row_op(rows, stage.ops[-1]).output
    made = {b for v in stage.ops for b in graph.ops[v].writes}
    for v, op in enumerate(graph.ops):
        for b in made & {*op.reads, *op.uses}:
            if v not in own and b != result:
                name = graph.buffers[b].name
                raise GraphError(f"buffer {name!r} inside of a stage is used outside of it")
    if any(graph.buffers[b].output is not None for b in made - {result}):
        raise GraphError("a stage computes a graph output that is not its result")
    place = {v: k for k, v in enumerate(stage.ops)}
    if any(place.get(u, -1) > k for v, k in place.items() for u in graph.predecessors[v]):
        raise GraphError("a stage lists an op before one that it needs")
    # Once the result is used, nothing may lead back into the stage.
    after = {v for v, op in enumerate(graph.ops) if result in op.reads and v not in own}
    for v in range(len(graph.ops)):
        if v not in own and after.intersection(graph.predecessors[v]):
            after.add(v)
        if v in own and after.intersection(graph.predecessors[v]):
            raise GraphError(f"op {graph.ops[v].name!r} of a stage needs what the stage makes")
    if not 2 <= stage.bands <= rows.heights[result]:
        raise GraphError(
            f"a stage that makes {graph.buffers[result].name!r} of {rows.heights[result]} rows "
            f"cannot have {stage.bands} bands"
        )


def row_op(rows: Rows, v: int) -> RowOp:
    """Return the row map of an op; raise GraphError if it cannot run in bands."""
    op = rows.ops[v]
    if isinstance(op, str):
        raise GraphError(f"op {rows.graph.ops[v].name!r} cannot run in bands: {op}")
    return op
