"""Graphs and plans that several tests of the reports show."""

from __future__ import annotations

import pytest

from heuristics import PACKINGS
from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.reports.report import Report, make_report
from optsched.solver.pipeline import solve
from tests.support.families.small import diamond


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
