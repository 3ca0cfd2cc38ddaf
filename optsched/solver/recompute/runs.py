"""From a set of repeats to an order: unroll the nodes, and search all orders of the runs.

A sequence of nodes is unrolled into an ordinary graph without views, in which each repeat after
the loss also waits for the loss unless it may come earlier. Any order of this graph is a schedule
with the same repeats, so the exact order search decides whether they are enough. Only that is
asked: a first op `floor`, which allocates as many bytes as the peak allows and releases them, makes
every order that fits equally good, so that the search ends with the first of them.

Example: nodes a, b, c, d with `a` repeated for d are the runs a, b, c, a@2, d. At a peak of 8 bytes
`floor` of 8 bytes runs before a; an order whose other runs need 7 bytes has the peak 8, which is
proved to be least, since no order avoids `floor`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from optsched.model.elements import Buffer, Op
from optsched.model.graph import Graph
from optsched.model.runs import unroll
from optsched.ordering.solve import solve_order
from optsched.runtime.clock import Clock
from optsched.solver.recompute.kernels import contracted
from optsched.solver.recompute.problem import RecomputeProblem
from optsched.solver.recompute.walk import (
    drop_repeats,
    drop_unread,
    flat,
    live_bytes,
    replace_repeat,
)

Nodes = tuple[int, ...]
"""A sequence of nodes, in which nodes may stand more than once."""
RUNS_PER_SECOND = 10_000_000
"""Runs that a kernel goes through in a second at least."""
RUN_SECONDS = 1e-6
"""Seconds for a run of a sequence that is made and measured."""
TRY_SECONDS = 1e-8
"""Seconds for a run in a kernel that tries sequences."""
GRAPH_SECONDS = 4e-5
"""Seconds for the graph of a run."""
NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Schedule:
    """A sequence of nodes and what it needs."""

    nodes: Nodes
    """The sequence."""
    peak: int
    """Its most live bytes."""
    cost: int
    """Cost of the repeats."""
    running: tuple[int, ...]
    """Live bytes during each run."""

    @property
    def repeated(self) -> dict[int, int]:
        """Number of repeats by node."""
        found: dict[int, int] = {}
        for v in self.nodes:
            found[v] = found.get(v, -1) + 1
        return {v: count for v, count in found.items() if count}


class Unroller:
    """Makes graphs of sequences of nodes.

    `early`: True if nodes may also run again before the loss. `clock`: limit of all work on
    sequences; None without one.
    """

    def __init__(self, problem: RecomputeProblem) -> None:
        self.problem, self.early = problem, False
        self.clock: Clock | None = None
        node = {v: i for i, v in enumerate(problem.ops)}
        self.loss = [node[v] for v in problem.loss if v in node]
        # Each node's first run is part of every schedule, so only its repeats cost.
        self.once = sum(problem.cost)
        self.made = [problem.made_bytes(v) for v in range(len(problem.ops))]
        prices = [*zip(problem.cost, self.made, strict=True)]
        rank = {price: i for i, price in enumerate(sorted(set(prices)))}
        self.flat = flat(contracted(problem), [rank[price] for price in prices])
        self.able = np.array(sorted(problem.again, key=prices.__getitem__), np.int64)

    @cached_property
    def base(self) -> Graph:
        """The problem without views as a graph; order searches alone need it."""
        return contracted(self.problem).graph()

    def with_early_repeats(self) -> Unroller:
        """Return an unroller whose nodes may also run again before the loss."""
        made = copy(self)
        made.early = True
        return made

    def most(self) -> int:
        """Return the number of runs that kernels may go through in the time that is left."""
        left = None if self.clock is None else self.clock.seconds_left()
        return NO_LIMIT if left is None else int(left * RUNS_PER_SECOND)

    def has_time(self, nodes: Sequence[int]) -> bool:
        """Return True if the time that is left is enough to make the graph of a sequence."""
        left = None if self.clock is None else self.clock.seconds_left()
        return left is None or left > GRAPH_SECONDS * len(nodes)

    def spend(self, work: int, each: float) -> None:
        """Add work to the clock, if there is one."""
        if self.clock is not None:
            self.clock.spend(work, each)

    def graph(self, nodes: Sequence[int]) -> Graph:
        """Return the graph of a sequence; op `i` is run `i`."""
        made = unroll(self.base, nodes)
        # No repeats: the graph is the problem's own.
        if not any(made.number):
            return made.graph
        first = {v: i for i, v in reversed(list(enumerate(nodes)))}
        ends = tuple(first[v] for v in self.loss)
        ops = list(made.graph.ops)
        for i, number in enumerate(made.number):
            # Only repeats after the loss wait for it; runs before the barrier belong to the
            # forward part.
            if number and not self.early and i > max(ends, default=-1):
                control = dict.fromkeys((*ops[i].control, *ends))
                ops[i] = replace(ops[i], control=tuple(control))
        return replace(made.graph, ops=tuple(ops))

    def measure(self, nodes: Sequence[int]) -> Schedule:
        """Return a valid sequence with what it needs."""
        self.spend(len(nodes), RUN_SECONDS)
        found = np.array(nodes, np.int64)
        running = np.empty(len(nodes) + 1, np.int64)
        peak = live_bytes.for_work(4 * len(nodes))(self.flat, found, running)
        cost = sum(self.problem.cost[v] for v in nodes) - self.once
        return Schedule(tuple(nodes), int(peak), cost, tuple(running[:-1].tolist()))

    def clean(self, nodes: Sequence[int]) -> Nodes:
        """Return the sequence without repeats that no run reads."""
        self.spend(len(nodes), RUN_SECONDS)
        found = np.array(nodes, np.int64)
        count = drop_unread.for_work(4 * len(nodes))(self.flat, found)
        return tuple(found[:count].tolist())

    def shortest(self, nodes: Sequence[int], peak: int) -> Schedule:
        """Return the sequence without repeats that a peak does not need, costs first."""
        found = np.array(nodes, np.int64)
        work = 8 * len(nodes) * (1 + len(nodes) - len(self.problem.ops))
        self.spend(work, TRY_SECONDS)
        count = drop_repeats.for_work(work)(self.flat, found, peak, self.most())
        return self.measure(found[:count].tolist())

    def replaced(self, found: Schedule, at: int, peak: int) -> Schedule | None:
        """Return a schedule with a cheaper repeat in place of one; None if no such one fits."""
        nodes = np.array(found.nodes, np.int64)
        work = 4 * len(nodes) * len(self.able)
        self.spend(work, TRY_SECONDS / 4)
        count = replace_repeat.for_work(work)(
            self.flat, nodes, at, self.able, self.barrier(found.nodes), peak, self.most()
        )
        return self.shortest(nodes[:count].tolist(), peak) if count else None

    def barrier(self, nodes: Nodes) -> int:
        """Return the step of a sequence after which nodes may run again."""
        if self.early:
            return -1
        return max((nodes.index(v) for v in self.loss), default=-1)

    def price(self, found: Schedule) -> tuple[int, int, int]:
        """Return cost, bytes and number of repeats: less is better."""
        made = sum(self.made[v] for v in found.nodes)
        return found.cost, made - sum(self.made), len(found.nodes)

    def search(self, nodes: Sequence[int], peak: int, clock: Clock) -> Schedule:
        """Return the best order of a sequence's runs; the search ends with one within the peak.

        Raise `KeyboardInterrupt` if the search was interrupted.
        """
        start = self.measure(nodes)
        # The order as it is fits already, so no search is needed; a graph of 100,000 runs takes
        # seconds, in which nothing looks at the clock.
        if start.peak <= peak or clock.expired() or not self.has_time(nodes):
            return start
        self.spend(len(nodes), GRAPH_SECONDS)
        graph = self.graph(nodes)
        floor, warm = _with_floor(graph, peak)
        found = solve_order(floor, limits=clock, warm_start=warm, bound=peak)
        # The engine takes a Ctrl-C as the end of its own search.
        found.stop_reason.raise_if_interrupted()
        # `floor` has the number after all runs.
        order = [v for v in found.order if v < len(nodes)]
        return self.measure([nodes[v] for v in order])


def _with_floor(graph: Graph, peak: int) -> tuple[Graph, list[int]]:
    """Return the graph with a first op of as many bytes as the peak, and an order to start from."""
    count, held = len(graph.ops), graph.arrays.initial
    size = max(0, peak - held)
    floor = Op("floor", writes=(len(graph.buffers),))
    # Ops without predecessors wait for `floor`, so that it is the first op of every order.
    ops = [
        op if graph.predecessors[v] else replace(op, control=(count,))
        for v, op in enumerate(graph.ops)
    ]
    name = _new_name("floor", graph)
    buffers = (*graph.buffers, Buffer(name, size))
    made = replace(graph, ops=(*ops, replace(floor, name=name)), buffers=buffers)
    return made, [count, *range(count)]


def _new_name(name: str, graph: Graph) -> str:
    while name in graph.op_ids or name in graph.buffer_ids:
        name += "'"
    return name


def repeats(nodes: Nodes) -> list[int]:
    """Return the positions of runs that are not the first of their node."""
    first = {v: i for i, v in reversed([*enumerate(nodes)])}
    return [i for i, v in enumerate(nodes) if first[v] < i]


def with_repeats(problem: RecomputeProblem, base: Sequence[int], again: Collection[int]) -> Nodes:
    """Return a sequence in which nodes run once more for their readers after the loss.

    `base`: a sequence of all nodes without repeats. `again`: nodes to repeat; those that no node
    after the loss needs are left out.
    """
    found: list[int] = []
    repeated: set[int] = set()
    reads = problem.makers_read()

    def repeat(u: int) -> None:
        """Run a node again, after the repeats that it reads."""
        repeated.add(u)
        for p in sorted(reads[u]):
            if p in again and p not in repeated:
                repeat(p)
        found.append(u)

    forward = [v for v in base if v in problem.forward]
    # The forward part first: repeats are put before their readers after the loss.
    for v in (*forward, *(v for v in base if v not in problem.forward)):
        if v not in problem.forward:
            for u in sorted(reads[v]):
                if u in again and u not in repeated:
                    repeat(u)
        found.append(v)
    return tuple(found)
