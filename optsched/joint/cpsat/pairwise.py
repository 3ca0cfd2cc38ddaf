"""The order model: for each two ops that can run in either order, a literal states which is first.

::

    before(u, v)        u runs before v; a constant where the graph decides it
    released(users, v)  all of `users` run before v; only for buffers with several last users
    position[v]         step of v; makes the literals an order
    load(v) <= peak     for every op v, see :mod:`optsched.joint.order_program`

Models with a variable per op and step must first find out where an op runs before they know what is
live there. Here each load is a sum over what runs before one op: its linear relaxation, together
with the implications between literals of one op, already is the closure bound of that op.

Example: `q` reads what `p` and `r` make, which run in either order. `before(p, q)` and `before(r,
q)` are the constant 1; the only literal is `before(p, r)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from optsched.joint.cpsat.hinted import HintedModel, Literal, negated
from optsched.joint.families import ALL_FAMILIES, OrderFamilies
from optsched.joint.order_program import OrderProgram


@dataclass(frozen=True, slots=True)
class OrderPoint:
    """An order as a point of the model."""

    order: tuple[int, ...]
    step: tuple[int, ...]
    """Step of each op."""

    @classmethod
    def of(cls, order: Sequence[int]) -> OrderPoint:
        """Return the point of an order."""
        step = [0] * len(order)
        for at, v in enumerate(order):
            step[v] = at
        return cls(tuple(order), tuple(step))


class PairwiseOrder(HintedModel[OrderPoint]):
    """Literals, positions and loads of one program."""

    def __init__(self, program: OrderProgram, families: OrderFamilies = ALL_FAMILIES) -> None:
        super().__init__()
        self.program, self.families = program, families
        self.first = {
            (u, v): self.boolean("before", lambda p, u, v: p.step[u] < p.step[v], u, v)
            for u, v in program.free_pairs()
        }
        self.all_before: dict[tuple[tuple[int, ...], int], Any] = {}
        self.position: list[Any] = []
        # Without positions, closure and triangles are what makes the literals an order.
        if families.closure or not families.positions:
            self._add_closure()
        if families.positions:
            self._add_positions()
        if families.triangles or not families.positions:
            self._add_triangles()
        self.saved = [self._saving(k) for k in range(len(program.savings))]
        self._match_savings()

    def before(self, u: int, v: int) -> Literal:
        """Return a literal, or a constant, that is true if op `u` runs before op `v`."""
        known = self.program.relation(u, v)
        if known is not None:
            return known
        return self.first[u, v] if u < v else ~self.first[v, u]

    def released(self, users: Iterable[int], v: int) -> Literal:
        """Return a literal, or a constant, that is true if all users run before op `v`."""
        literals = []
        for u in sorted(set(users)):
            literal = self.before(u, v)
            # A user that always runs later keeps the buffer live: the constant 0.
            if isinstance(literal, int):
                if not literal:
                    return 0
            else:
                literals.append((u, literal))
        # With one undecided user its own literal says it all.
        if len(literals) < 2:
            return literals[0][1] if literals else 1
        key = tuple(u for u, _ in literals), v
        if key not in self.all_before:
            self.all_before[key] = self._all_before(*key, [x for _, x in literals])
        return self.all_before[key]

    def load(self, v: int) -> Any:
        """Return the load of an op, a linear expression."""
        program = self.program
        terms = [program.base + program.rise[v]]
        terms += [x * self.before(u, v) for u, x in enumerate(program.delta) if x]
        terms += [-size * self.released(users, v) for size, users in program.shared]
        for saving, flag in zip(program.savings, self.saved, strict=True):
            if saving.op == v:
                terms.append(-saving.size * flag)
        return sum(terms)

    def add_peak(self, low: int, high: int, ops: Collection[int] | None = None) -> Any:
        """Add the peak, an integer variable that is at least every load, and return it.

        `ops` are those with the largest loads in every order; None for all.
        """
        peak = self.integer(low, high, "peak", lambda p: max(low, self.program.peak(p.order)))
        for v in range(len(self.program)) if ops is None else sorted(ops):
            self.model.add(self.load(v) <= peak)
        return peak

    def read(self, value: Callable[[Any], int]) -> OrderPoint:
        """Return the order that a solution describes."""
        # An op has as many ops before it as there are ancestors, plus those that literals put
        # before it.
        ahead = [member.bit_count() for member in self.program.ancestors]
        for (u, v), literal in self.first.items():
            ahead[v if value(literal) else u] += 1
        return OrderPoint.of(sorted(range(len(ahead)), key=lambda v: ahead[v]))

    def _all_before(self, users: tuple[int, ...], v: int, literals: list[Any]) -> Any:
        made = self.boolean(
            "released", lambda p, *_: all(p.step[u] < p.step[v] for u in users), str(users), v
        )
        for literal in literals:
            self.model.add_implication(made, literal)
        # The other direction, too: a buffer counts as released as soon as all its users have run.
        self.model.add_bool_or([made, *(~literal for literal in literals)])
        return made

    def _add_closure(self) -> None:
        """Require that predecessors of what runs before an op run before it, too."""
        for u, v in self.first:
            for first, second in ((u, v), (v, u)):
                literal = self.before(first, second)
                for w in self.program.preds[first]:
                    earlier = self.before(w, second)
                    if not isinstance(earlier, int):
                        self.model.add_implication(literal, earlier)

    def _add_positions(self) -> None:
        """Give every op a step in its window, and let literals and edges order the steps."""
        program, model = self.program, self.model
        last = len(program) - 1
        for v, (before, after) in enumerate(
            zip(program.ancestors, program.descendants, strict=True)
        ):
            # Ancestors come before an op and descendants after it, which bounds its step on both
            # sides.
            window = before.bit_count(), last - after.bit_count()
            self.position.append(self.integer(*window, "position", lambda p, v: p.step[v], v))
        for (u, v), literal in self.first.items():
            model.add(self.position[u] + 1 <= self.position[v]).only_enforce_if(literal)
            model.add(self.position[v] + 1 <= self.position[u]).only_enforce_if(~literal)
        for v, row in enumerate(program.preds):
            for u in row:
                model.add(self.position[u] + 1 <= self.position[v])

    def _add_triangles(self) -> None:
        """Forbid cycles of three ops; literals without such cycles are an order."""
        beside: list[set[int]] = [set() for _ in range(len(self.program))]
        for u, v in self.first:
            beside[u].add(v)
            beside[v].add(u)
        # With a single free pair, the graph itself forbids the cycle.
        found = {
            tuple(sorted((u, *pair)))
            for u, row in enumerate(beside)
            for pair in combinations(row, 2)
        }
        for a, b, c in sorted(found):
            for cycle in ((a, b, c), (c, b, a)):
                self._forbid(cycle)

    def _forbid(self, cycle: tuple[int, ...]) -> None:
        """Require that not every op of a cycle runs before the next one."""
        follow = zip(cycle, (*cycle[1:], cycle[0]), strict=True)
        literals = [negated(self.before(u, v)) for u, v in follow]
        # A constant in the clause already forbids the cycle.
        if not any(isinstance(literal, int) and literal for literal in literals):
            self.model.add_bool_or([x for x in literals if not isinstance(x, int)])

    def _saving(self, k: int) -> Literal:
        """Return a literal that is true if a saving is used: what it needs has ended."""
        saving = self.program.savings[k]
        able = [self.before(u, saving.op) for u in saving.needs]
        # The op can never save this, as something that it needs always runs later.
        if any(isinstance(literal, int) and not literal for literal in able):
            return 0
        made = self.boolean("saved", self._is_saved, k)
        for literal in able:
            if not isinstance(literal, int):
                self.model.add_implication(made, literal)
        return made

    def _match_savings(self) -> None:
        """Use at most one saving of each group."""
        groups: dict[int, list[Any]] = {}
        for saving, flag in zip(self.program.savings, self.saved, strict=True):
            for group in saving.groups if not isinstance(flag, int) else ():
                groups.setdefault(group, []).append(flag)
        for flags in groups.values():
            if len(flags) > 1:
                self.model.add_at_most_one(flags)

    def _is_saved(self, point: OrderPoint, k: int) -> bool:
        """Return True if the best choice of savings of an order contains a saving."""
        return k in self.program.chosen_savings(point.step, self.program.savings[k].op)
