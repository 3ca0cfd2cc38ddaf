"""The independent checker: accepts what is right, refuses every single corruption."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pkgutil import iter_modules
from time import process_time

import numpy as np
import pytest

from optsched.check import rules
from optsched.check.packing import check_packing
from optsched.check.plan import check_answer, check_plan
from optsched.errors import PlanError
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.order_rules import Baseline, OrderRules
from optsched.model.packing_problem import Gap, PackingProblem, packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.model.pools import Pool
from optsched.model.question import Question
from tests.support.generators import random_graph, random_order
from tests.support.packing_instances import random_problem
from tests.support.things import apart_of, things_of


def diamond() -> Graph:
    build = GraphBuilder("diamond", alignment=2)
    build.input("x", 8)
    build.op("left", reads=["x"], writes={"a": 4})
    build.op("view", reads=["a"], views={"a2": "a"})
    build.op("right", reads=["x"], writes={"b": 6}, workspace=2)
    build.op("join", reads=["a2", "b"], writes={"y": 4})
    build.output("y")
    return build.build()


def good_plan() -> Plan:
    # ids: x a a2 b right.workspace y
    return Plan(order=(0, 1, 2, 3), offsets=(0, 8, 8, 12, 18, 18))


def test_a_good_plan_passes() -> None:
    graph = diamond()
    checked = check_plan(graph, good_plan(), peak=20, slab=22)
    assert (checked.peak, checked.slab) == (20, 22)


CORRUPTIONS = {
    "missing op": (lambda p: replace(p, order=p.order[:-1]), "'join' is not in the order"),
    "op twice": (lambda p: replace(p, order=(0, 1, 1, 3)), "op 'view' runs twice"),
    "unknown op": (lambda p: replace(p, order=(0, 1, 9, 3)), "unknown op number 9"),
    "too early": (lambda p: replace(p, order=(1, 0, 2, 3)), "'view' .* runs before 'left'"),
    "short offsets": (lambda p: replace(p, offsets=p.offsets[:-1]), "plan has 5 offsets"),
    "no offset": (lambda p: _move(p, 3, None), "buffer 'b' of 6 bytes has no offset"),
    "negative": (lambda p: _move(p, 3, -2), "negative offset -2"),
    "unaligned": (lambda p: _move(p, 3, 13), "'b' at 13 is not aligned to 2"),
    "overlap": (lambda p: _move(p, 3, 10), "buffers 'b' .* and 'a' .* overlap|'a' .* and 'b'"),
    "part of a byte": (lambda p: _move(p, 3, 12.0), "must be integers, got 12.0"),
    "True as an offset": (lambda p: _move(p, 3, True), "must be integers, got True"),
    "True as an op": (lambda p: replace(p, order=(0, True, 2, 3)), "must be integers, got True"),
    "view elsewhere": (lambda p: _move(p, 2, 10), "'a2' at 10 is a view of 'a' at 8"),
}


def _move(plan: Plan, buffer: int, offset: int | None) -> Plan:
    offsets = list(plan.offsets)
    offsets[buffer] = offset
    return replace(plan, offsets=tuple(offsets))


@pytest.mark.parametrize("case", CORRUPTIONS)
def test_each_corruption_is_refused(case: str) -> None:
    corrupt, message = CORRUPTIONS[case]
    with pytest.raises(PlanError, match=message):
        check_plan(diamond(), corrupt(good_plan()))


def test_a_plan_with_pools_and_too_few_offsets_is_refused() -> None:
    plan = good_plan()
    short = replace(plan, offsets=plan.offsets[:-1], pools=("fast",) * len(plan.offsets))
    with pytest.raises(PlanError, match="plan has 5 offsets, the graph 6 buffers"):
        check_plan(diamond(), short)


def test_the_rules_of_a_question_are_checked() -> None:
    question = Question(diamond(), OrderRules(first=["right"]))
    with pytest.raises(PlanError, match="op 'right' must be first, but runs at step 2"):
        check_answer(question, good_plan(), {})
    near = Question(diamond(), near=Baseline((0, 2, 1, 3), max_moved=0))
    with pytest.raises(PlanError, match="plan moves 1 op of the baseline, more than 0"):
        check_answer(near, good_plan(), {})
    small = Question(diamond(), pools=(Pool("", 21),))
    with pytest.raises(PlanError, match="slab of 22 bytes in pool '' exceeds its capacity of 21"):
        check_answer(small, good_plan(), {})
    asked = Question(diamond(), near=Baseline((0, 2, 1, 3), max_moved=1), pools=(Pool("", 22),))
    assert check_answer(asked, good_plan(), {"slab": 22}).peak == 20


def test_every_rule_is_listed() -> None:
    modules = {f"{rules.__name__}.{found.name}" for found in iter_modules(rules.__path__)}
    assert modules == {rule.__name__ for rule in rules.RULES}  # type: ignore[attr-defined]


def test_a_large_op_is_matched_in_near_linear_time() -> None:
    build = GraphBuilder("update")
    for i in range(20_000):
        build.input(f"x{i}", 1, "freed")
    reads, writes = [f"x{i}" for i in range(20_000)], {f"y{i}": 1 for i in range(20_000)}
    build.op("update", reads=reads, writes=writes)
    graph = build.build()
    pairs = tuple((0, 20_000 + i, i) for i in range(20_000))
    graph = replace(graph, inplace_candidates=pairs).with_inplace()
    started = process_time()
    checked = check_plan(graph, Plan((0,), tuple(range(20_000)) * 2))
    assert (checked.peak, checked.slab) == (20_000, 20_000)
    assert process_time() - started < 5


def test_no_sum_of_numpys_integers_passes_their_range() -> None:
    far = _move(good_plan(), 3, np.int64(2**63 - 4))  # type: ignore[arg-type]
    assert check_plan(diamond(), far).slab == 2**63 + 2


def test_a_pin_is_honoured_to_the_byte() -> None:
    graph = diamond()
    y = graph.buffers[5]
    check_plan(replace(graph, buffers=(*graph.buffers[:5], replace(y, pin=18))), good_plan())
    with pytest.raises(PlanError, match="'y' at 18 is pinned to 14"):
        check_plan(replace(graph, buffers=(*graph.buffers[:5], replace(y, pin=14))), good_plan())


@pytest.mark.parametrize("claim", [{"peak": 19}, {"slab": 21}])
def test_wrong_claims_are_refused(claim: dict[str, int]) -> None:
    graph = diamond()
    with pytest.raises(PlanError, match="plan claims"):
        check_plan(graph, good_plan(), **claim)


def test_external_buffers_have_no_offset() -> None:
    build = GraphBuilder()
    build.input("w", 5, "excluded")
    build.op("a", reads=["w"], writes={"y": 2})
    graph = build.build()
    check_plan(graph, Plan((0,), (None, 0)), peak=2, slab=2)
    with pytest.raises(PlanError, match="outside the slab"):
        check_plan(graph, Plan((0,), (4, 0)))


def test_stacking_everything_is_always_valid_and_overlaps_are_always_found() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(300):
        graph = random_graph(
            rng, ops=int(rng.integers(1, 14)), features=["inputs", "views", "multi"]
        )
        order = random_order(rng, graph)
        problem, _ = packing_problem(graph, order)
        stacked = np.concatenate([[0], np.cumsum(problem.size)])[: len(problem)].astype(np.int64)
        plan = make_plan(graph, order, stacked)
        assert check_plan(graph, plan).peak == peak_memory(graph, order)
        if len(problem) < 2:
            continue
        i, j = rng.choice(len(problem), 2, replace=False)
        moved = stacked.copy()
        moved[i] = stacked[j]
        together = problem.start[i] < problem.end[j] and problem.start[j] < problem.end[i]
        clash = _overlaps(problem, moved)
        assert clash or not together
        if clash:
            found += 1
            with pytest.raises(PlanError, match="overlap"):
                check_plan(graph, make_plan(graph, order, moved))
        else:
            check_plan(graph, make_plan(graph, order, moved))
    assert found > 30


def _overlaps(problem: PackingProblem, offsets: np.ndarray) -> bool:
    k = len(problem)
    return any(
        problem.start[i] < problem.end[j]
        and problem.start[j] < problem.end[i]
        and offsets[i] < offsets[j] + problem.size[j]
        and offsets[j] < offsets[i] + problem.size[i]
        for i in range(k)
        for j in range(i)
    )


def packing(**changes: object) -> PackingProblem:
    fields: dict[str, object] = {
        "names": ("a", "b"),
        "start": np.array([0, 2]),
        "end": np.array([10, 5]),
        "size": np.array([8, 4]),
        "alignment": np.array([1, 1]),
        "pin": np.array([-1, -1]),
    }
    return PackingProblem(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_buffer_may_lie_in_the_gap_of_another() -> None:
    absent = packing(gaps=((Gap(2, 6),), ()))
    assert absent.max_load == 8
    assert check_packing(absent, [0, 0], slab=8) == 8
    halved = packing(gaps=((Gap(2, 6, window=(0, 4)),), ()))
    assert check_packing(halved, [0, 4]) == 8
    with pytest.raises(PlanError, match="overlap"):
        check_packing(halved, [0, 3])
    with pytest.raises(PlanError, match="overlap"):
        check_packing(packing(), [0, 4])


def test_pairs_are_kept_apart_and_groups_share_their_offset() -> None:
    one_by_one = packing(start=np.array([0, 2]), end=np.array([2, 5]), keep_apart=[("a", "b")])
    assert check_packing(one_by_one, [4, 0]) == 12
    with pytest.raises(PlanError, match="share bytes and are to be kept apart"):
        check_packing(one_by_one, [3, 0])
    together = packing(must_share=[("a", "b")])
    assert check_packing(together, [4, 4], slab=12) == 12
    with pytest.raises(PlanError, match="'a' at 4 and 'b' at 5 must share an offset"):
        check_packing(together, [4, 5])


def test_a_group_fills_its_largest_size_whenever_a_member_is_there() -> None:
    problem = PackingProblem(
        names=("a", "b", "c"),
        size=[8, 2, 3],
        start=[0, 2, 2],
        end=[2, 4, 3],
        must_share=[("a", "b")],
        keep_apart=[("a", "c")],
    )
    for offsets in ([0, 0, 7], [0, 0, 2]):
        with pytest.raises(PlanError, match="overlap while both are live"):
            check_packing(problem, offsets)
    assert check_packing(problem, [0, 0, 8]) == 11
    apart = replace(problem, start=np.array([0, 2, 4]), end=np.array([2, 4, 5]))
    with pytest.raises(PlanError, match="'a' at \\[0, 8\\) and 'c' at \\[2, 5\\) share bytes"):
        check_packing(apart, [0, 0, 2])


def test_offsets_at_random_are_judged_as_by_definition() -> None:
    """Against unit steps and whole extents, told naively."""
    valid = 0
    for seed in range(400):
        random = np.random.default_rng([9, seed])
        problem = random_problem(random, str(random.choice(["k", "s", "ks", "gks", "wks"])), 4)
        things = things_of(problem)
        apart = apart_of(problem, things)
        places = random.integers(0, 60, len(things)).tolist()
        offsets = [0] * len(problem)
        for thing, place in zip(things, places, strict=True):
            for i in thing.members:
                offsets[i] = place
        is_valid = not any(
            x.there[step][0] + places[a] < y.there[step][1] + places[b]
            and y.there[step][0] + places[b] < x.there[step][1] + places[a]
            for (a, x), (b, y) in combinations(enumerate(things), 2)
            for step in x.there.keys() & y.there.keys()
        ) and all(
            places[a] + things[a].size <= places[b] or places[b] + things[b].size <= places[a]
            for a, b in apart
        )
        valid += is_valid
        try:
            check_packing(problem, offsets)
        except PlanError:
            assert not is_valid
        else:
            assert is_valid
    assert 10 < valid < 390


def test_packing_capacity_pin_and_claims() -> None:
    assert check_packing(packing(), [0, 8], capacity=12) == 12
    with pytest.raises(PlanError, match="slab of 12 bytes exceeds the capacity of 11"):
        check_packing(packing(), [0, 8], capacity=11)
    with pytest.raises(PlanError, match="claims a slab of 13"):
        check_packing(packing(), [0, 8], slab=13)
    with pytest.raises(PlanError, match="pinned to 4"):
        check_packing(packing(pin=np.array([4, -1])), [0, 8])
    with pytest.raises(PlanError, match="1 offsets for 2 buffers"):
        check_packing(packing(), [0])
