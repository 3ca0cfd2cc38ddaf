"""A search that goes on from an earlier one: as exact, and nothing is begun anew."""

from __future__ import annotations

import json

import numpy as np
import pytest

from optsched import ordering
from optsched.check.plan import check_plan
from optsched.errors import FormatError, PlanError, UsageError
from optsched.model.graph import Graph
from optsched.ordering.effort import EFFORT
from optsched.runtime.limits import Proof, StopReason
from optsched.solver import stages
from optsched.solver.pipeline import solve
from optsched.solver.result import Result, Status
from optsched.solver.search_progress import MOST_ORDERS, SearchProgress
from tests.fuzz.search_progress import solve_in_slices
from tests.support.brute import least_joint
from tests.support.families.small import diamond
from tests.support.families.wiring import random_wiring
from tests.support.generators import PLANNABLE, random_graph


def read_back(progress: SearchProgress, graph: Graph) -> SearchProgress:
    return SearchProgress.from_dict(json.loads(json.dumps(progress.to_dict())), len(graph.ops))


def begun(work: int = 6_000, seed: int = 3) -> tuple[Graph, Result]:
    """A graph that is hard, and what a short search came to."""
    graph = random_wiring(90, seed, unit=False)
    found = solve(graph, work=work)
    assert found.stop_reason is StopReason.WORK_LIMIT
    assert found.progress is not None
    return graph, found


def test_what_is_proved_leaves_nothing_to_go_on_from() -> None:
    assert solve(diamond()).progress is None


def test_progress_is_read_back_as_it_was_written() -> None:
    graph, found = begun()
    assert found.progress is not None
    assert read_back(found.progress, graph) == found.progress
    assert found.progress.orders
    assert found.progress.peak_bound == found.peak_bound
    assert found.progress.states >= EFFORT.first_states


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
    assert first.progress is not None

    def never(*_: object, **__: object) -> None:
        raise AssertionError("heuristics were tried again")

    monkeypatch.setattr(stages, "candidate_orders", never)
    more = solve(graph, warm_start=first.plan, progress=first.progress, work=6_000, seed=1)
    assert more.slab is not None
    assert first.slab is not None
    assert more.slab <= first.slab
    assert more.peak_bound >= first.peak_bound
    assert more.plan is not None
    check_plan(graph, more.plan, peak=more.peak, slab=more.slab)


def test_rounds_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, first = begun()
    assert first.progress is not None
    reached = []
    original = ordering.solve_order

    def spy(*args: object, **options: object) -> object:
        reached.append(options["effort"].reached_states)  # type: ignore[attr-defined]
        return original(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ordering, "solve_order", spy)
    more = solve(graph, warm_start=first.plan, progress=first.progress, work=6_000, seed=1)
    assert reached[0] == first.progress.states
    assert more.progress is None or more.progress.states >= first.progress.states


def test_the_same_progress_and_work_give_the_same_answer() -> None:
    graph, first = begun()
    assert first.progress is not None
    options = {"warm_start": first.plan, "progress": first.progress, "work": 6_000}
    one, other = (solve(graph, **options) for _ in range(2))  # type: ignore[arg-type]
    assert (one.plan, one.progress) == (other.plan, other.progress)


def test_a_bound_that_a_plan_refutes_is_refused() -> None:
    graph, first = begun()
    assert first.peak is not None
    wrong = SearchProgress(peak_bound=first.peak + 1, peak_proof=Proof.SEARCH)
    with pytest.raises(UsageError, match="refutes the bound"):
        solve(graph, warm_start=first.plan, progress=wrong, work=1)


def test_an_order_of_another_graph_is_refused() -> None:
    graph, _ = begun()
    backwards = tuple(reversed(range(len(graph.ops))))
    with pytest.raises(PlanError):
        solve(graph, progress=SearchProgress(orders=(backwards,)), work=1)


def test_blame_of_another_graph_is_refused() -> None:
    graph, _ = begun()
    with pytest.raises(UsageError, match="another graph"):
        solve(graph, progress=SearchProgress(blame=(1, 2)), work=1)


@pytest.mark.parametrize(
    "change",
    [
        {"peak_bound": -1},
        {"peak_bound": True},
        {"peak_bound": 2**62},
        {"peak_proof": "L9"},
        {"states": "many"},
        {"orders": [[0, 0, 1, 2]]},
        {"orders": [[0, 1]]},
        {"orders": [[0, 1, 2, 3]] * (MOST_ORDERS + 1)},
        {"orders": 7},
        {"packed": ["00"]},
        {"seen": ["z" * 32]},
        {"seen": None},
        {"blame": [1]},
        {"blame": [1, 1, 1, -1]},
    ],
)
def test_damaged_progress_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="no progress of a search"):
        SearchProgress.from_dict(SearchProgress().to_dict() | change, 4)


def test_progress_without_a_field_is_refused() -> None:
    record = SearchProgress().to_dict()
    del record["orders"]
    with pytest.raises(FormatError):
        SearchProgress.from_dict(record, 4)
