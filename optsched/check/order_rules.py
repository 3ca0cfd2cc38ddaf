"""The checker's reading of order rules and of ops moved: positions in the order, and no edges.

What the rules mean is said in :mod:`optsched.model.order_rules`. Here they are looked up in an
order one by one, and ops moved are counted by a table over the steps of the baseline, so that an
error in the control edges that solvers are given, or in their count, shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.errors import PlanError


def check_order_rules(
    order: Sequence[str],
    *,
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    groups: Sequence[Sequence[str]] = (),
) -> None:
    """Refuse an order, given by the names of its ops, that breaks a rule.

    Raises
    ------
    PlanError
        On the first rule broken, or an op that the order does not have.
    """
    step = {name: at for at, name in enumerate(order)}
    for name in (*first, *last, *(name for group in groups for name in group)):
        if name not in step:
            raise PlanError(f"order rules name op {name!r}, which the plan has not")
    for name in first:
        if step[name] >= len(first):
            raise PlanError(f"op {name!r} is to be first, but runs at step {step[name]}")
    for name in last:
        if step[name] < len(order) - len(last):
            raise PlanError(f"op {name!r} is to be last, but runs at step {step[name]}")
    for group in groups:
        for i in range(len(group) - 1):
            if step[group[i]] > step[group[i + 1]]:
                raise PlanError(
                    f"op {group[i]!r} is to run before {group[i + 1]!r} of its group, "
                    f"but runs at step {step[group[i]]}, behind it"
                )


def count_moved(order: Sequence[str], baseline: Sequence[str]) -> int:
    """Return how many ops of an order are moved: all but the longest common subsequence.

    Fenwick's table has, by the step of the baseline that it ends at, the longest common
    subsequence so far.

    Raises
    ------
    PlanError
        If the two have other ops.
    """
    if len(set(baseline)) != len(baseline) or set(baseline) != set(order):
        odd = sorted(set(baseline) ^ set(order)) or ["an op that it names twice"]
        raise PlanError(f"the baseline has other ops than the plan: {odd[0]!r}")
    step = {name: at for at, name in enumerate(baseline)}
    table = [0] * (len(baseline) + 1)
    longest = 0
    for name in order:
        length, at = 1, step[name]
        while at > 0:
            length = max(length, table[at] + 1)
            at &= at - 1
        at = step[name] + 1
        while at <= len(baseline):
            table[at] = max(table[at], length)
            at += at & -at
        longest = max(longest, length)
    return len(order) - longest
