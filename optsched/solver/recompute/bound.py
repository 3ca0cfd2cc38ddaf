"""Bounds from integer multipliers of rows: proofs that can be checked in integers alone.

Let rows `A z >= b` hold for every schedule, with all variables `z` between 0 and 1, and let
`y >= 0` be any integers. Adding the rows up gives `y A z >= y b`, so a cost `c` satisfies

    c z >= y b + (c - y A) z >= y b + sum of min(0, c - y A)

A solver proposes good `y` in floats; rounded to integers they prove a bound as well, since any
non-negative integers do. The cost is multiplied by a scale so that rounding loses little. With
scale 0 the cost vanishes: a positive right side then shows that no schedule satisfies the rows.

Where the bound is not tight, the proof is a *tree*. A branch takes a set of nodes and a number k:
either at most k nodes of the set repeat, or at least k + 1 do. Each side adds a row, and the bound
is the smaller one of both sides. If at least 6.4 of twelve equal layers must run again, one such
branch proves 7.

Example: minimize 3 r with the rows r >= x, l >= 1 - x and -5 l >= -3. The multipliers (5, 5, 1) and
the scale 1 give 5 - 3 = 2 as the right side; the coefficients 3 - 5 of r, 5 - 5 of x and 0 of l
give min(0, -2) = -2: nothing. Multipliers (3, 3, 0.6) would prove 6/5; as integers with scale 5
these are (15, 15, 3), which prove 6/5, and rounded up 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

IMPOSSIBLE = 2**200
"""Value of a bound if no schedule exists: more than any number of repeats costs."""
MOST_COST = 2**62
"""Cost of one step that no graph may reach."""

Terms = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Leaf:
    """Multipliers of rows, by the number of the row, and of the branches above."""

    scale: int
    rows: Mapping[int, int]
    branches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """A case split: in `fewer` the columns add up to at most `most`, in `more` to more."""

    columns: tuple[int, ...]
    most: int
    fewer: Leaf | Branch
    more: Leaf | Branch


Tree = Leaf | Branch


def rounded_up(total: int, scale: int) -> int:
    """Return the bound that a sum of rows proves, rounded up, since costs are integers."""
    # The multipliers alone give a positive right side with no cost: no schedule satisfies the
    # rows.
    if scale == 0:
        return IMPOSSIBLE if total > 0 else 0
    return max(0, -(-total // scale))


def added_up(
    cost: Sequence[int],
    scale: int,
    rows: Sequence[tuple[int, Terms, int]],
) -> int:
    """Return the bound of multiplied rows `(multiplier, terms, bound)`.

    `cost` has the costs of the first columns; all others cost nothing.
    """
    total, left = 0, {i: scale * c for i, c in enumerate(cost)}
    for multiplier, terms, bound in rows:
        total += multiplier * bound
        for column, coefficient in terms:
            left[column] = left.get(column, 0) - multiplier * coefficient
    # Columns lie between 0 and 1, so a negative rest counts in full and a positive one not at all.
    return rounded_up(total + sum(min(0, value) for value in left.values()), scale)


def branch_row(
    columns: Sequence[int], most: int, more: bool
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return terms and bound of a branch."""
    sign = 1 if more else -1
    # "At most k" is written as "at least" with all signs changed.
    return tuple((column, sign) for column in columns), most + 1 if more else -most
