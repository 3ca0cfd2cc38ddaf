"""Module contraction: regions of a problem become chains, one after another, inner ones first.

What a region is, and why a chain in its place loses nothing, is said in
:mod:`optsched.ordering.reduce.regions`.
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
    """A problem in which regions are chains.

    Parameters
    ----------
    chains
        The ops of each region that is in no other one, along its chain.
    """

    chains: tuple[tuple[int, ...], ...]

    def shrink(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the larger problem into one of the smaller.

        In the steps that a region has, it runs along its chain. That is an order: other ops run
        before all of a region, after all of it, or anywhere. Its peak may be higher.
        """
        led = np.array(list(order), np.int64)
        step = np.argsort(led)
        for ops in self.chains:
            led[np.sort(step[list(ops)])] = ops
        return Contracted.shrink(self, led.tolist())


class ModuleContraction:
    """A problem while its regions become chains; a part of a chain has the number of its first op.

    There are no in-place savings in it.
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
        """The last region that an op is in, by its number in `found`."""

    def contract_all(self, forks: Sequence[int]) -> None:
        """Make chains of the regions that begin at some ops, inner ones being later ones."""
        for v in forks:
            start = self.part[v]
            if self.members[start][-1] != v or len(self.succ[start]) < 2:
                continue
            self.context.check_time()
            region = self.explore(start)
            if region is not None:
                inside, join = region
                if not self.contract([*inside, join]) and len(inside) > 1:
                    self.contract(inside)

    def explore(self, start: int) -> tuple[list[int], int] | None:
        """The ops between one and the first that all paths from it lead to, and that one."""
        missing: dict[int, int] = {}
        inside: list[int] = []
        ready: list[int] = []
        at, waiting = start, 0
        while self.succ[at] and len(inside) <= self.context.effort.region_ops:
            for w in sorted(self.succ[at]):
                if w not in missing:
                    missing[w] = len(self.pred[w])
                    waiting += 1
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
        """Make a chain of a region, unless it is not by itself or that takes too long."""
        chain = self.find_chain(region)
        if chain is not None:
            self.put(chain)
        return chain is not None

    def find_chain(self, region: list[int]) -> HillValleyOrder | None:
        """The chain of a region; None if it is not by itself or that takes too long."""
        inside = set(region)
        shared = {b for v in region for b in self.read[v]}
        if any(not self.users[b] <= inside for b in shared):
            return None
        found = hill_valley_order(self.context, self.build(region, sorted(shared)))
        return found and replace(found, ops=[region[k] for k in found.ops])

    def parts_of(self, chain: HillValleyOrder) -> list[list[int]]:
        """The ops of each part of a chain."""
        return [[u for v in ops for u in self.members[v]] for ops, _, _ in chain.parts()]

    def put(self, chain: HillValleyOrder) -> None:
        """Put a chain in the place of its region."""
        parts = self.parts_of(chain)
        firsts = [chain.ops[a] for a in chain.ends[:-1]]
        self.link(firsts, set(chain.ops))
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
        """Put a chain of parts in the place of a region."""
        before = set().union(*(self.pred[v] for v in region)) - region
        after = set().union(*(self.succ[v] for v in region)) - region
        for v in before:
            self.succ[v] = (self.succ[v] - region - after) | {parts[0]}
        for v in after:
            self.pred[v] = (self.pred[v] - region - before) | {parts[-1]}
        for v, w in pairwise(parts):
            self.succ[v], self.pred[w] = {w}, {v}
        self.pred[parts[0]], self.succ[parts[-1]] = before, after

    def build(self, ops: Sequence[int], shared: Sequence[int]) -> OrderingProblem:
        """The problem of some ops, numbered as they come, and shared buffers."""
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
        """The problem with its chains."""
        listed = [tuple(v for part in parts for v in part) for parts in self.found]
        chains = tuple(ops for i, ops in enumerate(listed) if self.region_of[ops[0]] == i)
        alive = [v for v in self.order if self.part[v] == v]
        problem = self.build(alive, [b for b, users in enumerate(self.users) if users])
        members = tuple(tuple(self.members[v]) for v in alive)
        return ChainedProblem(problem, members, tuple(alive), chains)
