"""MODeL's mixed-integer program of an order, in PuLP: which tensor is made and kept at which step.

Steiner et al. 2023, without spilling and recomputation::

    make[v][t]     op v runs at step t: it makes its tensors then
    keep[b][t]     tensor b, made before, is still there at step t
    tensors made or kept at t, in bytes  <=  peak

Two things differ from `optsched.joint.milp`: tensors and not ops carry the variables of time, and
several ops may share a step, at which all of them are counted as if they ran at once. The authors
take 1.01 times the longest path as the number of steps; with a step for every op, sharing gains
nothing and the least peak is that of the best order.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, gcd, inf
from typing import Any

from heuristics.orderings.program import program
from optsched.check.plan import check_order
from optsched.joint.milp.highs import run_highs
from optsched.model.graph import Graph

SLACK = 1.01
"""Steps of the authors' program for each op on the longest path."""


class MilpSolver(StrEnum):
    """Programs that can solve the model."""

    HIGHS = "highs"
    CBC = "cbc"


@dataclass(frozen=True, slots=True)
class ModelOutcome:
    """Claims of the solver."""

    peak: int | None
    """Bytes of its fullest step, counted in integers; None without a solution."""
    replayed: int | None
    """Peak of the order read from it, a step's ops one after the other: never more."""
    finished: bool
    """True if the solver reports the result as optimal."""
    steps: int
    """Of the program."""
    seconds: float
    """With the making of the model."""


def levels(graph: Graph) -> tuple[list[int], list[int]]:
    """Longest way from the start to each op, and from each op to the end, in ops."""
    count = len(graph.ops)
    order = program(graph, 0).tolist()
    ahead, behind = [0] * count, [0] * count
    for v in order:
        ahead[v] = max((ahead[u] + 1 for u in graph.predecessors[v]), default=0)
    for v in reversed(order):
        for u in graph.predecessors[v]:
            behind[u] = max(behind[u], behind[v] + 1)
    return ahead, behind


def solve_model(
    graph: Graph, *, seconds: float, solver: MilpSolver, workers: int = 1, short: bool = False
) -> ModelOutcome:
    """Solve MODeL's program; `short` takes the authors' number of steps, else one for each op."""
    import pulp

    started = time.perf_counter()
    ahead, behind = levels(graph)
    steps = len(graph.ops)
    if short:
        longest = 1 + max(ahead, default=-1)
        steps = min(steps, ceil(SLACK * longest))
    model = _Program(graph, steps, (ahead, behind), pulp)
    left = seconds - (time.perf_counter() - started)
    at, finished = None, False
    if left > 0:
        _, finished = RUNS[solver](model.problem, pulp, left, workers)
        at = model.read_steps()
    return ModelOutcome(
        peak=None if at is None else _peak(graph, at, steps),
        replayed=None if at is None else check_order(graph, _order(graph, at)),
        finished=finished and at is not None,
        steps=steps,
        seconds=time.perf_counter() - started,
    )


