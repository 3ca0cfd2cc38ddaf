"""Answers about fused graphs: the best split and order found, with a bound on all of them."""

from __future__ import annotations

from dataclasses import dataclass

from optsched.model.fused import FusedGraph, Group, Split
from optsched.model.fusion import merge
from optsched.model.plan import Planned
from optsched.runtime.limits import StopReason
from optsched.solver.fusion.oracle import Solved


@dataclass(slots=True)
class Leaf:
    """Choices that were bounded together; without a solved graph, no choice agrees with it."""

    solved: Solved | None
    bound: int


@dataclass(slots=True)
class Branch:
    """A local buffer that stays inside one group, or is cut."""

    buffer: int
    stays: Node
    cut: Node


@dataclass(slots=True)
class Node:
    """A node of the search tree, which starts as a leaf and may become a branch."""

    at: Leaf | Branch


@dataclass(frozen=True, slots=True)
class Point:
    """A split with an order."""

    groups: Split
    """Groups of parts in the order in which they run."""
    peak: int
    """Bytes, as the checker counts them."""
    kernels: int
    traffic: int
    """`kernels` and `traffic`: number of kernels, and bytes that they read and write in all (0 if
    not known)."""

    def cut_nodes(self, fused: FusedGraph) -> dict[int, tuple[Group, ...]]:
        """Return the fused nodes that are cut, each with its groups in the order they run."""
        rows: dict[int, list[Group]] = {}
        for group in self.groups:
            if group[0] in fused.node_of:
                rows.setdefault(fused.node_of[group[0]], []).append(group)
        return {k: tuple(row) for k, row in rows.items() if len(row) > 1}


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The best split found, and a bound on all splits in all orders."""

    fused: FusedGraph
    """The question."""
    whole: Point
    """Every fused node whole, in the best order found."""
    best: Point
    """The split and order of least peak found."""
    bound: int
    """No split has a lower peak in any order."""
    tree: Node
    """The search tree, from which a certificate is made."""
    stop_reason: StopReason
    """Reason why the search ended."""
    branches: int
    solves: int
    """`branches` and `solves`: number of branches of the tree, and of searches of the order
    engine."""
    seconds: float
    """Wall-clock seconds."""

    @property
    def graph_and_plan(self) -> Planned:
        """The graph of the best split, with one op per kernel in their order; it has no plan."""
        return Planned(merge(self.fused, self.best.groups), None)

    @property
    def proved(self) -> bool:
        """Return True if no split has a lower peak than the best one found."""
        return self.best.peak <= self.bound

    @property
    def saved(self) -> int:
        """Bytes by which the best split is below the whole nodes."""
        return self.whole.peak - self.best.peak
