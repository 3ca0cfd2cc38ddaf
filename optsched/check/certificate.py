"""The independent checker of certificates: plain integers, no solver, no flat arrays.

A certificate refutes the budget `bound - 1`. Its steps are checked in order; each kind of step says
what must hold (:mod:`optsched.check.steps`), :mod:`optsched.check.network` has the notation.

The invariant. Call an order *good* if its peak is within the budget. To each list of precedences
belongs a *class*: the good orders that keep all of them and run the parts of accepted regions at
one go. The checker starts with the precedences of the graph, so with all good orders, and keeps

1. a stack of suppositions `s1, .., sk`, and for `j = 0, .., k` the class `Cj` of the precedences
   that rest on `s1, .., sj` at most, so `C0` contains `C1`, and so on to `Ck`;
2. if there is a good order at all, `C0` is not empty; and if `C(j-1)` has an order that keeps `sj`,
   `Cj` is not empty;
3. `Ck` stays the same if blocks of one of the `families` change places after their ordered op.

Each step keeps this, for these reasons.

- *precedence*: an order of `Ck` without it would run one of its two ops where that does not fit.
  So all orders of `Ck` have it, and the class stays what it is.
- *region*, *blocks* with an ordered column: each order in `Ck` can be changed into one, also in
  `Ck`, of the wanted kind. The class may shrink, but does not become empty. Regions come before
  suppositions and blocks. An op of a region is in no block, so exchanged blocks leave parts intact.
- *suppose*: `C(k+1)` has the orders of `Ck` that keep `s(k+1)`, be there any or none.
- *start*, *end*, *op*, *last*, *first*, *states*: no order is in `Ck`. If `k = 0` no order is good:
  the budget is refuted. Else, by 2, no order of `C(k-1)` keeps `sk = (u before v)`: all have `v`
  before `u`. That is added to `C(k-1)`, which stays what it is, and all that rests on `sk` is gone.

A new precedence may tell blocks apart, so it ends all families; their precedences stay. Nothing
here asks precedences to be free of cycles: with a cycle the class is empty, and a conclusion about
all orders of an empty class is true. A proof by cases is thus a list, however deep; a case left
open at its end refutes nothing, and is rejected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from optsched.check.blocks import Family
from optsched.check.inplace import heaviest
from optsched.check.network import Cases, Forced, Network, reach
from optsched.errors import PlanError
from optsched.model.graph import Graph
from optsched.model.order_rules import NO_RULES, OrderRules

Pairs: TypeAlias = Sequence[tuple[int, int]]
"""Outputs of an op and roots of inputs that it may write them into."""


class Step(ABC):
    """A step of a certificate: data, and the check that it holds.

    Subclasses are dataclasses; the type of a field says how it is written to files.
    """

    __slots__ = ()
    kinds: ClassVar[tuple[tuple[Any, ...], ...]]
    """Its names in files, each with the values of the first fields that the name stands for."""
    refutes: ClassVar[bool] = True
    """True if no order is left once the step holds."""
    searches: ClassVar[bool] = False
    """True if a certificate with such a step counts as an order search, not as an order bound."""

    @abstractmethod
    def check(self, found: Refutation) -> None:
        """Raise `PlanError` if the step does not hold; record what follows from it."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A lower bound on the peak of every order that keeps some rules, and why it holds."""

    graph: str
    """Name of the graph."""
    bound: int
    """Bytes."""
    steps: tuple[Step, ...]
    """In the order in which they are to be checked."""
    rules: OrderRules = NO_RULES
    """Order rules of the question: the steps are about the graph in which they are control edges,
    so that the bound says nothing about orders that break them."""


