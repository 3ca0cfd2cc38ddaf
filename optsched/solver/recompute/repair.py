"""More than one repeat per node: cut at the run that needs too much, run a set again, and merge.

Let a sequence exceed the peak during run i. Of the nodes that have run, some can be run once
more *after* i, so that their present copies need not be live at i. The cheapest such set is a small
integer program: a storage stays live if a later run or a node of the set reads it, unless its maker
is in the set itself. The runs of the set are put before their first readers after the loss; then
the order is searched again, and so on until the sequence fits. Where no cut is left, nodes whose
repeats do not fit themselves are excluded, and all begins again. At the end repeats that are not
needed are dropped, the most expensive first.

Example: in a, b, a, c, d, where d reads b (6 bytes) and c needs too much, the set {b} at run c
gives a, b, a, c, b, d; `b` reads the copy of `a` that is kept, or {a, b} gives a, b, c, a, b, d.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from optsched.runtime.clock import Clock
from optsched.solver.recompute.problem import RecomputeProblem
from optsched.solver.recompute.run_highs import run_highs
from optsched.solver.recompute.runs import Nodes, Schedule, Unroller, repeats

SECONDS = 2.0
"""Limits for one cut and one order."""


@dataclass(slots=True)
class Repair:
    """Repairs sequences of one problem."""

    unroller: Unroller
    """Runs and buffers of the problem."""
    peak: int
    """Bytes that must not be exceeded."""
    clock: Clock
    """Limits of all work."""
    excluded: set[int] = field(default_factory=set)
    """Nodes that cuts leave out, since their repeats led to no schedule."""

    @property
    def problem(self) -> RecomputeProblem:
        """The problem."""
        return self.unroller.problem

    def repair(self, start: Schedule, most_cost: int, most: int) -> Schedule | None:
        """Return a schedule within the peak that costs less than `most_cost`, or None."""
        found, seen = start, set[Nodes]()
        self.excluded.clear()
        for turn in range(most):
            if found.peak <= self.peak:
                return found
            if found.cost >= most_cost or self.clock.expired():
                return None
            nodes = found.nodes if found.nodes in seen else self._next(found, turn)
            seen.add(found.nodes)
            nodes = self._postponed(found) if nodes == found.nodes else nodes
            if nodes == found.nodes:
                # Repeats that do not fit themselves led here, so the search begins without them.
                if not self._exclude(found):
                    return None
                found = self._without_excluded(start)
                continue
            found = self.search(nodes)
            # The best order of all may undo the cut, since its peak is at most as high.
            found = self.unroller.measure(nodes) if found.nodes in seen else found
        return found if found.peak <= self.peak and found.cost < most_cost else None

    def _exclude(self, found: Schedule) -> bool:
        """Leave the nodes whose repeats exceed the peak out of cuts; return True if any is new."""
        over = {found.nodes[i] for i in repeats(found.nodes) if found.running[i] > self.peak}
        is_new = not over <= self.excluded
        self.excluded |= over
        return is_new

    def _without_excluded(self, found: Schedule) -> Schedule:
        left_out = {i for i in repeats(found.nodes) if found.nodes[i] in self.excluded}
        kept = (v for i, v in enumerate(found.nodes) if i not in left_out)
        return self.unroller.measure(self.unroller.clean(tuple(kept)))

    def _next(self, found: Schedule, turn: int) -> Nodes:
        """Return the sequence with the cheapest cut at a run that exceeds the peak, if any."""
        over = [i for i, live in enumerate(found.running) if live > self.peak]
        worst = max(over, key=lambda i: found.running[i])
        for at in dict.fromkeys((worst, over[0], over[-1]) if turn % 2 else (over[0], worst)):
            again = self._cut(found, at)
            if again:
                return self.unroller.clean(self._run_later(found.nodes, at, again))
        return found.nodes

    def search(self, nodes: Nodes) -> Schedule:
        """Return the best order of a sequence's runs in limited time."""
        return self.unroller.search(nodes, self.peak, self.clock.limited(SECONDS))

    def _run_later(self, nodes: Nodes, at: int, again: Collection[int]) -> Nodes:
        """Return the sequence in which a set of nodes runs once more after a position."""
        problem, found = self.problem, list(nodes[: at + 1])
        fresh: set[int] = set()
        reads = problem.makers_read()
        barrier = self.unroller.barrier(nodes)

        def repeat(u: int) -> None:
            fresh.add(u)
            for p in sorted(reads[u]):
                if p in again and p not in fresh:
                    repeat(p)
            found.append(u)

        for i in range(at + 1, len(nodes)):
            v = nodes[i]
            if i > barrier:
                for u in sorted(reads[v]):
                    if u in again and u not in fresh:
                        repeat(u)
            if v in again:
                fresh.add(v)
            found.append(v)
        return tuple(found)

    def _cut(self, found: Schedule, at: int) -> frozenset[int] | None:
        """Return the cheapest nodes to run again after a run, so that it fits; None if none do."""
        barrier = self.unroller.barrier(found.nodes)
        cut = _CutProgram(self.problem, found.nodes, at, self.peak, barrier, self.excluded)
        return cut.solve(self.clock)

    def _postponed(self, found: Schedule) -> Nodes:
        """Return the sequence with one repeat later, after some of its readers, if it helps.

        These read the run before, so that the bytes of the repeat are live for a shorter time.
        """
        best, nodes = self._excess(found), found.nodes
        reads = self.problem.makers_read()
        for i in repeats(found.nodes):
            v = found.nodes[i]
            if self.clock.expired():
                break
            for j in range(i + 2, len(found.nodes)):
                if v in reads[found.nodes[j]] and not self.clock.expired():
                    tried = (*found.nodes[:i], *found.nodes[i + 1 : j], v, *found.nodes[j:])
                    excess = self._excess(self.unroller.measure(tried))
                    if excess < best:
                        best, nodes = excess, tried
        return nodes

    def _excess(self, found: Schedule) -> int:
        return sum(max(0, live - self.peak) for live in found.running)

    def improve(self, found: Schedule, most: int) -> Schedule:
        """Drop one repeat after another, repair the rest, and keep plans that cost less.

        The repair may find another repeat that costs less than the dropped one.
        """
        tried: set[Nodes] = set()
        better: Schedule | None = found
        while better is not None:
            found, better = better, None
            for nodes in self._shorter(found, tried):
                repaired = self.repair(self.search(nodes), found.cost, most)
                if repaired is not None:
                    better = self.unroller.shortest(repaired.nodes, self.peak)
                    break
        return found

    def _shorter(self, found: Schedule, tried: set[Nodes]) -> Iterator[Nodes]:
        """Yield the sequences without one repeat until time is up: by cost, then by bytes."""
        price = [(-cost, -self.problem.made_bytes(v)) for v, cost in enumerate(self.problem.cost)]
        for i in sorted(repeats(found.nodes), key=lambda i: price[found.nodes[i]]):
            nodes = self.unroller.clean((*found.nodes[:i], *found.nodes[i + 1 :]))
            if nodes not in tried and not self.clock.expired():
                tried.add(nodes)
                yield nodes


