"""The independent checker of certificates: plain integers, no solver, no flat arrays.

A certificate refutes the budget `bound - 1`. Its steps are checked in order; the methods say what
each must hold, :mod:`optsched.check.network` has the notation.

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

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from optsched.check.blocks import Family, check_blocks
from optsched.check.inplace import heaviest
from optsched.check.network import Network, reach
from optsched.check.region import check_region
from optsched.check.states import check_states
from optsched.check.steps import (
    BlocksStep,
    Cases,
    Certificate,
    End,
    EndStep,
    Forced,
    OpStep,
    OrderStep,
    RegionStep,
    SetStep,
    StatesStep,
    Step,
    SupposeStep,
)
from optsched.errors import PlanError
from optsched.model.graph import Graph

Pairs: TypeAlias = Sequence[tuple[int, int]]
"""Outputs of an op and roots of inputs that it may write them into."""


def check_certificate(graph: Graph, certificate: Certificate) -> str:
    """Return the proof that a valid certificate gives: L2 (order bound) or L3 (order search).

    Raise `PlanError` on the first step that does not hold.
    """
    # By name, since a certificate is read beside the graph it names.
    if certificate.graph != graph.name:
        raise PlanError(f"certificate is of graph {certificate.graph!r}, this is {graph.name!r}")
    checker = _Checker(graph, certificate.bound - 1)
    for number, step in enumerate(certificate.steps):
        try:
            checker.check(step)
        except PlanError as error:
            raise PlanError(f"step {number}: {error}") from None
    if not checker.refuted:
        raise PlanError("certificate has no step that refutes its budget")
    # A proof by ops, sets and precedences alone is an order bound; the rest is search.
    kinds = StatesStep | SupposeStep | RegionStep
    searched = any(isinstance(step, kinds) for step in certificate.steps)
    return "L3" if searched else "L2"


class _Checker:
    """State of a check: a graph's network, and facts about its orders within the budget."""

    def __init__(self, graph: Graph, budget: int) -> None:
        self.graph, self.network, self.budget = graph, Network(graph), budget
        self.refuted = False
        self.families: list[Family] = []
        self.supposed: list[tuple[int, int]] = []
        self.resting: list[list[tuple[int, int]]] = [[]]
        """Precedences by supposition that they rest on, itself included; entry 0 rests on none."""

    def check(self, step: Step) -> None:
        """Check a step of any kind."""
        # Steps after the refutation would be unchecked words.
        if self.refuted:
            raise PlanError("the budget was refuted before this step")
        match step:
            case OrderStep():
                self.check_order(step)
                self.add(step.first, step.second)
                return
            case SupposeStep():
                if step.first == step.second:
                    raise PlanError("a precedence has two ops")
                self.supposed.append((step.first, step.second))
                self.resting.append([])
                self.add(step.first, step.second)
                return
            case BlocksStep():
                self.check_blocks(step)
                return
            case RegionStep():
                self.check_region(step)
                return
            case EndStep():
                value = self.network.initial if step.at is End.START else self.network.kept
                if value <= self.budget:
                    raise PlanError(f"only {value} bytes are live at the {step.at}")
            case OpStep():
                self.check_op(step.op, {step.op}, {step.op}, step.flow)
            case SetStep():
                self.check_set(step)
            case StatesStep():
                rows, families = step.states, self.families
                check_states(
                    self.network, self.budget, rows, backward=step.backward, families=families
                )
        self.refute()

    def add(self, first: int, second: int) -> None:
        """Add a precedence under the present suppositions; it may tell blocks apart."""
        self.check_ids(first, second)
        # A new edge may hold for one block and not for another.
        self.families = []
        if self.network.add(first, second):
            self.resting[-1].append((first, second))

    def check_blocks(self, step: BlocksStep) -> None:
        """Check that blocks are identical under all precedences known so far.

        The precedences of a column do not distinguish blocks of other families, as no op is in two
        families.
        """
        if any(v in self.network.parts for row in step.rows for v in row):
            raise PlanError("blocks: an op is in a region")
        taken = {v for rows, _ in self.families for row in rows for v in row}
        if any(not taken.isdisjoint(row) for row in step.rows):
            raise PlanError("blocks: an op is in another family already")
        check_blocks(self.network, step.rows, step.column)
        families = [*self.families, (step.rows, step.column)]
        if step.column is not None:
            ops = [row[step.column] for row in step.rows]
            for first, second in pairwise(ops):
                self.add(first, second)
        self.families = families

    def check_region(self, step: RegionStep) -> None:
        """Accept a region; its ops run as a chain in all branches that follow."""
        # A region must hold in all branches, so it comes before any is opened.
        if self.supposed or self.families:
            raise PlanError("region: comes before blocks and what is supposed")
        check_region(self.network, step.parts)
        self.network.join(step.parts)

    def refute(self) -> None:
        """Record that no order is within the budget, or none under the last supposition."""
        if not self.supposed:
            self.refuted = True
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

    def check_order(self, step: OrderStep) -> None:
        """Check that one of the two ops exceeds the budget if `second` runs before `first`."""
        first, second = step.first, step.second
        self.check_ids(first, second)
        if first == second or step.at not in (first, second):
            raise PlanError("a precedence has two ops, and its flow is at one of them")
        if step.at == second:
            self.check_op(second, {second}, {first, second}, step.flow)
        else:
            self.check_op(first, {first, second}, {first}, step.flow)

    def check_set(self, step: SetStep) -> None:
        """Check that no op of a set can be the last of them (or the first) within the budget.

        If an op of the set runs last, all others have ended; if it runs first, the others are still
        to run.
        """
        ops, flows = set(step.ops), dict(step.flows)
        self.check_ids(*ops)
        # Each op of the set has one flow, or a precedence that excludes it.
        if not ops or len(flows) != len(step.flows) or not ops.issuperset(flows):
            raise PlanError("a set needs ops, and at most one flow for each of them")
        for v in ops:
            done, later = (ops, {v}) if step.last else ({v}, ops)
            if v in flows:
                self.check_op(v, done, later, flows[v])
            else:
                toward = self.network.after if step.last else self.network.before
                # Without a flow, a precedence must exclude `v`: another op of the set always runs
                # after (before) it.
                if reach(toward, [v]).isdisjoint(ops - {v}):
                    name = self.graph.ops[v].name
                    raise PlanError(f"op {name!r} of the set has no flow")

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
