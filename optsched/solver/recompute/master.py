"""The cheapest set of repeats under the rows so far, and multipliers that prove its bound.

HiGHS solves both: as an integer program for the set, as a linear program for the multipliers. It
computes with floats, so the set is checked by running a plan with it, and the multipliers are
rounded to integers and added up exactly (:mod:`optsched.solver.recompute.bound`).

Costs and bytes are scaled to about 1,000 for HiGHS. Of sets of equal cost the one of fewer bytes is
taken, then of fewer repeats: each repeat has a small price for its bytes and for itself. Whether
the rows can be satisfied at all is a linear program as well: an excess `e` is added to all rows
"fit" and branches, and its minimum is positive exactly if no choice of repeats is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from optsched.solver.recompute.bound import Leaf, added_up, branch_row
from optsched.solver.recompute.rows import CutRows

SCALED = 1000.0
TIE = 2e-5
"""Price of a repeat, and of the largest number of bytes, in parts of the largest cost."""
PRECISION = 2**20
"""Least size of the largest rounded multiplier."""

Branches = tuple[tuple[tuple[int, ...], int, bool], ...]
"""Nodes, a number, and True if more than this number of the nodes repeat."""


class Relaxed(NamedTuple):
    """Result of a linear program: its leaf of a proof, the bound of the leaf, and `r` by node."""

    leaf: Leaf
    bound: int
    repeats: dict[int, float]


class Chosen(NamedTuple):
    """Result of the integer program.

    `nodes` is None if the time was too short, or if no nodes are enough; `exact` tells these apart.
    """

    nodes: frozenset[int] | None
    exact: bool


@dataclass(slots=True)
class Master:
    """Programs of one problem; rows and peak may change between calls.

    Parameters
    ----------
    rows
        The rows; new ones are passed on when a program is solved.
    peak
        Bytes that must not be exceeded.
    """

    rows: CutRows
    peak: int
    _linear: _Program = field(init=False, repr=False)
    _integer: _Program = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._linear, self._integer = _Program(self.rows, ties=False), _Program(self.rows)

    @property
    def columns(self) -> dict[int, int]:
        """Column of each node that may run again."""
        return {u: i for i, u in enumerate(self.rows.problem.again)}

    def choose(self, seconds: float) -> Chosen:
        """Return the cheapest nodes that satisfy the rows if each of them runs again."""
        program = self._integer
        program.update(self.peak, ())
        values = program.solve(seconds, integral=True)
        if values is None:
            return Chosen(None, program.is_infeasible())
        again = self.rows.problem.again
        nodes = frozenset(u for i, u in enumerate(again) if values[i] > 0.5)
        return Chosen(nodes, program.is_optimal())

    def relax(self, seconds: float, branches: Branches = ()) -> Relaxed | None:
        """Return the proof of the linear program; None if the time was too short.

        If the rows cannot be satisfied, the proof says so.
        """
        program = self._linear
        program.update(self.peak, branches)
        values = program.solve(seconds)
        if values is None and not program.is_infeasible():
            return None
        if values is None:
            program.minimize_excess(True)
            values = program.solve(seconds)
            scale = 0
            leaf = None if values is None else self._leaf(program, scale, branches)
            program.minimize_excess(False)
        else:
            leaf = self._leaf(program, 1, branches)
        if leaf is None:
            return None
        again = self.rows.problem.again
        found = {u: values[i] for i, u in enumerate(again)} if values else {}
        return Relaxed(leaf, self.bound_of(leaf, branches), found)

    def _leaf(self, program: _Program, scale: int, branches: Branches) -> Leaf:
        duals = program.multipliers(scale)
        largest = max((abs(x) for x in duals), default=0.0) or 1.0
        grid = 2 ** max(0, math.ceil(math.log2(PRECISION / largest)))
        grid = max(grid, PRECISION) if scale else grid
        numbers = [max(0, round(x * grid)) for x in duals]
        count = len(self.rows.keys)
        kept = {i: y for i, y in enumerate(numbers[:count]) if y}
        return Leaf(grid if scale else 0, kept, tuple(numbers[count : count + len(branches)]))

    def bound_of(self, leaf: Leaf, branches: Branches) -> int:
        """Return what a leaf proves under the current peak."""
        rows = self.rows
        listed = [(y, rows.terms[i], rows.bound(i, self.peak)) for i, y in leaf.rows.items()]
        columns = self.columns
        for y, branch in zip(leaf.branches, branches, strict=True):
            listed.append((y, *branch_row(columns, *branch)))
        cost = [rows.problem.cost[u] for u in rows.problem.again]
        return added_up(cost, leaf.scale, listed)


class _Program:
    """A program in HiGHS, grown row by row. Column 0 is the excess, column i + 1 column i."""

    def __init__(self, rows: CutRows, *, ties: bool = True) -> None:
        import highspy

        self.rows, self.highs, self.kinds = rows, highspy.Highs(), highspy
        for name, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 1e-7)):
            self.highs.setOptionValue(name, value)
        problem = rows.problem
        cost = [problem.cost[u] for u in problem.again]
        self.unit = max([*cost, 1]) / SCALED
        self.bytes = max(1.0, max((s.size for s in problem.storages), default=1) / SCALED)
        self.costs = [c / self.unit for c in cost]
        if ties:
            made = [sum(problem.storages[s].size for s in problem.makes[u]) for u in problem.again]
            most = max([*made, 1])
            self.costs = [
                c + TIE * SCALED * (0.1 + size / most)
                for c, size in zip(self.costs, made, strict=True)
            ]
        self.columns = self.count = self.extra = 0
        self.highs.addCol(0.0, 0.0, 0.0, 0, [], [])

    def update(self, peak: int, branches: Branches) -> None:
        """Pass on new columns, rows, the peak and the branches."""
        if self.extra:
            listed = list(range(self.count, self.count + self.extra))
            self.highs.deleteRows(len(listed), listed)
        for i in range(self.columns, self.rows.columns):
            cost = self.costs[i] if i < len(self.costs) else 0.0
            self.highs.addCol(cost, 0.0, 1.0, 0, [], [])
        self.columns = self.rows.columns
        for i in range(self.count, len(self.rows.keys)):
            kind = self.rows.keys[i][0]
            self._add(self.rows.terms[i], 0, kind == "fit", kind == "round")
        for i, key in enumerate(self.rows.keys):
            if i >= self.count or key[0] in ("fit", "round"):
                bound = self.rows.bound(i, peak) / (self.bytes if key[0] == "fit" else 1.0)
                self.highs.changeRowBounds(i, bound, self.kinds.kHighsInf)
        self.count = len(self.rows.keys)
        columns = {u: i for i, u in enumerate(self.rows.problem.again)}
        for branch in branches:
            self._add(*branch_row(columns, *branch), excess=True)
        self.extra = len(branches)

    def _add(
        self, terms: Sequence[tuple[int, int]], bound: int, fit: bool = False, excess: bool = False
    ) -> None:
        by = self.bytes if fit else 1.0
        columns = [column + 1 for column, _ in terms]
        values = [value / by for _, value in terms]
        if fit or excess:
            columns, values = [0, *columns], [1.0, *values]
        self.highs.addRow(bound / by, self.kinds.kHighsInf, len(columns), columns, values)

    def minimize_excess(self, on: bool) -> None:
        """Choose between the least excess bytes and the least cost."""
        self.highs.changeColBounds(0, 0.0, self.kinds.kHighsInf if on else 0.0)
        self.highs.changeColCost(0, 1.0 if on else 0.0)
        for i, cost in enumerate(self.costs):
            self.highs.changeColCost(i + 1, 0.0 if on else cost)

    def solve(self, seconds: float, *, integral: bool = False) -> list[float] | None:
        """Return the values of the rows' columns, or None without a solution."""
        if integral:
            listed = list(range(1, len(self.costs) + 1))
            self.highs.changeColsIntegrality(
                len(listed), listed, [self.kinds.HighsVarType.kInteger] * len(listed)
            )
        # HiGHS adds up the time of all runs.
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + max(seconds, 0.05))
        self.highs.run()
        status, kinds = self.highs.getModelStatus(), self.kinds.HighsModelStatus
        timed = integral and status in (kinds.kTimeLimit, kinds.kInterrupt)
        if status != kinds.kOptimal and not timed:
            return None
        solution = self.highs.getSolution()
        if not solution.value_valid or not (integral or solution.dual_valid):
            return None
        return list(solution.col_value)[1:]

    def is_infeasible(self) -> bool:
        """Return True if the last run found that no solution exists."""
        kinds = self.kinds.HighsModelStatus
        found = (kinds.kInfeasible, kinds.kUnboundedOrInfeasible)
        return self.highs.getModelStatus() in found

    def is_optimal(self) -> bool:
        """Return True if the last run ended with an optimum."""
        return bool(self.highs.getModelStatus() == self.kinds.HighsModelStatus.kOptimal)

    def multipliers(self, scale: int) -> list[float]:
        """Return the multipliers of the rows in integers' units: costs per byte, or per 1."""
        duals = list(self.highs.getSolution().row_dual)
        unit = self.unit if scale else 1.0
        fits = [key[0] == "fit" for key in self.rows.keys]
        fits += [False] * (len(duals) - len(fits))
        return [y * unit / (self.bytes if fit else 1.0) for y, fit in zip(duals, fits, strict=True)]