def check_certificate(graph: Graph, certificate: Certificate) -> str:
    """Return the proof that a valid certificate gives: L2 (order bound) or L3 (order search).

    Raise `PlanError` on the first step that does not hold.
    """
    # By name, since a certificate is read beside the graph it names.
    if certificate.graph != graph.name:
        raise PlanError(f"certificate is of graph {certificate.graph!r}, this is {graph.name!r}")
    found = Refutation(graph, certificate.bound - 1)
    for number, step in enumerate(certificate.steps):
        try:
            # Steps after the refutation would be unchecked words.
            if found.complete:
                raise PlanError("the budget was refuted before this step")
            step.check(found)
            if step.refutes:
                found.refute()
        except PlanError as error:
            raise PlanError(f"step {number}: {error}") from None
    if not found.complete:
        raise PlanError("certificate has no step that refutes its budget")
    return "L3" if any(step.searches for step in certificate.steps) else "L2"


class Refutation:
    """State of a check: a graph's network, and facts about its orders within the budget."""

    def __init__(self, graph: Graph, budget: int) -> None:
        self.graph, self.network, self.budget = graph, Network(graph), budget
        self.complete = False
        self.families: list[Family] = []
        self.supposed: list[tuple[int, int]] = []
        self.resting: list[list[tuple[int, int]]] = [[]]
        """Precedences by supposition that they rest on, itself included; entry 0 rests on none."""

    def add(self, first: int, second: int) -> None:
        """Add a precedence under the present suppositions; it may tell blocks apart."""
        self.check_ids(first, second)
        # A new edge may hold for one block and not for another.
        self.families = []
        if self.network.add(first, second):
            self.resting[-1].append((first, second))

    def suppose(self, first: int, second: int) -> None:
        """Add a precedence that holds until a step refutes it."""
        self.supposed.append((first, second))
        self.resting.append([])
        self.add(first, second)

    def refute(self) -> None:
        """Record that no order is within the budget, or none under the last supposition."""
        if not self.supposed:
            self.complete = True
            return
        # Precedences found under the supposition rest on it, so they end with it.
        for first, second in self.resting.pop():
            self.network.remove(first, second)
        first, second = self.supposed.pop()
        # The supposition is refuted, so every order within the budget has the opposite.
        self.add(second, first)

    def check_ids(self, *ops: int) -> None:
        """Check op ids: Python would read -1 as the last op, so one op would have two ids."""
        for v in ops:
            if not 0 <= v < len(self.graph.ops):
                raise PlanError(f"unknown op number {v}")

    def check_op(self, v: int, done: set[int], later: set[int], forced: Forced) -> None:
        """Check that `v` does not fit the budget after the ops `done`, before the ops `later`."""
        self.check_ids(v)
        later = reach(self.network.after, later)
        pairs = [
            p
            for p in self.network.pairs.get(v, ())
            # An input with a holder that runs later is not free at `v` in any of these states.
            if later.isdisjoint(self.network.holders[p[1]] - {v})
        ]
        self.check_case(v, done, later, forced, pairs)

    def check_case(
        self, v: int, done: set[int], later: set[int], forced: Forced, pairs: Pairs
    ) -> None:
        """Check that `v` exceeds the budget if it can write only into the inputs of `pairs`.

        A certificate may split this into two cases: either all other holders of an input have
        ended, or `v` cannot write into it.
        """
        if isinstance(forced, Cases):
            held = [pair for pair in pairs if pair[1] != forced.input]
            # An input that the op cannot write into gives no two cases.
            if len(held) == len(pairs):
                names = self.network.op_name(v), self.network.buffer_name(forced.input)
                text = "op {} cannot write into buffer {}".format(*names)
                raise PlanError(f"a case has no sense: {text}")
            others = self.network.holders[forced.input] - {v}
            # In the first case the other holders have ended; in the second the pairs are gone.
            self.check_case(v, done | others, later, forced.free, pairs)
            self.check_case(v, done, later, forced.held, held)
            return
        ended = reach(self.network.before, done) - {v}
        value = (
            self.network.born[v]
            + self.network.least_live(ended, later, forced)
            - heaviest(self.graph, pairs)
        )
        if value <= self.budget:
            name = self.graph.ops[v].name
            raise PlanError(f"op {name!r} is shown to need {value} bytes, not {self.budget + 1}")
