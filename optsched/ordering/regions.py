"""Regions: parts of a net with an order of their own that is best whatever runs beside them.

Let `M` be a set of ops such that each other op runs before all of them, after all of them, or has
nothing to do with any, and no shared buffer is used inside and outside. Live bytes are then a sum
`g(done in M) + h(done elsewhere)`, and `g` is submodular. A step of `M` costs a *level*, its live
bytes by `g` alone, whatever `h` adds.

Let `D` be a downset of `M` with least `g`. For every level `c` there is a least `R(c)` that steps
of at most `c` lead to from the start; these are nested, the steps from one to the next do not pass
the next level, and they end at `D`: that is what a search does which raises its budget only when it
must, and commits. Backward from the end of `M` it is the same. Call the resulting order the string.

Any order of the net can have `M` run along the string without a higher peak. Take the moment `T` in
it at which `h` is least while `M` is under way. Before `T`, whenever `M` makes a step of a new
highest level `c`, run the string on to `R(c)`: at no more than `c`, at the same `h`. In between `M`
then has no more live bytes than it had. At `T` run it on to `D`: all levels that takes, `M` makes
anyway, at `T` or later, at no less `h`. After `T` it is the mirror image. So nothing is lost if
`M` is a chain along the string, in which the ops from one `R(c)` to the next are one.

Regions here lie between an op and the first one that all ways from it lead to. Inner ones become
chains first, so those around them have few ops left: series-parallel nets are solved by this alone.
Chains in parallel are those of Abdel-Wahab and Kameda (Operations Research 26, 1978).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from optsched.arrays import IntArray, build_rows, row_counts
from optsched.ordering.contract import Contracted, contract
from optsched.ordering.cuts import topological
from optsched.ordering.interval import Interval
from optsched.ordering.kernels import explore
from optsched.ordering.kernels.cut import least_downset
from optsched.ordering.model import Net, make_net
from optsched.ordering.problem import Problem
from optsched.ordering.rules import ALL_RULES
from optsched.ordering.strings import Folded, String, stops, trace

MOST_OPS = 200
"""Ops of a region at most, inner regions being chains."""

TOO_MANY = 300_000
"""In problems of more ops not even looking for regions is worth it."""

MANY_OPS, MANY_FORKS = 30_000, 16
"""With more ops making chains takes seconds. It is done only where they are many: among the last
ones a region begins at one in so many at least."""

MOST_STATES = 4_096
"""States that a search of a region may store in each direction."""

MOST_BYTES = 2**61
"""Live bytes of a region by itself stay below, counted from where none of its downsets has less."""

FLOW_BITS = 62
"""Bits of the random numbers that ops pass on."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """Contractions one after another.

    Parameters
    ----------
    stages
        At least one; each but the first of the problem that the one before it makes.
    """

    stages: tuple[Contracted, ...]

    @property
    def net(self) -> Net:
        """The smallest problem."""
        return self.stages[-1].net

    def expand(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the smallest problem into one of the first."""
        for stage in reversed(self.stages):
            order = stage.expand(order)
        return list(order)

    def gather(self, values: IntArray) -> IntArray:
        """Turn values of the first problem's ops into the largest over each op of the smallest."""
        for stage in self.stages:
            values = stage.gather(values)
        return values

    def shrink(self, order: Iterable[int]) -> list[int]:
        """Turn an order of the first problem into one of the smallest, of at most its peak."""
        for stage in self.stages:
            order = stage.shrink(order)
        return list(order)


def reduce(problem: Problem) -> Reduced:
    """Contract a problem, make chains of its regions, and contract it again."""
    merge = problem.rules.contract
    first = contract(problem.net, merge=merge, check_time=problem.check_time)
    unwanted = not problem.rules.regions or len(problem.net.way)
    if unwanted or len(first.members) > TOO_MANY:
        return Reduced((first,))
    order = topological(first.net)
    forks = find_forks(first.net, order[-MANY_OPS:])
    if not forks or (len(order) > MANY_OPS and len(forks) * MANY_FORKS < MANY_OPS):
        return Reduced((first,))
    folding = Folding(replace(problem, net=first.net, priority=None))
    folding.fold_all(find_forks(first.net, order))
    if not folding.found:
        return Reduced((first,))
    problem.statistics.regions += len(folding.found)
    folded = folding.result()
    last = contract(folded.net, merge=merge, check_time=problem.check_time)
    return Reduced((first, folded, last))


