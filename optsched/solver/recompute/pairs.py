"""Rows between moments that the graph does not order, added where a solution violates them.

Let nodes v and w be parallel, such as the gradients of two experts. A schedule runs one of them
first, and which one it is decides what is live at both moments. In a linear program both may be
half first; the tree of a proof and the integer program branch on it.

Example: four equal experts each need most while their own gradient is computed and those of the
three others are still to come. Whichever comes first has this moment. The rows of a single expert
prove less than those of all four, since a schedule may run this expert last.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optsched.solver.recompute.rows import CutRows
from optsched.solver.recompute.table import Affine, Key

SLACK = 1e-3
"""Least violation of a row that is added."""


def separate_pairs(rows: CutRows, values: np.ndarray) -> int:
    """Add the rows "order" and "after" that a solution violates; count them."""
    found = [
        (key, terms)
        for (v, w), column in rows.pairs.items()
        if column < len(values) and values[column] > SLACK
        for key, terms in _rows_of(rows, v, w)
        # Only violated rows are added: there is one for each pair of parallel nodes and each node.
        if key not in rows.extra and _value(terms, values) < -1 - SLACK
    ]
    for key, terms in found:
        rows.extra.add(key)
        columns: dict[int, int] = {}
        for number, term in terms:
            if term.column >= 0:
                columns[term.column] = columns.get(term.column, 0) + number * term.sign
        constant = sum(number * term.constant for number, term in terms)
        rows.put(key, tuple(columns.items()), -1 - constant)
    return len(found)


Sum = tuple[tuple[int, Affine], ...]


def _rows_of(rows: CutRows, v: int, w: int) -> Iterator[tuple[Key, Sum]]:
    """Yield the rows, as sums of at least -1, that hold if v comes before w."""
    early, late = rows.nodes[v], rows.nodes[w]
    first = (-1, Affine(0, rows.pairs[v, w], 1))
    for u, column in early.done.items():
        known = late.known_first(u)
        if known is not None:
            yield ("order", v, w, u), ((1, known), (-1, Affine(0, column, 1)), first)
    for u, later in late.later.items():
        if u in early.later:
            yield ("after", v, w, u), ((1, early.later[u]), (-1, later), first)


def _value(terms: Sum, values: np.ndarray) -> float:
    total = 0.0
    for number, term in terms:
        known = values[term.column] if 0 <= term.column < len(values) else 0.0
        total += number * (term.constant + term.sign * known)
    return total
