"""The joint model: feasible and infeasible cases by family, and brute force without each family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched.joint.cpsat.joint_model import JointModel
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.cpsat.solver import EFFORT, SolverThread
from optsched.joint.families import ALL_PACKING, PackingFamilies
from optsched.joint.instance import graph_instance
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from tests.joint.cpsat.common import QUICK, diamond, is_feasible
from tests.support.brute import least_joint, least_joint_inplace
from tests.support.generators import PLANNABLE, random_graph, with_sharing

RECTANGLES = PackingFamilies(pairs=False, left=False, copies=False)
PAIRS = PackingFamilies(rectangles=False, left=False, copies=False)
WITHOUT = {
    "all": ALL_PACKING,
    "pairs alone": PAIRS,
    "rectangles alone": RECTANGLES,
    "no rectangles": replace(ALL_PACKING, rectangles=False),
    "no pairs": replace(ALL_PACKING, pairs=False),
    "no left": replace(ALL_PACKING, left=False),
    "no copies": replace(ALL_PACKING, copies=False),
    "resting": replace(ALL_PACKING, resting=True),
    "resting, rectangles": replace(RECTANGLES, resting=True),
    "all steps": replace(ALL_PACKING, all_steps=True),
}
KINDS = [RECTANGLES, PAIRS]


def mixed_graph(seed: int) -> Graph:
    """Return a graph of at most five ops with features in combination."""
    rng = np.random.default_rng([seed, 28])
    features = PLANNABLE | {"shuffled"}
    features |= {"pins"} if seed % 4 == 1 else set()
    features |= {"pools"} if seed % 3 == 1 else set()
    graph = random_graph(rng, int(rng.integers(1, 6)), max_size=6, features=features)
    if seed % 5 == 0:
        return with_sharing(rng, graph)
    return graph.with_inplace() if seed % 5 == 1 else graph


def minimum(graph: Graph, families: PackingFamilies) -> int | None:
    """Return the smallest slab by the model alone."""
    instance = graph_instance(graph)
    joint = JointModel(instance, families)
    joint.model.minimize(joint.slab)
    run = SolverThread(joint, lambda p: p.slab, Clock.of(QUICK), EFFORT).run(lambda _: None)
    assert run.finished
    return None if run.best is None else run.best.slab * instance.unit


@pytest.mark.parametrize("families", WITHOUT.values(), ids=WITHOUT)
def test_each_family_leaves_the_optimum(families: PackingFamilies) -> None:
    seen = 0
    for seed in range(16):
        graph = mixed_graph(seed + 16 * list(WITHOUT.values()).index(families))
        if np.count_nonzero(graph.arrays.size) > 7:
            continue
        seen += 1
        joint = None if graph.in_place else least_joint(graph)
        expected = least_joint_inplace(graph) if graph.in_place else joint and joint[0]
        assert minimum(graph, families) == expected
    assert seen > 8


def two_buffers(alignment: int = 1, pin: int | None = None) -> Graph:
    """Of 4 and 2 bytes, live together at the middle one of three ops in a row; units of 2 bytes."""
    build = GraphBuilder()
    build.op("first", writes={"x": 4})
    build.op("second", writes={"y": 2}, control=["first"])
    build.op("third", reads=["x"], control=["second"])
    build.place("y", alignment=alignment, pin=pin)
    return build.build()


def two_pools() -> Graph:
    build = GraphBuilder()
    build.op("a", writes={"x": 3, "y": 8})
    build.op("b", reads=["x", "y"])
    build.place("y", pool="other")
    return build.build()


def model_of(graph: Graph, families: PackingFamilies = RECTANGLES) -> JointModel:
    return JointModel(graph_instance(graph), families)


# Units of 2 bytes; while `right` runs, s, a and b are live: 2 + 3 + 4.
@pytest.mark.parametrize(("peak", "expected"), [(9, True), (8, False)])
def test_peak_covers_every_step(peak: int, expected: bool) -> None:
    joint = model_of(diamond())
    assert is_feasible(joint, {joint.peak: peak}) is expected


@pytest.mark.parametrize(("slab", "expected"), [(9, True), (8, False)])
def test_load_lies_below_the_slab(slab: int, expected: bool) -> None:
    joint = model_of(diamond())
    assert is_feasible(joint, {joint.slab: slab}) is expected


@pytest.mark.parametrize(("pool", "slab", "expected"), [("other", 8, True), ("other", 7, False)])
def test_pools_are_loaded_one_by_one(pool: str, slab: int, expected: bool) -> None:
    joint = model_of(two_pools())
    assert is_feasible(joint, {joint.slabs[pool]: slab}) is expected


@pytest.mark.parametrize(("slab", "expected"), [(11, True), (10, False), (12, False)])
def test_the_slab_is_the_sum_of_the_pools(slab: int, expected: bool) -> None:
    joint = model_of(two_pools())
    values = {joint.slabs["other"]: 8, joint.slabs[""]: 3, joint.slab: slab}
    assert is_feasible(joint, values) is expected


@pytest.mark.parametrize("families", KINDS)
@pytest.mark.parametrize(
    ("offsets", "expected"), [((0, 2), True), ((1, 0), True), ((0, 1), False), ((0, 0), False)]
)
def test_items_share_no_byte(
    offsets: tuple[int, int], expected: bool, families: PackingFamilies
) -> None:
    joint = model_of(two_buffers(), families)
    assert joint.instance.unit == 2
    place(joint, *offsets)
    assert is_feasible(joint) is expected


def place(joint: JointModel, *offsets: int) -> None:
    """Fix the offsets, in units, of the first items."""
    for offset, value in zip(joint.offset, offsets, strict=False):
        joint.model.add(offset == value)


@pytest.mark.parametrize("families", KINDS)
@pytest.mark.parametrize(("order", "expected"), [((0, 1, 2), True), ((1, 0, 2), False)])
def test_overlap_depends_on_the_order(
    order: tuple[int, ...], expected: bool, families: PackingFamilies
) -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 4})
    build.op("b", writes={"y": 4})
    build.op("c", reads=["y"])
    joint = model_of(build.build(), families)
    # After a, b; or b, a, c with y live beside x.
    place(joint, 0, 0)
    values = {joint.position[v]: at for at, v in enumerate(order)}
    assert is_feasible(joint, values) is expected


@pytest.mark.parametrize("families", KINDS)
@pytest.mark.parametrize(("offset", "expected"), [(2, True), (1, False)])
def test_aligned_offsets(offset: int, expected: bool, families: PackingFamilies) -> None:
    joint = model_of(two_buffers(alignment=4), families)
    place(joint, 0, offset)
    assert is_feasible(joint) is expected


@pytest.mark.parametrize("families", KINDS)
@pytest.mark.parametrize(("offset", "expected"), [(2, True), (0, False)])
def test_pinned_offsets(offset: int, expected: bool, families: PackingFamilies) -> None:
    joint = model_of(two_buffers(pin=2), families)
    assert joint.offset[1] == 1
    place(joint, offset)
    assert is_feasible(joint) is expected


@pytest.mark.parametrize(
    ("peak", "slab", "expected"), [(9, 10, True), (8, 10, False), (9, 9, False)]
)
def test_bounds(peak: int, slab: int, expected: bool) -> None:
    instance = graph_instance(diamond())
    joint = JointModel(instance, peak_bound=9 * instance.unit, slab_bound=10 * instance.unit)
    assert is_feasible(joint, {joint.peak: peak, joint.slab: slab}) is expected


@pytest.mark.parametrize(("order", "expected"), [((0, 1, 2), True), ((0, 2, 1), False)])
def test_what_allocates_nothing_runs_as_soon_as_it_can(
    order: tuple[int, ...], expected: bool
) -> None:
    build = GraphBuilder()
    build.op("make", writes={"x": 4})
    build.op("free", reads=["x"])
    build.op("other", writes={"y": 4})
    joint = model_of(build.build(), replace(RECTANGLES, left=True))
    values = {joint.position[v]: at for at, v in enumerate(order)}
    assert is_feasible(joint, values) is expected


@pytest.mark.parametrize(
    ("offsets", "expected"), [((0, 2), True), ((0, 3), False), ((1, 3), False)]
)
def test_items_rest_on_others(offsets: tuple[int, int], expected: bool) -> None:
    joint = model_of(two_buffers(), replace(RECTANGLES, resting=True))
    place(joint, *offsets)
    assert is_feasible(joint) is expected


@pytest.mark.parametrize(("order", "expected"), [((0, 1, 2), True), ((1, 0, 2), False)])
def test_identical_ops_run_by_number(order: tuple[int, ...], expected: bool) -> None:
    build = GraphBuilder()
    for name in "ab":
        build.op(name, writes={name * 2: 4})
    build.op("c", reads=["aa", "bb"])
    joint = model_of(build.build(), replace(RECTANGLES, copies=True))
    assert joint.groups == [[0, 1]]
    values = {joint.position[v]: at for at, v in enumerate(order)}
    assert is_feasible(joint, values) is expected


def test_a_pin_makes_ops_different() -> None:
    build = GraphBuilder()
    for name in "ab":
        build.op(name, writes={name * 2: 4})
    build.op("c", reads=["aa", "bb"])
    build.place("bb", pin=4)
    assert model_of(build.build(), ALL_PACKING).groups == []


def test_a_point_is_settled_at_no_cost() -> None:
    build = GraphBuilder()
    build.op("make", writes={"x": 4})
    build.op("other", writes={"y": 4})
    build.op("free", reads=["x"])
    build.op("last", reads=["y"])
    joint = model_of(build.build(), replace(ALL_PACKING, resting=True))
    point = joint.settled(ModelPoint(joint.instance, (0, 1, 2, 3), (3, 7)))
    assert (point.order, point.offsets, point.slab) == ((0, 2, 1, 3), (0, 0), 1)
