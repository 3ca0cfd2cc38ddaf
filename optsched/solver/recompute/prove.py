"""Raise the bound of the rows by a tree over repeats and first runs.

The linear program lets half a node repeat. Where this makes its bound weak, the nodes are divided
into classes of equal kind, cost and bytes: in a network of equal layers only the number of repeats
in a class matters. If 6.4 nodes of a class repeat, the tree branches on the class: at most 6, or at
least 7. If the sums of all classes are integers, it branches on single nodes, then on whether a
node has run by a moment, then on whether it runs later. A solution in which all of these are
integers is a set of repeats that satisfies the rows. If it costs less than the target, the planner
is offered it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from optsched.runtime.clock import Clock
from optsched.runtime.fold import fold
from optsched.solver.recompute.bound import Branch, Leaf, Tree
from optsched.solver.recompute.master import Branches, Master, Relaxed
from optsched.solver.recompute.rows import CutRows

WHOLE = 1e-6
DEEPEST = 400
"""Most branches above a leaf."""
ROUNDS = 12
"""Most times that rows "round" are added."""
PROGRAM_SECONDS = 30.0
"""Limit of one linear program."""
GAIN = 1e-4
"""Minimum rise of the bound for which the loop continues."""


@dataclass(slots=True)
class _Node:
    """A node of the tree: a leaf until it is divided."""

    branches: Branches
    relaxed: Relaxed
    parts: tuple[tuple[int, ...], int, _Node, _Node] | None = None

    def tree(self) -> Tree:
        return fold(self, _Node.below, _Node.joined)

    def below(self) -> tuple[_Node, ...]:
        return () if self.parts is None else self.parts[2:]

    def joined(self, trees: Sequence[Tree]) -> Tree:
        return Branch(*self.parts[:2], *trees) if self.parts else self.relaxed.leaf


@dataclass(slots=True)
class Proof:
    """A bound on the extra compute and its tree; :data:`IMPOSSIBLE` if no schedule exists."""

    bound: int = 0
    tree: Tree = field(default_factory=lambda: Leaf(1, {}))
    """Multipliers that prove the bound."""
    rows: CutRows | None = None
    """The rows that leaves number; their peak is that of the proof."""


Offer = Callable[[frozenset[int], CutRows], int | None]
"""Takes nodes whose repeats satisfy the rows for less than the target, and returns the new target;
None if this gave no plan and no row."""


def prove(master: Master, target: int, clock: Clock, most: int, offer: Offer) -> Proof:
    """Return the best proof found.

    `master`: rows of a peak. `target`: bound that is enough: the cost of a known plan, or what the
    integer program claims. `clock`, `most`: limits; `most` is the number of linear programs.
    `offer`: called with sets that cost less than the target; it may add rows.
    """
    relaxed = _tighten(master, target, clock)
    if relaxed is not None and relaxed.bound < target:
        # Rows that the first bound does not use only slow the tree down.
        narrowed = master.narrowed(used_rows(relaxed.leaf, master.rows), clock)
        again = None if narrowed is None else _tighten(narrowed, target, clock)
        # Without the time for it, the first bound stays.
        if narrowed is not None and again is not None:
            master, relaxed = narrowed, again
    if relaxed is None:
        return Proof(rows=master.rows)
    return _Search(master, target, clock, most, offer).run(_Node((), relaxed))


def _tighten(master: Master, target: int, clock: Clock) -> Relaxed | None:
    """Solve the linear program, and add rows "round" while they raise its bound."""
    best = master.relax(PROGRAM_SECONDS, clock)
    for _ in range(ROUNDS):
        if best is None or best.bound >= target or clock.expired():
            break
        if not master.separate(best.values, 2, clock):
            break
        found = master.relax(PROGRAM_SECONDS, clock)
        # No time for another round, or rows that did not help.
        if found is None or found.bound < best.bound:
            break
        is_slow, best = found.bound < best.bound * (1 + GAIN), found
        if is_slow:
            break
    return best


class _Search:
    """Branch and bound: the lowest bound first, then down to a leaf."""

    def __init__(self, master: Master, target: int, clock: Clock, most: int, offer: Offer) -> None:
        self.master, self.target, self.clock, self.left = master, target, clock, most
        self.offer, self.classes = offer, _classes(master.rows)

    def run(self, root: _Node) -> Proof:
        heap, order = [(root.relaxed.bound, 0, root)], count(1)
        # Ends once no open node has a bound below the target.
        while heap and heap[0][0] < self.target:
            _, _, open_ = heapq.heappop(heap)
            # Down to a leaf first, with the side of the lower bound: sets that cost less turn up
            # early.
            while open_.relaxed.bound < self.target:
                chosen = self._choose(open_)
                sides = [] if chosen is None else self._divide(open_, *chosen)
                # Limits are reached: the smallest bound of all open nodes is what is proved.
                if not sides and (chosen is not None or not self._offer(open_)):
                    least = min([open_.relaxed.bound, *(row[0] for row in heap)])
                    return Proof(least, root.tree(), self.master.rows)
                if sides:
                    open_, other = sorted(sides, key=lambda side: side.relaxed.bound)
                    heapq.heappush(heap, (other.relaxed.bound, next(order), other))
            heapq.heappush(heap, (open_.relaxed.bound, next(order), open_))
        return Proof(heap[0][0], root.tree(), self.master.rows)

    def _offer(self, node: _Node) -> bool:
        """Offer a solution in integers; return True if the target or the node's bound changed."""
        # Without time no row is added, and the same solution would come again.
        if len(node.relaxed.values) == 0 or self.clock.expired():
            return False
        nodes = self.master.nodes(node.relaxed.values)
        cost = sum(self.master.rows.problem.cost[u] for u in nodes)
        target = self.offer(nodes, self.master.rows) if cost < self.target else None
        if target is None:
            return False
        is_lower, self.target = target < self.target, min(target, self.target)
        # The offer may have added rows that exclude this solution, so the node is solved again.
        found = None if is_lower else self._relax(node.branches)
        if found is not None:
            node.relaxed = found
        return is_lower or found is not None

    def _divide(self, node: _Node, columns: tuple[int, ...], most: int) -> list[_Node]:
        """Return both sides of a branch, or nothing if the limits are reached."""
        sides: list[_Node] = []
        for more in (False, True):
            if self.left <= 0 or self.clock.expired():
                return []
            branches = (*node.branches, (columns, most, more))
            found = self._relax(branches)
            self.left -= 1
            if found is None:
                return []
            # Some rows violated by the new solution often save further branches.
            if found.bound < self.target and self.master.separate(found.values, 1, self.clock):
                found = self._relax(branches) or found
            sides.append(_Node(branches, found))
        node.parts = (columns, most, sides[0], sides[1])
        return sides

    def _relax(self, branches: Branches) -> Relaxed | None:
        return self.master.relax(PROGRAM_SECONDS, self.clock, branches)

    def _choose(self, node: _Node) -> tuple[tuple[int, ...], int] | None:
        """Return the columns to branch on, and their largest sum in the first part."""
        values = node.relaxed.values
        if len(values) == 0 or len(node.branches) >= DEEPEST:
            return None
        best: tuple[float, tuple[int, ...], int] | None = None
        for columns, cost in self._candidates(values):
            total = float(values[list(columns)].sum())
            whole = int(total + WHOLE)
            part = min(total - whole, whole + 1 - total)
            # Half way between integers, weighted by cost: the branch that changes the bound most.
            if part >= WHOLE and (best is None or cost * part > best[0]):
                best = (cost * part, columns, whole)
        return None if best is None else best[1:]

    def _candidates(self, values: np.ndarray) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield classes, single repeats if all classes are whole, then first runs, then later."""
        rows = self.master.rows
        nodes = len(rows.problem.again)
        # While the number of repeats of some class is not an integer, single nodes would only
        # trade places.
        if any(_is_part(float(values[list(each)].sum())) for each, _ in self.classes):
            yield from self.classes
            return
        parts = [int(i) for i in np.flatnonzero(np.minimum(values, 1 - values) > WHOLE)]
        pairs = {*rows.pairs.values()}
        # Sequences of parallel nodes decide what is live, so they come before repeats.
        single = [i for i in parts if i in pairs] or [i for i in parts if i < nodes]
        for kind in "dx":
            single = single or [i for i in parts if rows.columns[i][0] == kind]
        for i in single:
            yield (i,), 1 + (rows.problem.cost[rows.problem.again[i]] if i < nodes else 0)


def used_nodes(proof: Proof) -> set[int]:
    """Return the nodes of whose rows a proof makes use."""
    return set() if proof.rows is None else used_rows(proof.tree, proof.rows)


def used_rows(tree: Tree, rows: CutRows) -> set[int]:
    """Return the nodes of whose rows a tree makes use."""
    found, waiting = set[int](), [tree]
    while waiting:
        at = waiting.pop()
        if isinstance(at, Branch):
            waiting += [at.fewer, at.more]
            continue
        keys = [rows.keys[i] for i in at.rows]
        found |= {key[1] for key in keys}
        found |= {key[2] for key in keys if key[0] in ("order", "after", "either")}
    return found


def _is_part(total: float) -> bool:
    return abs(total - round(total)) > WHOLE


def _classes(rows: CutRows) -> list[tuple[tuple[int, ...], int]]:
    """Return the columns of equal nodes, and their cost."""
    problem = rows.problem
    found: dict[tuple[object, ...], list[int]] = {}
    for i, u in enumerate(problem.again):
        sizes = tuple(problem.storages[s].size for s in problem.makes[u])
        # Equal in cost and sizes; position in the graph does not matter for the number of repeats.
        found.setdefault((problem.cost[u], sizes), []).append(i)
    return [
        (tuple(columns), 1 + problem.cost[problem.again[columns[0]]]) for columns in found.values()
    ]
