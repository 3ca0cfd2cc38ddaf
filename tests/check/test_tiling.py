"""The checker of tiled programs: every row from the rows it needs, and bounds on all tilings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.certificate.tiling import certify_tiling
from optsched.check.tiling import check_tiled
from optsched.check.tiling_bound import TilingCertificate, check_tiling_bound
from optsched.errors import PlanError
from optsched.model.builder import GraphBuilder
from optsched.model.plan import Plan
from optsched.model.rows import RowMap, RowOp, RowRule, Rows
from optsched.model.tiled import Stage, TiledGraph, TiledKind, Tiling
from optsched.model.tiling import tiled_graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.tiling.solve import tile
from tests.model.test_tiling import two_convolutions
from tests.support.row_maps import least_slab


@pytest.fixture
def program() -> tuple[TiledGraph, Plan]:
    tiled = tiled_graph(two_convolutions(), Tiling((Stage((0, 1), 4),)))
    return tiled, least_slab(tiled, range(len(tiled.ops)))[1]


def changed_op(tiled: TiledGraph, v: int, **fields: object) -> TiledGraph:
    ops = list(tiled.ops)
    ops[v] = replace(ops[v], **fields)  # type: ignore[arg-type]
    return replace(tiled, ops=tuple(ops))


def first(tiled: TiledGraph, kind: TiledKind) -> int:
    return next(v for v, op in enumerate(tiled.ops) if op.kind is kind)


def test_a_program_has_the_head_and_the_cost_of_its_rows(
    program: tuple[TiledGraph, Plan],
) -> None:
    tiled, plan = program
    found = check_tiled(tiled, plan)
    assert found.head == tiled.head(plan)
    made = sum(10 * tiled.tensors[x.writes[0]].rows for x in tiled.ops if x.kind is TiledKind.BAND)
    assert found.extra == made - 10 * (16 + 8) > 0


def test_a_band_of_too_few_rows_is_refused(program: tuple[TiledGraph, Plan]) -> None:
    tiled, plan = program
    view = tiled.ops[first(tiled, TiledKind.SLICE)].writes[0]
    tensors = list(tiled.tensors)
    tensors[view] = replace(
        tensors[view], rows=tensors[view].rows - 1, size=tensors[view].size - 32
    )
    with pytest.raises(PlanError, match="does not make rows"):
        check_tiled(replace(tiled, tensors=tuple(tensors)), plan)


def test_an_op_on_the_rows_of_another_buffer_is_refused(
    program: tuple[TiledGraph, Plan],
) -> None:
    tiled, plan = program
    v = first(tiled, TiledKind.BAND)
    wrong = changed_op(tiled, v, reads=((0, tiled.ops[v].writes[0]),))
    with pytest.raises(PlanError, match="for another buffer"):
        check_tiled(wrong, plan)


def test_an_op_that_stays_whole_has_no_band(program: tuple[TiledGraph, Plan]) -> None:
    tiled, plan = program
    rows = tiled.source.keep_whole(["c1"])
    with pytest.raises(PlanError, match="runs on a band, which its untiled op cannot"):
        check_tiled(replace(tiled, source=rows), plan)


def test_rows_that_were_overwritten_are_refused(program: tuple[TiledGraph, Plan]) -> None:
    tiled, plan = program
    # All places at 0: the first op that writes destroys what it or a later one reads.
    offsets: list[int | None] = list(plan.offsets)
    for place in tiled.places:
        for piece, shift in place.pieces:
            offsets[piece] = shift
    with pytest.raises(PlanError, match=r"writes bytes that it reads|was overwritten"):
        check_tiled(tiled, replace(plan, offsets=tuple(offsets)))


def test_a_join_of_other_rows_is_refused(program: tuple[TiledGraph, Plan]) -> None:
    tiled, plan = program
    v = first(tiled, TiledKind.JOIN)
    with pytest.raises(PlanError, match="does not have the rows that it should make"):
        check_tiled(changed_op(tiled, v, reads=tiled.ops[v].reads[:-1]), plan)


def read_twice() -> Rows:
    """Return x -> a and x -> b, where each op reads rows that the other one does not."""
    build = GraphBuilder("twice", alignment=16)
    build.input("x", 96)
    build.op("o0", reads=["x"], writes={"a": 16})
    build.op("o1", reads=["a"], writes={"c": 16})
    build.op("o2", reads=["x"], writes={"b": 32})
    build.output("b")
    ops = (
        RowOp(1, (RowMap(0, window=3, stride=2),)),
        RowOp(2, (RowMap(1, window=2, stride=2),), rule=RowRule.SAME),
        RowOp(3, (RowMap(0, stride=3),), rule=RowRule.SAME),
    )
    return Rows(build.build(), ops, (6, 2, 1, 2), (16, 4, 8, 16))


def test_rows_that_only_earlier_ops_read_are_dead_in_a_stage() -> None:
    # 128 bytes were called the least once: rows of x that o0 alone reads were counted in o2.
    rows = read_twice()
    tiled = tiled_graph(rows, Tiling((Stage((2,), 2),)))
    slab, plan = least_slab(tiled, range(len(tiled.ops)))
    assert slab == 112 == check_tiled(tiled, plan).head
    found = tile(rows, capacity=112, objective="head", limits=Limits(seconds=20))
    assert found.best is not None
    assert found.bound <= found.best.head == 112
    # If o2 comes last, it wants rows 0 to 3 of x; o0 wants rows 0 to 4.
    assert rows.least_bytes == (64, 16, 16, 32)
    certificate = certify_tiling(rows, 48, Clock.of(Limits(seconds=20)))
    assert certificate.bound <= 112
    with pytest.raises(PlanError, match=r"runs with fewer than|needs .* bytes as it is"):
        check_tiling_bound(rows, replace(certificate, bound=113))


def test_a_certificate_holds_up_to_its_bytes() -> None:
    rows = two_convolutions()
    certificate = certify_tiling(rows, 8, Clock.of(Limits(seconds=20)))
    check_tiling_bound(rows, certificate)
    check_tiling_bound(rows, replace(certificate, bound=certificate.bound - 1))
    with pytest.raises(PlanError, match=r"runs with fewer than|needs .* bytes as it is"):
        check_tiling_bound(rows, replace(certificate, bound=certificate.bound + 1))
    with pytest.raises(PlanError, match="names an op and a number of bands"):
        check_tiling_bound(rows, TilingCertificate(10, 8, 9))


def test_rows_of_padding_alone_need_no_rows() -> None:
    # Rows of padding below the input were looked for beyond its end, so that the plan was refused.
    build = GraphBuilder("padded", alignment=16)
    build.input("x", 128)
    build.op("pad", reads=["x"], writes={"y": 224})
    build.output("y")
    pad = RowOp(1, (RowMap(0, pad=1),), cost=1)
    tiled = tiled_graph(Rows(build.build(), (pad,), (8, 14), (16, 16)), Tiling((Stage((0,), 2),)))
    slab, plan = least_slab(tiled, range(len(tiled.ops)))
    assert check_tiled(tiled, plan).head == slab < 128 + 224


def read_by_two() -> Rows:
    """Return two ops on rows of one input, whose bands may take turns."""
    build = GraphBuilder("branch", alignment=16)
    build.input("x", 256)
    build.op("left", reads=["x"], writes={"a": 128})
    build.op("right", reads=["x"], writes={"b": 128})
    build.op("join", reads=["a", "b"], writes={"y": 16})
    build.output("y")
    left = RowOp(1, (RowMap(0),), cost=1)
    right = RowOp(2, (RowMap(0, window=2),), rule=RowRule.SAME, cost=1)
    return Rows(build.build(), (left, right, "reads all rows"), (8, 8, 8, 0), (32, 16, 16, 0))


def test_bounds_are_about_stages_one_after_another() -> None:
    # Rows of x die early if the stages take turns, which "no tiling has less" had passed over.
    rows = read_by_two()
    found = tile(rows, extra=1.0, objective="head", bands=4, limits=Limits(seconds=20))
    tiled = tiled_graph(rows, Tiling((Stage((0,), 2), Stage((1,), 2))))
    turns = (0, 1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11)
    _, plan = least_slab(tiled, turns)
    assert check_tiled(tiled, plan).head < found.bound
    listed = range(len(tiled.ops))
    among = [tiled.is_among(order, bands) for order in (turns, listed) for bands in (1, 2, 4)]
    assert among == [False, False, False, False, True, True]
    assert found.family == "tiling in rows, stage by stage, into up to 4 bands"
    assert found.family in repr(found)
