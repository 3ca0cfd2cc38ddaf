"""Set bounds: in any set of ops one runs last, when all others have ended, and one runs first.

For a set `W` of ops, with the closure bound `LB` under the stated condition,

    peak >= min over v in W that may be last of LB(v | all of W but v have ended)
    peak >= min over v in W that may be first of LB(v | all of W but v start later)

The sets tried are the ops that rise by at least `t`, for some thresholds `t`.

Example: three branches each end in an op that makes 5 bytes for the output and needs 8 bytes of
workspace. The closure bound of each op alone is 13. But one of them runs last, when the other two
have left 10 bytes: the peak is at least 23.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np

from optsched.check.steps import SetStep
from optsched.model.arrays import IntArray
from optsched.ordering.bound.flow import FlowNetwork
from optsched.ordering.bound.order_bound import OrderBound
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels.cut import Flags, least_given
from optsched.ordering.kernels.max_flow import UNBOUNDED
from optsched.runtime.bytes import spelled_bytes
from optsched.runtime.text import listed

SHOWN_OPS, SHOWN_CANDIDATES = 12, 3
"""Maximum number of ops of a set, and of further candidates, in a text."""


@dataclass(frozen=True, slots=True)
class ForcedSet(OrderBound):
    """A set bound: the bytes that the last (or the first) op of a set forces."""

    name = "set"
    source = "set bound"

    ops: tuple[int, ...] = ()
    """Ids of the set, ascending."""
    last: bool = True
    """True for the last op of the set, False for the first."""
    candidates: tuple[tuple[int, int], ...] = ()
    """`(op, bytes)`: each op that can be the last (or first), and the bytes that it then forces;
    fewest bytes first."""

    @classmethod
    def of(cls, members: IntArray, found: Iterable[tuple[int, int]], *, last: bool) -> Self:
        """Return the bound of a set from the bytes that its candidates force."""
        candidates = tuple(sorted(found, key=lambda pair: (pair[1], pair[0])))
        ops, (op, value) = tuple(members.tolist()), candidates[0]
        return cls(value, op, *_around(op, ops, last), ops, last, candidates)

    @classmethod
    def find(
        cls, context: SearchContext, above: Flags, bound: int, enough: int = UNBOUNDED
    ) -> Self | None:
        """Return the set that forces most bytes; None if no set forces more than `bound`."""
        best = None
        for members, last in product(large_ops(context), (True, False)):
            if bound >= enough:
                break
            found = []
            for pair in extremes(context, above, members, last=last):
                found.append(pair)
                # The minimum only falls from here on, so it cannot exceed the bound any more.
                if pair[1] <= bound:
                    break
            else:
                if found:
                    best = cls.of(members, found, last=last)
                    bound = best.value
        return best

    def again(self, context: SearchContext, above: Flags) -> Self:
        """Return the bound of the same set."""
        members, last = np.array(self.ops, np.int64), self.last
        return self.of(members, extremes(context, above, members, last=last), last=last)

    def step(self, network: FlowNetwork, budget: int) -> SetStep | None:
        """Return the step that no candidate is last (or first) in the set."""
        flows = []
        for op, _ in sorted(self.candidates):
            flow = network.forced(op, budget, *_around(op, self.ops, self.last))
            if flow is None:
                return None
            flows.append((op, flow))
        return SetStep(self.last, self.ops, tuple(flows))

    def record(self, ops: Sequence[str]) -> dict[str, Any]:
        """Return the set, and which of its ops runs last (or first)."""
        return {
            "runs": "last" if self.last else "first",
            "ops": [ops[v] for v in self.ops],
            "candidates": [{"op": ops[v], "bytes": b} for v, b in self.candidates],
        }

    @staticmethod
    def lines(record: dict[str, Any]) -> list[str]:
        """Return the lines for a set: one of its ops is last, and each forces the bound."""
        others = "have finished" if record["runs"] == "last" else "have yet to start"
        # Fewest bytes first: even the cheapest candidate forces the bound.
        best, *more = record["candidates"]
        first = (
            f"  but one of these {len(record['ops']):,} ops must run {record['runs']}, when all "
            f"others {others}: {listed(record['ops'], SHOWN_OPS)}"
        )
        least = spelled_bytes(best["bytes"])
        if not more:
            return [first, f"  it can only be op {best['op']}; {least} are then live:"]
        rest = [f"op {row['op']} {spelled_bytes(row['bytes'])}" for row in more]
        rest_words = listed(rest, SHOWN_CANDIDATES)
        return [first, f"  op {best['op']} needs the fewest bytes, {least} ({rest_words}):"]

    def moment(self, ops: Sequence[str]) -> str:
        """Return which op of the set it is."""
        names = listed([ops[v] for v in self.ops], SHOWN_OPS)
        return f"the {'last' if self.last else 'first'} of ops {names}"


def _around(op: int, members: Sequence[int], last: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the other ops of a set as those before one of them, or as those after it."""
    others = tuple(v for v in members if v != op)
    return (others, ()) if last else ((), others)


def large_ops(context: SearchContext) -> Iterator[IntArray]:
    """Yield sets of at least two ops: those that rise by at least some threshold."""
    effort, rise = context.effort, context.problem.rise
    heights = np.unique(rise[rise > 0])[::-1]
    # Thresholds are spread evenly, since sets of neighboring thresholds differ by few ops.
    if len(heights) > effort.set_thresholds:
        chosen = np.linspace(0, len(heights) - 1, effort.set_thresholds)
        heights = heights[chosen.astype(np.int64)]
    for height in heights.tolist():
        members = np.flatnonzero(rise >= height)
        # Lower thresholds give larger sets only, which take as many flows as they have ops.
        if len(members) > effort.set_ops:
            break
        if len(members) > 1:
            yield members


def extremes(
    context: SearchContext, above: Flags, members: IntArray, *, last: bool
) -> Iterator[tuple[int, int]]:
    """Yield each op that may be the last (or first) of a set, and the bytes that it then forces."""
    n = context.ops
    toward = above if last else above.T
    inside = np.zeros(n, np.bool_)
    inside[members] = True
    evaluate = context.pick(least_given)
    spot = np.full(n, -1, np.int64)
    for v in members.tolist():
        # An op of the set with a descendant (an ancestor) in it cannot be the last (the first).
        if (toward[:, v] & inside).any():
            continue
        context.check_time()
        others = inside.copy()
        others[v] = False
        # As last op, all others have ended with their ancestors; as first op, all others start
        # later.
        done = toward[others].any(axis=0) | others | toward[v]
        rest = toward[:, v].copy()
        before, after = (done, rest) if last else (rest, done)
        context.statistics.flows += 1
        context.clock.spend(1)
        yield v, int(evaluate(context.problem, before, after, v, spot))
