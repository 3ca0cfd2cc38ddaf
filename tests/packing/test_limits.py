"""Limits, capacities, interruptions: what is known is said, nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from optsched.check.plan import check_packing
from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.packing import PackingOutcome, Rules, engine, solve_packing
from optsched.packing.components import make_pieces
from optsched.packing.engine import Engine
from optsched.packing.kernels.branch import FEWEST_THEN_TIGHT
from optsched.packing.kernels.search import EXHAUSTED, LIMIT, SOLVED
from optsched.runtime.limits import Event, Limits, Proof, StopReason
from tests.support.packing_instances import cut, problem_of, random_problem
from tests.support.packing_oracle import least_slab


def above_load() -> tuple[PackingProblem, int]:
    """A problem whose least slab exceeds the load."""
    for seed in range(300):
        problem = random_problem(np.random.default_rng([5, seed]), "", buffers=13)
        outcome = solve_packing(problem, limits=Limits())
        if outcome.bound > problem.max_load:
            assert outcome.bound == least_slab(problem)
            return problem, outcome.bound
    raise AssertionError("no such problem among the first ones")


def test_capacity_is_decided_both_ways() -> None:
    problem, least = above_load()
    for capacity in range(problem.max_load - 1, least + 3):
        outcome = solve_packing(problem, limits=Limits(), capacity=capacity)
        if capacity < least:
            assert outcome.bound > capacity
            assert outcome.stop_reason in (StopReason.DECIDED, StopReason.PROVED)
        else:
            assert outcome.slab is not None
            assert outcome.slab <= capacity
            assert outcome.stop_reason in (StopReason.DECIDED, StopReason.PROVED)


@pytest.mark.parametrize("kind", ["", "ap", "g", "w"])
def test_first_fit_with_looks_at_the_clock_is_the_same(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = random_problem(np.random.default_rng(8), kind, buffers=60)
    (piece,) = make_pieces(problem, Rules(pieces=False))
    looks = 0

    def in_time() -> bool:
        nonlocal looks
        looks += 1
        return True

    def place(work: int, asked: Callable[[], bool]) -> IntArray | None:
        monkeypatch.setattr(engine, "FIT_WORK", work)
        bench = Engine(piece, Rules())
        done = bench.first_fit(bench.keys.order("A"), 2**40, in_time=asked)
        return bench.offsets() if done else None

    whole, parts = place(10**9, in_time), place(100, in_time)
    assert whole is not None
    assert parts is not None
    assert np.array_equal(whole, parts)
    # Each look after 100 pairs, of 60 * 60 / 2.
    assert 5 < looks <= 1 + len(piece) ** 2 // 200
    assert place(100, lambda: False) is None


def test_without_time_for_first_fit_the_warm_start_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, least = above_load()
    monkeypatch.setattr(engine, "FIT_WORK", 2)
    start = np.cumsum(problem.size) - problem.size
    for warm in (None, start):
        outcome = solve_packing(problem, limits=Limits(seconds=0.0), warm_start=warm)
        assert outcome.stop_reason is StopReason.TIME_LIMIT
        assert outcome.bound <= least
        if warm is None:
            assert outcome.offsets is outcome.slab is None
        else:
            assert outcome.slab == problem.slab_size(start)


def test_node_limit_is_not_an_answer() -> None:
    problem, least = above_load()
    (piece,) = make_pieces(problem, Rules(pieces=False))
    engine = Engine(piece, Rules())
    rank = engine.keys.rank("TWA")
    seen = []
    for limit in (1, 2, 3, 5, 8, 10**6):
        answers = [
            engine.decide(capacity, rank, FEWEST_THEN_TIGHT, limit, lambda: True)
            for capacity in (least - 1, least)
        ]
        assert answers[0] in (EXHAUSTED, LIMIT)
        assert answers[1] in (SOLVED, LIMIT)
        seen.append(answers)
    assert LIMIT in seen[0]
    assert seen[-1] == [EXHAUSTED, SOLVED]


def test_slices_give_the_same_answer_as_one_run() -> None:
    problem = cut(np.random.default_rng(8), 60, 600, 30)
    (piece,) = make_pieces(problem, Rules(pieces=False))
    counts = []
    for nodes in (3, 10**6):
        engine = Engine(piece, Rules())
        engine.slice = nodes
        rank = engine.keys.rank("WAT")
        answer = engine.decide(600, rank, FEWEST_THEN_TIGHT, 5_000, lambda: True)
        counts.append((answer, engine.nodes, engine.offsets().tolist()))
    assert counts[0] == counts[1]


def test_time_limit_is_kept_and_the_bound_stays_valid() -> None:
    problem = cut(np.random.default_rng(1), 400, 100_000, 250)
    started = time.perf_counter()
    outcome = solve_packing(problem, limits=Limits(seconds=0.3))
    assert time.perf_counter() - started < 10
    assert outcome.offsets is not None
    assert outcome.bound == 100_000
    check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)


def test_interruption_keeps_the_best() -> None:
    problem = cut(np.random.default_rng(1), 200, 100_000, 120)

    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    outcome = solve_packing(problem, limits=Limits(seconds=20), on_event=interrupt)
    assert outcome.stop_reason is StopReason.INTERRUPTED
    assert outcome.offsets is not None
    check_packing(problem, outcome.offsets.tolist(), slab=outcome.slab)


def test_same_seed_same_bytes() -> None:
    problem = cut(np.random.default_rng(2), 60, 700, 40)
    one, two = (solve_packing(problem, limits=Limits(seed=3)) for _ in range(2))
    assert one.offsets is not None
    assert two.offsets is not None
    assert one.offsets.tolist() == two.offsets.tolist()
    assert one.statistics == two.statistics


def test_warm_start_is_never_made_worse() -> None:
    problem, least = above_load()
    best = solve_packing(problem, limits=Limits())
    assert best.offsets is not None
    outcome = solve_packing(problem, limits=Limits(seconds=0.0), warm_start=best.offsets)
    assert outcome.slab == least


def test_clashing_pins_are_named() -> None:
    problem = problem_of([(0, 2, 4), (1, 3, 4)], pins={0: 0, 1: 3})
    with pytest.raises(GraphError, match="'b0' and 'b1' are pinned onto each other"):
        solve_packing(problem, limits=Limits())


def test_nothing_to_pack() -> None:
    for rows in ([], [(0, 0, 5)], [(0, 3, 0)]):
        outcome = solve_packing(problem_of(rows), limits=Limits())
        assert isinstance(outcome, PackingOutcome)
        assert (outcome.slab, outcome.bound, outcome.proof) == (0, 0, Proof.PACKING)


def test_pin_of_a_buffer_never_live_is_kept() -> None:
    problem = problem_of([(0, 0, 5), (0, 3, 2), (0, 2, 0)], pins={0: 40, 2: 8})
    outcome = solve_packing(problem, limits=Limits())
    assert outcome.offsets is not None
    assert check_packing(problem, outcome.offsets.tolist()) == outcome.slab == outcome.bound == 8
