from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from optsched.check.plan import check_order
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.effort import EFFORT
from optsched.ordering.kernels.bits import unpack
from optsched.ordering.problem import build_problem
from optsched.ordering.progress import OpenTree
from optsched.ordering.rules import Statistics
from optsched.ordering.tree import PrecedenceTree, parts, search
from optsched.runtime import kernel as kernels
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.support.clocks import ExpiringClock
from tests.support.families.wiring import random_wiring
from tests.support.generators import PLANNABLE, random_graph
from tests.support.interrupts import interrupted_at_line
from tests.support.ordering_oracle import Oracle

ENOUGH = 100_000


def make_tree(graph: Graph, budget: int, **effort: int) -> PrecedenceTree:
    problem = SearchContext(build_problem(graph.arrays), effort=replace(EFFORT, **effort))
    failures = np.zeros(problem.ops, np.int64)
    return PrecedenceTree(problem, budget, problem.problem.rise, failures)


def no_search(_: SearchContext) -> bool:
    return False


def some_graphs(seed: int, count: int) -> list[tuple[Graph, int]]:
    rng = np.random.default_rng(seed)
    graphs = [
        random_graph(
            rng, int(rng.integers(1, 11)), max_size=int(rng.choice([2, 9, 2**40])),
            features=PLANNABLE,
        )
        for _ in range(count)
    ]  # fmt: skip
    return [(graph, Oracle(graph).least_peak()) for graph in graphs]


