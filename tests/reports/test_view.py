"""The view of a plan: rectangles, live bytes, buffers live at the peak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched.errors import PlanError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.model.plan import Plan
from optsched.reports.colors import OTHER, by_kind, by_size
from optsched.reports.report import Report
from optsched.reports.view import Load, View, bars, kind_of, packing_view, plan_view, thinned
from optsched.runtime.text import readable
from optsched.solver.pipeline import solve
from tests.support.families.small import diamond
from tests.support.generators import random_graph


def test_the_diamond_is_shown_as_it_is_worked_out_by_hand(two_plans: Report) -> None:
    before, after = two_plans.views
    assert (before.peak, after.peak, after.slab) == (20, 18, 18)
    assert before.slab == after.subject.sizes.sum()
    names = [after.subject.buffers[b] for b in after.live]
    # right runs first: x (8), b (6), its workspace (2); then left adds a (4) to x and b.
    assert after.peak_step == 1
    assert names == ["x", "b", "a"]
    assert running(after) == [16, 18, 14]
    (slab,) = after.slabs
    assert (slab.size, len(slab.buffers)) == (18, 5)
    assert slab.offset.tolist() == sorted(slab.offset.tolist())


def test_no_two_rectangles_overlap_even_in_place() -> None:
    for seed in range(12):
        graph = random_graph(np.random.default_rng(seed)).with_inplace()
        plan = solve(graph).plan
        assert plan is not None
        for slab in plan_view(graph, plan, "plan").slabs:
            for i in range(len(slab.buffers)):
                for j in range(i):
                    apart = slab.end[i] <= slab.start[j] or slab.end[j] <= slab.start[i]
                    above = slab.offset[i] >= slab.offset[j] + slab.bytes[j]
                    assert apart or above or slab.offset[j] >= slab.offset[i] + slab.bytes[i]


def test_a_wrong_plan_is_not_shown() -> None:
    graph = diamond()
    plan = solve(graph).plan
    assert plan is not None
    with pytest.raises(PlanError, match="overlap"):
        plan_view(graph, replace(plan, offsets=(0,) * len(plan.offsets)), "plan")


def test_a_graph_without_ops_has_one_step() -> None:
    build = GraphBuilder("still")
    build.input("x", 8, "kept")
    graph = build.build()
    shown = plan_view(graph, Plan((), (0,)), "plan")
    assert (shown.peak, running(shown), shown.live) == (8, [8], (0,))


def running(shown: View) -> list[int]:
    """Live bytes of each step."""
    load = shown.load
    return np.repeat(load.live, load.end - load.start).tolist()


def test_live_bytes_join_equal_steps_and_never_hide_the_peak() -> None:
    build = GraphBuilder("flat")
    build.input("x", 8, "kept")
    for name in "abc":
        build.op(name)
    graph = build.build()
    load = plan_view(graph, Plan((0, 1, 2), (0,)), "plan").load
    assert (load.start.tolist(), load.end.tolist(), load.live.tolist()) == ([0], [3], [8])
    many = np.arange(1000) % 7
    many[637] = 99
    few = bars(Load(np.arange(1000), np.arange(1, 1001), many), most=10)
    assert len(few.start) <= 10
    assert (few.start[0], few.end[-1], few.live.max()) == (0, 1000, 99)
    assert np.array_equal(few.end[:-1], few.start[1:])


def test_given_live_ranges_are_shown_with_their_gaps() -> None:
    problem = PackingProblem(
        names=("a", "b"),
        size=np.array([8, 4]),
        start=np.array([1, 2]),
        end=np.array([7, 4]),
        gaps=((Gap(2, 4, (0, 4)),), ()),
    )
    shown = packing_view(problem, np.array([0, 4]), "mine")
    assert (shown.peak, shown.slab, shown.length, shown.steps) == (8, 8, 7, ())
    assert running(shown) == [0, 8, 8, 8, 8, 8, 8]
    (slab,) = shown.slabs
    rows = zip(slab.buffers, slab.start, slab.end, slab.offset, slab.bytes, strict=True)
    assert sorted(rows) == [(0, 1, 2, 0, 8), (0, 2, 4, 0, 4), (0, 4, 7, 0, 8), (1, 2, 4, 4, 4)]
    with pytest.raises(PlanError, match="overlap"):
        packing_view(problem, np.array([0, 0]), "mine")
    apart = packing_view(problem, np.array([0, 0]), "mine", ("x", "y"))
    assert [(slab.pool, slab.size) for slab in apart.slabs] == [("x", 8), ("y", 4)]
    assert apart.slab == 12


def test_thinning_keeps_who_is_live_at_the_peak_then_the_largest(two_plans: Report) -> None:
    shown = two_plans.views[1]
    (slab,) = shown.slabs
    assert thinned(shown, slab) == (slab, 0.0)
    kept, share = thinned(shown, slab, most=3)
    assert set(kept.buffers.tolist()) == set(shown.live)
    # y: 4 bytes for 1 step, the workspace: 2 for 1; x 8 for 2, b 6 for 3, a 4 for 2.
    assert share == pytest.approx(6 / 48)


def test_kinds_are_those_of_the_maker() -> None:
    graph = diamond()
    kinds = {buffer.name: kind_of(graph, b) for b, buffer in enumerate(graph.buffers)}
    assert kinds["x"] == "graph input"
    assert kinds["right.workspace"] == "workspace"


def test_colors_tell_sizes_and_the_largest_kinds_apart() -> None:
    shades = by_size(np.array([1, 1, 2**10, 2**20], np.int64))
    assert shades[0] == shades[1] == shades[2] == "#440154"
    assert shades[3] == "#fde725"
    assert by_size(np.array([], np.int64)) == []
    kinds = by_kind([f"k{i}" for i in range(12)], list(range(12)))
    assert next(iter(kinds)) == "k11"
    assert [kind for kind, color in kinds.items() if color == OTHER] == ["k2", "k1", "k0"]


def test_names_are_made_readable() -> None:
    assert readable("conv 日本 🙂") == "conv 日本 🙂"
    assert readable("a\x00\n\u202e\ud800") == "a\\x00\\n\\u202e\\ud800"
    assert readable("x" * 500) == "x" * 80 + "…" + "x" * 79


def _graph_of(count: int) -> Graph:
    build = GraphBuilder("wide")
    for number in range(count):
        build.op(f"op{number}", writes={f"b{number}": 1 + number})
    return build.build()


def test_views_of_many_buffers_keep_all_of_them() -> None:
    graph = _graph_of(200)
    plan = solve(graph).plan
    assert plan is not None
    shown = plan_view(graph, plan, "plan")
    assert sum(len(slab.buffers) for slab in shown.slabs) == 200
