"""The kinds of steps of certificates, each with its check; a new kind is a class here, in `STEPS`.

A certificate refutes the budget `bound - 1`. Its steps may add precedences that every order within
that budget keeps, or suppose some; the last step shows that no order is left. Flows are over ops
and buffers alone, so that checking one is adding up. :mod:`optsched.check.certificate` proves that
steps which hold one after another refute the budget.

Example: `p` makes 4 bytes, which `q` reads to make 6 bytes. A certificate of the bound 10 has a
single step, an :class:`OpStep` of `q`: in every order its input and its output are live while it
runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, TypeAlias

from optsched.check.blocks import check_blocks
from optsched.check.certificate import Refutation, Step
from optsched.check.network import Forced, reach
from optsched.check.region import check_region
from optsched.check.states import check_states
from optsched.errors import PlanError

OpId: TypeAlias = Annotated[int, "op"]
OpIds: TypeAlias = Annotated[tuple[int, ...], "ops"]
OpRows: TypeAlias = Annotated[tuple[tuple[int, ...], ...], "rows of ops"]
Blocks: TypeAlias = Annotated[tuple[tuple[int, ...], ...], "equal rows of ops"]
OpFlows: TypeAlias = Annotated[tuple[tuple[int, Forced], ...], "op and flow"]
States: TypeAlias = Annotated[tuple[tuple[int, int], ...], "parent and op"]
Column: TypeAlias = Annotated[int | None, "position in a row"]


class End(StrEnum):
    """Which end of every order."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class EndStep(Step):
    """Refuting step: the inputs before the first op, or all that is kept, are too many bytes."""

    kinds = (("start", End.START), ("end", End.END))
    at: End

    def check(self, found: Refutation) -> None:
        """Check that the bytes at this end exceed the budget."""
        value = found.network.initial if self.at is End.START else found.network.kept
        if value <= found.budget:
            raise PlanError(f"only {value} bytes are live at the {self.at}")


@dataclass(frozen=True, slots=True)
class OpStep(Step):
    """Refuting step: op `op` cannot run within the budget."""

    kinds = (("op",),)
    op: OpId
    flow: Forced

    def check(self, found: Refutation) -> None:
        """Check that the op does not fit, regardless of what has ended."""
        found.check_op(self.op, {self.op}, {self.op}, self.flow)


@dataclass(frozen=True, slots=True)
class OrderStep(Step):
    """Op `first` runs before `second` within the budget, else op `at` of the two cannot run."""

    kinds = (("precedence",),)
    refutes = False
    first: OpId
    second: OpId
    at: OpId
    flow: Forced

    def check(self, found: Refutation) -> None:
        """Check that one of the two ops exceeds the budget if `second` runs before `first`."""
        first, second = self.first, self.second
        found.check_ids(first, second)
        if first == second or self.at not in (first, second):
            raise PlanError("a precedence has two ops, and its flow is at one of them")
        if self.at == second:
            found.check_op(second, {second}, {first, second}, self.flow)
        else:
            found.check_op(first, {first, second}, {first}, self.flow)
        found.add(first, second)


@dataclass(frozen=True, slots=True)
class SupposeStep(Step):
    """Op `first` is supposed to run before `second`, until a step refutes the budget with that.

    From there on `second` runs before `first`. Suppositions may be made within each other; the step
    that refutes ends the one that was made last.
    """

    kinds = (("suppose",),)
    refutes = False
    searches = True
    first: OpId
    second: OpId

    def check(self, found: Refutation) -> None:
        """Open a case, in which the precedence holds."""
        if self.first == self.second:
            raise PlanError("a precedence has two ops")
        found.suppose(self.first, self.second)


