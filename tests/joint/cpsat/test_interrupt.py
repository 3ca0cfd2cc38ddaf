"""Ctrl-C and a failing listener end the search, not the incumbent."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from optsched.check.plan import check_plan
from optsched.joint.cpsat import CpSatOutcome, solve_joint
from optsched.joint.cpsat.solver import SolverThread
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.limits import Event, Limits, StopReason
from tests.joint.cpsat.common import random_plan
from tests.support.generators import random_graph
from tests.support.interrupts import interrupt_at


@pytest.fixture(scope="module")
def task() -> tuple[Graph, Plan]:
    """A graph too large to be closed in a second, and a bad plan of it."""
    rng = np.random.default_rng(1)
    graph = random_graph(rng, 90, max_size=4001, features={"multi", "workspace"})
    plan = random_plan(rng, graph)
    assert plan is not None
    return graph, plan


def assert_kept(graph: Graph, plan: Plan, outcome: CpSatOutcome) -> None:
    assert outcome.stop_reason is StopReason.INTERRUPTED
    assert outcome.plan is not None
    assert check_plan(graph, outcome.plan).slab <= plan.slab(graph)


@pytest.mark.parametrize("call", [1, 4])
def test_ctrl_c(call: int, task: tuple[Graph, Plan], monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, when CP-SAT may not have begun, and a while later."""
    graph, plan = task
    monkeypatch.setattr(SolverThread, "_receive", interrupt_at(call, SolverThread._receive))
    outcome = solve_joint(graph, warm_start=plan, limits=Limits())
    assert_kept(graph, plan, outcome)


def test_an_error_of_the_listener_is_passed_on() -> None:
    graph = random_graph(np.random.default_rng(40), 30, max_size=512, features={"multi"})

    def listen(event: Event) -> None:
        raise RuntimeError("listener")

    with pytest.raises(RuntimeError, match="listener"):
        solve_joint(graph, on_event=listen, limits=Limits(60.0))
    assert not [t for t in threading.enumerate() if t.name == "cp-sat"]
