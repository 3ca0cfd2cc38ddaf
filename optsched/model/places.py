"""Packing of a tiled graph: the pieces of a place move as one, with a window of live bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.liveness import live_ranges
from optsched.model.packing_problem import PackingProblem
from optsched.model.parts import Gap, gaps_between
from optsched.model.plan import Plan
from optsched.model.sharing import Rectangle
from optsched.model.steps import Order
from optsched.model.tiled import Place, TiledGraph


def places_problem(tiled: TiledGraph, order: Order) -> tuple[PackingProblem, IntArray]:
    """Return the packing problem of a tiled graph in an order, and its places by number.

    Each place is a buffer whose gaps leave the hull of its live pieces, or all of it while an op
    has workspace, which a runtime places itself, around whole tensors. After the places comes the
    workspace, as buffers of the graph. :func:`placed` turns offsets into a plan.
    """
    ranges = live_ranges(tiled.graph, order)
    scratch = [(*ranges[b].tolist(), 0, 0) for b in scratch_of(tiled)]
    rows: list[tuple[str, int, int, int, int, tuple[Gap, ...]]] = []
    ids = []
    for number, place in enumerate(tiled.places):
        pieces = [(piece, shift) for piece, shift in place.pieces if _is_live(tiled, ranges, piece)]
        if pieces:
            ids.append(number)
            rows.append(_place_row(tiled, ranges, place, pieces, scratch))
    for b in scratch_of(tiled):
        start, end = ranges[b].tolist()
        buffer = tiled.graph.buffers[b]
        ids.append(len(tiled.places) + b)
        rows.append((buffer.name, start, end, buffer.size, buffer.alignment, ()))
    names, start, end, size, alignment, gaps = zip(*rows, strict=True) if rows else ([],) * 6
    problem = PackingProblem(
        names=names,
        start=np.array(start, np.int64),
        end=np.array(end, np.int64),
        size=np.array(size, np.int64),
        alignment=np.array(alignment, np.int64),
        gaps=gaps if any(gaps) else (),
        name=tiled.graph.name,
        memory_model=tiled.graph.memory_model,
    )
    return problem, np.array(ids, np.int64)


def scratch_of(tiled: TiledGraph) -> list[int]:
    """Return the buffers of the planned graph that are in no place: workspace."""
    return [op.workspace for op in tiled.graph.ops if op.workspace is not None]


def _is_live(tiled: TiledGraph, ranges: IntArray, b: int) -> bool:
    buffer = tiled.graph.buffers[b]
    return bool(ranges[b, 1] > ranges[b, 0]) and not buffer.external and buffer.size > 0


def _place_row(
    tiled: TiledGraph,
    ranges: IntArray,
    place: Place,
    pieces: Sequence[tuple[int, int]],
    scratch: Sequence[Rectangle],
) -> tuple[str, int, int, int, int, tuple[Gap, ...]]:
    """Return name, live range, size, alignment and gaps of a place."""
    first = tiled.graph.buffers[place.pieces[0][0]]
    table = [
        (*ranges[piece].tolist(), shift, shift + tiled.graph.buffers[piece].size)
        for piece, shift in pieces
    ]
    start, end = min(x[0] for x in table), max(x[1] for x in table)
    table += [(x, y, 0, place.size) for x, y, *_ in scratch if start <= x and y <= end]
    gaps = gaps_between(start, end, place.size, hulls(table)) if len(place.pieces) > 1 else ()
    return first.name, start, end, place.size, first.alignment, gaps


def hulls(pieces: Sequence[Rectangle]) -> list[Rectangle]:
    """Return the steps at which pieces are live, with the hull of their bytes, ascending."""
    steps = sorted({step for piece in pieces for step in piece[:2]})
    found: list[Rectangle] = []
    for start, end in pairwise(steps):
        here = [piece for piece in pieces if piece[0] <= start < piece[1]]
        if not here:
            continue
        low, high = min(piece[2] for piece in here), max(piece[3] for piece in here)
        if found and found[-1][1:] == (start, low, high):
            found[-1] = (found[-1][0], end, low, high)
        else:
            found.append((start, end, low, high))
    return found


def placed(tiled: TiledGraph, order: Order, ids: IntArray, offsets: IntArray) -> Plan:
    """Return the plan of a tiled graph for the offsets of its packing problem."""
    found: list[int | None] = [None] * len(tiled.graph.buffers)
    ranges = live_ranges(tiled.graph, order)
    for number, offset in zip(ids.tolist(), offsets.tolist(), strict=True):
        if number >= len(tiled.places):
            found[number - len(tiled.places)] = offset
            continue
        for piece, shift in tiled.places[number].pieces:
            if _is_live(tiled, ranges, piece):
                found[piece] = offset + shift
    return Plan(tuple(np.asarray(order, np.int64).tolist()), tuple(found))
