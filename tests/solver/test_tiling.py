"""The planner of tilings: honest within any time, one worker gives one answer, clear refusals."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from optsched.errors import UsageError
from optsched.model.packing_problem import PackingProblem
from optsched.model.places import places_problem
from optsched.model.rows import RowOp, Rows, Tail
from optsched.runtime import clock
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, StopReason
from optsched.solver.status import Status
from optsched.solver.tiling.arcs import OUT_OF_REACH
from optsched.solver.tiling.candidates import candidates
from optsched.solver.tiling.kernels import FIGURES
from optsched.solver.tiling.lattice import Lattice
from optsched.solver.tiling.paths import non_dominated
from optsched.solver.tiling.realize import crowded_arcs, realize_in
from optsched.solver.tiling.repair import tighten, tightened
from optsched.solver.tiling.solve import tile
from optsched.solver.tiling.tiler import Tiler
from optsched.solver.tiling.variants import anchored, measured, variants
from tests.support.row_maps import all_tilings, random_rows


@pytest.mark.parametrize("seconds", [0.0, 0.002, 0.02, 0.1])
def test_a_short_time_proves_nothing_that_is_false(seconds: float) -> None:
    for seed in (3, 14, 23, 40):
        rows = random_rows(seed)
        full = tile(rows, extra=0.5, objective="head", bands=4, limits=Limits(seconds=20))
        short = tile(rows, extra=0.5, objective="head", bands=4, limits=Limits(seconds=seconds))
        assert full.best is not None
        assert short.best is not None
        assert short.bound <= full.best.head <= short.best.head <= short.untiled.head
        if short.status is Status.OPTIMAL:
            assert short.best.head == full.best.head
        elif seconds == 0:
            assert short.stop_reason is StopReason.TIME_LIMIT


def test_one_question_has_one_answer() -> None:
    rows = random_rows(14)
    first, second = (tile(rows, points=4, limits=Limits(seconds=20)) for _ in range(2))
    assert [x.plan for x in first.front] == [x.plan for x in second.front]
    assert [x.tiled.tiling for x in first.front] == [x.tiled.tiling for x in second.front]


@pytest.mark.parametrize("seed", [2, 6, 16, 28])
def test_a_work_limit_gives_one_answer_at_any_speed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, found, limits = random_rows(seed), [], Limits(work=40_000)
    for speed in (1.0, 1e5):
        # Time that runs faster stands for a machine that does other work.
        monkeypatch.setattr(
            clock, "time", SimpleNamespace(monotonic=lambda s=speed: s * time.time())
        )
        fits = tile(rows, capacity=400, objective="head", limits=limits)
        front = tile(rows, points=4, objective="head", limits=limits).front
        found.append((fits.best, fits.bound, [(x.plan, x.bound) for x in front]))
    assert found[0] == found[1]


def test_stages_at_several_positions_are_not_left_out() -> None:
    # 240 bytes were proved once, with the load of a stage's first count in place of the least one.
    found = tile(random_rows(5439), extra=0.0, bands=3, objective="head", limits=Limits(seconds=20))
    assert found.bound <= 224


def test_stages_measured_together_have_the_figures_that_each_has_alone() -> None:
    compared, counts, clock_ = 0, np.arange(2, 7), Clock.of(Limits(seconds=60))
    for seed in range(40):
        lattice = Lattice(random_rows(seed, ops=6))
        stages = variants(lattice, candidates(lattice.rows))
        found, done = measured(lattice, stages, counts, clock_)
        assert done
        for stage, figures in zip(stages, found, strict=True):
            ((alone,), _) = measured(lattice, (stage,), counts, clock_)
            possible = alone[:, FIGURES.down] >= 0
            assert (alone[possible] == figures[possible]).all()
            assert (figures[~possible, FIGURES.down] < 0).all()
            compared += int(possible.sum())
        wanted = found[:, :, FIGURES.down] >= 0
        enough = anchored(lattice, stages, counts, clock_, wanted)
        assert (enough[wanted][:, : FIGURES.cost] >= found[wanted][:, : FIGURES.cost]).all()
    assert compared > 1000


def test_loads_are_tightened_where_a_packing_fails_and_only_for_the_next_paths() -> None:
    for seed, size in ((6, 344), (47, 284)):
        rows = random_rows(seed, ops=7)
        tiler = Tiler(rows, Tail.none(rows.graph), 6, "head", Clock.of(Limits(seconds=60)))
        tiler.prepare()
        net, loads = tiler.net, tiler.net.arcs.load.copy()
        path = tiler.paths.cheapest(size)
        assert path is not None
        point = tiler.plan(path, size)
        assert point.head > size
        with tightened(net, tiler.paths):
            tighten(net, path, point.tiled, point.plan, size, 0)
            closed = net.arcs.load > loads
            # Of the path itself at least one arc, which has the load that no packing met.
            assert closed[list(path.arcs)].any()
            assert (net.arcs.load[closed] == OUT_OF_REACH).all()
        assert (net.arcs.load == loads).all()
        best = tiler.within(size)
        assert best is not None
        assert best.head <= size
        assert path.extra <= best.extra


def test_paths_take_as_much_as_is_known_to_do_where_their_packing_fails() -> None:
    for seed, size in ((0, 720), (6, 308), (8, 144), (33, 916), (52, 348)):
        rows = random_rows(seed, ops=7)
        tiler = Tiler(rows, Tail.none(rows.graph), 6, "head", Clock.of(Limits(seconds=60)))
        tiler.prepare()
        sides, loads = tiler.sides, tiler.net.arcs.load.copy()
        sides.relax(size)
        path = tiler.known.cheapest(size)
        assert path is not None
        arcs = [a for a in path.arcs if sides.own[a] >= 0]
        own, ways = sides.resolved(path)
        made = realize_in(tiler.net, own, ways, size, tiler.clock)
        before, full = sides.arcs.load.copy(), sides.anchored[arcs] > size
        assert made.head > size
        crowded = crowded_arcs(tiler.net, own, made.tiled, made.plan, size)
        assert sides.restore(path, crowded, size)
        raised = np.flatnonzero(sides.arcs.load > before)
        assert set(raised.tolist()) <= {a for a, x in zip(arcs, full, strict=True) if x}
        assert len(raised)
        assert (sides.arcs.load[raised] == sides.anchored[raised]).all()
        assert not sides.is_known(path, size)
        # Arcs are left out of the network of ends alone.
        tighten(tiler.net, own, made.tiled, made.plan, size, 0, sides)
        assert (sides.arcs.load[arcs] == OUT_OF_REACH).any()
        assert (tiler.net.arcs.load == loads).all()


def _load(problem: PackingProblem) -> int:
    rows = [x for i in range(len(problem)) for x in problem.rectangles(i)]
    steps = {step for step, *_ in rows}
    return max(sum(d - c for a, b, c, d in rows if a <= step < b) for step in steps)


@pytest.mark.parametrize("seed", [3764, 6031, 14587, 18, 292])
def test_no_tiling_has_a_load_and_a_cost_below_all_paths_where_rows_are_unread(seed: int) -> None:
    # The first three seeds had some: rows that no op reads are dead once they are joined.
    rows, compared = random_rows(seed), 0
    assert rows.least_bytes != tuple(buffer.size for buffer in rows.graph.buffers)
    tiler = Tiler(rows, Tail.none(rows.graph), 3, "head", Clock.of(Limits(seconds=60)))
    tiler.prepare()
    assert tiler.exact
    for tiled, order in islice(all_tilings(rows, 3), 2000):
        load = _load(places_problem(tiled, order)[0])
        runs = [(rows.ops[op.op], op.writes[0]) for op in tiled.ops if op.op is not None]
        made = [(op.cost, tiled.tensors[t].rows) for op, t in runs if isinstance(op, RowOp)]
        if load < tiler.untiled.head:
            path = tiler.paths.cheapest(load)
            assert path is not None
            assert path.extra <= sum(cost * count for cost, count in made) - rows.cost
            compared += 1
    assert compared


def test_a_tail_that_grows_leaves_a_model_untiled() -> None:
    rows = random_rows(14)
    free = tile(rows, extra=1.0, limits=Limits(seconds=20))
    assert free.best is not None
    assert free.best.arena < free.untiled.arena
    dear = Tail(100, (10_000,) * len(rows.graph.ops), tensor=10_000)
    kept = tile(rows, extra=1.0, tail=dear, limits=Limits(seconds=20))
    assert kept.best is not None
    assert kept.best.arena == kept.untiled.arena == kept.untiled.head + 100
    assert kept.status is Status.OPTIMAL


def test_fixed_orders_have_a_position_per_op() -> None:
    rows = random_rows(14)
    order = tuple(range(len(rows.graph.ops)))
    assert len(Lattice(rows, order).positions or ()) == len(order) + 1
    free = Lattice(rows).positions
    assert free is not None
    assert len(free) >= len(order) + 1


def test_points_that_others_beat_are_left_out() -> None:
    assert non_dominated([(3, 1), (1, 3), (2, 3), (3, 0)]) == [(1, 3), (3, 0)]


def test_questions_that_cannot_be_asked() -> None:
    rows = random_rows(14)
    with pytest.raises(UsageError, match="ask one question"):
        tile(rows, capacity=8, extra=0.1)
    with pytest.raises(UsageError, match="a stage has at least 2 bands, got 1"):
        tile(rows, extra=0.1, bands=1)
    with pytest.raises(UsageError, match="objective must be one of total, head, got 'slab'"):
        tile(rows, extra=0.1, objective="slab")
    with pytest.raises(UsageError, match="no op is row-local, so nothing runs in bands: as asked"):
        tile(_all_whole(rows), extra=0.1)


def _all_whole(rows: Rows) -> Rows:
    return replace(rows, ops=("as asked",) * len(rows.ops))
