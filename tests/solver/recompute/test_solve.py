"""Plans, bounds and proofs of recomputation against Dijkstra over all schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optsched import PlanStore, certify
from optsched.certificate.recompute import certify_recompute
from optsched.check.recompute import (
    RecomputeBranch,
    RecomputeCertificate,
    RecomputeLeaf,
    RecomputeTree,
    check_recompute,
)
from optsched.check.recompute_rows import RowUse
from optsched.check.runs import check_runs
from optsched.errors import PlanError, UsageError
from optsched.formats.recompute import read_recompute_document, recompute_document
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.recompute import runs
from optsched.solver.recompute.bound import Leaf, added_up
from optsched.solver.recompute.front import recompute
from optsched.solver.recompute.master import Master
from optsched.solver.recompute.repair import Repair
from optsched.solver.recompute.rows import rounded
from optsched.solver.recompute.runs import with_repeats
from optsched.solver.recompute.solve import Planner
from tests.support.brute_recompute import least_extra, training_graph
from tests.support.interrupts import interrupt_at

LIMITS = Limits(seconds=20)


def budgets(planner: Planner) -> list[int]:
    base = planner.find_base(Clock.of(LIMITS)).peak
    return [peak for peak in (base, base - 1, base - 2, base * 4 // 5, base * 3 // 5) if peak > 0]


@pytest.mark.parametrize("seed", [*range(60), 1856])
def test_no_plan_and_no_bound_contradicts_all_schedules(seed: int) -> None:
    graph = training_graph(np.random.default_rng(seed))
    planner = Planner(graph)
    again = [planner.problem.ops[u] for u in planner.problem.again]
    for peak in budgets(planner):
        truth = least_extra(planner.problem.graph, peak, again)
        result = planner.plan(peak, Clock.of(LIMITS))
        certificate = certify_recompute(result)
        document = recompute_document(graph, certificate)
        assert read_recompute_document(graph, document) == certificate
        if truth is None:
            assert result.sequence is None
            continue
        assert result.bound is not None
        assert result.bound <= truth
        if result.sequence is not None:
            checked = check_runs(graph, result.sequence)
            assert checked.peak <= peak
            assert truth <= checked.extra == result.extra


def free(graph: Graph) -> Graph:
    """Return the graph in which repeats cost nothing."""
    return replace(graph, ops=tuple(replace(op, cost=0) for op in graph.ops))


@pytest.mark.parametrize("seed", range(60, 80))
def test_a_larger_budget_never_costs_more(seed: int) -> None:
    planner = Planner(training_graph(np.random.default_rng(seed)))
    results = recompute(planner.graph, budgets(planner), limits=LIMITS)
    extras = [x.extra for x in results if x.extra is not None]
    assert extras == sorted(extras)
    bounds = [2**62 if x.bound is None else x.bound for x in results]
    assert bounds == sorted(bounds)


def layers(count: int, once: bool = False) -> Graph:
    """Return layers of a forward op of 10 bytes each, whose backward op reads it."""
    build = GraphBuilder("layers", cost_unit="units")
    build.input("tangents_1", 0, "excluded")
    last: list[str] = []
    for i in range(count):
        build.op(f"f{i}", reads=last, writes={f"x{i}": 10}, cost=3, once=once)
        last = [f"x{i}"]
    build.op("loss", reads=last, writes={"loss": 1}, cost=1)
    build.output("loss")
    last = ["tangents_1"]
    for i in reversed(range(count)):
        build.op(f"b{i}", reads=[*last, f"x{i}"], writes={f"g{i}": 10})
        last = [f"g{i}"]
    build.output("g0")
    return build.build()


def test_layers_are_planned_and_proved() -> None:
    planner = Planner(layers(6))
    (result,) = recompute(planner.graph, [51], limits=LIMITS)
    assert result.status == "optimal"
    assert result.peak is not None
    assert result.peak <= 51
    assert result.repeats[0].cost == 3
    assert result.repeats[0].readers


@pytest.mark.parametrize(
    ("seed", "peak"), [(0, 30), (2, 18), (50, 31), (132, 26), (138, 23), (138, 22)]
)
def test_budgets_that_free_repeats_meet_are_met(seed: int, peak: int) -> None:
    # Repeats before the loss (0, 2, 132), after some of their readers (50), or at a peak that no
    # order of one repeat lowers (138).
    planner = Planner(free(training_graph(np.random.default_rng(seed))))
    result = planner.plan(peak, Clock.of(LIMITS))
    assert result.extra == result.bound == 0


@pytest.mark.parametrize(
    ("seed", "peak", "least"), [(500343, 20, 1), (500458, 61, 6), (500616, 36, 6)]
)
def test_least_plans_are_found_beyond_the_first_dead_end(seed: int, peak: int, least: int) -> None:
    # A repeat before the loss costs less than one after it (500343); the cheapest cut leads to
    # repeats that do not fit themselves (the others).
    planner = Planner(training_graph(np.random.default_rng(seed)))
    again = [planner.problem.ops[u] for u in planner.problem.again]
    assert least_extra(planner.problem.graph, peak, again) == least
    assert planner.plan(peak, Clock.of(LIMITS)).extra == least


def test_no_repeat_precedes_the_loss_where_that_is_excluded() -> None:
    planner = Planner(free(training_graph(np.random.default_rng(132))), early=False)
    assert planner.plan(26, Clock.of(LIMITS)).sequence is None


def test_free_repeats_need_no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the master was asked")

    monkeypatch.setattr(Master, "choose", refuse)
    (result,) = recompute(free(layers(6)), [51], limits=LIMITS)
    assert result.extra == result.bound == 0
    assert result.repeats


def test_a_node_that_does_not_fit_alone_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("sets of repeats or orders were searched")

    monkeypatch.setattr(Master, "choose", fail)
    monkeypatch.setattr(runs.Unroller, "search", fail)
    planner = Planner(layers(12))
    # The second peak is impossible by the proof of the first one.
    for peak in (25, 24):
        result = planner.plan(peak, Clock.of(LIMITS))
        assert result.status == "infeasible"
        assert check_recompute(planner.graph, certify_recompute(result)) is None


def test_a_repeat_gives_way_to_a_cheaper_one() -> None:
    graph = layers(6)
    costs = [9 if op.name == "f2" else op.cost for op in graph.ops]
    ops = [replace(op, cost=cost) for op, cost in zip(graph.ops, costs, strict=True)]
    planner = Planner(replace(graph, ops=tuple(ops)))
    nodes = with_repeats(planner.problem, planner.base.nodes, {2})
    repair = Repair(planner.unroller, 61, Clock.of(LIMITS))
    start = planner.unroller.shortest(repair.search(nodes).nodes, 61)
    assert (start.cost, start.peak <= 61) == (9, True)
    assert repair.improve(start, 10).cost == 3


def test_results_carry_their_question() -> None:
    less, more = recompute(layers(6), [41, 51], limits=LIMITS)
    assert (less.question.objective, less.question.budget) == ("cost", 41)
    assert more.question.covers(less.question)
    assert not less.question.covers(more.question)


def test_a_bound_for_one_loss_is_none_for_another() -> None:
    # Of a graph without tangents the loss alone decides which ops may run again.
    build = GraphBuilder("chain", cost_unit="units")
    build.op("a", writes={"x": 8}, cost=1)
    build.op("b", reads=["x"], writes={"y": 1}, cost=1)
    build.op("c", reads=["y"], writes={"z": 9}, cost=1)
    build.op("d", reads=["z"], writes={"w": 1}, cost=1)
    build.op("e", reads=["w", "x"], writes={"out": 1}, cost=1)
    build.output("out")
    (late,), (early,) = (
        recompute(build.build(), [17], loss=[loss], limits=LIMITS) for loss in ("d", "b")
    )
    assert (late.extra, early.extra) == (1, 1)
    assert not early.question.covers(late.question)
    assert not late.question.covers(early.question)


def test_other_stores_and_certificates_refuse_sequences_with_repeats(tmp_path: Path) -> None:
    (result,) = recompute(layers(6), [41], limits=LIMITS)
    store = PlanStore(tmp_path / "plans.db")
    # A record without its budget would hold for any.
    with pytest.raises(UsageError, match="a store does not keep answers about 'cost'"):
        store.put_bound(result.question, 3)
    with pytest.raises(UsageError, match="result wants a Result, got RecomputeResult"):
        certify(result.graph, result=result)  # type: ignore[arg-type]


def test_a_blocker_is_named() -> None:
    (result,) = recompute(layers(4, once=True), [40], limits=LIMITS)
    assert result.status == "infeasible"
    assert "more are held beside it in every schedule" in result.blocker
    (result,) = recompute(layers(4), [5], limits=LIMITS)
    assert "alone reads and writes" in result.blocker


def test_any_integers_prove_a_bound() -> None:
    # 3 r >= ? with r >= x, l >= 1 - x, -5 l >= -3: columns r, x, l.
    rows = [(15, ((0, 1), (1, -1)), 0), (15, ((2, 1), (1, 1)), 1), (3, ((2, -5),), -3)]
    assert added_up([3], 5, rows) == 2
    assert added_up([3], 5, [(y + 7, terms, bound) for y, terms, bound in rows]) <= 3


def certificate_of(peak: int) -> tuple[Graph, RecomputeCertificate]:
    (result,) = recompute(layers(6), [peak], limits=LIMITS)
    return result.graph, certify_recompute(result)


def _first_leaf(certificate: RecomputeCertificate) -> RecomputeLeaf:
    tree = certificate.tree
    while isinstance(tree, RecomputeBranch):
        tree = tree.fewer
    return tree


def _negative(x: RecomputeCertificate) -> RecomputeCertificate:
    leaf = _first_leaf(x)
    return replace(x, tree=replace(leaf, rows=(replace(leaf.rows[0], multiplier=-1),)))


def _other_row(x: RecomputeCertificate) -> RecomputeCertificate:
    leaf = _first_leaf(x)
    rows = tuple(replace(row, ids=(0, 0)) if row.kind == "live" else row for row in leaf.rows)
    return replace(x, tree=replace(leaf, rows=rows))


def _moved(kind: str) -> Callable[[RecomputeCertificate], RecomputeCertificate]:
    """Return a change that adds a row of a kind about the last op, which no op needs."""

    def change(x: RecomputeCertificate) -> RecomputeCertificate:
        leaf, last = _first_leaf(x), 12
        ids = {"down": (1, 0), "either": (last,), "round": (0, 1)}[kind]
        row = RowUse(kind, last, ids, 1)
        return replace(x, tree=replace(leaf, rows=(*leaf.rows, row)))

    return change


CORRUPTIONS: list[tuple[Callable[[RecomputeCertificate], RecomputeCertificate], str]] = [
    (lambda x: replace(x, bound=(x.bound or 0) + 1), "its rows prove only"),
    (lambda x: replace(x, bound=None), "claims no sequence fits"),
    (lambda x: replace(x, graph="other"), "about graph 'other'"),
    (lambda x: replace(x, cost_unit="ms"), "about costs in 'ms'"),
    (lambda x: replace(x, peak=x.peak + 20), "its rows prove only"),
    (lambda x: replace(x, tree=replace(_first_leaf(x), rows=())), "its rows prove only"),
    (lambda x: replace(x, tree=replace(_first_leaf(x), branches=(1, 1))), "one multiplier per"),
    (_negative, "multipliers must be at least 0"),
    (_other_row, "does not read"),
    (_moved("down"), "'f0' does not need op 'f1'"),
    (_moved("either"), "row 'either' names op 'b0' twice"),
    (_moved("round"), "divides by 0"),
]


@pytest.mark.parametrize(("corrupt", "message"), CORRUPTIONS)
def test_corrupted_certificates_are_refused(
    corrupt: Callable[[RecomputeCertificate], RecomputeCertificate], message: str
) -> None:
    graph, certificate = certificate_of(51)
    assert check_recompute(graph, certificate) == certificate.bound
    with pytest.raises(PlanError, match=message):
        check_recompute(graph, corrupt(certificate))


def test_rounded_bytes_satisfy_what_whole_storages_release() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        sizes = [int(x) for x in rng.integers(1, 12, 6)]
        q, need = int(rng.integers(1, 12)), int(rng.integers(1, 20))
        released = [size for size in sizes if rng.random() < 0.6]
        if sum(released) >= need:
            parts = sum(rounded(size, need, q) for size in released)
            assert parts >= rounded(need, need, q)


def test_whole_storages_need_no_tree() -> None:
    # Six storages of 10 bytes; 45 bytes must be released, and "round" says 5 storages at once.
    (result,) = recompute(layers(12), [76], limits=LIMITS)
    assert result.status == "optimal"
    kinds = {row.kind for row in _first_leaf(certify_recompute(result)).rows}
    assert "round" in kinds


def experts(count: int) -> Graph:
    """Return parallel forward ops of 10 bytes each, whose backward ops run in any order."""
    build = GraphBuilder("experts", cost_unit="units")
    build.input("tangents_1", 0, "excluded")
    build.op("gate", writes={"g": 1}, cost=1)
    for i in range(count):
        build.op(f"f{i}", reads=["g"], writes={f"x{i}": 10, f"y{i}": 1}, cost=3)
    build.op("loss", reads=[f"y{i}" for i in range(count)], writes={"loss": 1}, cost=1)
    build.output("loss")
    for i in range(count):
        build.op(f"b{i}", reads=["tangents_1", "loss", f"x{i}"], writes={f"d{i}": 12})
    build.op("end", reads=[f"d{i}" for i in range(count)], writes={"out": 1})
    build.output("out")
    return build.build()


def test_moments_that_the_graph_does_not_order_are_ordered_by_the_proof() -> None:
    # Whichever backward op comes first, the bytes of the others are to come or kept.
    graph = experts(3)
    planner = Planner(graph)
    base = planner.find_base(Clock.of(LIMITS)).peak
    again = [planner.problem.ops[u] for u in planner.problem.again]
    kinds = set[str]()
    for peak in range(base - 14, base):
        result = planner.plan(peak, Clock.of(LIMITS))
        truth = least_extra(planner.problem.graph, peak, again)
        if truth is not None:
            assert (result.extra, result.bound) == (truth, truth)
        kinds |= {kind for leaf in _leaves(certify_recompute(result).tree) for kind in leaf}
    assert {"either", "order"} <= kinds


def _leaves(tree: RecomputeTree) -> list[set[str]]:
    if isinstance(tree, RecomputeBranch):
        return [*_leaves(tree.fewer), *_leaves(tree.more)]
    return [{row.kind for row in tree.rows}]


def test_bytes_that_no_choice_can_release_prove_a_peak_impossible() -> None:
    build = GraphBuilder("fixed", cost_unit="units")
    build.input("tangents_1", 0, "excluded")
    build.op("a", writes={"x": 5}, once=True)
    build.op("b", reads=["x"], writes={"y": 4}, once=True)
    build.op("loss", reads=["y"], writes={"l": 1}, once=True)
    build.output("l")
    build.op("back", reads=["x", "l", "tangents_1"], writes={"g": 1})
    build.output("g")
    (result,) = recompute(build.build(), [9], limits=LIMITS)
    assert result.status == "infeasible"
    assert certify_recompute(result).bound is None


def test_a_work_limit_keeps_what_is_known() -> None:
    planner = Planner(layers(8))
    result = planner.plan(61, Clock.of(Limits(work=1)))
    assert result.bound is not None
    assert isinstance(result.proof.tree, Leaf | object)


def test_an_interrupt_in_any_order_search_ends_the_front(monkeypatch: pytest.MonkeyPatch) -> None:
    # The order engine takes a Ctrl-C as the end of its own search, and the front went on.
    search = runs.solve_order
    for call in range(1, 7):
        monkeypatch.setattr(runs, "solve_order", interrupt_at(call, search))
        found = recompute(layers(6), [35, 31], limits=LIMITS)
        assert "interrupted" in {x.stop_reason for x in found}
