"""Pairs kept apart and groups that share an offset: the reductions, the least slab, the rules."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.model.packing_problem import PackingProblem
from optsched.packing import Rules, solve_packing
from optsched.packing.components import Component, make_components
from optsched.runtime.limits import Limits, Proof
from tests.support import brute
from tests.support.packing_instances import random_problem
from tests.support.packing_oracle import least_slab


def meetings(component: Component) -> set[tuple[int, int]]:
    """Pairs of buffers that share a section."""
    starts, rows = component.cover
    return {
        (min(a, b), max(a, b))
        for t in range(component.sections.count)
        for a, b in combinations(component.ids[rows[starts[t] : starts[t + 1]]].tolist(), 2)
    }


@pytest.mark.parametrize("kind", ["k", "gk", "apk"])
def test_sections_show_every_conflict_and_no_other(kind: str) -> None:
    """With the sections in order of time, without those that are part of others, and as cut."""
    fewer = 0
    for seed in range(40):
        problem = random_problem(np.random.default_rng([1, seed]), kind, 14)
        found = [meetings(x) for x in make_components(problem, Rules())]
        cut = [meetings(x) for x in make_components(problem, Rules(cliques=False))]
        assert set().union(*found) == set().union(*cut)
        apart = {(a, b) for a, b in problem.keep_apart.tolist() if problem.size[[a, b]].all()}
        assert apart <= set().union(*found)
        sections = sum(x.sections.count for x in make_components(problem, Rules()))
        fewer += sections < sum(len(x) for x in make_components(problem, Rules()))
    assert fewer > 20


def test_components_are_joined_by_pairs_only_where_these_are() -> None:
    problem = PackingProblem(size=[4, 3, 2, 5], start=[0, 1, 2, 3], end=[1, 2, 3, 4])
    assert [len(x) for x in make_components(problem, Rules())] == [1, 1, 1, 1]
    paired = replace(problem, keep_apart=np.array([[0, 3]]))
    found = sorted(x.ids.tolist() for x in make_components(paired, Rules()))
    assert [sorted(ids) for ids in found] == [[0, 3], [1], [2]]
    assert (paired.peak, paired.max_load) == (5, 9)
    outcome = solve_packing(paired, limits=Limits())
    assert (outcome.slab, outcome.proof) == (9, Proof.PACKING)


def test_a_partial_order_given_as_pairs_is_as_short_as_live_ranges() -> None:
    """Ranges told by pairs alone: all sections are those that the ranges themselves have."""
    random = np.random.default_rng(3)
    start = np.sort(random.integers(0, 60, 120))
    end = start + random.integers(1, 8, 120)
    size = random.integers(1, 50, 120)
    a, b = np.triu_indices(120, 1)
    meets = (start[a] < end[b]) & (start[b] < end[a])
    at = np.arange(120)
    told = PackingProblem(
        size=size, start=at, end=at + 1, keep_apart=np.column_stack([a, b])[meets]
    )
    known = PackingProblem(size=size, start=start, end=end)
    assert told.max_load == known.max_load
    sections = [sum(x.sections.count for x in make_components(p, Rules())) for p in (told, known)]
    assert sections[0] <= 2 * sections[1]
    one, other = (solve_packing(p, limits=Limits(work=200_000)) for p in (told, known))
    assert (one.slab, one.bound) == (other.slab, other.bound)


@pytest.mark.parametrize("kind", ["k", "s", "ks", "ak", "gk", "wk", "apgwks"])
def test_equals_cpsat_and_enumeration(kind: str) -> None:
    by_pairs = 0
    for seed in range(12):
        problem = random_problem(np.random.default_rng([17, seed]), kind, 7)
        if problem.joined.problem.clashing_pins() is not None:
            continue
        outcome = solve_packing(problem, limits=Limits())
        assert outcome.offsets is not None
        check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)
        assert outcome.slab == outcome.bound == least_slab(problem)
        by_pairs += problem.max_load > problem.peak
        if len(problem) <= 6 and outcome.slab <= 20:
            assert brute.least_slab(problem) == outcome.slab
    assert by_pairs > 3 or "k" not in kind


def test_rules_change_nothing() -> None:
    for kind in ("k", "apks"):
        problem = random_problem(np.random.default_rng([11, 3]), kind, 7)
        least = solve_packing(problem, limits=Limits()).slab
        for rule in fields(Rules):
            rules = Rules(**{rule.name: False})
            assert solve_packing(problem, limits=Limits(), rules=rules).slab == least
        none = Rules(**{rule.name: False for rule in fields(Rules)})
        assert solve_packing(problem, limits=Limits(), rules=none).slab == least


def test_capacity_and_warm_start_are_those_of_all_buffers() -> None:
    problem = PackingProblem(
        size=[4, 6, 3, 5],
        start=[0, 1, 2, 0],
        end=[1, 2, 3, 3],
        keep_apart=[(0, 1)],
        must_share=[(0, 2)],
    )
    seen: list[int] = []
    outcome = solve_packing(
        problem,
        limits=Limits(),
        warm_start=np.array([11, 5, 11, 0]),
        on_offsets=lambda found: seen.append(check_packing(problem, found.tolist())),
    )
    assert outcome.slab == outcome.bound == 15
    assert seen in ([], [15])
    assert solve_packing(problem, limits=Limits(), capacity=14).offsets is None
    huge = replace(problem, size=problem.size * 2**41)
    assert solve_packing(huge, limits=Limits()).slab == 15 * 2**41
