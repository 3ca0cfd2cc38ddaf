"""Pairs kept apart and groups that share an offset, as a packing problem has them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from optsched.errors import GraphError
from optsched.model import packing_buffers, selection
from optsched.model.conflicts import Conflicts, Whole
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.model.reserved import Region, Reserved
from optsched.model.selection import select
from tests.support.packing_instances import random_problem


def row_of_four(**given: object) -> PackingProblem:
    """Four buffers one after another, of 1, 2, 3 and 4 bytes."""
    return PackingProblem(
        names=("a", "b", "c", "d"),
        size=[1, 2, 3, 4],
        start=[0, 1, 2, 3],
        end=[1, 2, 3, 4],
        **given,
    )  # type: ignore[arg-type]


def test_pairs_are_positions_each_once() -> None:
    problem = row_of_four(keep_apart=[("d", "a"), (0, 3), ("b", 2)])
    assert problem.keep_apart.tolist() == [[0, 3], [1, 2]]
    assert row_of_four().keep_apart.shape == (0, 2)
    assert row_of_four(must_share=[("d", "a")]).must_share == ((0, 3),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"keep_apart": [("a", "x")]}, "keep apart: unknown buffer 'x'"),
        ({"keep_apart": [(0, 4)]}, "keep apart: unknown buffer number 4"),
        ({"keep_apart": np.array([[0, 4]])}, "keep apart: unknown buffer number 4"),
        (
            {"keep_apart": [(0.5, 1)]},
            "keep apart: a buffer is a name or a position, got 0.5",
        ),
        (
            {"must_share": [(True, 2)]},
            "must share: a buffer is a name or a position, got True",
        ),
        ({"keep_apart": [("a", "a")]}, "keep apart: buffer 'a' is paired with itself"),
        ({"keep_apart": [("a", "b", "c")]}, "keep apart: expected two buffers, got 'a', 'b', 'c'"),
        ({"keep_apart": ["ab"]}, "keep apart: expected a list of buffers, got 'ab'"),
        ({"must_share": [("a", "x")]}, "must share: unknown buffer 'x'"),
        ({"must_share": [("a",)]}, "must share: a group needs at least two buffers, got 'a'"),
        ({"must_share": [()]}, "must share: a group needs at least two buffers, got nothing"),
        ({"must_share": [("a", "b"), ("b", "c")]}, "must share: buffer 'b' is named twice"),
        (
            {"must_share": [("a", "b")], "pin": [4, 8, -1, -1]},
            "buffers 'a' (pinned to 4) and 'b' (pinned to 8) must share an offset",
        ),
        (
            {"must_share": [("a", "b")], "pin": [4, -1, -1, -1], "alignment": [1, 8, 1, 1]},
            "buffer 'b' must share the offset 4 of 'a', which is not a multiple of alignment 8",
        ),
        (
            {"must_share": [("a", "b")], "alignment": [2**61, 3, 1, 1]},
            "buffers sharing the offset of 'a' need an alignment above 2**62",
        ),
        (
            {"must_share": [("a", "b")], "keep_apart": [("b", "a")]},
            "buffers 'a' and 'b' must share an offset and must be kept apart",
        ),
    ],
)
def test_what_makes_no_sense_is_named(given: dict[str, object], said: str) -> None:
    with pytest.raises(GraphError) as caught:
        row_of_four(**given)
    assert str(caught.value) == said


def test_no_pairs_may_come_as_any_sequence() -> None:
    assert row_of_four(keep_apart=iter([])).keep_apart.shape == (0, 2)


def test_pins_of_a_pair_clash() -> None:
    problem = row_of_four(keep_apart=[("a", "d")], pin=[2, -1, -1, 0])
    assert problem.clashing_pins() == (0, 3)
    assert row_of_four(keep_apart=[("a", "c")], pin=[2, -1, -1, 0]).clashing_pins() is None


def test_a_group_is_one_buffer_with_several_live_intervals() -> None:
    problem = row_of_four(
        must_share=[("a", "d")],
        keep_apart=[("d", "b")],
        alignment=[4, 1, 1, 6],
        pin=[-1, 0, -1, 24],
    )
    joined = problem.joined.problem
    assert joined.names == ("a", "b", "c")
    assert joined.size.tolist() == [4, 2, 3]
    assert (joined.start.tolist(), joined.end.tolist()) == ([0, 1, 2], [4, 2, 3])
    assert joined.gaps == ((Gap(1, 3),), (), ())
    assert (joined.alignment[0], joined.pin[0]) == (12, 24)
    assert joined.keep_apart.tolist() == [[0, 1]]
    assert problem.joined.place.tolist() == [0, 1, 2, 0]
    assert (problem.peak, problem.max_load) == (4, 6)


def test_a_group_is_as_large_as_its_largest_member_throughout() -> None:
    problem = PackingProblem(size=[2, 5, 1], start=[0, 1, 0], end=[2, 3, 3], must_share=[(0, 1)])
    assert problem.peak == problem.max_load == 6
    assert not problem.joined.problem.gaps


def test_of_windows_a_group_keeps_the_hull() -> None:
    problem = PackingProblem(
        size=[6, 6, 6],
        start=[0, 0, 0],
        end=[3, 3, 0],
        gaps=((Gap(1, 3, (1, 2)),), (Gap(0, 1), Gap(1, 2, (4, 5)), Gap(2, 3, (3, 3))), ()),
        must_share=[(0, 1, 2)],
    )
    assert problem.joined.problem.gaps == ((Gap(1, 2, (1, 5)), Gap(2, 3, (1, 2))),)


def test_members_that_are_never_live_count_for_alignment_only() -> None:
    problem = PackingProblem(
        size=[9, 2], start=[1, 0], end=[1, 2], alignment=[4, 6], must_share=[(0, 1)]
    )
    joined = problem.joined.problem
    assert (joined.size.tolist(), joined.alignment.tolist()) == ([2], [12])
    assert (joined.start.tolist(), joined.end.tolist()) == ([0], [2])
    dead = PackingProblem(size=[9, 2], start=[1, 3], end=[1, 3], must_share=[(0, 1)])
    assert dead.max_load == 0


def test_who_is_never_live_or_empty_is_apart_anyway() -> None:
    problem = PackingProblem(
        size=[4, 5, 0], start=[0, 2, 1], end=[1, 2, 3], keep_apart=[(0, 1), (0, 2)]
    )
    assert len(problem.solid.owner) == 1
    assert problem.max_load == 4


def test_parts_of_a_problem_keep_their_pairs_and_groups() -> None:
    problem = row_of_four(keep_apart=[("a", "d"), ("b", "c")], must_share=[("a", "b")])
    part = select(problem, np.array([3, 0, 2]))
    assert part.names == ("d", "a", "c")
    assert part.keep_apart.tolist() == [[0, 1]]
    assert part.must_share == ()
    assert select(problem, np.array([1, 0])).must_share == ((0, 1),)
    more = Reserved([Region(0, 2)]).reduce(problem)[0]
    assert more.keep_apart.tolist() == problem.keep_apart.tolist()


def test_sets_cover_all_pairs_and_conflict_throughout() -> None:
    """Against the definition, told by steps."""
    heavier = 0
    for seed in range(150):
        random = np.random.default_rng([3, seed])
        problem = random_problem(random, str(random.choice(["k", "gk", "wk"])), 9)
        check_sets(problem)
        heavier += problem.max_load > problem.peak
    assert heavier > 50


def test_a_large_part_takes_its_sets_from_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pairs take seconds to cover by sets, and pools are packed in many attempts."""
    monkeypatch.setattr(selection, "HEAVIEST_BUFFERS", 5)
    fewer = 0
    for seed in range(150):
        random = np.random.default_rng([4, seed])
        problem = random_problem(random, str(random.choice(["k", "gk", "wk"])), 12)
        sets = len(problem.apart_sets.ptr)
        with monkeypatch.context() as patched:
            patched.setattr(packing_buffers, "Conflicts", None)
            part = select(problem, random.permutation(len(problem))[:9])
            check_sets(part)
        fewer += 1 < len(part.apart_sets.ptr) < sets
    assert fewer > 50


