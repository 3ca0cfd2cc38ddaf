"""Contractions: ops that some optimal order runs back to back become one, until the end.

Before anything is merged, what follows from the rest is dropped: edges implied by others, and users
of a shared buffer that some other user of it always comes after. A buffer left with one user counts
towards that user's net change. Then, until nothing changes:

* *late*: `u` is no shared buffer's user, its net change is not negative and it has one
  successor `c`, which rises at least as high from where `u` leaves off. `u` runs right before `c`.
* *early*: `c` has one predecessor `u`, its net change is not positive and from where `u` leaves
  off it rises no higher than `u` itself. `c` runs right after `u`.

In both, moving the one op to the other raises the live bytes of no state and no rise above the
other op's, so the optimum stays the same. The mirror of a case is the other one.

In an in-place graph the op that stays keeps its savings, and the other's rise must not pass its own
even where it saves most. No saving of a third op misses the op that moves: in the first case it
uses no shared buffer, in the second it ends sooner. A saving that needs nothing any more, as its op
is always the last user, is taken off the rise; one whose op never is the last is dropped.

Example: `cast` writes 4 bytes that only `matmul` reads, which rises by 64. The two become one op,
in which `cast` runs right before `matmul`, and which rises by 68.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from optsched.model.arrays import IntArray
from optsched.ordering.problem import OrderingProblem
from optsched.ordering.reduce.merging import Merging
from optsched.ordering.reduce.transitive import CheckTime

TOO_MANY = 300_000
"""Above this many ops it takes too long to find what is implied, and nothing is contracted."""


@dataclass(frozen=True, slots=True)
class Contracted:
    """A smaller problem with the same minimum peak.

    Parameters
    ----------
    problem
        The problem.
    members
        Ops of the larger problem behind each op, in the order they run.
    anchors
        The one of them that the others were moved to.
    """

    problem: OrderingProblem
    members: tuple[tuple[int, ...], ...]
    anchors: tuple[int, ...]

    def expand(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the smaller problem into one of the larger."""
        return [u for v in order for u in self.members[v]]

    def gather(self, values: IntArray) -> IntArray:
        """Turn values of the larger problem's ops into the largest over each op of the smaller."""
        return np.array([max(values[list(row)]) for row in self.members], np.int64)

    def shrink(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the larger problem into one of the smaller, of at most its peak."""
        step = {v: i for i, v in enumerate(order)}
        return sorted(range(len(self.members)), key=lambda v: step[self.anchors[v]])


def contract(
    problem: OrderingProblem, *, merge: bool = True, check_time: CheckTime = lambda: None
) -> Contracted:
    """Return the contracted problem; with `merge` False only what is implied is dropped.

    `check_time` is called now and then, and may raise.
    """
    n = len(problem.delta)
    if n > TOO_MANY:
        return Contracted(problem, tuple((v,) for v in range(n)), tuple(range(n)))
    work = Merging(problem, check_time)
    work.fold()
    while merge and work.merge_all():
        work.drop_implied()
        work.fold()
    return Contracted(*work.result())
