"""Raise the bound of the rows by a tree over the repeats of nodes.

The linear program lets half a node repeat. Where this makes its bound weak, the nodes are divided
into classes of equal kind, cost and bytes: in a network of equal layers only the number of repeats
in a class matters. If 6.4 nodes of a class repeat, the tree branches on the class: at most 6, or at
least 7. If the sums of all classes are integers, it branches on single nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from optsched.runtime.clock import Clock
from optsched.solver.recompute.bound import IMPOSSIBLE, Branch, Leaf, Tree
from optsched.solver.recompute.master import Branches, Master, Relaxed
from optsched.solver.recompute.problem import RecomputeProblem
from optsched.solver.recompute.rows import CutRows

WHOLE = 1e-6


@dataclass(slots=True)
class _Node:
    """A node of the tree: a leaf until it is divided."""

    branches: Branches
    relaxed: Relaxed
    parts: tuple[tuple[int, ...], int, _Node, _Node] | None = None

    def tree(self) -> Tree:
        if self.parts is None:
            return self.relaxed.leaf
        nodes, most, fewer, more = self.parts
        return Branch(nodes, most, fewer.tree(), more.tree())


@dataclass(slots=True)
class Proof:
    """A bound on the extra compute and its tree; :data:`IMPOSSIBLE` if no schedule exists."""

    bound: int = 0
    tree: Tree = field(default_factory=lambda: Leaf(1, {}))
    rows: CutRows | None = None
    """The rows that leaves number."""


def prove(master: Master, target: int, clock: Clock, most: int) -> Proof:
    """Return the best proof found.

    Parameters
    ----------
    master
        Rows and peak.
    target
        Bound that is enough: the cost of a known plan, or what the integer program claims.
    clock, most
        Limits; `most` is the number of linear programs.
    """
    rows = master.rows
    relaxed = master.relax(_seconds(clock))
    if relaxed is None:
        return Proof(rows=rows)
    root, order = _Node((), relaxed), count()
    heap, open_ = [(relaxed.bound, next(order), root)], root
    solved = 1
    while heap:
        bound, _, open_ = heap[0]
        if bound >= target or bound >= IMPOSSIBLE or solved >= most or clock.expired():
            return Proof(bound, root.tree(), rows)
        heapq.heappop(heap)
        chosen = _choose(master.rows.problem, open_.relaxed)
        if chosen is None:
            return Proof(bound, root.tree(), rows)
        nodes, least = chosen
        sides = []
        for more in (False, True):
            branches = (*open_.branches, (nodes, least, more))
            found = master.relax(_seconds(clock), branches)
            if found is None:
                return Proof(bound, root.tree(), rows)
            # A part of a part has at least its bound; rounding may have lost a little.
            sides.append(_Node(branches, found))
        solved += 2
        open_.parts = (nodes, least, sides[0], sides[1])
        for side in sides:
            heapq.heappush(heap, (side.relaxed.bound, next(order), side))
    return Proof(0, root.tree(), rows)


def _seconds(clock: Clock) -> float:
    left = clock.left()
    return 30.0 if left is None or clock.limits.work is not None else max(0.05, min(30.0, left))


def _choose(problem: RecomputeProblem, relaxed: Relaxed) -> tuple[tuple[int, ...], int] | None:
    """Return the nodes to branch on, and the most repeats in the first part."""
    best: tuple[float, tuple[int, ...], int] | None = None
    for nodes in _classes(problem, relaxed):
        total = sum(relaxed.repeats[u] for u in nodes)
        whole = int(total + WHOLE)
        part = total - whole
        if min(part, 1 - part) < WHOLE:
            continue
        weight = (problem.cost[nodes[0]] + 1) * min(part, 1 - part)
        if best is None or weight > best[0]:
            best = (weight, nodes, whole)
    return None if best is None else best[1:]


def _classes(problem: RecomputeProblem, relaxed: Relaxed) -> Iterator[tuple[int, ...]]:
    """Yield classes of equal nodes, then single nodes if all classes are whole."""
    found: dict[tuple[object, ...], list[int]] = {}
    for u in relaxed.repeats:
        sizes = tuple(problem.storages[s].size for s in problem.makes[u])
        found.setdefault((problem.cost[u], sizes), []).append(u)
    classes = [tuple(nodes) for nodes in found.values()]
    totals = [sum(relaxed.repeats[u] for u in nodes) for nodes in classes]
    if any(abs(total - round(total)) > WHOLE for total in totals):
        yield from classes
    else:
        yield from ((u,) for u in relaxed.repeats)
