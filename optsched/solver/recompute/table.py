"""Columns and rows in integers, and the order of moments that the graph states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from optsched.solver.recompute.problem import RecomputeProblem

Key = tuple[str, int, int, int]
"""Kind of a row, and numbers: the node v, then nodes, bytes, or a storage and a node."""

Column = tuple[str, int, int]
"""`r`, `d`, `x` or `l`, the node v (-1 for `r`), and a node or a storage."""


class Affine(NamedTuple):
    """`constant + sign * column`; without a column if `column` is -1."""

    constant: int
    column: int = -1
    sign: int = 0


ZERO, ONE = Affine(0), Affine(1)


@dataclass(slots=True)
class RowTable:
    """Rows `sum of coefficients * columns >= bound`.

    The first columns are `r` of the nodes that may run again, in their order.
    """

    problem: RecomputeProblem
    peak: int
    """Bytes that must not be exceeded."""
    small: int = 0
    """Storages with fewer bytes have no `l`: they count where they are live for certain."""
    columns: list[Column] = field(init=False)
    keys: list[Key] = field(default_factory=list)
    terms: list[tuple[tuple[int, int], ...]] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)
    fits: dict[int, tuple[dict[int, int], int]] = field(default_factory=dict)
    """Bytes by column and the bytes that must be released, of each node."""
    moments: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    """Column by node v, of each `d` and `x`."""
    repeat: dict[int, int] = field(init=False)
    """Column `r` by node."""

    def __post_init__(self) -> None:
        # Repeats come first, so that their numbers do not depend on the rows.
        self.columns = [("r", -1, u) for u in self.problem.again]
        self.repeat = {u: i for i, u in enumerate(self.problem.again)}

    def put(self, key: Key, terms: tuple[tuple[int, int], ...], bound: int) -> None:
        """Append a row."""
        self.keys.append(key)
        self.terms.append(terms)
        self.bounds.append(bound)

    def column(self, kind: str, v: int, which: int) -> int:
        """Return a new column, and order it among those of other moments."""
        self.columns.append((kind, v, which))
        made = len(self.columns) - 1
        # `l` belongs to one moment only.
        if kind != "l":
            self._order_moments(kind, v, which, made)
        return made

    def _order_moments(self, kind: str, v: int, u: int, made: int) -> None:
        """Add the rows "order" or "after" between a moment and those next to it."""
        known = self.moments.setdefault((kind, u), {})
        before = [w for w in known if self.is_above(w, v)]
        behind = [w for w in known if self.is_above(v, w)]
        # Only the nearest moments on both sides: rows between others follow from these.
        pairs = [(w, v) for w in before if not any(self.is_above(w, y) for y in before)]
        pairs += [(v, w) for w in behind if not any(self.is_above(y, w) for y in behind)]
        known[v] = made
        for early, late in pairs:
            sign = 1 if kind == "x" else -1
            terms = ((known[early], sign), (known[late], -sign))
            self.put(("after" if kind == "x" else "order", early, late, u), terms, 0)

    def is_above(self, u: int, w: int) -> bool:
        """Return True if w needs u, directly or not."""
        return self.problem.is_above(u, w)
