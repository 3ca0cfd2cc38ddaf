"""Which unit comes next, how long it may be, and when a graph is given up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.compare.rows import StockPlan
from optsched.errors import UsageError
from optsched.fleet.graphs import FleetGraph, FleetState, UnitChoice
from optsched.fleet.settings import FleetEffort, FleetSettings
from optsched.fleet.turns import MOST_HELD
from optsched.fleet.unit import Found, Unit, UnitFailed
from optsched.formats.format import FILE_ORDER
from optsched.runtime.limits import Proof
from optsched.solver.pipeline import solve
from optsched.store import prepare_result
from tests.support.families.small import diamond
from tests.support.fleets import SETTINGS as BY_WORK

BEFORE = StockPlan(FILE_ORDER, "program", peak=100, slab=100)
SETTINGS = FleetSettings(budget=1_000.0, effort=FleetEffort(first_seconds=1.0, growth=4))


def fleet(*rows: tuple[int, float], settings: FleetSettings = SETTINGS) -> UnitChoice:
    """A choice among graphs of these sizes and weights, with all the time in the world."""
    graphs = [
        FleetGraph(number, f"{number}.json", f"{number}.json", weight, size)
        for number, (size, weight) in enumerate(rows)
    ]
    return UnitChoice(graphs, settings, lambda: settings.budget)


def find(slab: int, bound: int, slices: int, *, settled: bool = False, digest: str = "") -> Found:
    proof = Proof.JOINT if slab == bound else None
    figures = {"peak": slab, "slab": slab, "peak_bound": bound, "slab_bound": bound}
    known = Found(name="g", ops=3, buffers=4, before=BEFORE, digest=digest, **figures)
    return replace(known, proof=proof, slices=slices, settled=settled)


def searched(found: Found) -> Found:
    """A weight with a result of this run, not only from the store."""
    return replace(found, prepared=prepare_result(diamond(), solve(diamond())))


def taken(choice: UnitChoice) -> list[Unit]:
    found = []
    while (unit := choice.take()) is not None:
        found.append(unit)
    return found


def test_all_are_looked_at_once_the_small_ones_first() -> None:
    units = taken(fleet((30, 1.0), (10, 1.0), (20, 9.0)))
    assert [unit.number for unit in units] == [1, 2, 0]
    assert {unit.limits.seconds for unit in units} == {1.0}


def test_then_the_most_bytes_times_weight_a_second_come_first() -> None:
    choice = fleet((1, 1.0), (2, 1.0), (3, 5.0), (4, 1.0))
    units = taken(choice)
    for unit, gap in zip(units, (10, 40, 10, 0), strict=True):
        choice.accept(unit, find(50, 50 - gap, 1, digest=f"{unit.number}"))
    assert [unit.number for unit in taken(choice)] == [2, 1, 0]
    assert choice.graphs[3].state is FleetState.PROVED


def test_what_does_not_move_waits_longer_each_time() -> None:
    choice = fleet((1, 1.0), (2, 1.0))
    first, second = taken(choice)
    choice.accept(first, find(50, 10, 1, digest="first"))
    choice.accept(second, find(50, 30, 1, digest="second"))
    again = choice.take()
    assert again is not None
    assert (again.number, again.limits.seconds, again.first) == (0, 4.0, False)
    choice.accept(again, find(50, 10, 2))
    # 40 bytes in 16 seconds are less than 20 in 4.
    assert [unit.number for unit in taken(choice)] == [1, 0]


def test_units_have_other_seeds_so_that_nothing_is_walked_twice() -> None:
    choice = fleet((1, 1.0))
    (unit,) = taken(choice)
    choice.accept(unit, find(50, 10, 1))
    (again,) = taken(choice)
    assert (unit.limits.seed, again.limits.seed) == (0, 1)


def test_no_unit_is_longer_than_what_is_left() -> None:
    choice = fleet((1, 1.0))
    choice.left = lambda: 0.25
    (unit,) = taken(choice)
    assert unit.limits.seconds == 0.25
    choice = fleet((1, 1.0))
    choice.left = lambda: 0.0
    assert taken(choice) == []


def test_work_is_divided_by_what_the_graph_itself_has_had() -> None:
    settings = FleetSettings(work=20_000, effort=FleetEffort(first_work=1_000, growth=4))
    works = []
    for number in range(6):
        limits = settings.slice(number, None)
        works.append(None if limits is None else limits.work)
    assert works == [1_000, 4_000, 15_000, None, None, None]


def test_what_has_nothing_left_to_try_is_left_alone() -> None:
    choice = fleet((1, 1.0))
    (unit,) = taken(choice)
    choice.accept(unit, find(50, 10, 1, settled=True))
    assert taken(choice) == []
    assert choice.graphs[0].state is FleetState.OPEN


def test_neither_plan_nor_bound_gets_worse() -> None:
    choice = fleet((1, 1.0))
    (unit,) = taken(choice)
    choice.accept(unit, find(50, 30, 1))
    choice.accept(unit, find(60, 20, 2))
    graph = choice.graphs[0]
    assert (graph.slab, graph.slab_bound) == (50, 30)


def test_a_unit_that_takes_its_process_with_it_is_not_tried_for_ever() -> None:
    choice = fleet((1, 1.0))
    (unit,) = taken(choice)
    assert choice.lose(unit, "killed") is unit
    assert choice.lose(unit, "killed") is unit
    given_up = choice.lose(unit, "killed")
    assert given_up == UnitFailed("killed, 3 times")
    choice.fail(unit, given_up)
    assert choice.graphs[0].state is FleetState.FAILED


def test_a_graph_that_fails_later_keeps_its_plan() -> None:
    choice = fleet((1, 1.0))
    (unit,) = taken(choice)
    choice.accept(unit, find(50, 30, 1))
    choice.fail(unit, UnitFailed("out of memory"))
    assert (choice.graphs[0].state, choice.graphs[0].slab) == (FleetState.OPEN, 50)


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="budget and work exclude each other"):
        FleetSettings(budget=1.0, work=1)
    with pytest.raises(UsageError, match="not a number of seconds"):
        FleetSettings(budget=-1.0)
    with pytest.raises(UsageError, match="memory"):
        FleetSettings(memory=0)


def test_of_equal_graphs_one_is_searched_and_all_get_what_comes_of_it() -> None:
    choice = fleet((1, 1.0), (2, 1.0))
    first, second = taken(choice)
    choice.accept(first, find(50, 10, 1, digest="same"))
    choice.accept(second, find(60, 20, 1, digest="same"))
    (unit,) = taken(choice)
    assert unit.number == 0
    choice.accept(unit, find(40, 40, 2))
    assert [(graph.slab, graph.state) for graph in choice.graphs] == [(40, FleetState.PROVED)] * 2
    assert taken(choice) == []


def test_equal_graphs_fail_together() -> None:
    choice = fleet((1, 1.0), (2, 1.0))
    for unit in taken(choice):
        choice.accept(unit, find(50, 10, 1, digest="same"))
    (unit,) = taken(choice)
    choice.fail(unit, UnitFailed("out of memory"))
    assert [graph.reason for graph in choice.graphs] == ["out of memory"] * 2
    assert taken(choice) == []


def test_by_work_the_first_of_equal_graphs_counts_whichever_comes_in_first() -> None:
    choice = fleet((3, 1.0), (2, 1.0), (1, 1.0), settings=BY_WORK)
    units = taken(choice)
    assert [(unit.number, unit.limits.work) for unit in units] == [(2, 500), (1, 500), (0, 500)]
    finds = {
        2: find(50, 50, 1, digest="other"),
        1: searched(find(70, 20, 1, digest="same")),
        0: searched(find(60, 30, 1, digest="same")),
    }
    counted = {}
    for unit in reversed(units):
        for ended, found in choice.in_turn(unit, finds[unit.number]):
            counted[ended.number] = choice.accept(ended, found)
    assert counted == {2: True, 1: True, 0: False}
    assert [graph.slab for graph in choice.graphs] == [70, 70, 50]
    assert [graph.slab_bound for graph in choice.graphs] == [20, 20, 50]
    assert [unit.number for unit in taken(choice)] == [1]


def test_what_comes_in_out_of_turn_waits_and_is_never_much() -> None:
    count = MOST_HELD + 10
    choice = fleet(*[(1, 1.0)] * count, settings=BY_WORK)
    first, *others = [choice.take() for _ in range(MOST_HELD + 1)]
    assert first is not None
    for unit in others:
        assert unit is not None
        failed = UnitFailed("no graph") if unit.number % 3 else find(1, 1, 1)
        assert list(choice.in_turn(unit, failed)) == []
    assert choice.take() is None
    ended = [unit.number for unit, _ in choice.in_turn(first, UnitFailed("killed, 3 times"))]
    assert ended == list(range(MOST_HELD + 1))
    assert len(taken(choice)) == count - MOST_HELD - 1
