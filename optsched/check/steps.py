"""Certificates as data: steps that prove that no order of a graph has a smaller peak.

A certificate refutes the budget `bound - 1`. Its steps may add precedences that every order within
that budget keeps, or suppose some; the last step shows that no order is left. Flows are over ops
and buffers alone, so that checking one is adding up: :mod:`optsched.check.certificate` says what
each step must hold.

Example: `p` makes 4 bytes, which `q` reads to make 6 bytes. A certificate of the bound 10 has a
single step, an :class:`OpStep` of `q`: in every order its input and its output are live while it
runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from optsched.model.order_rules import NO_RULES, OrderRules


@dataclass(frozen=True, slots=True)
class Flow:
    """Proof of bytes live at an op in every order: freeing a buffer costs the ops needed for it.

    The bytes that a buffer sends to the op that makes it may be left out if they are the maximum.
    """

    releases: tuple[tuple[int, int, int], ...] = ()
    """`(buffer, op, bytes)`: from a buffer to an op that holds it."""
    passes: tuple[tuple[int, int, int], ...] = ()
    """`(op, predecessor, bytes)`: on to an op that must run before."""


@dataclass(frozen=True, slots=True)
class Cases:
    """Bytes live at an op of an in-place graph, whether or not it may overwrite an input."""

    input: int
    """Id of the input's root."""
    free: Flow | Cases
    """Flow for the case that its other users have ended."""
    held: Flow | Cases
    """Flow for the case that another holder is left, so that the op does not write into the
    input."""


Forced: TypeAlias = Flow | Cases
"""Proof that an op does not fit. It may make all in-place writes that no case rules out."""


class End(StrEnum):
    """Which end of every order."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class EndStep:
    """Refuting step: the inputs before the first op, or all that is kept, are too many bytes."""

    at: End


@dataclass(frozen=True, slots=True)
class OpStep:
    """Refuting step: op `op` cannot run within the budget."""

    op: int
    flow: Forced


@dataclass(frozen=True, slots=True)
class SetStep:
    """Refuting step: no op of a set can be the last (or first) of them to run, yet one must be."""

    last: bool
    """True if no op of the set can be the last one, False if none can be the first."""
    ops: tuple[int, ...]
    """The set."""
    flows: tuple[tuple[int, Forced], ...]
    """`(op, flow)` for each op that precedences allow in that position."""


@dataclass(frozen=True, slots=True)
class OrderStep:
    """Op `first` runs before `second` within the budget, else op `at` of the two cannot run."""

    first: int
    second: int
    at: int
    flow: Forced


@dataclass(frozen=True, slots=True)
class StatesStep:
    """Refuting step: all states that orders within the budget reach; they do not get to the end."""

    backward: bool
    """Orders are followed from their end; the states are then those from which the end is
    reached."""
    states: tuple[tuple[int, int], ...]
    """`(parent, op)` for each state but the first, `parent` being the number of an earlier one: the
    state after that op, and after all ops then that the closure rule runs at once. State 0 is where
    orders begin (end, if backward), closed likewise."""


@dataclass(frozen=True, slots=True)
class SupposeStep:
    """Op `first` is supposed to run before `second`, until a step refutes the budget with that.

    From there on `second` runs before `first`. Suppositions may be made within each other; the step
    that refutes ends the one that was made last.
    """

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class BlocksStep:
    """Identical blocks of ops: exchanging any two of them, op by op, changes nothing.

    Until another precedence is known or supposed, states that differ by such an exchange count as
    one; the precedences of `column` do not count as others.
    """

    rows: tuple[tuple[int, ...], ...]
    """The blocks; ops that change places are in the same column."""
    column: int | None
    """A column whose ops run in the order of the rows, which loses no peak. States then count as
    one only if the exchanged blocks have run their op of this column (backward: have it taken
    back). None without such precedences."""


@dataclass(frozen=True, slots=True)
class RegionStep:
    """Ops that run as a chain of parts, each without interruption, which costs nothing.

    Comes before anything is supposed, and before blocks. What it says is in
    :mod:`optsched.check.region`.
    """

    parts: tuple[tuple[int, ...], ...]
    """The ops of each part, as they run."""


Step: TypeAlias = (
    EndStep | OpStep | SetStep | OrderStep | StatesStep | SupposeStep | BlocksStep | RegionStep
)


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
