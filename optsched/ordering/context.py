"""What all searches of one ordering problem share: rules, effort, clock, statistics, symmetry."""

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
"""Elements of work that a kernel does for each op, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class BlockFamily:
    """Identical blocks: any two may change places, and the problem stays as it is.

    Parameters
    ----------
    rows
        Shape `(blocks, ops)`: ops in the same column change places.
    line
        A column whose ops run in the order of the rows, by edges that were added; then only blocks
        beyond it may change places. None if there is none.
    """

    rows: IntArray
    line: int | None = None


class OutOfTimeError(Exception):
    """The limit is reached, or another worker settled what was to be found out."""


@dataclass
class SearchContext:
    """A problem with what all its searches share.

    Parameters
    ----------
    problem
        The problem.
    rules, effort
        What may be used, and how much of it.
    clock
        Its end makes :meth:`check_time` raise.
    priority
        Shape `(n,)`: how likely an op is to force many bytes; by default, how high it rises.
    statistics
        Added to.
    ended
        Set where nothing is left to be found out: the clock then counts as expired.
    """

    problem: OrderingProblem
    rules: OrderingRules = ALL_RULES
    effort: OrderingEffort = EFFORT
    clock: Clock = field(default_factory=lambda: Clock.of(Limits()))
    priority: IntArray | None = None
    statistics: Statistics = field(default_factory=Statistics)
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        problem = self.problem
        rng = np.random.default_rng(0)
        self.ops = n = len(problem.delta)
        self.codes: IntArray = rng.integers(-(2**63), 2**63 - 1, (2, n), np.int64, endpoint=True)
        # No argument: another problem has other blocks.
        self._families: list[BlockFamily] | None = None
        self.counters = np.zeros(children.COUNTERS + 1, np.int64)
        height = problem.rise if self.priority is None else self.priority
        self.checked_ops: IntArray = np.argsort(-height, kind="stable")
        sizes = (problem.rise, problem.delta, problem.size, problem.saving)
        self.step = math.gcd(*(int(np.gcd.reduce(x)) for x in sizes if len(x)))

    def families(self, *, wanted: bool) -> list[BlockFamily]:
        """Families of identical blocks; none as long as nobody has wanted them."""
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

    def tell_families(self, families: Sequence[BlockFamily]) -> None:
        """Say which blocks are identical, where that is known."""
        self._families = list(families)

    def pick(self, kernel: Kernel[P, R], elements: int = 0) -> Callable[P, R]:
        """The form of a kernel that answers sooner; by default for work that is linear in ops."""
        return kernel.for_work(elements or OP_WORK * self.ops)

    def round_up(self, peak: int) -> int:
        """The smallest number from `peak` on that the peak of an order can be.

        All live bytes differ from the base by a multiple of the sizes' greatest common divisor.
        """
        base = self.problem.base
        return peak + (base - peak) % self.step if self.step else max(peak, base)

    def live(self, done: Flags) -> int:
        """Live bytes after a downset."""
        return count_waiting(self.problem, done)[1]

    def follow(self, order: Sequence[int] | IntArray) -> tuple[int, IntArray]:
        """The peak of an order, and the live bytes while each step runs."""
        during = np.empty(self.ops, np.int64)
        peak = self.pick(follow)(self.problem, np.asarray(order, np.int64), during)
        return int(peak), during

    def during(self, order: Sequence[int]) -> IntArray:
        """Live bytes while each op runs in an order, by op."""
        during = np.empty(self.ops, np.int64)
        during[np.asarray(order, np.int64)] = self.follow(order)[1]
        return during

    def check_time(self) -> None:
        """Raise if the limit is reached, an interrupt waits, or there is nothing left to do."""
        if self.ended.is_set() or self.clock.expired():
            raise OutOfTimeError

    def collect(self) -> None:
        """Move the kernels' counts to the statistics."""
        counts, stats = self.counters.tolist(), self.statistics
        for number, name in enumerate(children.COUNTED):
            setattr(stats, name, getattr(stats, name) + counts[number])
        self.counters[: children.COUNTERS] = 0
