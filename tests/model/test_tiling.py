"""Row maps and the reduction of stages in bands to an ordinary graph."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.errors import GraphError, UsageError
from optsched.model.builder import GraphBuilder
from optsched.model.kernels.bands import EXACT, SAME, SCALED, band_rows
from optsched.model.liveness import peak_memory
from optsched.model.places import places_problem
from optsched.model.rows import RowMap, RowOp, RowRule, Rows
from optsched.model.tiled import Stage, TiledKind, Tiling, joins_of
from optsched.model.tiling import tiled_graph
from tests.support.row_maps import all_stages, random_rows


def two_convolutions() -> Rows:
    """Return x -> c1 -> a -> c2 -> y -> f -> z: two convolutions, and an op that reads all rows."""
    build = GraphBuilder("two", alignment=16)
    build.input("x", 16 * 32)
    build.op("c1", reads=["x"], writes={"a": 16 * 64})
    build.op("c2", reads=["a"], writes={"y": 8 * 64})
    build.op("f", reads=["y"], writes={"z": 16})
    build.output("z")
    first = RowOp(1, (RowMap(0, window=3, pad=1),), rule=RowRule.SAME, cost=10)
    second = RowOp(2, (RowMap(1, window=3, stride=2),), rule=RowRule.SAME, cost=10)
    ops = (first, second, "not row-local: reads all rows")
    return Rows(build.build(), ops, (16, 16, 8, 0), (32, 64, 64, 0))


def whole_rows(rule: int, window: int, stride: int, pad: int, up: int, row: int) -> tuple[int, int]:
    """Return the rows of the input that a row of the output reads, not cut."""
    start = row * stride - pad
    return start // up, -(-(start + window) // up)


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("height", [5, 8, 13])
def test_a_band_of_same_padding_is_computed_as_on_the_whole(
    window: int, stride: int, height: int
) -> None:
    rows = -(-height // stride)
    pad = max((rows - 1) * stride + window - height, 0) // 2
    for first in range(rows):
        for last in range(first + 1, rows + 1):
            low, high, begin, count = band_rows(
                SAME, window, stride, pad, 1, 0, height, first, last, 1, 1
            )
            if low == high:
                continue
            made = -(-(high - low) // stride)
            above = max((made - 1) * stride + window - (high - low), 0) // 2
            assert count == made
            assert begin <= first
            assert begin + count >= last
            for row in range(first, last):
                # The kernel's window in the band, as rows of the whole.
                start = low + (row - begin) * stride - above
                assert start == row * stride - pad
                inside = range(max(0, start), min(height, start + window))
                assert set(inside) <= set(range(low, high))


def test_exact_and_scaled_bands() -> None:
    assert band_rows(EXACT, 3, 2, 0, 1, 0, 9, 1, 3, 1, 1) == (2, 7, 1, 2)
    # Padding of one row above and below, restated for the band.
    assert band_rows(EXACT, 1, 1, 1, 1, 0, 4, 0, 3, 1, 1) == (0, 2, 0, 3)
    assert band_rows(EXACT, 1, 1, 1, 1, 0, 4, 0, 1, 1, 1) == (0, 0, 0, 0)
    assert band_rows(SCALED, 1, 1, 0, 2, 0, 4, 3, 5, 1, 1) == (1, 3, 2, 4)


def test_views_are_aligned_to_rows() -> None:
    rows = two_convolutions().aligned_to(128)
    tiled = tiled_graph(rows, Tiling((Stage((0, 1), 4),)))
    views = [tiled.tensors[op.writes[0]] for op in tiled.ops if op.kind is TiledKind.SLICE]
    assert views
    assert all(view.shift % 128 == 0 for view in views if view.buffer != 2)
    with pytest.raises(UsageError, match="power of two, got 24"):
        rows.aligned_to(24)


def test_rows_of_the_input_die_and_rows_of_the_result_come_to_life() -> None:
    tiled = tiled_graph(two_convolutions(), Tiling((Stage((0, 1), 2),)))
    names = [buffer.name for buffer in tiled.graph.buffers]
    assert {"x[0:7]", "x[7:16]", "y[0:4]", "y[4:8]"} <= set(names)
    untiled = tiled_graph(two_convolutions(), Tiling())
    assert [op.name for op in untiled.graph.ops] == ["c1", "c2", "f"]
    order = range(len(tiled.ops))
    problem, _ = places_problem(tiled, order)
    assert problem.max_load == peak_memory(tiled.graph, order) < 1536


def test_a_join_takes_ten_tensors() -> None:
    assert joins_of(10) == [10]
    assert joins_of(11) == [10, 2]
    assert joins_of(48) == [10, 10, 10, 10, 8, 5]
    rows = random_rows(3)
    tiled = tiled_graph(two_convolutions(), Tiling((Stage((0,), 16),)))
    joins = [len(op.reads) for op in tiled.ops if op.kind is TiledKind.JOIN]
    assert joins == joins_of(16)
    assert all_stages(rows)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([Stage((1, 2), 2)], "op 'f' cannot run in bands: not row-local: reads all rows"),
        ([Stage((1, 0), 2)], "op 'c2' makes nothing that its stage needs"),
        ([Stage((0,), 2), Stage((0, 1), 2)], "an op is in two stages"),
        ([Stage((0, 1), 9)], "a stage that makes 'y' of 8 rows cannot have 9 bands"),
        ([Stage((0, 1), 1)], "a stage that makes 'y' of 8 rows cannot have 1 bands"),
        ([Stage((0, 0), 2)], "a stage lists each of its ops once"),
    ],
)
def test_ops_that_are_not_a_stage_are_refused(stages: list[Stage], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        tiled_graph(two_convolutions(), Tiling(tuple(stages)))


def test_an_op_kept_whole_names_the_reason() -> None:
    rows = two_convolutions().keep_whole(["c1"])
    with pytest.raises(GraphError, match="op 'c1' cannot run in bands: kept whole, as asked"):
        tiled_graph(rows, Tiling((Stage((0,), 2),)))
    with pytest.raises(UsageError, match="op 'c3' is not in graph 'two'"):
        rows.keep_whole(["c3"])


def test_row_maps_name_what_is_there() -> None:
    rows = two_convolutions()
    wrong = replace(rows.ops[0], maps=(RowMap(2),))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="op 'c1': row maps name a buffer twice"):
        replace(rows, ops=(wrong, *rows.ops[1:]))
    with pytest.raises(GraphError, match="row maps must cover all ops and buffers"):
        replace(rows, heights=(16, 16, 8))
