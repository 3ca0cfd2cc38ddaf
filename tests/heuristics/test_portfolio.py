"""The portfolio: its plans are valid, its numbers true, its answer the same each time."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from heuristics import ORDERINGS, PACKINGS
from heuristics.portfolio import OnPlan, best_plan, pack_order
from optsched.check import check_plan
from optsched.graph import Graph
from optsched.liveness import peak_memory
from optsched.plan import Plan, make_plan
from tests.generators import FEATURES, random_graph


def collect(plans: list[Plan]) -> OnPlan:
    def take(plan: Plan, source: str) -> None:
        plans.append(plan)

    return take


def test_plans_are_valid_and_the_best() -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, seed, features=FEATURES - {"pins", "pools"})
        reported: list[Plan] = []
        found = best_plan(graph, seed=seed, on_plan=collect(reported))
        by_slab, by_peak = (check_plan(graph, x) for x in (found.best_slab, found.best_peak))
        assert by_slab.slab == min(found.slabs.values())
        assert by_peak.peak == min(found.peaks.values())
        assert {id(found.best_slab), id(found.best_peak)} <= {id(plan) for plan in reported}
        for name, order in found.orders.items():
            assert found.peaks[name] == peak_memory(graph, order)
        for (name, packing), slab in found.slabs.items():
            assert slab >= found.peaks[name]
            assert packing in PACKINGS


def test_same_seed_same_answer_and_all_methods_named() -> None:
    graph = random_graph(np.random.default_rng(3), 25)
    first, second = (best_plan(graph, seed=7, random_runs=4) for _ in range(2))
    assert first.best_slab == second.best_slab
    assert first.best_peak == second.best_peak
    assert first.peaks == second.peaks
    assert len(first.orders) == len(ORDERINGS) + 4
    assert set(ORDERINGS) <= set(first.orders)


def test_pack_order_is_the_best_packing() -> None:
    graph = random_graph(np.random.default_rng(4), 30)
    order = ORDERINGS["lpmf"](graph, 0)
    plan = make_plan(graph, order, pack_order(graph, order))
    assert check_plan(graph, plan).slab == plan.slab(graph)


def test_empty_graph() -> None:
    found = best_plan(Graph("empty"))
    assert found.best_slab == Plan((), ())


def test_small_graphs_need_no_compiler() -> None:
    code = (
        "import sys, numpy as np\n"
        "from heuristics.portfolio import best_plan\n"
        "from optsched.builder import GraphBuilder\n"
        "build = GraphBuilder()\n"
        "for i in range(40):\n"
        "    build.op(f'op{i}', reads=[f'b{i - 1}'] if i else [], writes={f'b{i}': 8})\n"
        "best_plan(build.build())\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
