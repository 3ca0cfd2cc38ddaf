from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from heuristics.orderings.program import program
from optsched.check.plan import check_order
from optsched.joint.cpsat import solve_joint
from optsched.joint.milp import solve_order_milp
from optsched.joint.milp.highs import HighsThread
from optsched.model.builder import GraphBuilder
from optsched.runtime.limits import Event, Limits, Objective
from tests.support.brute import least_peak
from tests.support.families.wiring import random_wiring
from tests.support.generators import FEATURES, random_graph
from tests.support.interrupts import interrupt_at

QUICK = Limits(20.0)


@pytest.mark.parametrize("seed", range(25))
def test_agrees_with_brute_force_and_cpsat(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(0, 10)), features=FEATURES)
    outcome = solve_order_milp(graph, limits=QUICK)
    assert outcome.order is not None
    assert check_order(graph, outcome.order) == outcome.value
    assert outcome.value == outcome.bound == least_peak(graph)
    joint = solve_joint(graph, objective=Objective.PEAK, limits=QUICK)
    assert joint.infeasible or outcome.value == joint.value
    assert outcome.optimal


def test_a_known_bound_is_kept() -> None:
    graph = random_graph(np.random.default_rng(1), 8)
    peak = least_peak(graph)
    assert solve_order_milp(graph, peak_bound=peak, limits=QUICK).bound == peak


def test_large_sizes_are_scaled() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 3 * 2**58, "y": 2**58})
    build.op("b", reads=["x"], writes={"z": 2**58})
    build.op("c", reads=["y", "z"])
    outcome = solve_order_milp(build.build(), limits=QUICK)
    assert outcome.value == outcome.bound == 5 * 2**58


def test_sizes_of_many_digits_are_exact() -> None:
    build = GraphBuilder()
    build.op("a", writes={"x": 2**41 + 1, "y": 2})
    build.op("b", writes={"z": 2**41 + 2})
    build.op("c", reads=["x"], writes={"w": 3})
    build.op("d", reads=["w", "y"])
    build.op("e", reads=["z"])
    graph = build.build()
    outcome = solve_order_milp(graph, limits=QUICK)
    assert outcome.value == outcome.bound == least_peak(graph)


def test_without_time_nothing_is_claimed() -> None:
    graph = random_graph(np.random.default_rng(1), 8)
    outcome = solve_order_milp(graph, peak_bound=3, limits=Limits(0.0))
    assert (outcome.order, outcome.value, outcome.bound, outcome.finished) == (None, None, 3, False)


def test_events_never_move_back() -> None:
    graph = random_wiring(20, 1, unit=False)
    seen: list[Event] = []
    start = program(graph).tolist()
    outcome = solve_order_milp(
        graph, start=start, independent=True, on_event=seen.append, limits=QUICK
    )
    assert outcome.optimal
    values = [event.incumbent for event in seen if event.incumbent is not None]
    bounds = [event.bound for event in seen]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert (values[-1], bounds[-1]) == (outcome.value, outcome.bound)


def test_work_ends_a_search_at_the_same_point() -> None:
    graph = random_wiring(33, 1, unit=False)
    start = program(graph).tolist()
    first, second = (
        solve_order_milp(graph, start=start, independent=True, limits=Limits(work=150_000))
        for _ in range(2)
    )
    assert first == second
    assert not first.finished
    assert first.value is not None
    assert 0 < first.bound < first.value


def test_ctrl_c_keeps_the_best_order(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_wiring(48, 1, unit=False)
    start = program(graph).tolist()
    # Once HiGHS has found something, and is far from the end.
    monkeypatch.setattr(HighsThread, "_receive", interrupt_at(2, HighsThread._receive))
    outcome = solve_order_milp(graph, start=start, independent=True, limits=Limits())
    assert outcome.interrupted
    assert outcome.order is not None
    assert check_order(graph, outcome.order) == outcome.value
    assert outcome.value <= check_order(graph, start)
    assert not [thread for thread in threading.enumerate() if thread.name == "highs"]


@pytest.mark.parametrize("first", ["optsched.joint.cpsat", "optsched.joint.milp"])
def test_both_solvers_live_in_one_process(first: str) -> None:
    second = "optsched.joint.milp" if first == "optsched.joint.cpsat" else "optsched.joint.cpsat"
    call = {
        "optsched.joint.cpsat": (
            "from optsched.joint.cpsat import solve_joint; print(solve_joint(g).value)"
        ),
        "optsched.joint.milp": (
            "from optsched.joint.milp import solve_order_milp as f; print(f(g).value)"
        ),
    }
    script = """
from optsched.model.builder import GraphBuilder
build = GraphBuilder()
build.op("a", writes={"x": 3, "y": 1})
build.op("b", reads=["x"], writes={"z": 2})
build.op("c", reads=["y", "z"])
g = build.build()
"""
    script += "\n".join([call[first], call[second], call[first]])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["6", "6", "6"], done.stderr
