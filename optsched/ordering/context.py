"""State shared by all searches of one ordering problem: rules, effort, clock, statistics, symmetry.

Bounds, window search, annealing and the exact search of one run all hold the same
:class:`SearchContext`. A part of the engine that works on a changed problem (with more edges, or
contracted) makes a copy of the context with that problem; the copy adds to the same statistics.

Example: contraction merges 900 of 1,000 ops. The copy of the context with the smaller problem is
searched, and the states that it stores count in the statistics of the whole run.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.effort import EFFORT, OrderingEffort
from optsched.ordering.kernels import children
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.kernels.state import count_waiting, follow
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.reduce.blocks import find_blocks
from optsched.ordering.rules import ALL_RULES, OrderingRules, Statistics
from optsched.runtime.clock import Clock
from optsched.runtime.kernel import Kernel
from optsched.runtime.limits import Limits

P = ParamSpec("P")
R = TypeVar("R")

OP_WORK = 8
"""Default for the work of a kernel, in elements per op."""


@dataclass(frozen=True, slots=True)
class BlockFamily:
    """Identical blocks of ops: swapping any two of them leaves the problem unchanged."""

    rows: IntArray
    """Shape `(blocks, ops)`: ops in the same column change places."""
    column: int | None = None
    """A column whose ops run in the order of the rows, by edges that were added. In that case only
    blocks whose op of this column has run may still be swapped. None without such edges."""


class OutOfTimeError(Exception):
    """Raised when the limit is reached, or another worker has answered the question."""


@dataclass
class SearchContext:
    """A problem together with the state that all its searches share."""

    problem: OrderingProblem
    rules: OrderingRules = ALL_RULES
    effort: OrderingEffort = EFFORT
    """`rules` and `effort`: rules that may be used, and the numbers that limit each of them."""
    clock: Clock = field(default_factory=lambda: Clock.of(Limits()))
    """Once it has expired, :meth:`check_time` raises."""
    priority: IntArray | None = None
    """Shape `(n,)`: an estimate of the bytes that each op forces (default: its rise)."""
    statistics: Statistics = field(default_factory=Statistics)
    """Counters that the searches add to."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the result is complete: the clock then counts as expired."""

    def __post_init__(self) -> None:
        problem = self.problem
        # Two random codes per op: the hash of a set of ops is the exclusive or of its codes. The
        # seed is fixed, so that a run can be repeated.
        rng = np.random.default_rng(0)
        self.ops = n = len(problem.delta)
        self.codes: IntArray = rng.integers(-(2**63), 2**63 - 1, (2, n), np.int64, endpoint=True)
        # Not a field: `replace` with another problem must not carry the blocks of this one over.
        self._families: list[BlockFamily] | None = None
        self.counters = np.zeros(children.COUNTERS + 1, np.int64)
        # Ops that force most are the likeliest to exceed a budget, so the look-ahead bound tries
        # them first.
        height = problem.rise if self.priority is None else self.priority
        self.checked_ops: IntArray = np.argsort(-height, kind="stable")
        sizes = (problem.rise, problem.delta, problem.size, problem.saving)
        # Live bytes only ever change by multiples of this; see `round_up`.
        self.step = math.gcd(*(int(np.gcd.reduce(x)) for x in sizes if len(x)))

    def families(self, *, wanted: bool) -> list[BlockFamily]:
        """Return the families of identical blocks; empty until a call has `wanted` them."""
        if (
            self._families is None
            and wanted
            and self.rules.symmetry
            and self.ops <= self.effort.block_ops
        ):
            found = find_blocks(self.problem, self.check_time)
            self._families = [BlockFamily(rows) for rows in found]
            blocks = sum(len(rows) for rows in found)
            self.statistics.blocks = max(self.statistics.blocks, blocks)
        return self._families or []

    def set_families(self, families: Sequence[BlockFamily]) -> None:
        """Set the families of identical blocks, if they are known already."""
        self._families = list(families)

    def pick(self, kernel: Kernel[P, R], elements: int = 0) -> Callable[P, R]:
        """Return the faster form of a kernel, compiled or Python, for an amount of work.

        By default the work is taken to be linear in the number of ops.
        """
        return kernel.for_work(elements or OP_WORK * self.ops)

    def round_up(self, peak: int) -> int:
        """Return the smallest possible peak that is at least `peak`.

        Live bytes differ from the base by a multiple of the sizes' greatest common divisor. With
        sizes 4, 8 and 12 and base 0, a bound of 13 bytes is one of 16.
        """
        # A step of 0 means that nothing has bytes: the base is the only peak there is.
        base = self.problem.base
        return peak + (base - peak) % self.step if self.step else max(peak, base)

    def live(self, done: Flags) -> int:
        """Return the live bytes after the ops of a downset have ended."""
        return count_waiting(self.problem, done)[1]

    def follow(self, order: Sequence[int] | IntArray) -> tuple[int, IntArray]:
        """Return the peak of an order, and the live bytes while each step runs, shape `(n,)`."""
        during = np.empty(self.ops, np.int64)
        peak = self.pick(follow)(self.problem, np.asarray(order, np.int64), during)
        return int(peak), during

    def during(self, order: Sequence[int]) -> IntArray:
        """Return the live bytes while each op runs in an order, by op; shape `(n,)`."""
        during = np.empty(self.ops, np.int64)
        during[np.asarray(order, np.int64)] = self.follow(order)[1]
        return during

    def check_time(self) -> None:
        """Raise OutOfTimeError if the limit is reached, an interrupt waits, or the work is done."""
        if self.ended.is_set() or self.clock.expired():
            raise OutOfTimeError

    def collect(self) -> None:
        """Move the counts of the kernels to the statistics."""
        counts, stats = self.counters.tolist(), self.statistics
        for number, name in enumerate(children.COUNTED):
            setattr(stats, name, getattr(stats, name) + counts[number])
        # The last counter is a stamp for marks, not a count, and must keep growing.
        self.counters[: children.COUNTERS] = 0
