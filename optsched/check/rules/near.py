"""Rule: the order moves at most as many ops of the baseline as the question allows.

Moved ops are counted by a table over the steps of the baseline, independently of the count that
solvers use.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.check.facts import PlanFacts
from optsched.errors import PlanError
from optsched.runtime.text import counted


def check(facts: PlanFacts) -> None:
    """Check the number of moved ops, if the question limits it."""
    near, most = facts.question.near, facts.question.max_moved
    if near is None or most is None:
        return
    names = [op.name for op in facts.graph.ops]
    moved = count_moved([names[v] for v in facts.order], [names[v] for v in near.order])
    if moved > most:
        raise PlanError(f"plan moves {counted(moved, 'op')} of the baseline, more than {most}")


def count_moved(order: Sequence[str], baseline: Sequence[str]) -> int:
    """Return how many ops of an order are moved: all but a longest common subsequence.

    A Fenwick tree holds, by step of the baseline, the length of the longest common subsequence that
    ends there so far.

    Raise `PlanError` if the two do not list the same ops.
    """
    # Both must list the same ops once each, or a common subsequence would mean nothing.
    if len(set(baseline)) != len(baseline) or set(baseline) != set(order):
        odd = sorted(set(baseline) ^ set(order)) or ["an op that it names twice"]
        raise PlanError(f"the baseline has other ops than the plan: {odd[0]!r}")
    step = {name: at for at, name in enumerate(baseline)}
    table = [0] * (len(baseline) + 1)
    longest = 0
    for name in order:
        length, at = 1, step[name]
        # The longest subsequence that ends at an earlier step, from the tree.
        while at > 0:
            length = max(length, table[at] + 1)
            at &= at - 1
        at = step[name] + 1
        # Enter the new length at this step and at all tree nodes that cover it.
        while at <= len(baseline):
            table[at] = max(table[at], length)
            at += at & -at
        longest = max(longest, length)
    return len(order) - longest
