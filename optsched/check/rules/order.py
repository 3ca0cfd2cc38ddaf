"""Rule: the order keeps the order rules of the question.

The rules are looked up in the order by position, not as the control edges that solvers are given,
so that an error in those edges shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.check.facts import PlanFacts
from optsched.errors import PlanError


def check(facts: PlanFacts) -> None:
    """Check which ops run first, which last, and which in sequence."""
    rules = facts.question.rules
    if rules:
        names = [facts.graph.ops[v].name for v in facts.order]
        check_order_rules(names, first=rules.first, last=rules.last, groups=rules.groups)


def check_order_rules(
    order: Sequence[str],
    *,
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    groups: Sequence[Sequence[str]] = (),
) -> None:
    """Check an order, given by the names of its ops, against the rules of :class:`OrderRules`.

    Raise `PlanError` on the first broken rule, or an op that is not in the order.
    """
    # By position in the plan, so that no edge of the solver's graph is used.
    step = {name: at for at, name in enumerate(order)}
    for name in (*first, *last, *(name for group in groups for name in group)):
        if name not in step:
            raise PlanError(f"order rules name op {name!r}, which is not in the plan")
    for name in first:
        # With k ops first, each of them runs at one of the first k steps.
        if step[name] >= len(first):
            raise PlanError(f"op {name!r} must be first, but runs at step {step[name]}")
    for name in last:
        if step[name] < len(order) - len(last):
            raise PlanError(f"op {name!r} must be last, but runs at step {step[name]}")
    for group in groups:
        for i in range(len(group) - 1):
            if step[group[i]] > step[group[i + 1]]:
                raise PlanError(
                    f"op {group[i]!r} must run before {group[i + 1]!r} of its group, "
                    f"but runs after it, at step {step[group[i]]}"
                )
