"""Helpers of the tests of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from optsched.joint.cpsat.hinted import HintedModel
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.model.pools import pool_rows
from optsched.runtime.limits import Limits
from tests.support.generators import random_order

QUICK = Limits(20.0)


def is_feasible(variables: HintedModel[Any], values: Mapping[Any, int] | None = None) -> bool:
    """Return True if the model has a solution in which these variables have these values."""
    for variable, value in (values or {}).items():
        variables.model.add(variable == value)
    return _solve(variables)


def holds(variables: HintedModel[Any], point: Any) -> bool:
    """Return True if the point itself is a solution: every variable is fixed at its meaning."""
    for variable, meaning in variables.meanings:
        variables.model.add(variable == int(meaning(point)))
    return _solve(variables)


def _solve(variables: HintedModel[Any]) -> bool:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    # Else it would leave the process without Python's handler of Ctrl-C.
    solver.parameters.catch_sigint_signal = False
    solver.parameters.max_time_in_seconds = 20.0
    status = solver.solve(variables.model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE)
    return status != cp_model.INFEASIBLE


def diamond() -> Graph:
    """`split` feeds `left` and `right`, `join` reads both: orders 0123 and 0213."""
    build = GraphBuilder("diamond")
    build.input("x", 2)
    build.op("split", reads=["x"], writes={"s": 4})
    build.op("left", reads=["s"], writes={"a": 6})
    build.op("right", reads=["s"], writes={"b": 8})
    build.op("join", reads=["a", "b"], writes={"y": 2})
    build.output("y")
    return build.build()


def stacked_plan(graph: Graph, order: tuple[int, ...]) -> Plan | None:
    """The buffers of each pool on top of each other; None if pins get in the way."""
    problem, ids = packing_problem(graph, order)
    if (problem.pin >= 0).any():
        return None
    offsets = np.zeros(len(problem), np.int64)
    for row in pool_rows(graph, ids):
        top = 0
        for i in row.tolist():
            step = int(problem.alignment[i])
            offsets[i] = -(-top // step) * step
            top = int(offsets[i] + problem.size[i])
    return make_plan(graph, order, offsets)


def random_plan(rng: np.random.Generator, graph: Graph) -> Plan | None:
    """A valid, usually bad plan."""
    return stacked_plan(graph, random_order(rng, graph))
