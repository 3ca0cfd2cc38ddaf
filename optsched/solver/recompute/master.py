"""The cheapest set of repeats under the rows so far, and multipliers that prove its bound.

HiGHS solves both (:mod:`optsched.solver.recompute.program`): as an integer program for the set, as
a linear program for the multipliers. Of sets of equal cost the one of fewer bytes is taken, then of
fewer repeats: each repeat has a small price for its bytes and for itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from optsched.runtime.clock import Clock
from optsched.solver.recompute.bound import IMPOSSIBLE, Leaf, added_up, branch_row
from optsched.solver.recompute.pairs import separate_pairs
from optsched.solver.recompute.program import SCALED, Program
from optsched.solver.recompute.rows import CutRows, rounded

TIE = 2e-5
"""Price of a repeat, and of the largest number of bytes, in parts of the largest cost."""
PRECISION = 12
"""Bits of rounded multipliers below the inverse of the largest right side."""
VIOLATED = 0.02
"""Least violation of a row "round" that is added, in pieces of q bytes."""
VIOLATION_SECONDS = 2e-5
"""Seconds for a row "round" that a solution may violate."""

Branches = tuple[tuple[tuple[int, ...], int, bool], ...]
"""Columns, a number, and True if their sum is more than this number, False if at most."""


class Relaxed(NamedTuple):
    """Result of a linear program: its leaf of a proof, the bound, and the value of each column."""

    leaf: Leaf
    bound: int
    values: np.ndarray


class Chosen(NamedTuple):
    """Result of the integer program.

    `nodes` is None if the time was too short, or if no nodes are enough; `exact` tells these apart.
    """

    nodes: frozenset[int] | None
    exact: bool


@dataclass(slots=True)
class Master:
    """Programs of one problem and peak."""

    rows: CutRows
    """The rows; new ones are passed on when a program is solved."""
    _linear: Program = field(init=False, repr=False)
    _integer: Program = field(init=False, repr=False)
    _bounded: dict[tuple[int, ...], tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problem = self.rows.problem
        made = [problem.made_bytes(u) for u in problem.again]
        most = max([*made, 1])
        # Small next to the largest cost, so that mostly ties are decided.
        prices = [TIE * SCALED * (0.1 + size / most) for size in made]
        self._linear = Program(self.rows)
        self._integer = Program(self.rows, prices, integral=True)

    def choose(self, seconds: float, clock: Clock) -> Chosen:
        """Return the cheapest nodes that satisfy the rows if each of them runs again."""
        limit = clock.limited(seconds)
        while True:
            # New rows exclude the solution found, so the program is solved until no row is
            # violated.
            self._integer.update()
            values = self._integer.solve(seconds, limit)
            if values is None:
                return Chosen(None, self._integer.is_infeasible())
            if limit.expired() or not separate_pairs(self.rows, values):
                break
        return Chosen(self.nodes(values), self._integer.is_optimal())

    def nodes(self, values: np.ndarray) -> frozenset[int]:
        """Return the nodes that run again."""
        return frozenset(u for i, u in enumerate(self.rows.problem.again) if values[i] > 0.5)

    def relax(self, seconds: float, clock: Clock, branches: Branches = ()) -> Relaxed | None:
        """Return the proof of the linear program; None if the time was too short.

        If the rows cannot be satisfied, the proof says so.
        """
        known = self._without_program(branches)
        if known is not None:
            return known
        self._linear.update()
        self._bound(branches)
        values = self._linear.solve(seconds, clock)
        if values is None and not self._linear.is_infeasible():
            return None
        rows, sums = self._linear.multipliers()
        leaf = self._leaf(rows, sums, branches, scaled=values is not None)
        bound = self.bound_of(leaf, branches)
        # A ray in floats need not prove anything once it is rounded.
        if values is None and bound < IMPOSSIBLE:
            return None
        return Relaxed(leaf, bound, np.zeros(0) if values is None else values)

    def _without_program(self, branches: Branches) -> Relaxed | None:
        """Return the answer without columns: the fixed bytes fit, or no plan does."""
        # A row without columns and with a positive bound cannot be satisfied by any repeats.
        rows, zeros = self.rows, (0,) * len(branches)
        for i, terms in enumerate(rows.terms):
            if not terms and rows.bounds[i] > 0:
                return Relaxed(Leaf(0, {i: 1}, zeros), IMPOSSIBLE, np.zeros(0))
        return None if rows.columns else Relaxed(Leaf(1, {}, zeros), 0, np.zeros(0))

    def narrowed(self, nodes: Collection[int], clock: Clock) -> Master | None:
        """Return programs with the rows of some nodes; None if the time was over before."""
        rows = CutRows(self.rows.problem, self.rows.peak, self.rows.small)
        if not all(rows.add(v, clock) for v in sorted(nodes)):
            return None
        for kind, v, q, least in self.rows.keys:
            if kind == "round" and v in nodes:
                rows.round(v, q, least)
        return Master(rows)

    def separate(self, values: np.ndarray, most: int, clock: Clock) -> int:
        """Add rows that a solution violates, at most some "round" of each node; count them.

        Nodes and sizes that the time does not suffice for are left out: rows only raise the bound.
        """
        added = separate_pairs(self.rows, values)
        for v in self.rows.active:
            if clock.expired():
                break
            # The most violated rows first; a few of them do most of the work.
            for short, q, least in sorted(self._violations(values, v, clock), reverse=True)[:most]:
                if short > VIOLATED:
                    added += self.rows.round(v, q, least)
        return added

    def _violations(
        self, values: np.ndarray, v: int, clock: Clock
    ) -> Iterator[tuple[float, int, int]]:
        """Yield how many pieces of q bytes a solution lacks in a row "round", q and `least`."""
        fits, need = self.rows.fits[v]
        # Sorted by size, so that storages of at least some bytes are the end of a row.
        sizes = np.array(sorted(fits.values()), np.int64)
        columns = sorted(fits, key=fits.__getitem__)
        released = 1 - values[np.array(columns, np.int64)]
        below = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        distinct = sorted({*fits.values()})
        for q in filter(None, distinct):
            if clock.expired():
                return
            clock.spend(len(distinct), VIOLATION_SECONDS)
            parts, rests = (sizes // q).astype(float), sizes % q
            for least in (0, *(x for x in distinct if x <= q)):
                first = int(np.searchsorted(sizes, least))
                lacking = need - below[first]
                if lacking > 0:
                    rest = (lacking - 1) % q + 1
                    piece = parts[first:] * rest + np.minimum(rest, rests[first:])
                    found = rounded(lacking, lacking, q) - float(piece @ released[first:])
                    yield found / rest, q, least

    def _bound(self, branches: Branches) -> None:
        """Bound the sums of columns of these branches, and no others."""
        wanted: dict[tuple[int, ...], tuple[float, float]] = {}
        for columns, most, more in branches:
            low, high = wanted.get(columns, (0.0, float(len(columns))))
            wanted[columns] = (max(low, most + 1), high) if more else (low, min(high, most))
        # Limits of the branch solved before are taken back.
        for columns in self._bounded.keys() - wanted.keys():
            self._linear.bound_sum(columns, 0.0, float(len(columns)))
        for columns, both in wanted.items():
            if self._bounded.get(columns) != both:
                self._linear.bound_sum(columns, *both)
        self._bounded = wanted

    def _leaf(
        self,
        rows: Mapping[int, float],
        sums: Mapping[tuple[int, ...], float],
        branches: Branches,
        *,
        scaled: bool,
    ) -> Leaf:
        # Half a unit of a multiplier changes a right side by less than a part of the cost.
        most = max((abs(self.rows.bounds[i]) for i in rows), default=1)
        if scaled:
            grid = 2 ** (most.bit_length() + PRECISION)
        else:
            largest = max((abs(x) for x in (*rows.values(), *sums.values())), default=1.0)
            grid = 2 ** (most.bit_length() + PRECISION + max(0, -math.frexp(largest)[1]))
        # A ray may have either sign; multipliers of rows must not be negative.
        sign = 1 if scaled or sum(rows.values()) >= 0 else -1
        numbers = {i: y for i, x in rows.items() if (y := round(sign * x * grid)) > 0}
        scale = grid if scaled else 0
        left = self._left(scale, numbers, sums, sign * grid)
        of_branches = []
        taken: set[tuple[tuple[int, ...], bool]] = set()
        for columns, _, more in reversed(branches):
            # Of nested branches the innermost is the strongest.
            # A branch on one column is a bound of that column, whose multiplier is what the rows
            # leave.
            if len(columns) == 1:
                y = left.get(columns[0], 0)
            else:
                y = round(sign * sums.get(columns, 0.0) * grid)
            is_new = (columns, more) not in taken
            taken.add((columns, more))
            of_branches.append(max(0, y if more else -y) if is_new else 0)
        return Leaf(scale, numbers, tuple(reversed(of_branches)))

    def _left(
        self,
        scale: int,
        numbers: Mapping[int, int],
        sums: Mapping[tuple[int, ...], float],
        grid: int,
    ) -> dict[int, int]:
        """Return the cost that multiplied rows leave, by column."""
        problem = self.rows.problem
        left = {i: scale * problem.cost[u] for i, u in enumerate(problem.again)}
        for i, y in numbers.items():
            for column, value in self.rows.terms[i]:
                left[column] = left.get(column, 0) - y * value
        for columns, x in sums.items():
            for column in columns:
                left[column] = left.get(column, 0) - round(x * grid)
        return left

    def bound_of(self, leaf: Leaf, branches: Branches) -> int:
        """Return the bound that a leaf proves."""
        rows = self.rows
        listed = [(y, rows.terms[i], rows.bounds[i]) for i, y in leaf.rows.items()]
        for y, branch in zip(leaf.branches, branches, strict=True):
            listed.append((y, *branch_row(*branch)))
        cost = [rows.problem.cost[u] for u in rows.problem.again]
        return added_up(cost, leaf.scale, listed)