def find_forks(net: Net, order: Sequence[int]) -> list[int]:
    """Ops with an op that all ways from them lead to, and all ways to it come from; last first.

    Each op passes on what it got, divided at random among its successors. Whoever gets the same
    is such a pair, but by chance: all else is looked at later. `order` are the last ops, or all,
    in topological order.
    """
    draw = random.Random(0)
    inside = np.zeros(len(net.net), np.bool_)
    inside[order] = True
    fed = row_counts(net.pred_ptr, inside[net.pred]) == np.diff(net.pred_ptr)
    fed &= np.diff(net.pred_ptr) > 0
    ptr, succ = net.succ_ptr.tolist(), net.succ.tolist()
    flow = dict.fromkeys(order, 0)
    for v in order:
        left, first, end = flow[v], ptr[v], ptr[v + 1]
        if not fed[v]:
            left += draw.getrandbits(FLOW_BITS)
            flow[v] = left
        for w in succ[first + 1 : end]:
            share = draw.getrandbits(FLOW_BITS)
            flow[w] += share
            left -= share
        if first < end:
            flow[succ[first]] += left
    found, later = [], set()
    for v in reversed(order):
        if ptr[v + 1] - ptr[v] > 1 and flow[v] in later:
            found.append(v)
        later.add(flow[v])
    return found


class Sets:
    """A net without ways as Python sets."""

    def __init__(self, net: Net) -> None:
        self.pred = _sets(net.pred_ptr, net.pred)
        self.succ = _sets(net.succ_ptr, net.succ)
        self.read = _sets(net.read_ptr, net.read)
        self.users = _sets(net.user_ptr, net.user)
        self.hill: list[int] = net.hill.tolist()
        self.net: list[int] = net.net.tolist()
        self.size: list[int] = net.size.tolist()

    def cut_out(self, ops: Sequence[int]) -> tuple[Net, list[int]] | None:
        """Some ops as a net by themselves, numbered as they come, and the buffers they share.

        None if one of these has users elsewhere.
        """
        number = {v: k for k, v in enumerate(ops)}
        shared = sorted({b for v in ops for b in self.read[v]})
        if any(u not in number for b in shared for u in self.users[b]):
            return None
        return self.build(ops, shared), shared

    def build(self, ops: Sequence[int], shared: Sequence[int]) -> Net:
        """The net of some ops and shared buffers."""
        number = {v: k for k, v in enumerate(ops)}
        pred = [[number[u] for u in self.pred[v] if u in number] for v in ops]
        user = [[number[v] for v in self.users[b]] for b in shared]
        hill, change, size = (
            np.array([values[i] for i in rows], np.int64)
            for values, rows in ((self.hill, ops), (self.net, ops), (self.size, shared))
        )
        return make_net(build_rows(pred), build_rows(user), hill, change, size)


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
    problem
        The problem; its ops have no ways to save bytes.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.net)
        self.problem = problem
        # Chains need the way that commits at every chance, from one end only.
        rules = replace(ALL_RULES, dovetail=False, symmetry=False)
        self.search = replace(problem, rules=rules)
        self.order = topological(problem.net)
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
            self.problem.check_time()
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
            self.hill[first] = max(chain.level[a:b]) - chain.live[a]
            self.net[first] = chain.live[b] - chain.live[a]
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

    def string(self, net: Net) -> list[int] | None:
        """The order that is best whatever runs beside it; None if that takes too many states."""
        # So many bytes that no downset has less than 0.
        base = int(np.maximum(-net.net, 0).sum()) + int(net.size.sum())
        if base + int(net.hill.sum()) >= MOST_BYTES:
            return None
        problem = replace(self.search, net=net, base=base)
        n = len(net.net)
        least = problem.pick(least_downset)(net)
        found: list[int] = []
        for low, high in ((np.zeros(n, np.bool_), least), (least, np.ones(n, np.bool_))):
            way = Interval(problem, low, high, 0, 2 * MOST_BYTES)
            how = way.run(MOST_STATES)
            problem.collect()
            if how != explore.REACHED:
                return None
            found += way.moves
        return found

    def result(self) -> Folded:
        """The problem with its chains."""
        whole = Sets(self.problem.net)
        strings = []
        for i, parts in enumerate(self.found):
            ops = [v for part in parts for v in part]
            if self.region_of[ops[0]] == i:
                cut = whole.cut_out(ops)
                assert cut is not None
                strings.append(String(tuple(ops), cut[0]))
        alive = [v for v in self.order if self.part[v] == v]
        net = self.build(alive, [b for b, users in enumerate(self.users) if users])
        return Folded(
            net, tuple(tuple(self.members[v]) for v in alive), tuple(alive), tuple(strings),
            self.problem,
        )  # fmt: skip


def _sets(ptr: IntArray, idx: IntArray) -> list[set[int]]:
    flat, bounds = idx.tolist(), ptr.tolist()
    return [set(flat[a:b]) for a, b in pairwise(bounds)]