def assert_decided(graph: Graph, optimum: int, **effort: int) -> None:
    # Below the optimum there is nothing; at it, and somewhat above, there is an order.
    assert make_tree(graph, optimum - 1, **effort).run(ENOUGH, no_search) is True
    for budget in (optimum, optimum + 1 + optimum // 7):
        order = make_tree(graph, budget, **effort).run(ENOUGH, no_search)
        assert isinstance(order, list)
        assert check_order(graph, order) <= budget


@pytest.mark.parametrize("patience", [1, 32])
def test_tree_alone_decides_every_budget(patience: int) -> None:
    # With a patience of one every part is divided at once.
    for graph, optimum in some_graphs(patience, 80):
        if graph.ops:
            assert_decided(graph, optimum, part_patience=patience)


def test_compiled_tree_agrees_with_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for graph, optimum in some_graphs(5, 30):
        answers = []
        for form in (kernels.reference_form, kernels.compiled_form):
            monkeypatch.setattr(kernels.policy, "force", form)
            tree = make_tree(graph, optimum)
            answers.append((tree.run(ENOUGH, no_search), tree.context.statistics))
        assert answers[0] == answers[1]


def test_tree_can_be_left_and_taken_up_again() -> None:
    for graph, optimum in some_graphs(7, 40):
        tree = make_tree(graph, optimum)
        answer = tree.run(0, no_search)
        for _ in range(ENOUGH):
            if answer is not False:
                break
            answer = tree.run(1, no_search)
        assert isinstance(answer, list)
        assert check_order(graph, answer) <= optimum


def test_a_limit_on_work_ends_a_tree() -> None:
    ended = 0
    for graph, optimum in some_graphs(7, 40):
        tree = make_tree(graph, optimum)
        tree.context.clock = Clock.of(Limits(work=5))
        try:
            tree.run(ENOUGH, no_search)
        except OutOfTimeError:
            ended += 1
    assert ended > 10


def test_workers_share_a_tree() -> None:
    # By turns, a branch each: what one has divided the other takes.
    helped = 0
    for graph, optimum in some_graphs(13, 80):
        for budget in (optimum - 1, optimum):
            tree = make_tree(graph, budget, part_patience=1)
            other = tree.share(replace(tree.context, statistics=Statistics()))
            answers: list[list[int] | bool] = [False]
            while not any(answers):
                answers += [worker.run(1, no_search) for worker in (tree, other)]
            helped += other.context.statistics.branches
            order = next((answer for answer in answers if isinstance(answer, list)), None)
            if budget < optimum:
                assert order is None
                assert tree.settled
                assert other.settled
            else:
                assert order is not None
                assert check_order(graph, order) <= budget
    assert helped


def test_a_tree_in_which_an_order_was_found_is_never_refuted() -> None:
    # A worker may continue its part, before it knows the result of another.
    later = 0
    for graph, optimum in some_graphs(19, 60):
        tree = make_tree(graph, optimum, search_every=1)
        found = make_tree(graph, optimum, search_every=1).run(ENOUGH, no_search)
        assert isinstance(found, list)
        step = {v: at for at, v in enumerate(found)}

        def knows_one(
            strong: SearchContext,
            tree: PrecedenceTree = tree,
            found: list[int] = found,
            step: dict[int, int] = step,
        ) -> list[int] | bool:
            if tree.opened == 1:
                return False
            rows = (strong.problem.pred[a:b] for a, b in pairwise(strong.problem.pred_ptr.tolist()))
            keeps = all(step[u] < step[v] for v, row in enumerate(rows) for u in row.tolist())
            return found if keeps else True

        answers = [tree.run(1, knows_one) for _ in range(8)]
        assert found in answers
        assert True not in answers
        assert not tree.settled
        later += tree.opened > 2
    assert later > 10


def with_parts(graph: Graph, budget: int) -> tuple[PrecedenceTree, PrecedenceTree]:
    """A tree with some open parts, two workers at work on it."""
    tree = make_tree(graph, budget, part_patience=1)
    other = tree.share(replace(tree.context, statistics=Statistics()))
    tree.run(2, no_search)
    other.take_part()
    tree.take_part()
    return tree, other


def holds(left: OpenTree, order: Sequence[int]) -> bool:
    """Return True if an order is in one of the open parts."""
    step = np.argsort(order)
    return any((step[x[:, 0]] < step[x[:, 1]]).all() for x in left.parts(len(order)))


def hard_graphs(seed: int, count: int) -> list[tuple[Graph, list[int]]]:
    """Graphs that are branched on, and the best order of each, at which its budget is."""
    found = []
    for number in range(count):
        graph = random_wiring(16, seed + number, unit=False)
        order = make_tree(graph, Oracle(graph).least_peak()).run(ENOUGH, no_search)
        assert isinstance(order, list)
        found.append((graph, order))
    return found


def test_what_two_workers_leave_is_all_that_is_open() -> None:
    both = 0
    for graph, order in hard_graphs(0, 30):
        tree, other = with_parts(graph, check_order(graph, order))
        assert holds(tree.leave(), order)
        if tree.stack and other.stack:
            rows = len(tree.stack) + len(other.stack) + len(tree.parts.waiting)
            assert len(tree.leave().rows) == rows
            both += 1
    assert both > 5


def test_a_tree_that_is_left_anywhere_is_decided_by_who_goes_on() -> None:
    branches = 0
    for graph, order in hard_graphs(100, 20):
        optimum = check_order(graph, order)
        for budget in (optimum - 1, optimum):
            tree = make_tree(graph, budget, part_patience=4)
            for looks in range(3, 40, 6):
                tree.context.clock = ExpiringClock(looks)
                with suppress(OutOfTimeError):
                    tree.run(1, no_search)
                if tree.settled:
                    break
                context = replace(tree.context, statistics=Statistics(), clock=Clock.of(Limits()))
                failures, live = tree.propagation.failures, tree.expected
                assert budget < optimum or holds(tree.leave(), order)
                tree = PrecedenceTree.reopen(context, live, failures, tree.leave())
            answer = tree.run(ENOUGH, no_search)
            branches += tree.context.statistics.branches
            assert answer is True or check_order(graph, answer or []) <= budget
            assert (answer is True) == (budget < optimum)
    assert branches > 100


def test_an_interrupt_at_any_line_loses_no_part() -> None:
    lines = 0
    for graph, order in hard_graphs(200, 1):
        budget = check_order(graph, order)
        for count in range(300):
            tree, other = with_parts(graph, budget)
            with suppress(KeyboardInterrupt), interrupted_at_line(count, parts, search):
                other.run(1, no_search)
                tree.run(2, no_search)
                break
            assert holds(tree.leave(), order)
            lines += 1
    assert lines > 100


@pytest.mark.parametrize(
    "change",
    [
        {"rows": ()},
        {"rows": ((1,),)},
        {"rows": ((0, 10**9),)},
        {"rows": ((0, 1, 16),)},
        {"rows": ((0, 1, 1),)},
        {"at_hand": 9},
        {"at_hand": 1, "root": 1},
    ],
)
def test_what_is_no_tree_is_refused(change: dict[str, Any]) -> None:
    # Of independent ops 0 to 15, 1 is the pair of 0 and 1, and 16 that of 1 and 0.
    build = GraphBuilder("apart")
    for v in range(16):
        build.op(f"op{v}", writes={f"b{v}": 1})
    tree = make_tree(build.build(), 8)
    left = replace(OpenTree(8, ((0,),)), **change)
    with pytest.raises(ValueError, match=r"tree|pairs|part"):
        PrecedenceTree.reopen(tree.context, tree.expected, tree.propagation.failures, left)


def test_part_in_the_hands_of_another_worker_is_not_refuted() -> None:
    for graph, optimum in some_graphs(17, 40):
        tree = make_tree(graph, optimum)
        other = tree.share(tree.context)
        assert other.take_part()
        assert tree.run(ENOUGH, no_search) is False
        order = other.run(ENOUGH, no_search)
        assert isinstance(order, list)
        assert check_order(graph, order) <= optimum


def test_there_is_a_pair_to_split_on_however_large_sizes_are() -> None:
    # A branch without one would be taken for the single order that its ops are listed in.
    large = 2**60
    build = GraphBuilder("large")
    build.input("x", large)
    build.op("make", writes={"b": large})
    build.op("use", reads=["b"], workspace=3 * large // 2)
    build.op("drop", reads=["x"])
    graph = build.build()
    tree = make_tree(graph, Oracle(graph).least_peak())
    propagation = tree.propagation
    root = propagation.resume(tree.parts.waiting[0])
    assert not propagation.refutes(root)
    before = unpack(root.before, 3)
    assert not (before | before.T)[0, 2]
    assert propagation.choose(root, EFFORT.critical_ops)


def test_branch_is_given_up_only_where_its_states_are_refuted() -> None:
    # A search that finds nothing settles nothing, one that says "none" ends the branch.
    for graph, optimum in some_graphs(11, 20):
        tree = make_tree(graph, optimum)
        if not tree.settled:
            tree.opened = EFFORT.search_every - 1
            assert tree.run(1, lambda _: True) is True
