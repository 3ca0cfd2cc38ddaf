"""The decomposition against brute force; orders that are left open, limits, hints."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.joint.cpsat import benders
from optsched.joint.cpsat.benders import BendersOutcome, can_decompose, decompose
from optsched.joint.families import ALL_PACKING, PackingFamilies
from optsched.joint.oracle import GiveUpError, PackingOracle
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.fuzz.models import decomposable
from tests.joint.cpsat.common import QUICK
from tests.joint.cpsat.test_rectangles import two_pools
from tests.joint.test_joint import FREE, GAP
from tests.support.brute import least_joint
from tests.support.generators import random_graph

ROOM = 10**6
PLAIN = PackingFamilies(left=False, copies=False)


def search(
    graph: Graph, families: PackingFamilies = ALL_PACKING, *, capacity: int = ROOM, floor: int = 0
) -> tuple[list[int], BendersOutcome]:
    """Return the slabs of all plans, each checked, and the outcome."""
    plans: list[Plan] = []
    outcome = decompose(
        graph,
        capacity,
        floor=floor,
        offer=plans.append,
        clock=Clock.of(QUICK),
        families=families,
    )
    slabs = [check_plan(graph, plan).slab for plan in plans]
    assert slabs == sorted(set(slabs), reverse=True)
    return slabs, outcome


@pytest.mark.parametrize("families", [ALL_PACKING, PLAIN], ids=["all", "no dominance"])
@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_brute_force(seed: int, families: PackingFamilies) -> None:
    graph = decomposable(np.random.default_rng([seed, 29]))
    joint = least_joint(graph)
    slabs, outcome = search(graph, families)
    assert outcome.finished
    if joint is None:
        assert not slabs
        assert outcome.refuted == ROOM
        return
    assert slabs[-1] == joint[0]
    assert outcome.refuted == joint[0] - 1


@pytest.mark.parametrize(("graph", "slab"), [(GAP, 5), (FREE, 4)])
def test_a_slab_above_the_peak_takes_cuts(graph: Graph, slab: int) -> None:
    slabs, outcome = search(graph, floor=4)
    assert (slabs[-1], outcome.refuted) == (slab, slab - 1)
    assert search(graph, capacity=slab - 1)[0] == []
    if slab > 4:
        assert outcome.cuts


def test_orders_left_open_are_decided_later(monkeypatch: pytest.MonkeyPatch) -> None:
    within = PackingOracle.within
    asked: list[float] = []

    def slow(self: PackingOracle, problem: object, capacity: int) -> object:
        asked.append(self.seconds)
        if self.seconds < 4 * benders.PACKING_SECONDS:
            raise GiveUpError
        return within(self, problem, capacity)  # type: ignore[arg-type]

    monkeypatch.setattr(PackingOracle, "within", slow)
    slabs, outcome = search(GAP, capacity=6)
    assert outcome.finished
    assert (slabs[-1], outcome.refuted) == (5, 4)
    assert asked[0] == benders.PACKING_SECONDS


def test_without_decisions_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise GiveUpError

    monkeypatch.setattr(PackingOracle, "within", never)
    outcome = decompose(
        GAP, 6, floor=0, offer=lambda plan: None, clock=Clock.of(Limits(work=200_000))
    )
    assert (outcome.finished, outcome.refuted) == (False, -1)


def test_the_first_plan_is_enough_for_a_capacity() -> None:
    plans: list[Plan] = []
    graph = random_graph(np.random.default_rng(1), 5, max_size=6)
    found = decompose(
        graph, ROOM, floor=0, offer=plans.append, clock=Clock.of(QUICK), start=range(5), once=True
    )
    assert found.finished
    assert found.orders == 1


def test_the_same_work_gives_the_same_plans() -> None:
    graph = random_graph(np.random.default_rng(3), 16, max_size=8, features={"alignment", "multi"})
    runs = []
    for _ in range(2):
        plans: list[Plan] = []
        clock = Clock.of(Limits(work=30_000))
        outcome = decompose(graph, ROOM, floor=0, offer=plans.append, clock=clock)
        runs.append((outcome, plans))
    assert runs[0] == runs[1]


def test_what_it_does_not_have() -> None:
    assert can_decompose(GAP)
    assert not can_decompose(two_pools())
    pairs = [random_graph(np.random.default_rng(seed), 6).with_inplace() for seed in range(9)]
    assert {can_decompose(graph) for graph in pairs if graph.in_place} == {False}
