from __future__ import annotations

import threading
import time
from dataclasses import fields, replace

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, OrderOutcome, solve_order
from optsched.ordering import rounds as engine
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.rules import Statistics
from optsched.ordering.tree import PrecedenceTree
from optsched.ordering.worker_thread import WorkerThread
from optsched.runtime.limits import Event, Limits, StopReason
from optsched.solver.warmup import wired_graph
from tests.support.generators import PLANNABLE, random_graph, random_order
from tests.support.ordering_oracle import Oracle

TWO = Limits(workers=2)

HARD = wired_graph(85, seed=3)


@pytest.fixture(scope="module")
def alone() -> OrderOutcome:
    """Result of one worker on the graph that needs two."""
    return solve_order(HARD)


def assert_alone() -> None:
    assert not [thread for thread in threading.enumerate() if thread.name == "second worker"]


def check(graph: Graph, outcome: OrderOutcome) -> None:
    assert check_order(graph, outcome.order) == outcome.peak >= outcome.bound
    assert_alone()


@pytest.fixture
def hired(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The second workers that were hired."""
    names: list[str] = []

    class Noted(WorkerThread):
        def _run(self) -> None:
            names.append(self.thread.name)
            super()._run()

    monkeypatch.setattr(engine, "WorkerThread", Noted)
    return names


def test_two_workers_find_the_optimum(hired: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # With next to no effort in the first round, and less rules, small graphs need them as well.
    effort = replace(EFFORT, first_states=1)
    rng = np.random.default_rng(1)
    names = [field.name for field in fields(ALL_RULES) if field.name not in ("implied", "split")]
    for number in range(60):
        graph = random_graph(rng, 10, max_size=int(rng.choice([3, 9, 2**50])), features=PLANNABLE)
        kept = {name: number % 3 == 0 and bool(rng.integers(2)) for name in names}
        start = random_order(rng, graph)
        outcome = solve_order(
            graph, limits=TWO, warm_start=start, rules=replace(ALL_RULES, **kept), effort=effort
        )
        optimum = Oracle(graph).least_peak()
        assert (outcome.peak, outcome.bound) == (optimum, optimum)
        assert outcome.stop_reason is StopReason.PROVED
        check(graph, outcome)
    assert len(hired) >= 10


def test_two_workers_and_one_agree_on_a_hard_graph(hired: list[str], alone: OrderOutcome) -> None:
    two = solve_order(HARD, limits=TWO)
    assert hired
    assert (two.peak, two.bound, two.proof) == (alone.peak, alone.bound, alone.proof)
    assert two.statistics.ops == alone.statistics.ops
    check(HARD, two)


def test_two_workers_share_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = []
    share = PrecedenceTree.share

    def noted(tree: PrecedenceTree, context: SearchContext) -> PrecedenceTree:
        shares.append(tree.budget)
        return share(tree, context)

    graphs = [wired_graph(ops, seed=ops) for ops in (40, 43, 45, 47)]
    alone = [solve_order(graph, rules=replace(ALL_RULES, split=False)) for graph in graphs]
    monkeypatch.setattr(PrecedenceTree, "share", noted)
    effort = replace(EFFORT, first_states=16, part_patience=2)
    # Orders are left to the trees, which have more to do from poor ones.
    rules = replace(ALL_RULES, anneal=False, windows=False)
    for graph, one in zip(graphs, alone, strict=True):
        two = solve_order(graph, limits=TWO, rules=rules, effort=effort)
        assert (two.peak, two.bound) == (one.peak, one.bound)
        check(graph, two)
    assert shares


def test_easy_graphs_hire_nobody(hired: list[str]) -> None:
    assert solve_order(wired_graph(30), limits=TWO) == solve_order(wired_graph(30))
    assert not hired


def test_time_limit_ends_both(hired: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def climb(run: engine.OrderingRounds) -> None:
        assert run.thread is not None
        time.sleep(0.1)
        raise OutOfTimeError

    monkeypatch.setattr(engine.OrderingRounds, "climb", climb)
    graph = wired_graph(100, seed=1)
    outcome = solve_order(graph, limits=TWO)
    assert hired
    assert outcome.stop_reason is StopReason.TIME_LIMIT
    check(graph, outcome)


def test_interrupt_ends_both_and_keeps_what_both_found(
    hired: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    def climb(run: engine.OrderingRounds) -> None:
        # Wait for something to lose, then be interrupted.
        assert run.other is not None
        runs.append(run)
        until = time.monotonic() + 20
        while run.other.peak >= run.peak:
            assert time.monotonic() < until
            time.sleep(0.001)
        raise KeyboardInterrupt

    def search_beside(run: engine.OrderingRounds) -> None:
        while True:
            if runs:
                run.walk_on()
            run.context.check_time()

    def walk_on(run: engine.OrderingRounds) -> None:
        run.annealer.improve(2_048, run.bound)
        run.accept_reduced(run.annealer.order, "annealing")

    monkeypatch.setattr(engine.OrderingRounds, "climb", climb)
    monkeypatch.setattr(engine.OrderingRounds, "search_beside", search_beside)
    monkeypatch.setattr(engine.OrderingRounds, "walk_on", walk_on, raising=False)
    # The first leaves all that can be found by walks to the second.
    monkeypatch.setattr(engine.OrderingRounds, "anneal", lambda run, states: None)
    monkeypatch.setattr(engine.OrderingRounds, "search_windows", lambda run: None)
    graph = wired_graph(100, seed=1)
    outcome = solve_order(graph, limits=TWO)
    assert hired
    assert outcome.stop_reason is StopReason.INTERRUPTED
    assert outcome.peak == min(runs[0].peak, runs[0].other.peak)
    check(graph, outcome)


def test_a_gap_that_the_second_closes_ends_the_first(
    monkeypatch: pytest.MonkeyPatch, alone: OrderOutcome
) -> None:
    def climb(run: engine.OrderingRounds) -> None:
        if run.thread is None:
            return
        while True:
            run.context.check_time()
            time.sleep(0.001)

    monkeypatch.setattr(engine.OrderingRounds, "climb", climb)
    outcome = solve_order(HARD, limits=TWO)
    assert outcome.stop_reason is StopReason.PROVED
    assert outcome.peak == outcome.bound == alone.peak
    check(HARD, outcome)


def test_what_the_second_says_of_an_order_is_not_believed(
    hired: list[str], monkeypatch: pytest.MonkeyPatch, alone: OrderOutcome
) -> None:
    def search_beside(run: engine.OrderingRounds) -> None:
        run.peak = run.bound + 1

    monkeypatch.setattr(engine.OrderingRounds, "search_beside", search_beside)
    events: list[Event] = []
    outcome = solve_order(HARD, limits=Limits(seconds=20.0, workers=2), on_event=events.append)
    assert hired
    assert not [event for event in events if event.source == "second worker"]
    assert outcome.peak == alone.peak
    check(HARD, outcome)


def test_a_failure_of_the_second_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def search_beside(run: engine.OrderingRounds) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(engine.OrderingRounds, "search_beside", search_beside)
    with pytest.raises(ZeroDivisionError):
        solve_order(HARD, limits=TWO)
    assert_alone()


def test_sibling_works_until_told_to_end() -> None:
    end = threading.Event()

    def work() -> None:
        assert end.wait(20)
        raise OutOfTimeError

    sibling = WorkerThread(work, end)
    assert sibling.thread.is_alive()
    sibling.join()
    assert not sibling.thread.is_alive()
    assert sibling.failure is None


def test_statistics_of_both_add_up() -> None:
    mine = Statistics(ops=7, merged=2, stored=5, table_bytes=100, walked=3)
    mine.add(Statistics(ops=7, merged=2, stored=6, table_bytes=80, branches=4))
    assert mine == Statistics(ops=7, merged=2, stored=11, table_bytes=100, walked=3, branches=4)
