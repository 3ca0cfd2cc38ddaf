"""The order model against brute force: with and without reductions, and without each family."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heuristics.orderings.program import program
from optsched.check.plan import check_order
from optsched.formats import read_graph
from optsched.joint.cpsat.order import solve_order_cpsat
from optsched.joint.cpsat.solver import SolverThread
from optsched.joint.families import ALL_FAMILIES, OrderFamilies
from optsched.joint.milp import solve_order_milp
from optsched.model.memory_model import plannable
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from tests.joint.cpsat.common import QUICK, diamond
from tests.support.brute import least_peak, least_peak_inplace
from tests.support.generators import FEATURES, PLANNABLE, random_graph

LLAMA = Path(__file__).parents[3] / "instances" / "inductor" / "llama_2l_bs1.bwd.json.gz"
WITHOUT = {
    "all families": ALL_FAMILIES,
    "no closure": replace(ALL_FAMILIES, closure=False),
    "no positions": replace(ALL_FAMILIES, positions=False),
    "triangles too": replace(ALL_FAMILIES, triangles=True),
    "no implied precedences": replace(ALL_FAMILIES, implied=False),
    "no copies in line": replace(ALL_FAMILIES, copies=False),
}


@pytest.mark.parametrize("families", WITHOUT.values(), ids=WITHOUT)
@pytest.mark.parametrize("independent", [False, True])
def test_agrees_with_brute_force(independent: bool, families: OrderFamilies) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        features = FEATURES if seed % 3 else PLANNABLE
        graph = plannable(random_graph(rng, seed % 10, features=features), seed % 4 == 0, None)
        least = least_peak_inplace(graph) if graph.in_place else least_peak(graph)
        found = solve_order_cpsat(
            graph,
            program(graph).tolist(),
            clock=Clock.of(QUICK),
            independent=independent,
            families=families,
        )
        assert found.order is not None
        assert check_order(graph, found.order) == found.value == found.bound == least
        assert found.finished
        assert not found.refuted


@pytest.mark.parametrize("independent", [False, True])
def test_both_models_close_a_graph_on_which_the_old_ones_failed(independent: bool) -> None:
    graph = read_graph(LLAMA)
    start = program(graph).tolist()
    found = solve_order_cpsat(graph, start, clock=Clock.of(QUICK), independent=independent)
    assert found.value == found.bound == 3_554_992_128
    milp = solve_order_milp(graph, limits=QUICK, start=start, independent=independent)
    assert milp.value == milp.bound == 3_554_992_128
    assert not milp.refuted


def test_progress_is_reported_in_bytes() -> None:
    graph, seen = random_graph(np.random.default_rng(5), 9), list[int]()
    start = program(graph).tolist()
    found = solve_order_cpsat(
        graph, start, clock=Clock.of(QUICK), note=lambda _, bound: seen.append(bound)
    )
    assert seen == sorted(seen)
    assert all(bound <= found.bound for bound in seen)


def test_work_ends_the_search_at_the_same_order() -> None:
    graph = random_graph(np.random.default_rng(1), 60, max_size=4001)
    start = program(graph).tolist()
    first, second = (
        solve_order_cpsat(graph, start, clock=Clock.of(Limits(work=50_000))) for _ in range(2)
    )
    assert first == second


def test_a_claim_that_the_order_refutes_is_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = SolverThread.run

    def lies(self, on_progress):  # type: ignore[no-untyped-def]
        state = run(self, on_progress)
        state.best, state.bound, state.infeasible = None, 10**6, False
        return state

    monkeypatch.setattr(SolverThread, "run", lies)
    graph = diamond()
    found = solve_order_cpsat(graph, (0, 1, 2, 3), clock=Clock.of(QUICK), bound=3, independent=True)
    assert found.bound == 3
    assert found.value == 18
    assert "refuted by its own plan of 18 bytes" in found.refuted
    assert caplog.messages == [found.refuted]
