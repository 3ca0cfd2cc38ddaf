"""Sections, units, pieces, sums on problems a reader solves by hand."""

from __future__ import annotations

import numpy as np

from optsched.model.packing_problem import Gap
from optsched.packing.cliques import cut_sections
from optsched.packing.components import make_components
from optsched.packing.orders import range_max
from optsched.packing.portfolio import luby
from optsched.packing.rules import Rules
from optsched.packing.subset_sums import SubsetSums
from tests.support.packing_instances import problem_of


def test_sections_are_maximal_sets() -> None:
    # a 0-4, b 1-2, c 2-3, d 3-4: {a}, {a b}, {a c}, {a d}; the first is not maximal.
    start, end = np.array([0, 1, 2, 3]), np.array([4, 2, 3, 4])
    found = cut_sections(np.arange(4), start, end, 4)
    assert found.count == 3
    assert found.first.tolist() == [0, 0, 1, 2]
    assert found.last.tolist() == [3, 1, 2, 3]
    assert found.masks.shape == (4, 0)
    assert cut_sections(np.arange(4), start, end, 4, maximal=False).count == 4


def test_gap_leaves_a_section_out() -> None:
    problem = problem_of([(0, 6, 2), (2, 4, 3), (0, 6, 1)], gaps={0: (Gap(2, 4),)})
    (component,) = make_components(problem, Rules())
    assert component.sections.count == 3
    by_id = dict(zip(component.ids.tolist(), component.sections.masks[:, 0].tolist(), strict=True))
    assert by_id == {0: 0b101, 1: 0b010, 2: 0b111}
    assert component.load.tolist() == [3, 4, 3]


def test_groups_never_live_together_are_pieces() -> None:
    problem = problem_of([(0, 2, 2), (1, 3, 3), (3, 5, 1), (4, 5, 7)])
    components = list(make_components(problem, Rules()))
    assert [sorted(component.ids.tolist()) for component in components] == [[0, 1], [2, 3]]
    assert [component.bound for component in components] == [5, 8]
    assert len(list(make_components(problem, Rules(components=False)))) == 1


def test_unit_is_what_starts_are_multiples_of() -> None:
    (component,) = make_components(problem_of([(0, 2, 12), (1, 3, 30)]), Rules())
    assert (component.unit, component.size.tolist()) == (6, [2, 5])
    (component,) = make_components(problem_of([(0, 2, 12), (1, 3, 30)], alignment=[4, 8]), Rules())
    assert (component.unit, component.size.tolist()) == (4, [3, 8])
    # Whole units are 44 bytes; the last one may stay empty in part.
    assert component.bound == 42
    assert [component.slab_after(x) for x in (41, 42, 43, 44)] == [42, 44, 44, 46]


def test_bound_rounds_up_to_the_steps_of_a_section() -> None:
    # The last two never meet the buffer without alignment: one of them lies at 8 or above.
    problem = problem_of([(0, 2, 3), (2, 4, 5), (2, 4, 6)], alignment=[1, 8, 8])
    (component,) = make_components(problem, Rules(components=False))
    assert (component.unit, problem.max_load, component.bound) == (1, 11, 13)
    # A pin is a multiple of its own: here of 4 bytes, and five bytes take two of these.
    problem = problem_of([(2, 4, 5), (2, 4, 6)], alignment=[8, 4], pins={1: 4})
    assert [component.bound for component in make_components(problem, Rules())] == [13]


def test_sums_are_sums_of_sizes() -> None:
    (component,) = make_components(
        problem_of([(0, 2, 3), (0, 2, 5), (0, 2, 9)]), Rules(units=False)
    )
    sums = SubsetSums(component, 17, 1 << 23)
    found = [0]
    while found[-1] < 17:
        found.append(sums.after(found[-1]))
    assert found == [0, 3, 5, 8, 9, 12, 14, 17]


def test_sums_with_windows_add_and_take_away() -> None:
    # The first adds its size or the top of its window, less 0 or the window's bottom.
    gaps = {0: (Gap(1, 2, (1, 2)),)}
    (component,) = make_components(
        problem_of([(0, 2, 5), (0, 2, 9)], gaps=gaps), Rules(units=False)
    )
    sums = SubsetSums(component, 14, 1 << 23)
    found = [0]
    while found[-1] < 14:
        found.append(sums.after(found[-1]))
    assert found == [0, 1, 2, 4, 5, 9, 10, 11, 13, 14]
    # Above the requested height sums may be missing: then each height is possible.
    assert [sums.after(x) for x in (14, 15)] == [15, 16]
    # From a bottom of 5 to a top of 2 it takes away.
    gaps = {0: (Gap(0, 1, (0, 2)), Gap(1, 2, (5, 6)))}
    (component,) = make_components(
        problem_of([(0, 2, 6), (0, 2, 4)], gaps=gaps), Rules(units=False)
    )
    assert [SubsetSums(component, 10, 1 << 23).after(x) for x in (0, 1, 2, 4, 5, 6)] == [
        1,
        2,
        4,
        5,
        6,
        10,
    ]


def test_range_max() -> None:
    values = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    first = np.array([a for a in range(8) for _ in range(a, 8)])
    last = np.array([b + 1 for a in range(8) for b in range(a, 8)])
    expected = [int(values[a:b].max()) for a, b in zip(first, last, strict=True)]
    assert range_max(values, first, last).tolist() == expected


def test_luby() -> None:
    assert [luby(k) for k in range(1, 16)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]
