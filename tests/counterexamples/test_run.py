"""Hunts from nothing: the floor, determinism, rivals, limits, interrupts, bad wishes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from heuristics import ORDERINGS, PACKINGS
from optsched.check.packing import check_packing
from optsched.check.plan import check_plan
from optsched.counterexamples import (
    Counterexample,
    Hunt,
    HuntProgress,
    HuntTarget,
    LossObjective,
    hunt,
    hunt_from,
)
from optsched.counterexamples.removals import parts, without, without_buffers
from optsched.counterexamples.spaces import make_problem
from optsched.counterexamples.target import Loss
from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem
from tests.support import brute

FLOOR = ("lpmf", "bfs", "dfs", "xla_list", "xla_dfs", "xla_post_order")


def example_of(target: HuntTarget) -> Counterexample:
    done = hunt(target)
    assert done.counterexample is not None
    assert not done.interrupted
    return done.counterexample


@pytest.mark.parametrize("method", FLOOR)
def test_a_thousand_tries_find_a_ratio_far_above_the_floor(method: str) -> None:
    example = example_of(HuntTarget(method, seconds=None, tries=1_000))
    assert isinstance(example.item, Graph)
    graph, loss = example.item, example.loss
    assert len(graph.ops) <= 10
    assert loss.score >= 2
    assert example.minimal
    assert example.optimum.proved
    assert loss.value == peak_memory(graph, ORDERINGS[method](graph, 0))
    assert loss.rival == brute.least_peak(graph)
    assert check_plan(graph, example.plans[method]).peak == loss.value
    assert check_plan(graph, example.plans["optimum"]).peak == loss.rival
    for smaller in (less for part in parts(graph) for less in without(graph, part)):
        value = peak_memory(smaller, ORDERINGS[method](smaller, 0))
        less = Loss(value, brute.least_peak(smaller))
        assert not (less.loses and less.reaches(loss)), smaller


def test_greedy_by_size_loses_a_fifth_and_more() -> None:
    example = example_of(HuntTarget("greedy_by_size", seconds=None, tries=3_000, max_bytes=30))
    assert isinstance(example.item, PackingProblem)
    problem, loss = example.item, example.loss
    assert len(problem) <= 10
    assert loss.score >= 1.2
    assert example.minimal
    assert loss.rival == brute.least_slab(problem)
    assert check_packing(problem, example.plans["greedy_by_size"].tolist()) == loss.value
    assert check_packing(problem, example.plans["optimum"].tolist()) == loss.rival
    for name in problem.names:
        smaller = without_buffers(problem, {name})
        value = smaller.slab_size(PACKINGS["greedy_by_size"](smaller))
        assert not Loss(value, brute.least_slab(smaller)).reaches(loss)


@pytest.mark.parametrize(
    ("method", "tries"),
    [("bfs", 1_500), ("first_fit_arrival", 600), ("lpmf+first_fit_size", 300)],
)
def test_a_seed_gives_one_find(method: str, tries: int) -> None:
    def run(seed: int) -> tuple[Counterexample, int]:
        done = hunt(HuntTarget(method, seconds=None, tries=tries, seed=seed, max_ops=6))
        assert done.counterexample is not None
        return done.counterexample, done.tried

    def shape(example: Counterexample) -> str:
        item = example.item
        if isinstance(item, PackingProblem):
            return str((item.start.tolist(), item.end.tolist(), item.size.tolist()))
        assert isinstance(item, Graph)
        return str((item.ops, item.buffers))

    one, two, other = run(0), run(0), run(5)
    assert shape(one[0]) == shape(two[0])
    assert one[1] == two[1] == tries
    assert shape(one[0]) != shape(other[0])


def test_what_was_exhausted_is_said() -> None:
    done = hunt(HuntTarget("program", seconds=None, tries=2_000, max_ops=3))
    assert done.exhausted == ("1 graph of 1 op", "2 graphs of 2 ops", "8 graphs of 3 ops")
    assert "1 to 3 bytes" in done.scope


@pytest.mark.parametrize(("method", "versus"), [("lpmf", "bfs"), ("bfs", "lpmf")])
def test_an_ordering_loses_to_another(method: str, versus: str) -> None:
    example = example_of(HuntTarget(method, versus, seconds=None, tries=1_000))
    assert isinstance(example.item, Graph)
    graph = example.item
    assert example.loss.value == peak_memory(graph, ORDERINGS[method](graph, 0))
    assert example.loss.rival == peak_memory(graph, ORDERINGS[versus](graph, 0))
    assert example.loss.score > 1.5
    assert example.optimum.value == brute.least_peak(graph) <= example.loss.rival
    assert set(example.plans) == {method, versus, "optimum"}
    assert example.rival == versus


def test_a_packer_loses_to_another() -> None:
    example = example_of(
        HuntTarget("skyline", "first_fit_arrival", seconds=None, tries=2_500, max_bytes=9)
    )
    assert isinstance(example.item, PackingProblem)
    assert example.loss.rival == example.item.slab_size(PACKINGS["first_fit_arrival"](example.item))
    assert example.loss.loses


def test_a_pair_loses_to_the_least_slab_of_all_plans() -> None:
    example = example_of(HuntTarget("dfs+naive", seconds=None, tries=800, max_ops=5, max_bytes=5))
    assert isinstance(example.item, Graph)
    joint = brute.least_joint(example.item)
    assert joint is not None
    assert example.loss.rival == joint[0]
    assert check_plan(example.item, example.plans["dfs+naive"]).slab == example.loss.value
    assert example.minimal


def test_a_difference_grows_with_the_bytes() -> None:
    example = example_of(
        HuntTarget(
            "bfs", objective=LossObjective.DIFFERENCE, seconds=None, tries=1_000, max_bytes=50
        )
    )
    assert example.loss.score == example.loss.value - example.loss.rival > 50


def interrupted_after(count: int, target: HuntTarget) -> Hunt:
    seen = 0

    def listen(progress: HuntProgress) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            raise KeyboardInterrupt

    return hunt(target, on_progress=listen)


def test_an_interrupt_keeps_what_was_found() -> None:
    done = interrupted_after(4, HuntTarget("program", seconds=20.0))
    assert done.interrupted
    assert done.counterexample is not None
    assert done.counterexample.loss.loses
    assert done.counterexample.optimum.proved
    assert not done.counterexample.minimal


def test_no_time_at_all_finds_nothing() -> None:
    done = hunt(HuntTarget("lpmf", seconds=0.0))
    assert done.counterexample is None
    assert not done.interrupted


def test_a_graph_without_a_loss_gives_no_find() -> None:
    problem = make_problem(((0, 2, 3), (2, 4, 3)))
    assert hunt_from(problem, HuntTarget("skyline")).counterexample is None


WRONG = [
    ({"method": "nobody"}, "unknown method 'nobody'"),
    ({"method": "lpmf+nobody"}, "unknown method"),
    ({"method": "lpmf", "versus": "naive"}, "different kinds"),
    ({"method": "lpmf", "versus": "lpmf"}, "itself"),
    ({"method": "lpmf", "max_ops": 99}, "from 2 to 16"),
]


@pytest.mark.parametrize(("wish", "words"), WRONG)
def test_senseless_wishes_are_refused(wish: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        HuntTarget(**wish)  # type: ignore[arg-type]


def test_a_core_is_asked_of_the_right_kind_and_loss(tmp_path: Path) -> None:
    problem = make_problem(((0, 2, 3), (1, 4, 3)))
    with pytest.raises(UsageError, match="needs a graph"):
        hunt_from(problem, HuntTarget("lpmf"))
    with pytest.raises(UsageError, match="less than 3"):
        hunt_from(problem, HuntTarget("naive", at_least=Fraction(3)))


def test_losses_are_compared_exactly() -> None:
    assert Loss(3, 2).reaches(Loss(6, 4))
    assert not Loss(3 * 10**17, 2 * 10**17 + 1).reaches(Loss(3, 2))
    assert Loss(7, 3, LossObjective.DIFFERENCE).reaches(Loss(4, 0, LossObjective.DIFFERENCE))
    assert not Loss(7, 4, LossObjective.DIFFERENCE).reaches(Loss(4, 0, LossObjective.DIFFERENCE))
    assert Loss(6, 5).rival_limit(13) == 10
