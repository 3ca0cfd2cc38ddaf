"""One feasible and one infeasible case for each family, each family alone in its model."""

from __future__ import annotations

import pytest

from optsched.joint.cpsat.constraints import (
    add_clause,
    add_load_below_slab,
    add_monotony,
    add_no_overlap,
    add_one_op_per_step,
    add_peak,
    add_precedences,
    add_releases,
    add_sum_of_slabs,
    add_times,
    add_tops,
)
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.cpsat.variables import ModelVariables
from optsched.joint.instance import graph_instance
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from tests.joint.cpsat.common import diamond, holds, is_feasible


def chainless() -> Graph:
    """Three ops in any order."""
    build = GraphBuilder()
    for name in "abc":
        build.op(name, writes={name * 2: 4})
    return build.build()


def two_readers() -> Graph:
    """`x` has two users that may come last."""
    build = GraphBuilder()
    build.op("a", writes={"x": 4})
    build.op("b", reads=["x"], writes={"y": 4})
    build.op("c", reads=["x"], writes={"z": 4})
    return build.build()


def variables_of(graph: Graph) -> ModelVariables:
    return ModelVariables(graph_instance(graph))


def two_buffers(alignment: int = 1, pin: int | None = None) -> ModelVariables:
    """Of 4 and 2 bytes, live together at the middle one of three ops in a row; units of 2 bytes."""
    build = GraphBuilder()
    build.op("first", writes={"x": 4})
    build.op("second", writes={"y": 2}, control=["first"])
    build.op("third", reads=["x"], control=["second"])
    build.place("y", alignment=alignment, pin=pin)
    return variables_of(build.build())


@pytest.mark.parametrize(("later", "expected"), [(1, True), (0, False)])
def test_done_stays_done(later: int, expected: bool) -> None:
    variables = variables_of(chainless())
    add_monotony(variables)
    row = variables.done[0]
    assert is_feasible(variables, {row[0]: 1, row[1]: later}) is expected


@pytest.mark.parametrize(("second", "expected"), [(0, True), (1, False)])
def test_one_op_runs_at_a_step(second: int, expected: bool) -> None:
    variables = variables_of(chainless())
    add_one_op_per_step(variables)
    values = {variables.done[0][0]: 1, variables.done[1][0]: second}
    assert is_feasible(variables, values) is expected


@pytest.mark.parametrize(("order", "expected"), [((0, 2, 1, 3), True), ((0, 1, 2, 3), False)])
def test_predecessors_come_first(order: tuple[int, ...], expected: bool) -> None:
    build = GraphBuilder()
    build.op("a", writes={"w": 1})
    build.op("b", reads=["z"], writes={"x": 1})
    build.op("c", writes={"z": 1})
    build.op("d", writes={"v": 1})
    graph = build.build()
    variables = variables_of(graph)
    add_precedences(variables)
    assert holds(variables, ModelPoint(variables.instance, order, (0,) * 4)) is expected


@pytest.mark.parametrize(("last", "expected"), [(1, True), (0, False)])
def test_released_when_all_users_are_done(last: int, expected: bool) -> None:
    variables = variables_of(two_readers())
    add_releases(variables)
    values = {
        variables.released[0][1]: 1,
        variables.done[1][1]: 1,
        variables.done[2][1]: last,
    }
    assert is_feasible(variables, values) is expected


@pytest.mark.parametrize(("position", "expected"), [(1, True), (2, False)])
def test_positions_agree_with_booleans(position: int, expected: bool) -> None:
    variables = variables_of(two_readers())
    add_times(variables)
    values = {variables.done[1][1]: 1, variables.position[1]: position}
    assert is_feasible(variables, values) is expected


@pytest.mark.parametrize(("end", "expected"), [(3, True), (2, False)])
def test_ends_agree_with_booleans(end: int, expected: bool) -> None:
    variables = variables_of(two_readers())
    add_times(variables)
    assert is_feasible(variables, {variables.released[0][1]: 0, variables.end[0]: end}) is expected


# Units of 2 bytes; while `right` runs, s, a and b are live: 2 + 3 + 4.
@pytest.mark.parametrize(("peak", "expected"), [(9, True), (8, False)])
def test_peak_covers_every_step(peak: int, expected: bool) -> None:
    variables = variables_of(diamond())
    add_peak(variables)
    point = ModelPoint(variables.instance, (0, 1, 2, 3), (0,) * 5)
    values = {v: int(m(point)) for v, m in variables.meanings if v is not variables.peak}
    assert is_feasible(variables, {**values, variables.peak: peak}) is expected


