"""Four ways to tell CP-SAT about an order, on the same graphs; which closes soonest is shown.

Run `python -m experiments.cross_check.order_models`. `booleans` has a literal per op and step;
`positions` has integer positions, all different, intervals and a cumulative constraint; `linked` is
both, tied together; `pairs` is the model of :mod:`optsched.joint.cpsat`, with a literal for each
two ops that can run in either order.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from experiments.cross_check.floor_graphs import FAMILIES
from experiments.prior_art.step_model import StepModel
from optsched.joint.cpsat.pairwise import PairwiseOrder
from optsched.joint.instance import INPUT, ModelInstance, graph_instance
from optsched.joint.order_program import instance_program
from optsched.model.graph import Graph
from tests.support.generators import random_graph

SECONDS = 30.0


def booleans(instance: ModelInstance) -> tuple[Any, Any]:
    """Return the model with a variable for each op and step: the op has run by that step."""
    variables = StepModel(instance)
    variables.model.minimize(variables.peak)
    return variables.model, variables.peak


def linked(instance: ModelInstance) -> tuple[Any, Any]:
    """The booleans, and positions with the constraints of `positions`."""
    variables = StepModel(instance)
    steps = []
    for (early, late), row in zip(instance.step_windows, variables.done, strict=True):
        position = variables.model.new_int_var(early, late, "")
        steps.append(position)
        for step, literal in row.items():
            variables.model.add(position <= step).only_enforce_if(literal)
            variables.model.add(position > step).only_enforce_if(~literal)
    _add_intervals(variables.model, instance, steps, variables.peak)
    variables.model.minimize(variables.peak)
    return variables.model, variables.peak


def pairs(instance: ModelInstance) -> tuple[Any, Any]:
    """Return the model with a literal for each two ops."""
    variables = PairwiseOrder(instance_program(instance))
    peak = variables.add_peak(0, sum(item.size for item in instance.items))
    variables.model.minimize(peak)
    return variables.model, peak


def positions(instance: ModelInstance) -> tuple[Any, Any]:
    """No boolean at all."""
    model = cp_model.CpModel()
    windows = instance.step_windows
    steps = [model.new_int_var(early, late, "") for early, late in windows]
    for v, before in enumerate(instance.preds):
        for u in before:
            model.add(steps[u] < steps[v])
    peak = model.new_int_var(0, sum(item.size for item in instance.items), "peak")
    _add_intervals(model, instance, steps, peak)
    model.minimize(peak)
    return model, peak


def _add_intervals(
    model: Any,
    instance: ModelInstance,
    steps: list[Any],
    peak: Any,
) -> None:
    model.add_all_different(steps)
    intervals = []
    for item in instance.items:
        start = 0 if item.birth == INPUT else steps[item.birth]
        end: Any = instance.horizon
        if not item.kept:
            end = model.new_int_var(1, instance.horizon, "")
            model.add_max_equality(end, [steps[u] + 1 for u in item.users])
        length = model.new_int_var(1, instance.horizon, "")
        intervals.append(model.new_interval_var(start, length, end, ""))
    model.add_cumulative(intervals, [item.size for item in instance.items], peak)


MODELS: dict[str, Callable[[ModelInstance], tuple[Any, Any]]] = {
    "booleans": booleans,
    "positions": positions,
    "linked": linked,
    "pairs": pairs,
}


def measure(graph: Graph) -> None:
    """Solve one graph with every model and print a line for each."""
    instance = graph_instance(graph)
    for name, make in MODELS.items():
        started = time.perf_counter()
        model, _ = make(instance)
        solver = cp_model.CpSolver()
        # Else it would leave the process without Python's handler of Ctrl-C.
        solver.parameters.catch_sigint_signal = False
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = SECONDS
        solver.parameters.presolve_inclusion_work_limit = 0
        status = solver.solve(model)
        found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        value = int(solver.objective_value) if found else None
        bound = int(solver.best_objective_bound)
        seconds = time.perf_counter() - started
        print(f"{graph.name:22} {name:10} {value!s:>8} {bound:8} {seconds:6.1f} s", flush=True)


def main() -> int:
    """Run all graphs."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    for make in FAMILIES.values():
        measure(make(0))
    for ops in (20, 40, 60):
        features = {"inputs", "multi", "workspace"}
        rng = np.random.default_rng(ops)
        measure(random_graph(rng, ops, max_size=512, features=features, name=f"random_{ops}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
