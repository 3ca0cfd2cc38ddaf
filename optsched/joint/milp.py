"""The order problem as a mixed-integer program in PuLP: an independent second opinion.

Binary variables state which op runs at which step. Step windows follow from the numbers of
ancestors and descendants::

    at[v][s]           op v runs at step s; the sum over steps up to s states whether it is done
    released[b][s]     every user of buffer b is done by s (no binary needed: it is pushed up)
    spared[p]          pair p is written in place: all other users of its input are done before
    skipped[b][s]      b is written in place at step s (no binary needed: it is pushed up)
    live bytes at s  = sum of size * (done[birth][s] - released[b][s - 1] - skipped[b][s]) <= peak

The program does not share code with the CP-SAT model. HiGHS solves it in this process (highspy up
to 1.13.1 can be loaded together with OR-Tools, later versions cannot). HiGHS computes in floating
point, so its bounds are claims, not proofs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, gcd, isfinite
from typing import Any

from optsched.check.plan import check_order
from optsched.errors import PlanError, UsageError
from optsched.model.dependencies import reachable
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

MAX_UNITS = 2**40
"""Maximum total size in units: above it, tolerances of the solver far exceed one unit."""

MARGIN = 1e-6
"""Margin subtracted from a bound, as a share of it and at least this number of units. The requested
feasibility tolerances are a thousand times smaller.
"""


@dataclass(frozen=True, slots=True)
class MilpOutcome:
    """The best order found, and the solver's claim about all other orders."""

    order: tuple[int, ...] | None
    """Op ids by step, or None."""
    value: int | None
    """Peak of the order in bytes, recomputed in integers."""
    bound: int
    """Claimed minimum peak; at least the bound passed in."""
    finished: bool
    """True if the solver reports that its search is complete."""

    @property
    def optimal(self) -> bool:
        """Return True if the order is claimed to be optimal: its peak equals the bound."""
        return self.value is not None and self.value <= self.bound


def solve_order_milp(
    graph: Graph, *, limits: Limits | Clock | None = None, peak_bound: int = 0
) -> MilpOutcome:
    """Search for an order of minimum peak, given a proved lower bound in bytes.

    Graphs of about 50 ops are within reach. HiGHS supports limits on time and workers, but not on
    work.

    Raises
    ------
    UsageError
        If sizes are outside the range in which floating point is reliable.
    """
    graph.refuse_streams("the MILP")
    import pulp

    clock = Clock.of(limits or Limits())
    model = _Model(graph, peak_bound, pulp)
    left = clock.left() if clock.limits.work is None else None
    order: tuple[int, ...] | None = None
    value: int | None = None
    bound, finished = peak_bound, False
    if left is None or left > 0:
        units, finished = run_highs(model.problem, pulp, left, clock.limits.workers)
        order = model.read_order()
        if isfinite(units):
            bound = max(bound, _safe_units(units) * model.unit)
    if order is not None:
        value = check_order(graph, order)
    return MilpOutcome(order, value, bound, finished)


