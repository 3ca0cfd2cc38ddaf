"""The mixed-integer program of an order, in PuLP.

A binary variable states, for each two ops that can run in either order, which one is first
(:mod:`optsched.joint.order_program`)::

    before[u, v]       op u runs before op v; a constant where the graph decides it
    released[b, v]     all users of shared buffer b run before v (no binary needed: it is pushed up)
    load(v) <= peak    for every op v

Cycles of three ops are forbidden only once a solution contains them: without them, the program is a
relaxation, whose bounds hold as well. Its linear relaxation is at least the closure bound.

Example: `a` and `b` are free to run in either order, so `before[a, b]` is binary, and `before[b,
a]` is `1 - before[a, b]`. With a third op `c`, a solution with a before b, b before c and c before
a has a cycle; the constraint `before[a, b] + before[b, c] + before[c, a] <= 2` excludes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from optsched.errors import UsageError
from optsched.joint.order_program import OrderProgram

MAX_UNITS = 100_000
"""Maximum coefficient of a load: the requested tolerance of a binary times this stays far below one
unit.
"""
MAX_RANGE = 1e6
"""Maximum ratio of the largest to the smallest coefficient of a program that is solved."""

Term = tuple[int, Any]
"""Factor and variable; the variable is None for a constant."""


@dataclass(frozen=True, slots=True)
class MilpPoint:
    """The order that a solution describes."""

    order: tuple[int, ...]
    cycles: tuple[tuple[int, int, int], ...]
    """Cycles of three ops in the solution, where each runs before the next."""


class MilpProgram:
    """The program of one round; `cycles` are cycles of three ops to forbid."""

    def __init__(self, program: OrderProgram, cycles: Iterable[tuple[int, int, int]]) -> None:
        import pulp

        self.program, self.pulp = program, pulp
        self.problem = pulp.LpProblem("order", pulp.LpMinimize)
        self.smallest, self.largest, self.impossible = 1, 1, False
        self.first = {
            pair: pulp.LpVariable(f"before_{pair[0]}_{pair[1]}", cat="Binary")
            for pair in program.free_pairs()
        }
        self._add_closure()
        for u, v, w in cycles:
            self._at_most([self.before(u, v), self.before(v, w), self.before(w, u)], 2)
        self.released: dict[tuple[tuple[int, ...], int], Any] = {}
        self.saved = [self._saving(k) for k in range(len(program.savings))]
        self._match_savings()
        self.loads = [self._load(v) for v in range(len(program))]

    def before(self, u: int, v: int) -> list[Term]:
        """Return terms whose sum is 1 if op `u` runs before op `v`."""
        known = self.program.relation(u, v)
        if known is not None:
            return [(known, None)]
        return [(1, self.first[u, v])] if u < v else [(1, None), (-1, self.first[v, u])]

    def minimize_peak(self, low: int, high: int) -> None:
        """Let the objective be the peak."""
        peak = self.pulp.LpVariable("peak", low, max(low, high))
        self.problem += peak
        for load in self.loads:
            self._at_most([load, [(-1, peak)]], 0)

    def limit_peak(self, high: int) -> None:
        """Require loads of at most `high`, digit by digit."""
        self.problem += 0
        for v, load in enumerate(self.loads):
            total = _collected(load)
            # A row whose positive terms cannot exceed the limit needs no constraint.
            if sum(max(0, factor) for factor in total.values()) > high:
                self._limit_in_digits(v, total, high)

    def _limit_in_digits(self, v: int, load: dict[Any, int], high: int) -> None:
        """Require `load <= high` with factors below :data:`MAX_UNITS`.

        The sum of a digit exceeds its limit by at most the carry times the base; the carry counts
        in the next digit. The row of the last digit has no carry.
        """
        left = {x: factor for x, factor in load.items() if x is not None}
        high -= load.get(None, 0)
        carry: list[Term] = []
        while max([abs(high), *(abs(factor) for factor in left.values())]) >= MAX_UNITS:
            row = [(factor % MAX_UNITS, x) for x, factor in left.items()]
            # A digit is at most the base, so that the carry is at most the number of terms.
            made = self.pulp.LpVariable(
                f"carry_{v}_{len(self.problem.constraints)}", -1, len(row) + 2, cat="Integer"
            )
            self._at_most([row, carry, [(-MAX_UNITS, made)]], high % MAX_UNITS)
            left = {x: factor // MAX_UNITS for x, factor in left.items()}
            high //= MAX_UNITS
            carry = [(1, made)]
        self._at_most([[(factor, x) for x, factor in left.items()], carry], high)

    def refuse_range(self) -> None:
        """Raise an error if coefficients are outside the range in which HiGHS is reliable."""
        if self.largest > MAX_RANGE * self.smallest:
            raise UsageError(
                f"the MILP has coefficients from {self.smallest} to {self.largest}, a range in "
                "which floating point is not reliable; use engine auto or cpsat"
            )

    def read(self, value: Callable[[Any], float | None]) -> MilpPoint:
        """Return the order of a solution in which a variable has the given value."""
        # A variable without any constraint is not part of the program, and has no value.
        chosen = {pair: (value(x) or 0) > 0.5 for pair, x in self.first.items()}
        ahead = [mask.bit_count() for mask in self.program.ancestors]
        for (u, v), first in chosen.items():
            ahead[v if first else u] += 1
        order = tuple(sorted(range(len(ahead)), key=lambda v: ahead[v]))
        return MilpPoint(order, self._cycles(chosen))

    def _cycles(self, chosen: dict[tuple[int, int], bool]) -> tuple[tuple[int, int, int], ...]:
        """Return the cycles of three ops of a solution."""
        beside: list[set[int]] = [set() for _ in range(len(self.program))]
        for u, v in chosen:
            beside[u].add(v)
            beside[v].add(u)

        def runs(u: int, v: int) -> bool:
            known = self.program.relation(u, v)
            if known is not None:
                return bool(known)
            return chosen[u, v] if u < v else not chosen[v, u]

        found = set()
        for u, row in enumerate(beside):
            # Each cycle of three is found from each of its ops; a set keeps it once.
            for v, w in combinations(sorted(row), 2):
                if runs(u, v) and runs(v, w) and runs(w, u):
                    found.add(_turned(u, v, w))
                elif runs(u, w) and runs(w, v) and runs(v, u):
                    found.add(_turned(u, w, v))
        return tuple(sorted(found))

    def _load(self, v: int) -> list[Term]:
        program = self.program
        terms: list[Term] = [(program.base + program.rise[v], None)]
        for u, factor in enumerate(program.delta):
            terms += [(factor * sign, x) for sign, x in self.before(u, v)] if factor else []
        for size, users in program.shared:
            terms += [(-size * sign, x) for sign, x in self._released(users, v)]
        for saving, flag in zip(program.savings, self.saved, strict=True):
            if saving.op == v and flag is not None:
                terms.append((-saving.size, flag))
        return terms

    def _released(self, users: Sequence[int], v: int) -> list[Term]:
        """Return terms whose sum is at most 1 if all users run before an op, and 0 otherwise."""
        relations = {u: self.program.relation(u, v) for u in users}
        free = tuple(sorted(u for u, known in relations.items() if known is None))
        if 0 in relations.values():
            return []
        if len(free) < 2:
            return self.before(free[0], v) if free else [(1, None)]
        if (free, v) not in self.released:
            made = self.pulp.LpVariable(f"released_{v}_{len(self.released)}", 0, 1)
            self.released[free, v] = made
            for u in free:
                self._at_most([[(1, made)], _minus(self.before(u, v))], 0)
        return [(1, self.released[free, v])]

    def _saving(self, k: int) -> Any:
        """Return the variable of a saving, or None if it is never available."""
        saving = self.program.savings[k]
        if any(self.program.relation(u, saving.op) == 0 for u in saving.needs):
            return None
        flag = self.pulp.LpVariable(f"saved_{k}", cat="Binary")
        for u in saving.needs:
            self._at_most([[(1, flag)], _minus(self.before(u, saving.op))], 0)
        return flag

    def _match_savings(self) -> None:
        """Use at most one saving of each group."""
        groups: dict[tuple[int, int], list[Term]] = {}
        for saving, flag in zip(self.program.savings, self.saved, strict=True):
            for group in saving.groups if flag is not None else ():
                groups.setdefault((saving.op, group), []).append((1, flag))
        for terms in groups.values():
            if len(terms) > 1:
                self._at_most([terms], 1)

    def _add_closure(self) -> None:
        """Require that predecessors of what runs before an op run before it, too."""
        for u, v in self.first:
            for first, second in ((u, v), (v, u)):
                for w in self.program.preds[first]:
                    if self.program.relation(w, second) is None:
                        earlier = _minus(self.before(w, second))
                        self._at_most([self.before(first, second), earlier], 0)

    def _at_most(self, sums: Iterable[Sequence[Term]], limit: int) -> None:
        """Add the constraint that sums of terms are at most a limit."""
        total = _collected(term for terms in sums for term in terms)
        limit -= total.pop(None, 0)
        total = {x: factor for x, factor in total.items() if factor}
        if not total:
            # PuLP leaves out constraints without variables.
            self.impossible |= limit < 0
            return
        # Recorded to judge whether floats can be trusted with this program.
        factors = [abs(factor) for factor in total.values()]
        self.smallest = min(self.smallest, *factors)
        self.largest = max(self.largest, *factors)
        self.problem += self.pulp.LpAffineExpression(total) <= limit


def _turned(u: int, v: int, w: int) -> tuple[int, int, int]:
    """Return a cycle with its smallest op first."""
    return min((u, v, w), (v, w, u), (w, u, v))


def _minus(terms: Iterable[Term]) -> list[Term]:
    return [(-factor, x) for factor, x in terms]


def _collected(terms: Iterable[Term]) -> dict[Any, int]:
    """Add up the factors of each variable: of several terms of one, PuLP keeps the last."""
    total: dict[Any, int] = {}
    for factor, x in terms:
        total[x] = total.get(x, 0) + factor
    return total
