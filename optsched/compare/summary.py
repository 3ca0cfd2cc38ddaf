"""Figures over many graphs: one line per method, and performance profiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optsched.compare.methods import Kind, Method
from optsched.compare.rows import Comparison, MethodRow, Trouble
from optsched.runtime.limits import Proof
from optsched.solver.status import Status

TAUS = (1.0, 1.01, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0)
"""Factors at which performance profiles are evaluated."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of one method over all graphs."""

    method: str
    kind: Kind
    """Part of a plan that the method chooses, which decides the value that it is judged by."""
    measured: int
    """Number of graphs with figures."""
    asked: int
    """Number of graphs that should have figures: all but those whose file lacks the order."""
    mean_excess: float
    """Geometric mean of `value / best known`, less 1."""
    worst_excess: float
    worst_graph: str
    """First graph with the worst excess; empty if the worst excess is 0."""
    at_optimum: int
    """Number of graphs on which the method's value is proved minimal by any method."""
    proved: int
    """Number of graphs on which the method itself proved its slab minimal; solvers only."""
    against_optimum: int
    """Number of graphs on which the best known value is proved minimal."""
    wins: int
    """Number of graphs on which no other method of this kind is better."""
    seconds: float


def summarize(comparisons: Sequence[Comparison], methods: Sequence[Method]) -> list[Summary]:
    """Return one summary per method with figures: orders first, then best first."""
    minima = [_minimum_by_kind(c) for c in comparisons]
    found = []
    for method in methods:
        rows = [
            (c.find_row(method.name), best) for c, best in zip(comparisons, minima, strict=True)
        ]
        own = [(row, best[row.kind]) for row, best in rows if row is not None]
        if own:
            found.append(_summary(method, own, len(_asked(comparisons, method))))
    kinds = list(Kind)
    # Complete methods before those that failed somewhere, then by the mean.
    return sorted(
        found,
        key=lambda s: (kinds.index(s.kind), s.asked - s.measured, s.mean_excess, s.worst_excess),
    )


def profile(
    comparisons: Sequence[Comparison], methods: Sequence[Method], taus: Sequence[float] = TAUS
) -> dict[str, tuple[float, ...]]:
    """Return for each method the share of graphs on which it is within each factor of the best.

    A graph on which a method failed counts as outside every factor. Values are divided by the best
    known value, not by the best of `methods`, so leaving out a method does not change the curves of
    the others.

    References
    ----------
    Dolan, Moré: Benchmarking optimization software with performance profiles, 2002.
    """
    found = {}
    for method in methods:
        asked = _asked(comparisons, method)
        # Failures count as outside of every factor, so the divisor is all graphs.
        ratios = [1 + row.excess for c in asked if (row := c.find_row(method.name)) is not None]
        if ratios:
            # A ratio of 1.1 must count at the factor 1.1 in spite of rounding in the division.
            found[method.name] = tuple(
                sum(r <= tau * (1 + 1e-12) for r in ratios) / len(asked) for tau in taus
            )
    return found


def rows_against_optimum(comparisons: Sequence[Comparison]) -> tuple[int, int]:
    """Return the number of rows measured against a proved optimum, and the number expected.

    A missing row is expected unless the file does not record the method's order.
    """
    rows = [row for c in comparisons for row in c.rows]
    missing = sum(f.trouble is not Trouble.ABSENT for c in comparisons for f in c.failed)
    return sum(row.against_optimum for row in rows), len(rows) + missing


def _asked(comparisons: Sequence[Comparison], method: Method) -> list[Comparison]:
    """Return the graphs on which the method has something to measure."""
    return [
        c
        for c in comparisons
        if (failed := c.failure(method.name)) is None or failed.trouble is not Trouble.ABSENT
    ]


def _minimum_by_kind(comparison: Comparison) -> dict[Kind, int]:
    minimum: dict[Kind, int] = {}
    for row in comparison.rows:
        value = row.value
        minimum[row.kind] = min(minimum.get(row.kind, value), value)
    return minimum


def _summary(method: Method, own: Sequence[tuple[MethodRow, int]], asked: int) -> Summary:
    rows = [row for row, _ in own]
    worst = max(rows, key=lambda row: row.excess)
    return Summary(
        method=method.name,
        kind=rows[0].kind,
        measured=len(rows),
        asked=asked,
        # A geometric mean, as ratios multiply; by logarithms, so that nothing overflows.
        mean_excess=math.expm1(math.fsum(math.log1p(row.excess) for row in rows) / len(rows)),
        worst_excess=worst.excess,
        worst_graph=worst.graph if worst.excess else "",
        at_optimum=sum(row.status is Status.OPTIMAL for row in rows),
        proved=sum(row.proof not in (None, Proof.CLAIMED) for row in rows),
        against_optimum=sum(row.against_optimum for row in rows),
        wins=sum(row.value == minimum for row, minimum in own),
        seconds=math.fsum(row.runtime for row in rows),
    )
