"""A search that resumes an earlier one: as exact, and no work is repeated."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.errors import FormatError, PlanError, UsageError
from optsched.model.graph import Graph
from optsched.model.order_rules import OrderRules
from optsched.ordering import solve_order
from optsched.ordering.problem import build_problem
from optsched.ordering.progress import MOST_PAIRS, MOST_PARTS, OpenTree, OrderProgress
from optsched.ordering.rounds import OrderingRounds
from optsched.ordering.tree import PrecedenceTree
from optsched.runtime.limits import Proof, StopReason
from optsched.solver import stages
from optsched.solver.pipeline import solve
from optsched.solver.result import Result
from optsched.solver.resume import MOST_ORDERS, Resume
from optsched.solver.status import Status
from tests.fuzz.search_progress import solve_in_slices
from tests.support.brute import least_joint
from tests.support.families.small import diamond
from tests.support.families.wiring import random_wiring
from tests.support.generators import PLANNABLE, random_graph

TO_TREES = {"work": 100_000, "seed": 4}


def read_back(progress: Resume, graph: Graph) -> Resume:
    return Resume.from_dict(json.loads(json.dumps(progress.to_dict())), len(graph.ops))


@cache
def begun(work: int = 6_000, seed: int = 3) -> tuple[Graph, Result]:
    """A graph that is hard, and what a short search came to; with `TO_TREES`, to open trees."""
    graph = random_wiring(90, seed, unit=False)
    found = solve(graph, work=work)
    assert found.stop_reason is StopReason.WORK_LIMIT
    assert found.resume is not None
    return graph, found


def test_what_is_proved_leaves_nothing_to_go_on_from() -> None:
    assert solve(diamond()).resume is None


def test_progress_is_read_back_as_it_was_written() -> None:
    graph, found = begun(**TO_TREES)
    assert found.resume is not None
    assert read_back(found.resume, graph) == found.resume
    assert found.resume.orders
    assert found.resume.peak_bound == found.peak_bound
    assert found.resume.rounds.steps > 0
    assert found.resume.rounds.trees


def test_slices_are_as_exact_as_brute_force() -> None:
    rng = np.random.default_rng(19)
    for _ in range(20):
        graph = random_graph(rng, 5, features=PLANNABLE)
        least = least_joint(graph)
        assert least is not None
        result = solve_in_slices(graph, first=40)
        assert (result.slab, result.peak) == least or result.status is not Status.OPTIMAL
        assert result.slab is not None
        assert result.slab_bound <= least[0] <= result.slab


def test_what_goes_on_is_never_worse_and_tries_no_heuristic_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, first = begun()
    assert first.resume is not None

    def never(*_: object, **__: object) -> None:
        raise AssertionError("heuristics were tried again")

    monkeypatch.setattr(stages, "candidate_orders", never)
    more = solve(graph, warm_start=first.plan, progress=first.resume, work=6_000, seed=1)
    assert more.slab is not None
    assert first.slab is not None
    assert more.slab <= first.slab
    assert more.peak_bound >= first.peak_bound
    assert more.plan is not None
    check_plan(graph, more.plan, peak=more.peak, slab=more.slab)


def test_rounds_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, first = begun(**TO_TREES)
    assert first.resume is not None
    rounds, reopened = first.resume.rounds, []
    reopen = PrecedenceTree.reopen.__func__  # type: ignore[attr-defined]

    def spy(*args: Any) -> PrecedenceTree:
        reopened.append(args[-1])
        return reopen(*args)  # type: ignore[no-any-return]

    def never(*_: object) -> None:
        raise AssertionError("a step was done again")

    monkeypatch.setattr(PrecedenceTree, "reopen", classmethod(spy))
    monkeypatch.setattr(OrderingRounds, "closure_bound", never)
    monkeypatch.setattr(OrderingRounds, "improve_first", never)
    known = read_back(first.resume, graph)
    order = first.resume.orders[0]
    more = solve_order(graph, warm_start=order, bound=first.peak_bound, progress=known.rounds)
    assert more.proof is not None
    monkeypatch.undo()
    assert more.peak == solve_order(graph).peak
    assert reopened
    assert set(reopened) <= set(rounds.trees)


def test_the_same_progress_and_work_give_the_same_answer() -> None:
    graph, first = begun()
    assert first.resume is not None
    options = {"warm_start": first.plan, "progress": first.resume, "work": 6_000}
    one, other = (solve(graph, **options) for _ in range(2))  # type: ignore[arg-type]
    assert (one.plan, one.resume) == (other.plan, other.resume)


def test_a_bound_that_a_plan_refutes_is_refused() -> None:
    graph, first = begun()
    assert first.peak is not None
    wrong = Resume(peak_bound=first.peak + 1, peak_proof=Proof.SEARCH, graph=graph.digest)
    with pytest.raises(UsageError, match="refutes the bound"):
        solve(graph, warm_start=first.plan, progress=wrong, work=1)


def test_an_order_of_another_graph_is_refused() -> None:
    graph, _ = begun()
    backwards = tuple(reversed(range(len(graph.ops))))
    with pytest.raises(PlanError):
        solve(graph, progress=Resume(orders=(backwards,), graph=graph.digest), work=1)


def test_a_search_in_another_model_or_under_other_rules_is_refused() -> None:
    graph, first = begun()
    assert first.resume is not None
    kept = read_back(first.resume, graph)
    rules = OrderRules(last=(graph.ops[first.plan.order[-1]].name,) if first.plan else ())
    options: list[dict[str, Any]] = [{"align": 64}, {"order_rules": rules}]
    for option in options:
        with pytest.raises(UsageError, match="another memory model or under other order rules"):
            solve(graph, progress=kept, work=1, **option)


@pytest.mark.parametrize(
    "progress", [Resume(rounds=OrderProgress(failure_counts=(1, 2))), Resume(peak_bound=1)]
)
def test_progress_of_another_graph_or_of_none_is_refused(progress: Resume) -> None:
    graph, _ = begun()
    with pytest.raises(UsageError, match="another graph"):
        solve(graph, progress=progress, work=1)


@pytest.mark.parametrize(
    "change",
    [
        {"peak_bound": -1},
        {"peak_bound": True},
        {"peak_bound": 2**62},
        {"peak_proof": "L9"},
        {"orders": [[0, 0, 1, 2]]},
        {"orders": [[0, 1]]},
        {"orders": [[0, 1, 2, 3]] * (MOST_ORDERS + 1)},
        {"orders": 7},
        {"packed": ["00"]},
        {"seen": ["z" * 32]},
        {"seen": None},
        {"rounds": 7},
        {"rounds": {}},
    ],
)
def test_damaged_progress_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="not the progress of a search"):
        Resume.from_dict(Resume().to_dict() | change, 4)


TREE = {"budget": 9, "rows": [[0, 1], [1, 2]], "at_hand": 0, "root": 0, "patience": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"steps": -1},
        {"stride": None},
        {"failure_counts": [1]},
        {"failure_counts": [1, 1, 1, -1]},
        {"columns": [0] * 5},
        {"digest": "0"},
        {"trees": [{}]},
        {"trees": [TREE] * (MOST_PARTS // 2 + 1)},
        {"trees": [TREE | {"rows": [[]]}]},
        {"trees": [TREE | {"rows": [["0"]]}]},
        {"trees": [TREE | {"rows": [[MOST_PAIRS + 1, 3]]}]},
        {"trees": [TREE | {"rows": [[10**6 - 1]] * 2}]},
        {"trees": [TREE | {"budget": 2**62}]},
    ],
)
def test_damaged_rounds_are_refused(change: dict[str, object]) -> None:
    record = Resume().to_dict()
    assert Resume.from_dict(record | {"rounds": record["rounds"] | {"trees": [TREE]}}, 4)
    with pytest.raises(FormatError, match="not the progress of a search"):
        Resume.from_dict(record | {"rounds": record["rounds"] | change}, 4)


def test_what_older_versions_left_says_nothing_of_rounds() -> None:
    record = Resume(peak_bound=3).to_dict()
    del record["rounds"]
    assert Resume.from_dict(record, 4) == Resume(peak_bound=3)


def test_trees_of_another_problem_or_damaged_ones_are_not_gone_on_with() -> None:
    graph, first = begun(**TO_TREES)
    assert first.resume is not None
    rounds = first.resume.rounds
    problem = build_problem(graph.arrays)
    sealed = rounds.sealed(problem)
    assert list(sealed.trees_of(problem).values()) == list(rounds.trees)
    assert sealed.trees_of(build_problem(begun()[0].arrays)) == {}
    fewer = replace(sealed, trees=(replace(rounds.trees[0], rows=((0,),)), *rounds.trees[1:]))
    assert fewer.trees_of(problem) == {}


def test_of_too_many_trees_the_latest_are_kept() -> None:
    problem = build_problem(diamond().arrays)
    trees = tuple(OpenTree(budget, ((0,),) * (MOST_PARTS // 2)) for budget in range(4))
    sealed = OrderProgress(trees=trees).sealed(problem)
    assert [tree.budget for tree in sealed.trees] == [2, 3]


def test_progress_without_a_field_is_refused() -> None:
    record = Resume().to_dict()
    del record["orders"]
    with pytest.raises(FormatError):
        Resume.from_dict(record, 4)