class _CutProgram:
    """Integer program of a cut: `z` by node that may run again, `l` by storage."""

    def __init__(
        self,
        problem: RecomputeProblem,
        nodes: Nodes,
        at: int,
        peak: int,
        barrier: int,
        excluded: Collection[int],
    ) -> None:
        self.problem, self.at, self.barrier = problem, at, barrier
        self.done = set(nodes[:at])
        free = (u for u in problem.again if u in self.done and u not in excluded)
        self.columns = {u: i for i, u in enumerate(free)}
        self.count = len(self.columns)
        self.rows: list[tuple[float, list[int], list[float]]] = []
        self.fit: list[tuple[int, int]] = []
        self.room = peak - problem.own_bytes(nodes[at])
        later, forced = self._future(nodes)
        used = {*problem.reads[nodes[at]], *problem.makes[nodes[at]]}
        for s, storage in enumerate(problem.storages):
            if s not in used and (storage.maker < 0 or storage.maker in self.done):
                self._add(s, later, forced)

    def _future(self, nodes: Nodes) -> tuple[set[int], set[int]]:
        """Return storages whose present copies are read later, and those read before the loss."""
        problem, later, forced = self.problem, set[int](), set[int]()
        remade = set[int]()
        for i in range(self.at + 1, len(nodes)):
            v = nodes[i]
            for s in problem.reads[v]:
                if problem.storages[s].maker not in remade or problem.storages[s].kept:
                    later.add(s)
                    if i <= self.barrier:
                        forced.add(s)
            remade.add(v)
        return later, forced

    def _add(self, s: int, later: set[int], forced: set[int]) -> None:
        storage = self.problem.storages[s]
        own = self.columns.get(storage.maker)
        readers = [self.columns[w] for w in storage.readers if w in self.columns]
        if storage.kept or s in forced or (s in later and own is None):
            self.room -= storage.size
            return
        if s not in later and not readers:
            return
        column = self.count
        self.count += 1
        self.fit.append((column, storage.size))
        made = [] if own is None else [own]
        if s in later:
            self.rows.append((1.0, [column, *made], [1.0] * (1 + len(made))))
        for w in readers:
            if w != own:
                self.rows.append((0.0, [column, w, *made], [1.0, -1.0, *[1.0] * len(made)]))

    def solve(self, clock: Clock) -> frozenset[int] | None:
        """Return the nodes, or None if the bytes do not fit."""
        import highspy

        if self.room < 0 or not self.columns:
            return None
        highs = highspy.Highs()
        for name, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 1e-3)):
            highs.setOptionValue(name, value)
        unit = max(1, *(self.problem.cost[u] for u in self.columns)) / 1000
        for u in self.columns:
            highs.addCol(self.problem.cost[u] / unit + 1e-3, 0.0, 1.0, 0, [], [])
        for _ in range(len(self.columns), self.count):
            highs.addCol(0.0, 0.0, 1.0, 0, [], [])
        by = max(1.0, max((size for _, size in self.fit), default=1) / 1000)
        for bound, columns, values in self.rows:
            highs.addRow(bound, highspy.kHighsInf, len(columns), columns, values)
        columns, values = [c for c, _ in self.fit], [size / by for _, size in self.fit]
        highs.addRow(-highspy.kHighsInf, self.room / by, len(columns), columns, values)
        whole = list(range(len(self.columns)))
        highs.changeColsIntegrality(len(whole), whole, [highspy.HighsVarType.kInteger] * len(whole))
        run_highs(highs, SECONDS, clock, integral=True)
        solution = highs.getSolution()
        if not solution.value_valid:
            return None
        chosen = frozenset(u for u, i in self.columns.items() if solution.col_value[i] > 0.5)
        return chosen or None