@pytest.mark.parametrize(("slab", "expected"), [(9, True), (8, False)])
def test_load_lies_below_the_slab(slab: int, expected: bool) -> None:
    variables = variables_of(diamond())
    add_load_below_slab(variables)
    assert is_feasible(variables, {variables.peak: 9, variables.slab: slab}) is expected


def two_pools() -> Graph:
    build = GraphBuilder()
    build.op("a", writes={"x": 3, "y": 8})
    build.op("b", reads=["x", "y"])
    build.place("y", pool="other")
    return build.build()


@pytest.mark.parametrize(("slab", "expected"), [(8, True), (7, False)])
def test_pools_are_loaded_one_by_one(slab: int, expected: bool) -> None:
    variables = variables_of(two_pools())
    add_load_below_slab(variables)
    assert is_feasible(variables, {variables.slabs["other"]: slab}) is expected


@pytest.mark.parametrize(("slab", "expected"), [(11, True), (10, False), (12, False)])
def test_the_slab_is_the_sum_of_the_pools(slab: int, expected: bool) -> None:
    variables = variables_of(two_pools())
    add_sum_of_slabs(variables)
    values = {variables.slabs["other"]: 8, variables.slabs[""]: 3, variables.slab: slab}
    assert is_feasible(variables, values) is expected


@pytest.mark.parametrize(("slab", "expected"), [(8, True), (7, False)])
def test_items_end_below_the_top_of_their_pool(slab: int, expected: bool) -> None:
    variables = variables_of(two_pools())
    add_tops(variables)
    values = {variables.slabs["other"]: slab, variables.slabs[""]: 3}
    assert is_feasible(variables, values) is expected


@pytest.mark.parametrize(("slab", "expected"), [(2, True), (1, False)])
def test_items_end_below_the_top(slab: int, expected: bool) -> None:
    variables = two_buffers()
    add_tops(variables)
    assert is_feasible(variables, {variables.slab: slab}) is expected


@pytest.mark.parametrize(
    ("offsets", "expected"), [((0, 2), True), ((1, 0), True), ((0, 1), False), ((0, 0), False)]
)
def test_items_share_no_byte(offsets: tuple[int, int], expected: bool) -> None:
    variables = two_buffers()
    assert variables.instance.unit == 2
    add_no_overlap(variables)
    place(variables, *offsets)
    assert is_feasible(variables) is expected


def place(variables: ModelVariables, *offsets: int) -> None:
    """Fix the offsets, in units, of the first items."""
    for offset, value in zip(variables.offset, offsets, strict=False):
        variables.model.add(offset == value)


@pytest.mark.parametrize(("order", "expected"), [((0, 1, 2), True), ((1, 0, 2), False)])
def test_overlap_depends_on_the_order(order: tuple[int, ...], expected: bool) -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4})
    build.op("b", writes={"y": 4})
    build.op("c", reads=["y"])
    variables = variables_of(build.build())
    add_times(variables)
    add_no_overlap(variables)
    # After a, b; or b, a, c with y live beside x.
    assert holds(variables, ModelPoint(variables.instance, order, (0, 0))) is expected


@pytest.mark.parametrize(("offset", "expected"), [(2, True), (1, False)])
def test_aligned_offsets(offset: int, expected: bool) -> None:
    variables = two_buffers(alignment=4)
    add_no_overlap(variables)
    place(variables, 0, offset)
    assert is_feasible(variables) is expected


@pytest.mark.parametrize(("offset", "expected"), [(2, True), (0, False)])
def test_pinned_offsets(offset: int, expected: bool) -> None:
    variables = two_buffers(pin=2)
    assert variables.offset[1] == 1
    add_no_overlap(variables)
    place(variables, offset)
    assert is_feasible(variables) is expected


@pytest.mark.parametrize(
    ("peak", "slab", "expected"), [(9, 10, True), (8, 10, False), (9, 9, False)]
)
def test_bounds(peak: int, slab: int, expected: bool) -> None:
    instance = graph_instance(diamond())
    bounds = {"peak_bound": 9 * instance.unit, "slab_bound": 10 * instance.unit}
    variables = ModelVariables(instance, **bounds)
    assert is_feasible(variables, {variables.peak: peak, variables.slab: slab}) is expected


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("then", [0, 1])
@pytest.mark.parametrize("constant", [(False, False), (True, False), (False, True), (True, True)])
def test_clauses_with_constants(first: int, then: int, constant: tuple[bool, bool]) -> None:
    variables = variables_of(chainless())
    a, b = variables.done[0][0], variables.done[1][0]
    add_clause(variables, first if constant[0] else a, then if constant[1] else b)
    assert is_feasible(variables, {a: first, b: then}) is (not first or bool(then))
