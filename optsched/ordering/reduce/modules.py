"""Module contraction: regions of a problem become chains, one after another, inner ones first.

:mod:`optsched.ordering.reduce.regions` defines regions and proves that replacing a region by a
chain keeps the optimum.

Example: from `split` two branches `a`, `b` lead to `join`. The region `{a, b}` is explored from
`split`, ordered by :mod:`optsched.ordering.reduce.hill_valley` as `b`, `a`, and the problem then
has the edges `split`, `b`, `a`, `join`. If both are in one part, they become one op instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from optsched.model.arrays import build_rows
from optsched.ordering.context import SearchContext
from optsched.ordering.problem import OrderingProblem, as_lists, make_problem, topological
from optsched.ordering.reduce.contraction import Contracted
from optsched.ordering.reduce.hill_valley import HillValleyOrder, hill_valley_order


@dataclass(frozen=True, slots=True)
class ChainedProblem(Contracted):
    """A problem in which regions are chains."""

    chains: tuple[tuple[int, ...], ...]
    """The ops of each outermost region, along its chain."""

    def shrink(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the larger problem into one of the smaller.

        Each region runs along its chain, in the steps that it has in the given order. The result is
        valid, since any other op runs before the full region, after it, or is unrelated to all of
        it. Its peak may be higher.
        """
        led = np.array(list(order), np.int64)
        step = np.argsort(led)
        # The same steps are given back to the ops of the region, in the sequence of its chain.
        for ops in self.chains:
            led[np.sort(step[list(ops)])] = ops
        return Contracted.shrink(self, led.tolist())


