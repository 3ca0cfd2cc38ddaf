"""The question that the keyword arguments of :func:`optsched.solve` ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

from optsched.errors import UsageError, expect
from optsched.model.arrays import Integers
from optsched.model.graph import Graph
from optsched.model.memory_model import plannable
from optsched.model.order_rules import NO_RULES, OrderRules, make_baseline
from optsched.model.plan import Plan
from optsched.model.pools import Pool
from optsched.model.question import Question
from optsched.runtime.bytes import parse_bytes
from optsched.runtime.limits import SIZES, Objective, choose_size


def ask(
    graph: Graph | Question,
    *,
    pools: Sequence[Pool] = (),
    objective: Objective | str | None = None,
    capacity: int | str | SupportsIndex | None = None,
    inplace: bool = False,
    align: int | str | SupportsIndex | None = None,
    order_rules: OrderRules = NO_RULES,
    baseline: Plan | Integers | Sequence[str] | None = None,
    max_moved: SupportsIndex | None = None,
    fewest_moves: bool = False,
) -> Question:
    """Return the question about a graph, or a question that is given instead of the graph.

    Parameters
    ----------
    graph, pools, objective, capacity, inplace, align
        As for :func:`optsched.solve`.
    order_rules, baseline, max_moved, fewest_moves
        As for :func:`optsched.solve`.

    Raises
    ------
    UsageError
        If an argument is invalid, or changes a question that is given.
    """
    if isinstance(graph, Question):
        changes: dict[str, tuple[Any, Any]] = {
            "pools": (pools, ()),
            "objective": (objective, None),
            "capacity": (capacity, None),
            "inplace": (inplace, False),
            "align": (align, None),
            "order_rules": (order_rules, NO_RULES),
            "baseline": (baseline, None),
            "max_moved": (max_moved, None),
            "fewest_moves": (fewest_moves, False),
        }
        given = [name for name, (value, default) in changes.items() if value is not default]
        return _unchanged(graph, given)
    expect("order_rules", order_rules, OrderRules)
    graph = plannable(graph, inplace, align)
    order = baseline.order if isinstance(baseline, Plan) else baseline
    asked, enough = choose_target(objective, capacity)
    near = make_baseline(graph, order, max_moved, fewest_moves)
    return Question(graph, order_rules, near, asked, enough, tuple(pools))


def _unchanged(question: Question, given: Sequence[str]) -> Question:
    """Return a question that is given, and refuse arguments that would change it."""
    if given:
        raise UsageError(
            f"{given[0]}= is part of the question; "
            "make another one with dataclasses.replace, or give its graph"
        )
    if question.objective not in SIZES:
        raise UsageError("the question limits the cost of repeats: call recompute with its graph")
    asked, _ = choose_target(question.objective, question.capacity)
    return question if asked is question.objective else replace(question, objective=asked)


def choose_target(
    objective: Objective | str | None, capacity: int | str | SupportsIndex | None
) -> tuple[Objective, int | None]:
    """Return the quantity to minimize, and the bytes of slab that are enough.

    >>> choose_target(None, None), choose_target("peak", "1KiB")
    ((<Objective.SLAB: 'slab'>, None), (<Objective.SLAB: 'slab'>, 1024))
    """
    asked = Objective.SLAB if objective is None else choose_size(objective)
    # A capacity limits the slab, so that the slab is what the search lowers.
    return (asked, None) if capacity is None else (Objective.SLAB, parse_bytes(capacity))