@dataclass(frozen=True, slots=True)
class SetStep(Step):
    """Refuting step: no op of a set can be the last (or first) of them to run, yet one must be."""

    kinds = (("last", True), ("first", False))
    last: bool
    """True if no op of the set can be the last one, False if none can be the first."""
    ops: OpIds
    """The set."""
    flows: OpFlows
    """`(op, flow)` for each op that precedences allow in that position."""

    def check(self, found: Refutation) -> None:
        """Check that no op of the set can be the last of them (or the first) within the budget.

        If an op of the set runs last, all others have ended; if it runs first, the others are still
        to run.
        """
        ops, flows = set(self.ops), dict(self.flows)
        found.check_ids(*ops)
        # Each op of the set has one flow, or a precedence that excludes it.
        if not ops or len(flows) != len(self.flows) or not ops.issuperset(flows):
            raise PlanError("a set needs ops, and at most one flow for each of them")
        for v in ops:
            done, later = (ops, {v}) if self.last else ({v}, ops)
            if v in flows:
                found.check_op(v, done, later, flows[v])
            else:
                toward = found.network.after if self.last else found.network.before
                # Without a flow, a precedence must exclude `v`: another op of the set always runs
                # after (before) it.
                if reach(toward, [v]).isdisjoint(ops - {v}):
                    name = found.graph.ops[v].name
                    raise PlanError(f"op {name!r} of the set has no flow")


@dataclass(frozen=True, slots=True)
class StatesStep(Step):
    """Refuting step: all states that orders within the budget reach; they do not get to the end."""

    kinds = (("states",),)
    searches = True
    backward: bool
    """Orders are followed from their end; the states are then those from which the end is
    reached."""
    states: States
    """`(parent, op)` for each state but the first, `parent` being the number of an earlier one: the
    state after that op, and after all ops then that the closure rule runs at once. State 0 is where
    orders begin (end, if backward), closed likewise."""

    def check(self, found: Refutation) -> None:
        """Check that the list is complete and does not have the last state."""
        network, families = found.network, found.families
        check_states(network, found.budget, self.states, backward=self.backward, families=families)


@dataclass(frozen=True, slots=True)
class BlocksStep(Step):
    """Identical blocks of ops: exchanging any two of them, op by op, changes nothing.

    Until another precedence is known or supposed, states that differ by such an exchange count as
    one; the precedences of `column` do not count as others.
    """

    kinds = (("blocks",),)
    refutes = False
    rows: Blocks
    """The blocks; ops that change places are in the same column."""
    column: Column
    """A column whose ops run in the order of the rows, which loses no peak. States then count as
    one only if the exchanged blocks have run their op of this column (backward: have it taken
    back). None without such precedences."""

    def check(self, found: Refutation) -> None:
        """Check that blocks are identical under all precedences known so far.

        The precedences of a column do not distinguish blocks of other families, as no op is in two
        families.
        """
        if any(v in found.network.parts for row in self.rows for v in row):
            raise PlanError("blocks: an op is in a region")
        taken = {v for rows, _ in found.families for row in rows for v in row}
        if any(not taken.isdisjoint(row) for row in self.rows):
            raise PlanError("blocks: an op is in another family already")
        check_blocks(found.network, self.rows, self.column)
        families = [*found.families, (self.rows, self.column)]
        if self.column is not None:
            for first, second in pairwise(row[self.column] for row in self.rows):
                found.add(first, second)
        found.families = families


@dataclass(frozen=True, slots=True)
class RegionStep(Step):
    """Ops that run as a chain of parts, each without interruption, which costs nothing.

    Comes before anything is supposed, and before blocks. What it says is in
    :mod:`optsched.check.region`.
    """

    kinds = (("region",),)
    refutes = False
    searches = True
    parts: OpRows
    """The ops of each part, as they run."""

    def check(self, found: Refutation) -> None:
        """Accept a region; its ops run as a chain in all branches that follow."""
        # A region must hold in all branches, so it comes before any is opened.
        if found.supposed or found.families:
            raise PlanError("region: comes before blocks and what is supposed")
        check_region(found.network, self.parts)
        found.network.join(self.parts)


STEPS: tuple[type[Step], ...] = (
    EndStep,
    OpStep,
    OrderStep,
    SupposeStep,
    SetStep,
    StatesStep,
    BlocksStep,
    RegionStep,
)
"""All kinds of steps; files may hold no other."""
