"""The rows as a program in HiGHS, which computes with floats.

Costs and bytes are scaled to about 1,000. Nothing that comes out of here is believed: a set of
repeats is checked by running a plan with it, and multipliers are rounded to integers and added up
exactly (:mod:`optsched.solver.recompute.bound`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optsched.runtime.clock import Clock
from optsched.solver.recompute.rows import CutRows
from optsched.solver.recompute.run_highs import run_highs

SCALED = 1000.0


class Program:
    """A program that grows with its rows.

    `rows`: the rows; new ones are passed on by :meth:`update`. `prices`: added to the scaled cost
    of each node that may run again. `integral`: True if nodes repeat wholly or not at all.
    """

    def __init__(
        self, rows: CutRows, prices: Sequence[float] = (), *, integral: bool = False
    ) -> None:
        import highspy

        self.rows, self.highs, self.kinds, self.integral = rows, highspy.Highs(), highspy, integral
        options: dict[str, Any] = {"output_flag": False, "threads": 1, "mip_rel_gap": 1e-7}
        # Without presolve each linear program starts from the last basis.
        options |= {} if integral else {"presolve": "off", "solver": "simplex"}
        for name, value in options.items():
            self.highs.setOptionValue(name, value)
        cost = np.array([rows.problem.cost[u] for u in rows.problem.again], float)
        # Costs and bytes around a thousand: beyond that, tolerances of floats decide about rows.
        self.unit = max(float(cost.max(initial=1.0)), 1.0) / SCALED
        most = max((s.size for s in rows.problem.storages), default=1)
        self.bytes = max(1.0, most / SCALED)
        self.costs = cost / self.unit + np.array(prices if len(prices) else 0.0)
        self.columns = self.count = 0
        self.scales: list[float] = []
        self.of_row: list[int] = []
        """Row of the program by row of the rows."""
        self.sums: dict[tuple[int, ...], int] = {}
        """Row of the program by columns that are added up."""

    def update(self) -> None:
        """Pass on new columns and rows."""
        new = len(self.rows.columns) - self.columns
        if new:
            cost = np.zeros(new)
            # Only repeats cost; columns after them describe the moment of a node.
            cost[: max(0, len(self.costs) - self.columns)] = self.costs[self.columns :]
            empty = np.zeros(0)
            self.highs.addCols(
                new, cost, np.zeros(new), np.ones(new), 0, np.zeros(new), empty, empty
            )
        if self.integral and new:
            pairs = [i for i in self.rows.pairs.values() if i >= self.columns]
            # Other columns follow from repeats and sequences, so they may stay continuous.
            repeats = range(self.columns, len(self.costs))
            listed = np.array([*repeats, *pairs], np.int32)
            kind = np.full(len(listed), self.kinds.HighsVarType.kInteger)
            self.highs.changeColsIntegrality(len(listed), listed, kind)
        self.columns = len(self.rows.columns)
        first, self.count = self.count, len(self.rows.keys)
        if self.count > first:
            self._add_rows(first)

    def _add_rows(self, first: int) -> None:
        bounds: list[float] = []
        starts: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        for i in range(first, self.count):
            by = self._scale(i)
            self.scales.append(by)
            bounds.append(self.rows.bounds[i] / by)
            starts.append(len(columns))
            columns += [column for column, _ in self.rows.terms[i]]
            values += [value / by for _, value in self.rows.terms[i]]
        infinite = np.full(len(bounds), self.kinds.kHighsInf)
        self.of_row += range(self.highs.getNumRow(), self.highs.getNumRow() + len(bounds))
        self.highs.addRows(
            len(bounds),
            np.array(bounds, float),
            infinite,
            len(columns),
            np.array(starts, np.int32),
            np.array(columns, np.int32),
            np.array(values, float),
        )

    def _scale(self, i: int) -> float:
        """Return the number by which a row is divided."""
        kind = self.rows.keys[i][0]
        if kind == "round":
            # Rows of large numbers are scaled down, or a small violation of them would count as
            # none.
            return max(1.0, max((abs(x) for _, x in self.rows.terms[i]), default=1) / 10)
        return self.bytes if kind == "fit" else 1.0

    def bound_sum(self, columns: tuple[int, ...], low: float, high: float) -> None:
        """Bound a column, or the sum of several."""
        if len(columns) == 1:
            self.highs.changeColBounds(columns[0], low, high)
            return
        # A limit that is none must not take the place of the columns' own ones in a proof.
        low = -self.kinds.kHighsInf if low <= 0 else low
        high = self.kinds.kHighsInf if high >= len(columns) else high
        if columns not in self.sums:
            self.sums[columns] = self.highs.getNumRow()
            ones = np.ones(len(columns))
            self.highs.addRow(low, high, len(columns), np.array(columns, np.int32), ones)
        self.highs.changeRowBounds(self.sums[columns], low, high)

    def solve(self, seconds: float, clock: Clock) -> np.ndarray | None:
        """Return the values of the columns, or None without a solution."""
        run_highs(self.highs, seconds, clock, integral=self.integral)
        status, kinds = self.highs.getModelStatus(), self.kinds.HighsModelStatus
        # An integer program that ran out of time may still have a valid solution.
        timed = self.integral and status in (kinds.kTimeLimit, kinds.kInterrupt)
        if status != kinds.kOptimal and not timed:
            return None
        solution = self.highs.getSolution()
        if not solution.value_valid or not (self.integral or solution.dual_valid):
            return None
        return np.array(solution.col_value)

    @property
    def cost(self) -> float:
        """Cost of the last solution."""
        return float(self.highs.getInfo().objective_function_value) * self.unit

    def is_infeasible(self) -> bool:
        """Return True if the last run found that no solution exists."""
        kinds = self.kinds.HighsModelStatus
        found = (kinds.kInfeasible, kinds.kUnboundedOrInfeasible)
        return self.highs.getModelStatus() in found

    def is_optimal(self) -> bool:
        """Return True if the last run ended with an optimum."""
        return bool(self.highs.getModelStatus() == self.kinds.HighsModelStatus.kOptimal)

    def multipliers(self) -> tuple[dict[int, float], Mapping[tuple[int, ...], float]]:
        """Return multipliers of rows and of sums, in cost; of a proof of infeasibility, in 1."""
        if self.is_optimal():
            found, unit = np.array(self.highs.getSolution().row_dual), self.unit
        else:
            _, has_ray, ray = self.highs.getDualRay()
            found, unit = np.array(ray if has_ray else np.zeros(self.highs.getNumRow())), 1.0
        values = found[self.of_row]
        # A row was divided by its scale, so its multiplier is divided as well.
        rows = {int(i): unit * values[i] / self.scales[i] for i in np.flatnonzero(values)}
        return rows, {columns: unit * found[i] for columns, i in self.sums.items() if found[i]}
