"""Graphs and plans that several tests of the reports show."""

from __future__ import annotations

import pytest

from experiments.small_graphs.graphs import diamond
from heuristics import PACKINGS
from optsched.graph import Graph
from optsched.pipeline import solve
from optsched.plan import Plan, make_plan
from optsched.problem import packing_problem
from optsched.report.page import Report, make_report


def naive_plan(graph: Graph) -> Plan:
    """Program order, no byte used twice."""
    order = list(range(len(graph.ops)))
    problem, _ = packing_problem(graph, order)
    return make_plan(graph, order, PACKINGS["naive"](problem))


@pytest.fixture(scope="session")
def two_plans() -> Report:
    """Program order without reuse beside the best plan of the diamond."""
    graph = diamond()
    result = solve(graph)
    assert result.plan is not None
    plans = [("before", naive_plan(graph), ()), ("after", result.plan, ())]
    return make_report(graph, result, plans)
