"""Searches of orders that are stopped and resumed, against brute force.

    python -m tests.fuzz ordering.stopped --count 2000 --seed 0

Each random graph is searched with next to no states, so that trees of precedences decide. The
search is stopped again and again: by its limit or an interrupt at a random look at the clock, or by
one at a random line of the code that moves open parts of trees. Its state is written as JSON,
now and then damaged or exchanged for another graph's, read, and resumed by one worker or two.
At every stop the optimum has to lie between bound and peak, and random orders within the budget of
a tree in one of its open parts; at the end bound and peak have to be the optimum.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from optsched.check.plan import check_order
from optsched.errors import FormatError
from optsched.formats.native import read_graph_document
from optsched.joint.other_orders import RandomWalk
from optsched.model.graph import Graph
from optsched.ordering import ALL_RULES, OrderingRules, OrderOutcome, solve_order
from optsched.ordering.effort import EFFORT, OrderingEffort
from optsched.ordering.progress import NOTHING_DONE, OrderProgress
from optsched.ordering.rounds import OrderingRounds
from optsched.ordering.tree import parts
from optsched.ordering.tree import search as tree_search
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits
from optsched.solver.resume import Resume
from tests.support.block_graphs import block_document
from tests.support.brute import least_peak
from tests.support.clocks import ExpiringClock, InterruptingClock
from tests.support.families.wiring import random_wiring
from tests.support.generators import PLANNABLE, random_graph, random_order
from tests.support.interrupts import interrupted_at_line

STOPS = 60
"""Of one search at most; then it may go on to its end."""


def some_graph(rng: np.random.Generator, number: int) -> Graph:
    """Return a small graph, of a kind that trees often have to decide, or with all features."""
    if number % 4 == 0:
        return random_graph(rng, int(rng.integers(6, 12)), features=PLANNABLE)
    if number % 4 == 1:
        return read_graph_document(block_document(random.Random(number), 10))
    graph = random_wiring(int(rng.integers(12, 20)), int(rng.integers(2**31)), unit=False)
    return graph.with_inplace() if number % 4 == 2 else graph


def some_effort(rng: np.random.Generator) -> OrderingEffort:
    """Return next to no effort for all but trees."""
    return replace(
        EFFORT,
        first_states=1,
        first_flows=1,
        flow_work=0,
        halvings=int(rng.integers(3)),
        states_per_branch=4,
        branch_states=int(rng.choice([1, 512])),
        part_patience=int(rng.choice([1, 2, 32])),
        search_every=int(rng.choice([1, 8, 1_000])),
        poll_seconds=0.0005,
    )


def stopped(rng: np.random.Generator, run: Callable[[Clock], OrderOutcome]) -> OrderOutcome:
    """Run a search that is stopped at random."""
    looks, workers = int(rng.geometric(0.04)), int(rng.integers(1, 3))
    how = rng.integers(3)
    if how == 0:
        return run(ExpiringClock(looks, workers))
    if how == 1:
        return run(InterruptingClock(looks, workers))
    with interrupted_at_line(10 * looks, parts, tree_search):
        return run(Clock(Limits()))


def damage(draw: random.Random, record: Any) -> None:
    """Change, drop or double something of what a search left."""
    rows = list(record.items()) if isinstance(record, dict) else list(enumerate(record))
    key, value = draw.choice(rows) if rows else (0, None)
    if isinstance(value, dict | list) and value:
        damage(draw, value)
    elif isinstance(record, list) and rows:
        draw.choice([record.pop, lambda at: record.insert(at, record[at])])(key)
    elif type(value) is int:
        record[key] = max(0, value + draw.choice([-1, 1, 5, 2**40]))


def handed_on(
    draw: random.Random, progress: OrderProgress, other: OrderProgress, ops: int
) -> OrderProgress:
    """Return what a search left, as it is read back; damaged now and then, or another's."""
    record = Resume(rounds=progress).to_dict()
    chance = draw.random()
    if chance < 0.1:
        damage(draw, record["rounds"])
        # It alone says how much is not tried again: more of it, and the search may end too soon.
        record["rounds"]["steps"] = progress.steps
    elif chance < 0.2:
        record = Resume(rounds=replace(other, failure_counts=progress.failure_counts)).to_dict()
    with suppress(FormatError):
        return Resume.from_dict(json.loads(json.dumps(record)), ops).rounds
    return NOTHING_DONE


def assert_complete(
    rng: np.random.Generator, graph: Graph, best: Sequence[int], progress: OrderProgress
) -> None:
    """Every order within its budget is in an open part of a tree."""
    run = OrderingRounds(graph, Clock(Limits()), best, 0, ALL_RULES, EFFORT, None, progress)
    run.contract()
    # Stopped before budgets, a search still has what it was given: it may be of another graph.
    for tree in progress.trees_of(run.order_copies().problem).values():
        walk = RandomWalk(graph, best, tree.budget, rng)
        walk.wander(int(rng.integers(40)))
        order = run.reduced.shrink(walk.order)
        if check_order(graph, walk.order) > tree.budget:
            continue
        order = order if run.copies is None else run.copies.lead(order)
        step = np.argsort(order)
        inside = [bool((step[x[:, 0]] < step[x[:, 1]]).all()) for x in tree.parts(len(order))]
        assert any(inside), (graph, tree, walk.order)


def examine(
    rng: np.random.Generator, graph: Graph, other: OrderProgress, counts: Counter[str]
) -> OrderProgress:
    """Search a graph with stops; return what one of them left."""
    optimum, ops = least_peak(graph), len(graph.ops)
    best = solve_order(graph).order
    draw = random.Random(int(rng.integers(2**31)))
    walks = bool(rng.integers(4) == 0)
    rules: OrderingRules = replace(ALL_RULES, anneal=walks, windows=walks)
    effort = some_effort(rng)
    order, bound, progress = random_order(rng, graph), 0, NOTHING_DONE
    for number in range(STOPS + 1):

        def run(
            clock: Clock,
            order: tuple[int, ...] = order,
            bound: int = bound,
            progress: OrderProgress = progress,
        ) -> OrderOutcome:
            known: dict[str, Any] = {"warm_start": order, "bound": bound, "progress": progress}
            return solve_order(graph, limits=clock, rules=rules, effort=effort, **known)

        found = stopped(rng, run) if number < STOPS else run(Clock(Limits()))
        assert bound <= found.bound <= optimum <= found.peak, (graph, found, optimum)
        assert check_order(graph, found.order) == found.peak
        if found.bound == found.peak:
            break
        order, bound = found.order, found.bound
        assert_complete(rng, graph, best, found.progress)
        other = found.progress if found.progress.trees else other
        progress = handed_on(draw, found.progress, other, ops)
        counts["stops"] += 1
        counts["trees handed on"] += len(progress.trees)
        counts["parts at hand"] += any(tree.at_hand for tree in progress.trees)
    assert found.bound == found.peak == optimum, (graph, found, optimum)
    counts["graphs"] += 1
    counts["stopped"] += number > 0
    return other


def main(count: int = 2_000, seed: int = 0) -> int:
    """Go through random graphs."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    other = NOTHING_DONE
    for number in range(count):
        other = examine(rng, some_graph(rng, number), other, counts)
        if number % 200 == 199 or number == count - 1:
            print(", ".join(f"{n} {what}" for what, n in counts.items()), flush=True)
    return 0
