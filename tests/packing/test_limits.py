"""Limits, capacities, interruptions: what is known is said, nothing else."""

from __future__ import annotations

import time

import numpy as np
import pytest

from optsched.check.packing import check_packing
from optsched.errors import GraphError
from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.packing import PackingEffort, PackingOutcome, Rules, solve_packing
from optsched.packing.components import make_components
from optsched.packing.engine import PackingEngine
from optsched.packing.kernels.branch import FEWEST_THEN_TIGHT
from optsched.packing.kernels.search import EXHAUSTED, LIMIT, SOLVED
from optsched.runtime.clock import Clock
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


class CountingClock(Clock):
    """Never expires; counts how often it is asked."""

    looks = 0

    def expired(self) -> bool:
        self.looks += 1
        return False


@pytest.mark.parametrize("kind", ["", "ap", "g", "w"])
def test_first_fit_with_looks_at_the_clock_is_the_same(kind: str) -> None:
    problem = random_problem(np.random.default_rng(8), kind, buffers=60)
    (component,) = make_components(problem, Rules(components=False))

    def place(work: int, clock: Clock) -> IntArray | None:
        engine = PackingEngine(component, Rules(), PackingEffort(fit_work=work))
        done = engine.first_fit(engine.keys.order("A"), 2**40, clock)
        return engine.offsets() if done else None

    counting = CountingClock(Limits())
    whole, parts = place(10**9, Clock.of(Limits())), place(100, counting)
    assert whole is not None
    assert parts is not None
    assert np.array_equal(whole, parts)
    # Each look after 100 pairs, of 60 * 60 / 2.
    assert 4 < counting.looks <= 1 + len(component) ** 2 // 200
    assert place(100, Clock.of(Limits(seconds=0.0))) is None


def test_without_time_for_first_fit_the_warm_start_is_left() -> None:
    problem, least = above_load()
    start = np.cumsum(problem.size) - problem.size
    for warm in (None, start):
        outcome = solve_packing(
            problem,
            limits=Limits(seconds=0.0),
            warm_start=warm,
            effort=PackingEffort(fit_work=2),
        )
        assert outcome.stop_reason is StopReason.TIME_LIMIT
        assert outcome.bound <= least
        if warm is None:
            assert outcome.offsets is outcome.slab is None
        else:
            assert outcome.slab == problem.slab_size(start)


def test_node_limit_is_not_an_answer() -> None:
    problem, least = above_load()
    (component,) = make_components(problem, Rules(components=False))
    engine = PackingEngine(component, Rules(), PackingEffort())
    rank = engine.keys.rank("TWA")
    seen = []
    for limit in (1, 2, 3, 5, 8, 10**6):
        answers = [
            engine.decide(capacity, rank, FEWEST_THEN_TIGHT, limit, Clock.of(Limits()))
            for capacity in (least - 1, least)
        ]
        assert answers[0] in (EXHAUSTED, LIMIT)
        assert answers[1] in (SOLVED, LIMIT)
        seen.append(answers)
    assert LIMIT in seen[0]
    assert seen[-1] == [EXHAUSTED, SOLVED]


def test_slices_give_the_same_answer_as_one_run() -> None:
    problem = cut(np.random.default_rng(8), 60, 600, 30)
    (component,) = make_components(problem, Rules(components=False))
    counts = []
    for nodes in (3, 10**6):
        engine = PackingEngine(component, Rules(), PackingEffort())
        engine.slice = nodes
        rank = engine.keys.rank("WAT")
        answer = engine.decide(600, rank, FEWEST_THEN_TIGHT, 5_000, Clock.of(Limits()))
        counts.append((answer, engine.nodes, engine.offsets().tolist()))
    assert counts[0] == counts[1]


def test_time_limit_is_kept_and_the_bound_stays_valid() -> None:
    problem = cut(np.random.default_rng(1), 400, 100_000, 250)
    started = time.process_time()
    outcome = solve_packing(problem, limits=Limits(seconds=0.3))
    assert time.process_time() - started < 10
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


@pytest.mark.parametrize(
    ("sizes", "limits"),
    [((60, 700, 40), Limits(seed=3)), ((400, 100_000, 250), Limits(work=5_000))],
)
def test_a_seed_and_a_work_limit_are_repeatable(
    sizes: tuple[int, int, int], limits: Limits
) -> None:
    problem = cut(np.random.default_rng(2), *sizes)
    one, two = (solve_packing(problem, limits=limits) for _ in range(2))
    assert (one.stop_reason is StopReason.WORK_LIMIT) == (limits.work is not None)
    assert one.statistics == two.statistics
    assert one.offsets is not None
    assert two.offsets is not None
    assert one.offsets.tolist() == two.offsets.tolist()


def test_each_better_packing_is_handed_out_with_its_offsets() -> None:
    problem = cut(np.random.default_rng(3), 90, 2400, 40)
    start = np.cumsum(problem.size) - problem.size
    slabs: list[int] = []
    outcome = solve_packing(
        problem,
        limits=Limits(),
        warm_start=start,
        on_offsets=lambda found: slabs.append(check_packing(problem, found.tolist())),
    )
    assert slabs == sorted(set(slabs), reverse=True)
    assert slabs[-1] == outcome.slab == outcome.bound
    assert problem.slab_size(start) > slabs[0]


def test_warm_start_off_the_units_is_pushed_down() -> None:
    """Sizes of 6 and 9 are counted in units of 3; the start leaves gaps of a byte or two."""
    problem = problem_of([(0, 2, 6), (0, 2, 9), (1, 3, 6)])
    outcome = solve_packing(
        problem, limits=Limits(seconds=0.0), warm_start=np.array([1, 8, 19]), capacity=24
    )
    assert outcome.slab is not None
    assert outcome.slab <= 24


def test_warm_start_is_never_made_worse() -> None:
    problem, least = above_load()
    best = solve_packing(problem, limits=Limits())
    assert best.offsets is not None
    outcome = solve_packing(problem, limits=Limits(seconds=0.0), warm_start=best.offsets)
    assert outcome.slab == least


def test_clashing_pins_are_named() -> None:
    problem = problem_of([(0, 2, 4), (1, 3, 4)], pins={0: 0, 1: 3})
    with pytest.raises(GraphError, match=r"'b0' .* and 'b1' .* are pinned onto"):
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
