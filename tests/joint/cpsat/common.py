"""What the tests of the model share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from optsched.joint.cpsat.variables import ModelPoint, ModelVariables
from optsched.model.builder import GraphBuilder
from optsched.model.graph import Graph
from optsched.model.packing_problem import Gap, PackingProblem, packing_problem, select
from optsched.model.plan import Plan, make_plan
from optsched.model.pools import pool_rows
from optsched.runtime.limits import Limits
from tests.support.generators import random_order

QUICK = Limits(20.0)


def is_feasible(variables: ModelVariables, values: Mapping[Any, int] | None = None) -> bool:
    """Whether the model has a solution in which these variables have these values."""
    for variable, value in (values or {}).items():
        variables.model.add(variable == value)
    return _solve(variables)


def holds(variables: ModelVariables, point: ModelPoint) -> bool:
    """Whether the point itself is a solution: every variable is fixed at its meaning."""
    for variable, meaning in variables.meanings:
        variables.model.add(variable == int(meaning(point)))
    return _solve(variables)


def _solve(variables: ModelVariables) -> bool:
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
        offsets[row] = stacked(select(problem, row))
    return make_plan(graph, order, offsets)


def stacked(problem: PackingProblem) -> np.ndarray[Any, Any]:
    """Offsets that put all buffers on top of each other, pins apart."""
    top, offsets = 0, []
    for size, step in zip(problem.size.tolist(), problem.alignment.tolist(), strict=True):
        offsets.append(-(-top // step) * step)
        top = offsets[-1] + size
    return np.array(offsets, np.int64)


def random_plan(rng: np.random.Generator, graph: Graph) -> Plan | None:
    """A valid, usually bad plan."""
    return stacked_plan(graph, random_order(rng, graph))


def random_packing(
    rng: np.random.Generator, count: int, *, gaps: bool = False, pins: bool = False
) -> PackingProblem:
    """A small packing problem."""
    rows, holes = [], []
    for _ in range(count):
        start = int(rng.integers(5))
        end = start + int(rng.integers(1, 5))
        size, step = int(rng.integers(1, 6)), int(rng.choice([1, 1, 1, 2, 4]))
        pin = step * int(rng.integers(4)) if pins and rng.random() < 0.15 else -1
        rows.append((start, end, size, step, pin))
        hole: tuple[Gap, ...] = ()
        if end - start > 2 and rng.random() < 0.5:
            low = int(rng.integers(size))
            high = int(rng.integers(low, size)) + 1
            hole = (Gap(start + 1, end - 1, None if rng.random() < 0.4 else (low, high)),)
        holes.append(hole)
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    names = tuple(f"b{i}" for i in range(count))
    return PackingProblem(names, *columns, gaps=tuple(holes) if gaps else ())
