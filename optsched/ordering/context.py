"""What all searches of one problem share."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.kernels import children
from optsched.ordering.kernels.cut import Flags
from optsched.ordering.kernels.state import count_waiting, follow
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.reduce.blocks import find_blocks
from optsched.ordering.rules import ALL_RULES, Rules, Statistics
from optsched.runtime.interrupt import take_interrupt
from optsched.runtime.kernel import Kernel

P = ParamSpec("P")
R = TypeVar("R")

OP_WORK = 8
"""Elements of work that a kernel does for each op, where nothing else is said."""

MOST_OPS = 100_000
"""In larger problems identical blocks are not looked for: that would take seconds."""


@dataclass(frozen=True, slots=True)
class Family:
    """Identical blocks: any two may change places, and the problem stays as it is.

    Parameters
    ----------
    rows
        Shape `(blocks, ops)`: ops in the same column change places.
    line
        A column whose ops run in the order of the rows, by edges that were added; then
        only blocks beyond it may change places. None if there is none.
    """

    rows: IntArray
    line: int | None = None


class OutOfTimeError(Exception):
    """The deadline came, or another worker settled what was to be found out."""


@dataclass
class SearchContext:
    """A problem with what all its searches share.

    Parameters
    ----------
    problem, base
        The problem, and the live bytes of the empty downset.
    rules
        What may be used.
    deadline
        `time.monotonic()` after which to raise :class:`OutOfTimeError`; None for never.
    priority
        Shape `(n,)`: how likely an op is to force many bytes; by default, how high it rises.
    statistics
        Added to.
    ended
        Set where nothing is left to be found out: looks at the clock then end as at the deadline.
    """

    problem: OrderingProblem
    base: int
    rules: Rules = ALL_RULES
    deadline: float | None = None
    priority: IntArray | None = None
    statistics: Statistics = field(default_factory=Statistics)
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        n = len(self.problem.delta)
        self.codes: IntArray = rng.integers(-(2**63), 2**63 - 1, (2, n), np.int64, endpoint=True)
        # No argument: with another problem it is another problem, and they are not its blocks.
        self._families: list[Family] | None = None
        self.counters = np.zeros(children.COUNTERS + 1, np.int64)
        self.ops = n
        height = self.problem.rise if self.priority is None else self.priority
        self.critics: IntArray = np.argsort(-height, kind="stable")
        sizes = (self.problem.rise, self.problem.delta, self.problem.size, self.problem.saving)
        self.step = math.gcd(*(int(np.gcd.reduce(x)) for x in sizes if len(x)))

    def families(self, *, wanted: bool) -> list[Family]:
        """Families of identical blocks; none as long as nobody has wanted them."""
        if self._families is None and wanted and self.rules.symmetry and self.ops <= MOST_OPS:
            found = find_blocks(self.problem, self.check_time)
            self._families = [Family(rows) for rows in found]
            blocks = sum(len(rows) for rows in found)
            self.statistics.blocks = max(self.statistics.blocks, blocks)
        return self._families or []

    def tell_families(self, families: Sequence[Family]) -> None:
        """Say which blocks are identical, where that is known."""
        self._families = list(families)

    def pick(self, kernel: Kernel[P, R], elements: int = 0) -> Callable[P, R]:
        """The form of a kernel that answers sooner; by default for work that is linear in ops."""
        return kernel.for_work(elements or OP_WORK * self.ops)

    def round_up(self, peak: int) -> int:
        """The least number from `peak` on that the peak of an order can be.

        All live bytes differ from the base by a multiple of the sizes' greatest common divisor.
        """
        return peak + (self.base - peak) % self.step if self.step else max(peak, self.base)

    def live(self, done: Flags) -> int:
        """Live bytes after a downset."""
        return count_waiting(self.problem, self.base, done)[1]

    def follow(self, order: Sequence[int] | IntArray) -> tuple[int, IntArray]:
        """The peak of an order, and the live bytes while each step runs."""
        during = np.empty(self.ops, np.int64)
        peak = self.pick(follow)(self.problem, self.base, np.asarray(order, np.int64), during)
        return int(peak), during

    def check_time(self) -> None:
        """Raise if the deadline has come, an interrupt waits, or there is nothing left to do."""
        take_interrupt()
        if self.ended.is_set():
            raise OutOfTimeError
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTimeError

    def collect(self) -> None:
        """Move the kernels' counts to the statistics."""
        counts, stats = self.counters.tolist(), self.statistics
        stats.expanded += counts[children.EXPANDED]
        stats.stored += counts[children.STORED]
        stats.duplicates += counts[children.DUPLICATES]
        stats.closed += counts[children.CLOSED]
        stats.singled += counts[children.SINGLED]
        stats.foreseen += counts[children.FORESEEN]
        stats.lifts += counts[children.LIFTED]
        self.counters[: children.COUNTERS] = 0
