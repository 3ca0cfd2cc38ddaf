"""Further orders within a budget of live bytes, each packed with a short limit.

Many orders have the minimum peak, but they differ in how well they pack. `RandomWalk` exchanges
adjacent ops of the best order as long as the budget holds. From time to time a new search for an
order of minimum peak starts from a random order. It renumbers the ops, so that ties are broken
differently.

Example: the order a, b, c has the minimum peak, 10, and packs into 12 bytes. Exchanging b and c
keeps the peak at 10, and a, c, b packs into 11 bytes: a better plan of the same peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from optsched.errors import GraphError
from optsched.joint.oracle import portion
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, placed_plan
from optsched.ordering import OrderOutcome, solve_order
from optsched.packing import solve_packing
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits, OnEvent


@dataclass(frozen=True, slots=True)
class OtherOrdersEffort:
    """Effort spent on each further order."""

    tries: int = 200
    """Maximum number of orders that are packed."""
    packing_seconds: float = 0.5
    """Time limit of a packing in seconds, or the same amount of work."""
    search_seconds: float = 2.0
    """Time limit of a search for an order of minimum peak in seconds, or as much work."""
    search_every: int = 3
    """One order in `search_every` comes from a search, the others from exchanges."""
    exchanges: tuple[int, ...] = (2, 8, 32)
    """Numbers of exchanges attempted between two packings, in multiples of an eighth of the number
    of ops; used in turn.
    """
    stale: int = 4
    """Number of packings without progress after which the walk restarts from another order."""


def other_plans(
    graph: Graph,
    orders: Sequence[IntArray],
    budget: int,
    *,
    bound: int,
    limits: Limits | Clock,
    seen: dict[bytes, None] | None = None,
    effort: OtherOrdersEffort | None = None,
) -> Iterator[Plan]:
    """Yield plans of other orders, each one at least as good as those before.

    The graph must not be in-place, and at least one order within the budget must be known.

    Parameters
    ----------
    graph
        The graph.
    orders
        Known orders to start from.
    budget
        Target for the slab in bytes: a plan that meets it ends the search. It also limits the live
        bytes of orders. An order above the minimum peak may pack into less than all orders of
        minimum peak.
    bound
        Known minimum peak: a search for another order ends when it reaches this peak.
    limits
        Time and work limits, and the seed.
    seen
        Digests of live ranges that were packed before and are skipped; new ones are added. Another
        call with the same dict continues with other random choices.
    effort
        Effort spent on each order.
    """
    known = {} if seen is None else seen
    search = _OtherOrders(graph, orders, Clock.of(limits), known, effort or OtherOrdersEffort())
    return search.plans(budget, bound)


class _OtherOrders:
    def __init__(
        self,
        graph: Graph,
        orders: Sequence[IntArray],
        clock: Clock,
        seen: dict[bytes, None],
        effort: OtherOrdersEffort,
    ) -> None:
        self.seen = seen
        self.graph, self.clock, self.effort = graph, clock, effort
        self.starts: list[list[int]] = [order.tolist() for order in orders]
        # A resumed call knows other live ranges, and draws other numbers.
        self.rng = np.random.default_rng((clock.limits.seed, len(seen)))

    def plans(self, budget: int, bound: int) -> Iterator[Plan]:
        """Yield the plans; see :func:`other_plans`."""
        effort, seen = self.effort, self.seen
        best, slab, stale = self.starts[0], None, 0
        for attempt in range(effort.tries):
            if self.clock.expired():
                return
            # The given orders first, then walks and searches.
            if attempt < len(self.starts):
                order = self.starts[attempt]
            elif attempt % effort.search_every == 0 or stale >= effort.stale:
                order, stale = self.search_again(budget, bound) or best, 0
                best, slab = order, None
            else:
                walk = RandomWalk(self.graph, best, budget, self.rng)
                share = effort.exchanges[attempt % len(effort.exchanges)]
                # At least one exchange, also in tiny graphs.
                walk.wander(share * len(best) // 8 + 1)
                order = walk.order
            problem, ids = packing_problem(self.graph, order)
            # Packings depend on live ranges only: many orders share them.
            ranges = problem.start.tobytes() + problem.end.tobytes()
            key = blake2b(ranges, digest_size=16).digest()
            if key in seen:
                stale += 1
                continue
            seen[key] = None
            offsets = self._pack(problem, budget, attempt)
            if offsets is None:
                continue
            plan = placed_plan(self.graph, order, ids, offsets)
            found = plan.slab(self.graph)
            # Progress is a lower slab; equal ones let the walk drift.
            stale = 0 if slab is None or found < slab else stale + 1
            if slab is None or found <= slab:
                best, slab = order, found
                yield plan
            if found <= budget:
                return

    def _pack(self, problem: PackingProblem, capacity: int, attempt: int) -> IntArray | None:
        """Pack an order with a short limit; the slab may exceed the capacity."""
        part = portion(self.clock, self.effort.packing_seconds, self.clock.limits.seed + attempt)
        try:
            outcome = solve_packing(problem, limits=part, capacity=capacity)
        except GraphError:
            # Two pinned buffers overlap in this order.
            return None
        outcome.stop_reason.raise_if_interrupted()
        return outcome.offsets

    def search_again(self, budget: int, bound: int) -> list[int] | None:
        """Search for an order within the budget with renumbered ops, from a random order."""
        names: list[int] = self.rng.permutation(len(self.graph.ops)).tolist()
        seed = int(self.rng.integers(2**31))
        limits = portion(self.clock, self.effort.search_seconds, seed)
        outcome = search_renamed(
            self.graph, names, lambda graph: random_order(graph, self.rng), bound, limits
        )
        outcome.stop_reason.raise_if_interrupted()
        return list(outcome.order) if outcome.peak <= budget else None


class RandomWalk:
    """Order that changes by exchanges of adjacent ops while its live bytes stay within a budget.

    The order is always valid, and no step exceeds the budget. The graph must not be in-place.
    """

    def __init__(
        self, graph: Graph, order: Sequence[int], budget: int, rng: np.random.Generator
    ) -> None:
        arrays = graph.arrays
        self.budget, self.rng = budget, rng
        self.before = [set(us) for us in graph.predecessors]
        self.alloc: list[int] = arrays.alloc.tolist()
        self.size: list[int] = arrays.size.tolist()
        self.order = [int(v) for v in order]
        self.live: list[int] = timeline(graph, self.order).before.tolist()
        step = {v: at for at, v in enumerate(self.order)}
        self.uses: list[set[int]] = [set() for _ in graph.ops]
        self.last = [-1] * len(self.size)
        """By buffer that is released: the last step that uses it."""
        for b, size in enumerate(self.size):
            for v in arrays.users(b) if size > 0 and not arrays.keep[b] else ():
                self.uses[v].add(b)
                self.last[b] = max(self.last[b], step[v])

    def wander(self, exchanges: int) -> int:
        """Attempt exchanges at random steps; return the number of exchanges made."""
        if len(self.order) < 2:
            return 0
        places = self.rng.integers(len(self.order) - 1, size=exchanges).tolist()
        return sum(self.exchange(at) for at in places)

    def exchange(self, at: int) -> bool:
        """Exchange the ops of a step and the next one, if dependencies and budget allow it."""
        u, v = self.order[at], self.order[at + 1]
        # A direct dependency between neighbors forbids the exchange.
        if u in self.before[v]:
            return False
        first = self.live[at] + self.alloc[v]
        # `v` releases a buffer at its new step if it is the last user, and `u` is none.
        released = [b for b in self.uses[v] - self.uses[u] if self.last[b] == at + 1]
        between = first - sum(self.size[b] for b in released)
        if max(first, between + self.alloc[u]) > self.budget:
            return False
        self.order[at], self.order[at + 1] = v, u
        for b in released:
            self.last[b] = at
        # `u` now runs last of both, so buffers that it shares with `v` end a step later.
        for b in self.uses[u]:
            if self.last[b] == at:
                self.last[b] = at + 1
        self.live[at + 1] = between
        return True


def random_order(graph: Graph, rng: np.random.Generator) -> list[int]:
    """Return a random valid order; each next op is drawn from the ready ops."""
    missing = [len(before) for before in graph.predecessors]
    ready = [v for v, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        order.append(ready.pop(int(rng.integers(len(ready)))))
        for v in graph.arrays.succ.row(order[-1]).tolist():
            missing[v] -= 1
            if not missing[v]:
                ready.append(v)
    return order


def search_renamed(
    graph: Graph,
    names: Sequence[int],
    start: Callable[[Graph], list[int]],
    bound: int,
    limits: Clock,
    on_event: OnEvent | None = None,
) -> OrderOutcome:
    """Search for an order of minimum peak with renumbered ops, so that ties are broken differently.

    Op `names[i]` of the graph becomes op `i`. `start` returns the initial order of the renumbered
    graph. The other parameters are those of :func:`optsched.ordering.solve_order`.
    """
    renamed = rename_ops(graph, names)
    outcome = solve_order(
        renamed, limits=limits, warm_start=start(renamed), bound=bound, on_event=on_event
    )
    return replace(outcome, order=tuple(names[v] for v in outcome.order))


def rename_ops(graph: Graph, old: Sequence[int]) -> Graph:
    """Return the graph with renumbered ops: op `i` of the result is op `old[i]` of the graph."""
    new = {v: i for i, v in enumerate(old)}
    ops = tuple(
        replace(graph.ops[v], control=tuple(new[u] for u in graph.ops[v].control)) for v in old
    )
    buffers = tuple(
        buffer if buffer.birth is None else replace(buffer, birth=new[buffer.birth])
        for buffer in graph.buffers
    )
    candidates, permitted = (
        tuple((new[v], output, source) for v, output, source in pairs)
        for pairs in (graph.inplace_candidates, graph.inplace)
    )
    return replace(
        graph, ops=ops, buffers=buffers, inplace_candidates=candidates, inplace=permitted
    )
