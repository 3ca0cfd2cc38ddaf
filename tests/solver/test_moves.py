"""solve() near a baseline: few moves, and fewest moves, and what is said of them."""

from __future__ import annotations

import pytest

from optsched import solve
from optsched.errors import GraphError, UsageError
from optsched.model.order_rules import OrderRules
from optsched.runtime.limits import Objective
from optsched.solver.status import Status
from tests.fuzz import moves
from tests.support.families.small import swelling

IN_TURN = ("up0", "up1", "down0", "down1", "join")


def test_a_sample_of_plans_near_a_baseline_is_exact() -> None:
    compared, wrong = moves.fuzz(12, seed=5)
    assert compared > 6
    assert wrong == []


def test_few_moves_have_a_peak_of_their_own() -> None:
    graph = swelling()
    none = solve(graph, baseline=IN_TURN, max_moved=0)
    assert (none.slab, none.slab_bound, none.moved, none.status) == (19, 19, 0, Status.OPTIMAL)
    one = solve(graph, baseline=IN_TURN, max_moved=1)
    assert (one.slab, one.moved) == (11, 1)
    assert solve(graph, baseline=IN_TURN, max_moved=0, objective="peak").peak == 19


def test_fewest_moves_among_plans_as_good() -> None:
    graph = swelling()
    result = solve(graph, baseline=IN_TURN, fewest_moves=True)
    assert (result.slab, result.moved, result.moved_bound) == (11, 1, 1)
    assert result.order is not None
    fits = solve(graph, baseline=IN_TURN, fewest_moves=True, capacity=19)
    assert (fits.moved, fits.moved_bound, fits.order) == (0, 0, list(IN_TURN))
    peak = solve(graph, baseline=IN_TURN, fewest_moves=True, objective=Objective.PEAK)
    assert (peak.peak, peak.moved, peak.moved_bound) == (11, 1, 1)


def test_the_listed_order_is_the_baseline_where_none_is_given() -> None:
    graph = swelling()
    assert solve(graph, max_moved=0).order == [op.name for op in graph.ops]
    assert solve(graph).moved is None
    assert solve(graph, baseline=solve(graph).plan).moved == 0


def test_rules_and_moves_together() -> None:
    rules = OrderRules(first=("up1",), groups=(("up0", "down1"),))
    result = solve(swelling(), baseline=IN_TURN, max_moved=1, order_rules=rules)
    assert result.order == ["up1", "up0", "down0", "down1", "join"]
    record = result.to_dict()["order_rules"]
    assert record == {
        "first": ["up1"],
        "groups": [["up0", "down1"]],
        "baseline": list(IN_TURN),
        "max_moved": 1,
        "moved": 1,
    }


def test_what_can_not_be_is_one_line() -> None:
    graph = swelling()
    rules = OrderRules(first=("up1",))
    with pytest.raises(GraphError, match="moves at most 0 ops of the baseline, each moves at le"):
        solve(graph, baseline=IN_TURN, max_moved=0, order_rules=rules)
    with pytest.raises(UsageError, match="names op 'up', which is not in the graph"):
        solve(graph, baseline=("up", *IN_TURN[1:]))
    with pytest.raises(UsageError, match="must be an order of all ops: order misses op 'join'"):
        solve(graph, baseline=IN_TURN[:4])
    with pytest.raises(UsageError, match="an order of all ops: order names op 'up0' 2 times"):
        solve(graph, baseline=(*IN_TURN, "up0"))
    with pytest.raises(UsageError, match="an order of all ops: order names op number 7, but"):
        solve(graph, baseline=[0, 1, 2, 3, 4, 7])
    with pytest.raises(UsageError, match=r"runs op 'join' .* before 'down1' .*, which it needs"):
        solve(graph, baseline=(*IN_TURN[:3], "join", "down1"))
    with pytest.raises(UsageError, match="max_moved must be at least 0, got -1"):
        solve(graph, max_moved=-1)
    with pytest.raises(UsageError, match="the warm start moves more than 0 ops"):
        solve(graph, baseline=IN_TURN, max_moved=0, warm_start=solve(graph).plan)


def test_what_is_not_proved_is_not_claimed() -> None:
    result = solve(swelling(), baseline=IN_TURN, fewest_moves=True, work=1)
    assert result.moved is not None
    assert result.moved_bound <= result.moved
    assert result.status is Status.FEASIBLE
