"""Gaps in which a window of the buffer stays: packings a reader sees, and what the search does."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.errors import GraphError
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.packing import PackingEffort, Rules, solve_packing
from optsched.packing.components import make_components
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels.branch import SECTION_RULES
from optsched.packing.kernels.search import EXHAUSTED, LIMIT, SOLVED
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, Proof, StopReason
from tests.support.packing_instances import problem_of, random_problem
from tests.support.packing_oracle import least_slab


def packed(problem: PackingProblem, slab: int) -> list[int]:
    """The offsets of a packing that is proved to have the least slab."""
    outcome = solve_packing(problem, limits=Limits())
    assert outcome.offsets is not None
    check_packing(problem, outcome.offsets.tolist(), slab=slab)
    assert outcome.stop_reason is StopReason.PROVED
    assert (outcome.slab, outcome.bound, outcome.statistics["partial"]) == (slab, slab, 1)
    offsets: list[int] = outcome.offsets.tolist()
    return offsets


def test_what_is_not_in_the_window_is_used() -> None:
    problem = problem_of([(0, 3, 4), (1, 2, 3)], gaps={0: (Gap(1, 2, (0, 1)),)})
    assert packed(problem, 4) == [0, 1]


def test_a_buffer_lies_below_another_and_above_it() -> None:
    """First b is above the rest of a, then below it: no order of the two puts one on top."""
    gaps = {0: (Gap(0, 1, (0, 2)), Gap(1, 2, (8, 10)))}
    assert packed(problem_of([(0, 2, 10), (0, 2, 6)], gaps=gaps), 10) == [0, 2]
    # A byte more does not fit between: one lies on the other.
    assert packed(problem_of([(0, 2, 10), (0, 2, 7)], gaps=gaps), 17) in ([0, 10], [7, 0])


def test_a_window_reaches_down_beside_another_buffer() -> None:
    """The rest of c lies on b and d; the upper one of them has a higher offset than c."""
    gaps = {2: (Gap(1, 2, (6, 8)),)}
    problem = problem_of([(0, 1, 2), (1, 2, 5), (0, 2, 8), (1, 2, 3)], gaps=gaps)
    assert packed(problem, 10)[2] == 2


def test_pins_and_alignment_hold_in_windows() -> None:
    gaps = {0: (Gap(1, 2, (3, 5)),), 1: (Gap(0, 1, (0, 4)),)}
    rows = [(0, 2, 8), (0, 2, 8), (1, 2, 3)]
    problem = problem_of(rows, [1, 4, 4], pins={0: 5}, gaps=gaps)
    outcome = solve_packing(problem, limits=Limits())
    assert outcome.offsets is not None
    check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)
    assert outcome.bound == outcome.slab == least_slab(problem)


def test_pins_may_overlap_where_their_windows_do_not() -> None:
    rows, gaps = [(0, 2, 4), (1, 2, 4)], {0: (Gap(1, 2, (0, 2)),)}
    assert packed(problem_of(rows, pins={0: 0, 1: 2}, gaps=gaps), 6) == [0, 2]
    with pytest.raises(GraphError, match=r"'b0' .* and 'b1' .* are pinned onto"):
        solve_packing(problem_of(rows, pins={0: 0, 1: 1}, gaps=gaps), limits=Limits())


def test_sections_are_cut_where_a_window_changes() -> None:
    gaps = {0: (Gap(2, 4, (4, 6)),)}
    problem = problem_of([(0, 6, 8), (0, 6, 2), (2, 6, 2)], gaps=gaps)
    (component,) = make_components(problem, Rules())
    assert component.occupancy is not None
    assert (component.unit, component.sections.count) == (2, 3)
    assert component.load.tolist() == [5, 3, 6]
    by_id = dict(zip(component.ids.tolist(), component.occupancy.ranges(3).tolist(), strict=True))
    _, _, low, high = component.occupancy.in_units(component.unit)
    rows = slice(*by_id[0])
    assert list(zip(low[rows].tolist(), high[rows].tolist(), strict=True)) == [
        (0, 4),
        (2, 3),
        (0, 4),
    ]


def test_unit_of_aligned_buffers_divides_where_windows_begin() -> None:
    rows, gaps = [(0, 2, 30), (1, 2, 9)], {0: (Gap(1, 2, (12, 17)),)}
    (component,) = make_components(problem_of(rows, [8, 8], gaps=gaps), Rules())
    assert component.unit == 4
    assert packed(problem_of(rows, [8, 8], gaps=gaps), 30) == [0, 0]


def test_bound_counts_what_is_below_and_above_the_windows() -> None:
    gaps = {i: (Gap(0, 1, (2, 5)),) for i in range(2)}
    problem = problem_of([(0, 1, 9), (0, 1, 9)], gaps=gaps)
    (component,) = make_components(problem, Rules())
    assert (problem.max_load, component.bound) == (6, 12)
    packed(problem, 12)


def test_proof_above_the_load_is_one_of_search() -> None:
    for seed in range(100):
        problem = random_problem(np.random.default_rng([31, seed]), "w", buffers=9)
        components = list(make_components(problem, Rules()))
        outcome = solve_packing(problem, limits=Limits())
        if outcome.bound > max(component.bound for component in components):
            assert outcome.bound == least_slab(problem)
            assert outcome.proof is Proof.PACKING_SEARCH
            return
    raise AssertionError("no such problem among the first ones")


def test_node_limit_is_not_an_answer() -> None:
    """For any order, rule and limit, no answer contradicts the least slab."""
    seen = []
    for seed in range(40):
        random = np.random.default_rng([37, seed])
        problem = random_problem(random, ["w", "pw"][seed % 2], buffers=7)
        least = solve_packing(problem, limits=Limits()).bound
        for component in make_components(problem, Rules(components=False)):
            engine = PackingEngine(component, Rules(), PackingEffort())
            for capacity in (least - 1, least):
                rank, limit = random.permutation(len(component)), int(random.integers(1, 60))
                rule = int(random.integers(SECTION_RULES))
                answer = engine.decide(capacity, rank, rule, limit, Clock.of(Limits()))
                assert answer in (LIMIT, EXHAUSTED if capacity < least else SOLVED)
                seen.append(answer)
    assert set(seen) == {LIMIT, EXHAUSTED, SOLVED}