class _Model:
    """The program of one graph; sizes are divided by their greatest common divisor."""

    def __init__(self, graph: Graph, peak_bound: int, pulp: Any) -> None:
        self.graph, self.pulp, arrays = graph, pulp, graph.arrays
        self.count = arrays.op_count
        sizes = arrays.size.tolist()
        self.unit = gcd(*sizes) or 1
        total = sum(sizes) // self.unit
        if total > MAX_UNITS:
            raise UsageError(
                f"sizes add up to {total} units of {self.unit} bytes, outside the range of 2**40 "
                "in which a floating-point solver is reliable"
            )
        self.step_windows = _step_windows(graph)
        self.problem = pulp.LpProblem("order", pulp.LpMinimize)
        self.peak = pulp.LpVariable(
            "peak", -(-peak_bound // self.unit), max(total, -(-peak_bound // self.unit))
        )
        self.problem += self.peak
        self.at = [
            {s: pulp.LpVariable(f"at_{v}_{s}", cat="Binary") for s in range(early, late + 1)}
            for v, (early, late) in enumerate(self.step_windows)
        ]
        self._add_steps()
        self._add_precedences()
        self._add_loads(sizes)

    def read_order(self) -> tuple[int, ...] | None:
        """Return the order given by the values of the variables, or None if it is not valid."""
        steps = []
        for row in self.at:
            values = {s: variable.value() for s, variable in row.items()}
            if any(x is None for x in values.values()):
                return None
            steps.append(max(values, key=lambda s: values[s]))
        order = tuple(sorted(range(self.count), key=lambda v: steps[v]))
        try:
            check_order(self.graph, order)
        except PlanError:
            return None
        return order

    def _sum(self, terms: Iterable[tuple[Any, int]]) -> Any:
        # If a variable has several terms, PuLP keeps only the last one, so add them up first.
        total: dict[Any, int] = {}
        for variable, factor in terms:
            total[variable] = total.get(variable, 0) + factor
        return self.pulp.LpAffineExpression(total)

    def _done(self, v: int, step: int) -> list[tuple[Any, int]]:
        return [(variable, 1) for s, variable in self.at[v].items() if s <= step]

    def _add_steps(self) -> None:
        """Require one step per op and one op per step."""
        for row in self.at:
            self.problem += self._sum((x, 1) for x in row.values()) == 1
        for step in range(self.count):
            self.problem += self._sum((row[step], 1) for row in self.at if step in row) == 1

    def _add_precedences(self) -> None:
        """Require that the predecessors of an op are done by the step before it is done."""
        for v, before in enumerate(self.graph.predecessors):
            for u in before:
                last = min(self.step_windows[v][1], self.step_windows[u][1])
                for step in range(self.step_windows[v][0], last + 1):
                    ready = self._sum(self._done(u, step - 1))
                    self.problem += self._sum(self._done(v, step)) <= ready

    def _add_loads(self, sizes: Sequence[int]) -> None:
        """Require that the live bytes of each step are at most the peak."""
        arrays = self.graph.arrays
        loads: list[list[tuple[Any, int]]] = [[] for _ in range(self.count)]
        fixed = [0] * max(1, self.count)
        for b, size in enumerate(sizes):
            units, birth = size // self.unit, int(arrays.birth[b])
            users = arrays.users(b)
            if not units or not (users or arrays.keep[b]):
                continue
            released = None if arrays.keep[b] else self._released(b, users)
            for step in range(len(fixed)):
                if birth < 0:
                    fixed[step] += units
                else:
                    loads[step] += [(x, units) for x, _ in self._done(birth, step)]
                if released is not None and step:
                    loads[step] += [(x, -units * n) for x, n in released[step - 1]]
        for b, pairs in self._pairs().items():
            for step, skipped in self._skipped(b, pairs):
                loads[step].append((skipped, -(sizes[b] // self.unit)))
        for step, constant in enumerate(fixed):
            load = self._sum(loads[step] if self.count else ())
            self.problem += load + constant <= self.peak

    def _pairs(self) -> dict[int, list[Any]]:
        """Return the flags of in-place pairs by output; each input and output is in at most one."""
        arrays = self.graph.arrays
        by_output: dict[int, list[Any]] = {}
        by_source: dict[int, list[Any]] = {}
        for p, (v, output, source) in enumerate(arrays.inplace_pairs()):
            flag = self.pulp.LpVariable(f"spared_{p}", cat="Binary")
            by_output.setdefault(output, []).append(flag)
            by_source.setdefault(source, []).append(flag)
            for u in {*arrays.user.row(source).tolist()} - {v}:
                for step in self.at[v]:
                    ended = self._sum([*self._done(u, step - 1), (self.at[v][step], -1)])
                    self.problem += ended >= self._sum([(flag, 1)]) - 1
        for flags in (*by_output.values(), *by_source.values()):
            self.problem += self._sum((flag, 1) for flag in flags) <= 1
        return by_output

    def _skipped(self, b: int, flags: Sequence[Any]) -> list[tuple[int, Any]]:
        """Return by step the variable that is 1 if an output is written in place at the step."""
        rows = []
        for step, runs in self.at[int(self.graph.arrays.birth[b])].items():
            skipped = self.pulp.LpVariable(f"skipped_{b}_{step}", 0, 1)
            self.problem += self._sum([(skipped, 1)]) <= self._sum([(runs, 1)])
            self.problem += self._sum([(skipped, 1)]) <= self._sum((flag, 1) for flag in flags)
            rows.append((step, skipped))
        return rows

    def _released(self, b: int, users: Sequence[int]) -> list[list[tuple[Any, int]]]:
        """Return by step the terms that state whether all users are done."""
        if len(users) == 1:
            return [self._done(users[0], step) for step in range(self.count)]
        rows = []
        for step in range(self.count):
            flag = self.pulp.LpVariable(f"released_{b}_{step}", 0, 1)
            for u in users:
                self.problem += self._sum([(flag, 1)]) <= self._sum(self._done(u, step))
            rows.append([(flag, 1)])
        return rows


def _step_windows(graph: Graph) -> list[tuple[int, int]]:
    """Return first and last step of each op, from the numbers of ancestors and descendants."""
    n, succ = len(graph.ops), graph.arrays.succ
    before = reachable(graph.predecessors)
    after = reachable([succ.row(v).tolist() for v in range(n)])
    return [(before[v].bit_count(), n - 1 - after[v].bit_count()) for v in range(n)]


def _safe_units(bound: float) -> int:
    """Round a floating-point lower bound up to integral units, minus a safety margin."""
    return max(0, ceil(bound - max(MARGIN, MARGIN * abs(bound))))


def run_highs(problem: Any, pulp: Any, seconds: float | None, workers: int) -> tuple[float, bool]:
    """Solve the program in this process; return its bound in units and whether it finished."""
    problem.solve(
        pulp.HiGHS(
            msg=False,
            gapRel=0.0,
            gapAbs=0.0,
            timeLimit=seconds,
            parallel="off" if workers == 1 else "on",
            mip_feasibility_tolerance=1e-9,
            primal_feasibility_tolerance=1e-9,
        )
    )
    finished = problem.sol_status == pulp.LpSolutionOptimal
    info = problem.solverModel.getInfo()
    # A program without binaries is solved as a linear program, which has no MIP bound.
    return float(info.objective_function_value if finished else info.mip_dual_bound), finished