class ModuleContraction:
    """A problem, as Python sets, while its regions become chains.

    A part of a chain keeps the number of its first op. The problem has no in-place savings.
    """

    def __init__(self, context: SearchContext) -> None:
        problem = context.problem
        self.context = context
        self.pred = [set(row) for row in as_lists(problem.pred_ptr, problem.pred)]
        self.succ = [set(row) for row in as_lists(problem.succ_ptr, problem.succ)]
        self.read = [set(row) for row in as_lists(problem.read_ptr, problem.read)]
        self.users = [set(row) for row in as_lists(problem.user_ptr, problem.user)]
        self.rise: list[int] = problem.rise.tolist()
        self.delta: list[int] = problem.delta.tolist()
        self.size: list[int] = problem.size.tolist()
        self.order = topological(problem)
        self.members = {v: [v] for v in self.order}
        self.part = list(range(len(self.order)))
        self.found: list[list[list[int]]] = []
        """The ops of each part, for each region."""
        self.region_of = [-1] * len(self.order)
        """By op, the number in `found` of the outermost region so far that contains it, or -1."""

    def contract_all(self, forks: Sequence[int]) -> None:
        """Make chains of the regions that start at the ops `forks`, which are listed last first.

        Inner regions start later than those around them, and so are contracted before them.
        """
        for v in forks:
            start = self.part[v]
            # The fork must be the last op of its part: only then do the edges leave from it.
            if self.members[start][-1] != v or len(self.succ[start]) < 2:
                continue
            self.context.check_time()
            region = self.explore(start)
            if region is not None:
                inside, join = region
                # With the op at the end, buffers between it and the region are inside as well.
                if not self.contract([*inside, join]) and len(inside) > 1:
                    self.contract(inside)

    def explore(self, start: int) -> tuple[list[int], int] | None:
        """Return the ops between `start` and the first op that all its paths lead to, and that op.

        None if such an op is not among the first `region_ops`. Ops are visited topologically;
        `waiting` counts the ops that some visited op precedes and that are not ready. If it is 0
        the next op is the only way on.
        """
        missing: dict[int, int] = {}
        inside: list[int] = []
        ready: list[int] = []
        # The join is where all paths meet: no visited op waits for another there.
        at, waiting = start, 0
        while self.succ[at] and len(inside) <= self.context.effort.region_ops:
            # Sorted, so that the region does not depend on the order of a set.
            for w in sorted(self.succ[at]):
                if w not in missing:
                    missing[w] = len(self.pred[w])
                    waiting += 1
                # An op with a predecessor outside never becomes ready, and ends the search.
                missing[w] -= 1
                if not missing[w]:
                    ready.append(w)
            if not ready:
                break
            at = ready.pop()
            waiting -= 1
            if not waiting:
                return inside, at
            inside.append(at)
        return None

    def contract(self, region: list[int]) -> bool:
        """Make a chain of a region; return False if it shares buffers outside or takes too long."""
        chain = self.find_chain(region)
        if chain is not None:
            self.put(chain)
        return chain is not None

    def find_chain(self, region: list[int]) -> HillValleyOrder | None:
        """Return the chain of a region; None if it shares buffers outside or takes too long."""
        inside = set(region)
        shared = {b for v in region for b in self.read[v]}
        # A buffer used outside breaks the sum of live bytes that the proof rests on.
        if any(not self.users[b] <= inside for b in shared):
            return None
        found = hill_valley_order(self.context, self.build(region, sorted(shared)))
        return found and replace(found, ops=[region[k] for k in found.ops])

    def parts_of(self, chain: HillValleyOrder) -> list[list[int]]:
        """Return the ops of each part of a chain."""
        return [[u for v in ops for u in self.members[v]] for ops, _, _ in chain.parts()]

    def put(self, chain: HillValleyOrder) -> None:
        """Replace a region by its chain."""
        parts = self.parts_of(chain)
        firsts = [chain.ops[a] for a in chain.ends[:-1]]
        self.link(firsts, set(chain.ops))
        # Their releases are part of the chain's net changes from now on.
        for b in {b for v in chain.ops for b in self.read[v]}:
            self.users[b] = set()
        for v in chain.ops:
            del self.members[v]
        for first, part, (_, rise, delta) in zip(firsts, parts, chain.parts(), strict=True):
            self.members[first] = part
            for u in part:
                self.part[u], self.region_of[u] = first, len(self.found)
            self.rise[first], self.delta[first], self.read[first] = rise, delta, set()
        self.found.append(parts)

    def link(self, parts: Sequence[int], region: set[int]) -> None:
        """Replace the edges of a region by those of a chain of parts."""
        before = set().union(*(self.pred[v] for v in region)) - region
        after = set().union(*(self.succ[v] for v in region)) - region
        for v in before:
            # Edges that skip the region are dropped, as they follow from the chain.
            self.succ[v] = (self.succ[v] - region - after) | {parts[0]}
        for v in after:
            self.pred[v] = (self.pred[v] - region - before) | {parts[-1]}
        for v, w in pairwise(parts):
            self.succ[v], self.pred[w] = {w}, {v}
        self.pred[parts[0]], self.succ[parts[-1]] = before, after

    def build(self, ops: Sequence[int], shared: Sequence[int]) -> OrderingProblem:
        """Return the problem of some ops, numbered in the given sequence, and shared buffers."""
        number = {v: k for k, v in enumerate(ops)}
        pred = [[number[u] for u in self.pred[v] if u in number] for v in ops]
        user = [[number[v] for v in self.users[b]] for b in shared]
        rise, delta, size = (
            np.array([values[i] for i in rows], np.int64)
            for values, rows in ((self.rise, ops), (self.delta, ops), (self.size, shared))
        )
        return make_problem(
            build_rows(pred), build_rows(user), rise, delta, size, base=self.context.problem.base
        )

    def result(self) -> ChainedProblem:
        """Return the problem with its chains."""
        listed = [tuple(v for part in parts for v in part) for parts in self.found]
        # Only outermost regions: inner ones are parts of their chains.
        chains = tuple(ops for i, ops in enumerate(listed) if self.region_of[ops[0]] == i)
        alive = [v for v in self.order if self.part[v] == v]
        problem = self.build(alive, [b for b, users in enumerate(self.users) if users])
        members = tuple(tuple(self.members[v]) for v in alive)
        return ChainedProblem(problem, members, tuple(alive), chains)
