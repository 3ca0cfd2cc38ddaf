"""Packing problems: what is packed, how gaps split it, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.errors import GraphError
from optsched.model.builder import GraphBuilder
from optsched.model.packing_problem import Gap, PackingProblem, packing_problem
from optsched.model.plan import make_plan
from optsched.model.selection import select
from tests.support.packing_instances import random_problem


def problem(**changes: object) -> PackingProblem:
    fields: dict[str, object] = {
        "names": ("a", "b", "c"),
        "start": np.array([0, 1, 2]),
        "end": np.array([2, 3, 4]),
        "size": np.array([4, 2, 3]),
        "alignment": np.array([1, 1, 1]),
        "pin": np.array([-1, -1, -1]),
    }
    return PackingProblem(**{**fields, **changes})  # type: ignore[arg-type]


def test_max_load_counts_half_open_ranges() -> None:
    assert problem().max_load == 6
    assert problem(end=np.array([3, 3, 4])).max_load == 9
    assert problem(size=np.array([0, 0, 0])).max_load == 0


def test_gaps_split_a_buffer_into_parts() -> None:
    parts = problem(
        end=np.array([9, 3, 4]), gaps=((Gap(2, 4), Gap(5, 6, window=(1, 3))), (), ())
    ).parts
    table = np.stack([parts.owner, parts.start, parts.end, parts.low, parts.high], axis=1).tolist()
    assert table[:4] == [[0, 0, 2, 0, 4], [0, 4, 5, 0, 4], [0, 5, 6, 1, 3], [0, 6, 9, 0, 4]]
    assert len(table) == 6


def test_only_counted_live_roots_are_packed() -> None:
    build = GraphBuilder()
    build.input("w", 9, "excluded")
    build.input("unused", 9)
    build.op("a", reads=["w"], writes={"x": 4, "nothing": 0})
    build.op("b", reads=["x"], views={"v": "x"})
    packed, ids = packing_problem(build.build(), [0, 1])
    assert packed.names == ("x",)
    assert ids.tolist() == [2]
    assert (packed.start[0], packed.end[0]) == (0, 2)


def test_births_views_and_chains_are_one_rectangle_each() -> None:
    build = GraphBuilder()
    build.op("parent", writes={"x": 4})
    build.op("child", reads=["x"], writes={"y": 6})
    build.op("view", reads=["y"], views={"v": "y"})
    build.op("again", reads=["v"], views={"w": "v"})
    build.op("relu", reads=["x"], writes={"r": 4})
    build.op("last", reads=["w", "r"], writes={"z": 4})
    build.output("z")
    build.place("y", birth="parent")
    build.inplace("relu", "r", "x")
    build.inplace("last", "z", "r")
    graph = build.build()
    order = range(6)
    packed, _ = packing_problem(graph, order)
    # `y` is there from its parent on, and until the last reader of a view of a view of it.
    assert ranges(packed) == {"x": (0, 5), "y": (0, 6), "r": (4, 6), "z": (5, 6)}
    assert not packed.gaps
    ids_of = graph.buffer_ids
    chain = ((ids_of["r"], ids_of["x"]), (ids_of["z"], ids_of["r"]))
    merged, _ = packing_problem(graph.with_inplace(), order, chain)
    assert ranges(merged) == {"x": (0, 6), "y": (0, 6)}
    assert len(merged.parts.owner) == 2
    plan = make_plan(graph.with_inplace(), order, np.array([6, 0]), chain)
    assert check_plan(graph.with_inplace(), plan).slab == 10
    placed = {graph.buffers[b].name: offset for b, offset in enumerate(plan.offsets)}
    assert placed == {"x": 6, "y": 0, "v": 0, "w": 0, "r": 6, "z": 6}


def ranges(problem: PackingProblem) -> dict[str, tuple[int, int]]:
    rows = zip(problem.names, problem.start.tolist(), problem.end.tolist(), strict=True)
    return {name: (start, end) for name, start, end in rows}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ("a", "b", "a")}, "buffer 'a' is defined twice"),
        ({"end": np.array([2, 0, 4])}, r"buffer 'b': live range \[1, 0\) is reversed"),
        ({"size": np.array([4, -1, 3])}, "buffer 'b': size must be at least 0, got -1"),
        ({"alignment": np.array([1, 0, 1])}, "buffer 'b': alignment must be at least 1, got 0"),
        (
            {"alignment": np.array([1, 8, 1]), "pin": np.array([-1, 4, -1])},
            "buffer 'b': pin 4 is not a multiple of alignment 8",
        ),
        ({"gaps": ((Gap(1, 3),), (), ())}, "buffer 'a': gap 1-3"),
        ({"gaps": ((Gap(0, 1, window=(0, 5)),), (), ())}, "buffer 'a': gap window 0:5"),
        ({"size": np.array([2**62, 1, 1])}, "more than 2\\*\\*62 bytes"),
        ({"start": [0, 1]}, "start has 2 entries, but size has 3"),
        ({"size": 5}, r"size: expected a list of integers, got shape \(\)"),
        ({"size": [[1, 2], [3]]}, "size: expected a list of integers"),
        ({"size": [1.5, 2, 3]}, "size: expected integers of at most 64 bits, got float64"),
        ({"names": "abc"}, r"names must be a list of names: write \['abc'\]"),
        ({"gaps": [[(0, 1)], [], []]}, r"buffer 'a': expected a Gap, got \(0, 1\)"),
        ({"gaps": [[]]}, "gaps has 1 entries, but size has 3"),
    ],
)
def test_bad_problems_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        problem(**changes)


def test_a_part_takes_its_rectangles_from_the_problem() -> None:
    gaps = 0
    for seed in range(60):
        random = np.random.default_rng([17, seed])
        problem = random_problem(random, "wk", 9)
        ids = random.permutation(len(problem))[:6]
        part = select(problem, ids)
        anew = replace(part)
        for ours, theirs in zip(part.parts, anew.parts, strict=True):
            assert ours.tolist() == theirs.tolist()
        gaps += bool(part.gaps) and len(part.parts.owner) > len(part)
    assert gaps > 20


@pytest.mark.parametrize("kind", ["", "a", "k", "s", "g", "apgks"])
def test_a_part_is_as_a_problem_made_of_its_columns(kind: str) -> None:
    for seed in range(40):
        rng = np.random.default_rng([7, seed])
        problem = random_problem(rng, kind, 10)
        ids = rng.permutation(len(problem))[: int(rng.integers(11))]
        ids = ids if seed % 2 else np.sort(ids)
        names = [problem.names[i] for i in ids]
        pairs = [[problem.names[i] for i in pair] for pair in problem.keep_apart.tolist()]
        groups = [[problem.names[i] for i in row if i in ids] for row in problem.must_share]
        made = PackingProblem(
            names=names,
            **{key: getattr(problem, key)[ids] for key in ("start", "end", "size")},
            **{key: getattr(problem, key)[ids] for key in ("alignment", "pin")},
            gaps=[problem.gaps[i] for i in ids] if problem.gaps else (),
            keep_apart=[pair for pair in pairs if set(pair) <= set(names)],
            must_share=[group for group in groups if len(group) > 1],
        )
        part = select(problem, ids)
        assert part.names == made.names
        assert part.gaps == made.gaps
        assert part.must_share == made.must_share
        for key in ("start", "end", "size", "alignment", "pin", "keep_apart"):
            assert np.array_equal(getattr(part, key), getattr(made, key))
        assert part.max_load == made.max_load
        assert part.slab_bound == made.slab_bound


def test_the_numbers_of_a_part_are_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(np.random.default_rng(0), "ag", 10)
    monkeypatch.setattr("optsched.model.packing_problem.check_numbers", None)
    assert len(select(problem, np.arange(5))) == 5
