"""Folding: the regions of a problem become chains, one after another, inner ones first.

What a region is, and why a chain in its place loses nothing, is said in
:mod:`optsched.ordering.reduce.regions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from optsched.model.arrays import IntArray, build_rows
from optsched.ordering.context import SearchContext
from optsched.ordering.kernels import explore
from optsched.ordering.kernels.cut import smallest_best
from optsched.ordering.problem import OrderingProblem, make_problem
from optsched.ordering.reduce.cuts import topological
from optsched.ordering.reduce.hill_valley import Folded, String, stops, trace
from optsched.ordering.rules import ALL_RULES
from optsched.ordering.search.segment import Interval

MOST_OPS = 200
"""Ops of a region at most, inner regions being chains."""

MOST_STATES = 4_096
"""States that a search of a region may store in each direction."""

MOST_BYTES = 2**61
"""Live bytes of a region by itself stay below, counted from where none of its downsets has less."""


class Sets:
    """A problem without ways as Python sets."""

    def __init__(self, problem: OrderingProblem) -> None:
        self.pred = _sets(problem.pred_ptr, problem.pred)
        self.succ = _sets(problem.succ_ptr, problem.succ)
        self.read = _sets(problem.read_ptr, problem.read)
        self.users = _sets(problem.user_ptr, problem.user)
        self.rise: list[int] = problem.rise.tolist()
        self.delta: list[int] = problem.delta.tolist()
        self.size: list[int] = problem.size.tolist()

    def cut_out(self, ops: Sequence[int]) -> tuple[OrderingProblem, list[int]] | None:
        """Some ops as a problem by themselves, numbered as they come, and the buffers they share.

        None if one of these has users elsewhere.
        """
        number = {v: k for k, v in enumerate(ops)}
        shared = sorted({b for v in ops for b in self.read[v]})
        if any(u not in number for b in shared for u in self.users[b]):
            return None
        return self.build(ops, shared), shared

    def build(self, ops: Sequence[int], shared: Sequence[int]) -> OrderingProblem:
        """The problem of some ops and shared buffers."""
        number = {v: k for k, v in enumerate(ops)}
        pred = [[number[u] for u in self.pred[v] if u in number] for v in ops]
        user = [[number[v] for v in self.users[b]] for b in shared]
        rise, change, size = (
            np.array([values[i] for i in rows], np.int64)
            for values, rows in ((self.rise, ops), (self.delta, ops), (self.size, shared))
        )
        return make_problem(build_rows(pred), build_rows(user), rise, change, size)


@dataclass(frozen=True, slots=True)
class Chain:
    """What takes the place of a region.

    Parameters
    ----------
    ops
        Those of the region, in the order that is best.
    ends
        How many of them have ended before each part, and in the end.
    live, level
        Live bytes before each op and at the end, counted from 0, and while each op runs.
    shared
        Buffers that the ops share.
    """

    ops: list[int]
    ends: list[int]
    live: list[int]
    level: list[int]
    shared: list[int]


class Folding(Sets):
    """A problem while its regions become chains; a part of a chain has the number of its first op.

    Parameters
    ----------
    context
        The problem; its ops have no ways to save bytes.
    """

    def __init__(self, context: SearchContext) -> None:
        super().__init__(context.problem)
        self.context = context
        # Chains need the way that commits at every chance, from one end only.
        rules = replace(ALL_RULES, dovetail=False, symmetry=False)
        self.search = replace(context, rules=rules)
        self.order = topological(context.problem)
        self.members = {v: [v] for v in self.order}
        self.part = list(range(len(self.order)))
        self.found: list[list[list[int]]] = []
        """The ops of each part, for each region."""
        self.region_of = [-1] * len(self.order)
        """The last region that an op is in, by its number in `found`."""

    def fold_all(self, forks: Sequence[int]) -> None:
        """Make chains of the regions that begin at some ops, inner ones being later ones."""
        for v in forks:
            start = self.part[v]
            if self.members[start][-1] != v or len(self.succ[start]) < 2:
                continue
            self.context.check_time()
            region = self.explore(start)
            if region is not None:
                inside, join = region
                if not self.fold([*inside, join]) and len(inside) > 1:
                    self.fold(inside)

    def explore(self, start: int) -> tuple[list[int], int] | None:
        """The ops between one and the first that all ways from it lead to, and that one."""
        missing: dict[int, int] = {}
        inside: list[int] = []
        ready: list[int] = []
        at, waiting = start, 0
        while self.succ[at] and len(inside) <= MOST_OPS:
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

    def fold(self, region: list[int]) -> bool:
        """Make a chain of a region, unless it is not by itself or that takes too long."""
        chain = self.find_chain(region)
        if chain is not None:
            self.put(chain)
        return chain is not None

    def find_chain(self, region: list[int]) -> Chain | None:
        """The chain of a region; None if it is not by itself or that takes too long."""
        cut = self.cut_out(region)
        order = None if cut is None else self.string(cut[0])
        if cut is None or order is None:
            return None
        live, level = trace(cut[0], order)
        split = live.index(min(live))
        ends = {0, split, len(order)}
        ends.update(k for k, _ in stops(live[: split + 1], level[:split]))
        ends.update(len(order) - k for k, _ in stops(live[split:][::-1], level[split:][::-1]))
        return Chain([region[k] for k in order], sorted(ends), live, level, cut[1])

    def parts_of(self, chain: Chain) -> list[list[int]]:
        """The ops of each part of a chain."""
        return [
            [u for v in chain.ops[a:b] for u in self.members[v]] for a, b in pairwise(chain.ends)
        ]

    def put(self, chain: Chain) -> None:
        """Put a chain in the place of its region."""
        parts = self.parts_of(chain)
        firsts = [chain.ops[a] for a in chain.ends[:-1]]
        self.link(firsts, set(chain.ops))
        for v in chain.ops:
            del self.members[v]
        for first, part, (a, b) in zip(firsts, parts, pairwise(chain.ends), strict=True):
            self.members[first] = part
            for u in part:
                self.part[u], self.region_of[u] = first, len(self.found)
            self.rise[first] = max(chain.level[a:b]) - chain.live[a]
            self.delta[first] = chain.live[b] - chain.live[a]
            self.read[first] = set()
        for shared in chain.shared:
            self.users[shared] = set()
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

    def string(self, problem: OrderingProblem) -> list[int] | None:
        """The order that is best whatever runs beside it; None if that takes too many states."""
        # So many bytes that no downset has less than 0.
        base = int(np.maximum(-problem.delta, 0).sum()) + int(problem.size.sum())
        if base + int(problem.rise.sum()) >= MOST_BYTES:
            return None
        context = replace(self.search, problem=problem, base=base)
        n = len(problem.delta)
        least = context.pick(smallest_best)(problem, np.zeros(n, np.bool_), np.arange(n))
        found: list[int] = []
        for low, high in ((np.zeros(n, np.bool_), least), (least, np.ones(n, np.bool_))):
            way = Interval(context, low, high, 0, 2 * MOST_BYTES)
            how = way.run(MOST_STATES)
            context.collect()
            if how != explore.REACHED:
                return None
            found += way.moves
        return found

    def result(self) -> Folded:
        """The problem with its chains."""
        whole = Sets(self.context.problem)
        strings = []
        for i, parts in enumerate(self.found):
            ops = [v for part in parts for v in part]
            if self.region_of[ops[0]] == i:
                cut = whole.cut_out(ops)
                assert cut is not None
                strings.append(String(tuple(ops), cut[0]))
        alive = [v for v in self.order if self.part[v] == v]
        problem = self.build(alive, [b for b, users in enumerate(self.users) if users])
        return Folded(
            problem, tuple(tuple(self.members[v]) for v in alive), tuple(alive), tuple(strings),
            self.context,
        )  # fmt: skip


def _sets(ptr: IntArray, idx: IntArray) -> list[set[int]]:
    flat, bounds = idx.tolist(), ptr.tolist()
    return [set(flat[a:b]) for a, b in pairwise(bounds)]