class _Program:
    def __init__(
        self, graph: Graph, steps: int, levels_: tuple[list[int], list[int]], pulp: Any
    ) -> None:
        self.graph, self.steps, self.pulp = graph, steps, pulp
        sizes = graph.arrays.size.tolist()
        # Solvers work with tolerances near 1e-9: small coefficients keep bytes exact.
        self.unit = gcd(*sizes) or 1
        self.sizes = [size // self.unit for size in sizes]
        ahead, behind = levels_
        # An op with `a` ops before it cannot run before step `a`; variables outside its window are
        # not made.
        self.windows = [(a, steps - 1 - b) for a, b in zip(ahead, behind, strict=True)]
        self.problem = pulp.LpProblem("model", pulp.LpMinimize)
        self.peak = pulp.LpVariable("peak", 0, sum(self.sizes))
        self.problem += self.peak
        self.make = [
            {t: pulp.LpVariable(f"make_{v}_{t}", cat="Binary") for t in range(first, last + 1)}
            for v, (first, last) in enumerate(self.windows)
        ]
        for row in self.make:
            self.problem += pulp.lpSum(row.values()) == 1
        self.keep: dict[int, dict[int, Any]] = {}
        # By variable: PuLP keeps the last of several terms of one.
        self.load: list[dict[Any, int]] = [{} for _ in range(steps)]
        self.fixed = [0] * steps
        for b, size in enumerate(self.sizes):
            if size:
                self._add_tensor(b, size)
        for v, before in enumerate(graph.predecessors):
            for u in before:
                self._add_precedence(u, v)
        for terms, constant in zip(self.load, self.fixed, strict=True):
            self.problem += pulp.LpAffineExpression(terms) + constant <= self.peak

    def _add_tensor(self, b: int, size: int) -> None:
        arrays = self.graph.arrays
        birth, users = int(arrays.birth[b]), [int(u) for u in arrays.user.row(b)]
        # A buffer that another op fills later must also be there when that op runs.
        if arrays.producer[b] >= 0 and arrays.producer[b] != birth:
            users.append(int(arrays.producer[b]))
        # A kept input is there at every step: a constant, which needs no variables.
        if arrays.keep[b] and birth < 0:
            self.fixed = [constant + size for constant in self.fixed]
            return
        # Nobody reads this input and nobody keeps it: it never counts.
        if birth < 0 and not users:
            return
        # Step -1 stands for "there before the first step", so that inputs can be kept from step 0.
        first = self.windows[birth][0] if birth >= 0 else -1
        last = max((self.windows[u][1] for u in users), default=first)
        last = self.steps - 1 if arrays.keep[b] else last
        keep = {
            t: self.pulp.LpVariable(f"keep_{b}_{t}", cat="Binary")
            for t in range(first + 1, last + 1)
        }
        self.keep[b] = keep
        for t, variable in keep.items():
            made = self.make[birth].get(t - 1, 0) if birth >= 0 else int(t == 0)
            # Nothing comes back: a tensor is kept only if it was kept, or made, in the step
            # before.
            self.problem += variable <= keep.get(t - 1, 0) + made
            if birth >= 0 and t in self.make[birth]:
                # Made or kept, not both: else it would count twice in this step's bytes.
                self.problem += variable + self.make[birth][t] <= 1
            self.load[t][variable] = size
        if birth >= 0:
            for t, variable in self.make[birth].items():
                self.load[t][variable] = self.load[t].get(variable, 0) + size
        if arrays.keep[b] and keep:
            # If its op runs at the very last step, no later step could keep the result.
            last_made = self.make[birth].get(self.steps - 1, 0)
            self.problem += keep[self.steps - 1] + last_made >= 1
        for u in set(users):
            for t, variable in self.make[u].items():
                # A reader finds its tensor kept, thus made at an earlier step: this is the
                # precedence, too.
                self.problem += variable <= keep.get(t, 0)

    def _add_precedence(self, u: int, v: int) -> None:
        """Order two ops by a tensor of no bytes, unless one with bytes does it."""
        arrays = self.graph.arrays
        # The rows of `_add_tensor` already force the order wherever the tensor has variables.
        if any(int(arrays.birth[b]) == u and b in self.keep for b in arrays.read.row(v)):
            return
        for t, variable in self.make[v].items():
            done = [made for s, made in self.make[u].items() if s < t]
            self.problem += variable <= self.pulp.lpSum(done)

    def read_steps(self) -> list[int] | None:
        """Return the step of each op, if the solver has any that work."""
        at = []
        for row in self.make:
            values = {t: variable.value() for t, variable in row.items()}
            if not values or any(value is None for value in values.values()):
                return None
            # Values are binary up to the solver's tolerance: the largest is the one.
            at.append(max(values, key=lambda t: values[t]))
        # Checked once more in integers, since a tolerance may let a reader run too early.
        works = all(at[u] < at[v] for v, us in enumerate(self.graph.predecessors) for u in us)
        return at if works else None


def _peak(graph: Graph, at: list[int], steps: int) -> int:
    """Most bytes of a step, in integers: from the making of a tensor to its last use."""
    arrays = graph.arrays
    load = [0] * max(1, steps)
    for b, size in enumerate(arrays.size.tolist()):
        birth, producer = int(arrays.birth[b]), int(arrays.producer[b])
        # Recounted from the steps alone: the solver's peak is a float, and its keeps may be loose.
        users = [at[u] for u in arrays.user.row(b)] + [at[v] for v in (birth, producer) if v >= 0]
        if not users and not arrays.keep[b]:
            continue
        last = len(load) - 1 if arrays.keep[b] else max(users)
        for t in range(at[birth] if birth >= 0 else 0, last + 1):
            load[t] += size
    return max(load)


def _order(graph: Graph, at: list[int]) -> list[int]:
    """Ops by step, those of one step in an order that works."""
    rank = {v: i for i, v in enumerate(program(graph, 0).tolist())}
    return sorted(rank, key=lambda v: (at[v], rank[v]))


def _run_cbc(problem: Any, pulp: Any, seconds: float | None, workers: int) -> tuple[float, bool]:
    """Solve in a program of its own, which tells no bound but that of a finished search."""
    # CBC's defaults stop within a gap; with these, "optimal" means equal.
    options = ["ratioGap 0", "allowableGap 0", "primalTolerance 1e-9", "integerTolerance 1e-9"]
    problem.solve(pulp.PULP_CBC_CMD(msg=False, timeLimit=seconds, threads=workers, options=options))
    finished = problem.sol_status == pulp.LpSolutionOptimal
    return (float(pulp.value(problem.objective)) if finished else -inf), finished


RUNS = {MilpSolver.HIGHS: run_highs, MilpSolver.CBC: _run_cbc}
"""Function by which each program solves a model of PuLP."""