def check_sets(problem: PackingProblem) -> None:
    """Check that sets conflict throughout, and cover the pairs that no step shows."""
    conflict = _conflicts(problem)
    sets = problem.apart_sets
    cliques = [set(sets.row(number).tolist()) for number in range(len(sets.ptr) - 1)]
    for clique in cliques:
        assert len(clique) > 1
        assert all(conflict[i, j] for i, j in combinations(sorted(clique), 2))
    together = problem.solid.start < problem.end.max()
    for a, b in problem.keep_apart.tolist():
        meet = _meet(problem, a, b, together)
        assert meet or any({a, b} <= clique for clique in cliques)


def test_the_heaviest_set_is_found() -> None:
    for seed in range(60):
        random = np.random.default_rng([4, seed])
        problem = random_problem(random, "k", 5)
        conflict = _conflicts(problem)
        best = 0
        for bits in range(1 << len(problem)):
            ids = [i for i in range(len(problem)) if bits >> i & 1]
            if all(conflict[i, j] for i, j in combinations(ids, 2)):
                best = max(best, int(problem.size[ids].sum()))
        assert problem.max_load == best, seed


def test_thousands_of_pairs_take_their_time_only_once() -> None:
    """A partial order's incomparability graph given as pairs: 300 buffers, some 23,000 pairs."""
    random = np.random.default_rng(5)
    x, y = random.random(300), random.random(300)
    a, b = np.triu_indices(300, 1)
    pairs = np.column_stack([a, b])[(x[a] < x[b]) != (y[a] < y[b])]
    at = np.arange(300)
    size = random.integers(1, 100, 300)
    sets = Conflicts(Whole(at, at, at + 1), size, pairs).cliques()
    covered = np.zeros((300, 300), bool)
    for i in range(len(sets.ptr) - 1):
        covered[np.ix_(sets.row(i), sets.row(i))] = True
    assert covered[pairs[:, 0], pairs[:, 1]].all()
    assert len(sets.ptr) - 1 < len(pairs) / 10


def _conflicts(problem: PackingProblem) -> np.ndarray:
    """Return the pairs that must not share a byte: both fully there at a step, or kept apart."""
    found = np.zeros((len(problem), len(problem)), bool)
    for a, b in problem.keep_apart.tolist():
        found[a, b] = found[b, a] = True
    parts = problem.parts
    whole = (parts.high - parts.low == problem.size[parts.owner]) & (parts.high > parts.low)
    for i, j in combinations(np.flatnonzero(whole).tolist(), 2):
        if max(parts.start[i], parts.start[j]) < min(parts.end[i], parts.end[j]):
            a, b = parts.owner[i], parts.owner[j]
            found[a, b] = found[b, a] = True
    return found


def _meet(problem: PackingProblem, a: int, b: int, among: np.ndarray) -> bool:
    """Return True if two buffers are fully there at a step."""
    solid = problem.solid
    whole = (solid.high - solid.low == problem.size[solid.owner]) & among
    return any(
        max(solid.start[i], solid.start[j]) < min(solid.end[i], solid.end[j])
        for i in np.flatnonzero(whole & (solid.owner == a))
        for j in np.flatnonzero(whole & (solid.owner == b))
    )
