"""Does a method lose on this graph, or packing, and by how much? And the optimum, proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from heuristics import ORDERINGS, PACKINGS
from heuristics.portfolio import candidate_offsets, candidate_orders
from optsched.check.plan import check_order, check_packing, check_plan
from optsched.counterexamples import prove
from optsched.counterexamples.kernels.downsets import least_and_most
from optsched.counterexamples.loss import Loss, Objective
from optsched.counterexamples.shrink import GraphWays, PackingWays, Ways
from optsched.counterexamples.wiring import masks_of
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import Order, peak_memory
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.ordering import solve_order
from optsched.packing import solve_packing
from optsched.runtime.limits import Event, Limits
from optsched.solver.pack import packing_bound
from optsched.solver.pipeline import solve
from optsched.solver.result import Status

T = TypeVar("T")
P = TypeVar("P")

TABLED_OPS = 12
"""Up to this many ops the table over all sets of finished ops is quicker than a search."""


@dataclass(frozen=True, slots=True)
class Optimum(Generic[P]):
    """The best plan, and how it is known that none is better.

    Parameters
    ----------
    value
        Bytes.
    plan
        That has them.
    proved
        Whether two independent ways agree that nothing is better.
    proof
        In words.
    """

    value: int
    plan: P
    proved: bool
    proof: str


class Judge(Protocol[T, P]):
    """Knows one method, its rival, and what counts as bad."""

    ways: Ways[T]
    undecided: int

    def plan(self, item: T, method: str) -> tuple[int, P]:
        """Return the checked value and plan of a method."""

    def best(self, item: T, seconds: float) -> int:
        """Return the bytes of the best plan that is found in a while, proved or not."""

    def reaches(self, item: T, target: Loss, seconds: float) -> bool:
        """Whether the loss on this is surely as bad as the target; what stays open is not."""

    def optimum(self, item: T, seconds: float) -> Optimum[P]:
        """Return the optimum."""


class _EnoughError(Exception):
    """Raised into a search that has answered the question already."""


class OrderJudge:
    """An ordering on graphs, against the least peak or another ordering."""

    def __init__(self, method: str, versus: str | None, objective: Objective) -> None:
        self.method, self.versus, self.objective = method, versus, objective
        self.ways: Ways[Graph] = GraphWays(lambda graph: ORDERINGS[method](graph, 0))
        self.undecided = 0

    def plan(self, item: Graph, method: str) -> tuple[int, Plan]:
        """Return the peak of an ordering, and its order packed as well as can be."""
        order = ORDERINGS[method](item, 0)
        return check_order(item, order.tolist()), prove.packed(item, order)

    def best(self, item: Graph, seconds: float) -> int:
        """Return the least peak that the exact search knows."""
        best = min(
            (peak_memory(item, order), order.tolist()) for _, order in candidate_orders(item)
        )
        return solve_order(item, limits=Limits(seconds=seconds), warm_start=best[1]).peak

    def reaches(self, item: Graph, target: Loss, seconds: float) -> bool:
        """Whether some order has so little that the method's peak is as bad as the target."""
        value = peak_memory(item, ORDERINGS[self.method](item, 0))
        most = target.most_rival(value)
        if value == 0:
            return False
        if self.versus is not None:
            return peak_memory(item, ORDERINGS[self.versus](item, 0)) <= most
        return self._has_order(item, most, seconds)

    def _has_order(self, item: Graph, most: int, seconds: float) -> bool:
        if len(item.ops) <= TABLED_OPS:
            return least_and_most.compiled(*masks_of(item))[0] <= most
        best: tuple[int, Order] | None = None
        for _, order in candidate_orders(item, random_runs=4):
            peak = peak_memory(item, order)
            if peak <= most:
                return True
            if best is None or peak < best[0]:
                best = peak, order
        assert best is not None
        found: list[bool] = []

        def listen(event: Event) -> None:
            if event.incumbent is not None and event.incumbent <= most:
                found.append(True)
                raise _EnoughError
            if event.bound > most:
                raise _EnoughError

        limits = Limits(seconds=seconds)
        start = [int(v) for v in best[1]]
        try:
            outcome = solve_order(item, limits=limits, warm_start=start, on_event=listen)
        except _EnoughError:
            return bool(found)
        self.undecided += outcome.bound <= most < outcome.peak
        return outcome.peak <= most

    def optimum(self, item: Graph, seconds: float) -> Optimum[Plan]:
        """Return a plan of least peak."""
        peak, order, proved, proof = prove.least_peak(item, seconds)
        return Optimum(peak, prove.packed(item, order), proved, proof)


class PairJudge:
    """An ordering and a packer, `lpmf+greedy_by_size`, against the least slab of all plans."""

    def __init__(self, method: str, versus: str | None, objective: Objective) -> None:
        self.method, self.versus, self.objective = method, versus, objective
        ordering, _ = split(method)
        self.ways: Ways[Graph] = GraphWays(lambda graph: ORDERINGS[ordering](graph, 0))
        self.undecided = 0

    def plan(self, item: Graph, method: str) -> tuple[int, Plan]:
        """Return the slab and plan of a pair."""
        ordering, packing = split(method)
        order = ORDERINGS[ordering](item, 0)
        plan = make_plan(item, order, PACKINGS[packing](packing_problem(item, order)[0]))
        return check_plan(item, plan).slab, plan

    def best(self, item: Graph, seconds: float) -> int:
        """Return the least slab that the pipeline knows."""
        return self.optimum(item, seconds).value

    def reaches(self, item: Graph, target: Loss, seconds: float) -> bool:
        """Whether some plan has so little that the pair's slab is as bad as the target."""
        value, _ = self.plan(item, self.method)
        most = target.most_rival(value)
        if value == 0:
            return False
        if self.versus is not None:
            return self.plan(item, self.versus)[0] <= most
        if len(item.ops) <= TABLED_OPS and least_and_most.compiled(*masks_of(item))[0] > most:
            return False
        if any(slab <= most for slab in self._quick_slabs(item)):
            return True
        result = solve(item, capacity=most, limits=Limits(seconds=seconds))
        self.undecided += result.status is Status.UNKNOWN
        return result.slab is not None and result.slab <= most

    def _quick_slabs(self, item: Graph) -> Iterator[int]:
        for _, order in candidate_orders(item, random_runs=0):
            problem, _ = packing_problem(item, order)
            for _, offsets in candidate_offsets(problem):
                yield problem.slab_size(offsets)

    def optimum(self, item: Graph, seconds: float) -> Optimum[Plan]:
        """Return a plan of least slab."""
        return Optimum(*prove.least_joint(item, seconds))


class PackingJudge:
    """A packer on live ranges, against the least slab or another packer."""

    def __init__(self, method: str, versus: str | None, objective: Objective) -> None:
        self.method, self.versus, self.objective = method, versus, objective
        self.ways: Ways[PackingProblem] = PackingWays()
        self.undecided = 0

    def plan(self, item: PackingProblem, method: str) -> tuple[int, IntArray]:
        """Return the slab and the offsets of a packer."""
        offsets = PACKINGS[method](item)
        return check_packing(item, offsets.tolist()), offsets

    def best(self, item: PackingProblem, seconds: float) -> int:
        """Return the least slab that the exact engine knows."""
        return self.optimum(item, seconds).value

    def reaches(self, item: PackingProblem, target: Loss, seconds: float) -> bool:
        """Whether some packing has so little that the packer's slab is as bad as the target."""
        value = item.slab_size(PACKINGS[self.method](item)) if len(item) else 0
        most = target.most_rival(value)
        if value == 0 or (self.versus is None and packing_bound(item) > most):
            return False
        if self.versus is not None:
            return item.slab_size(PACKINGS[self.versus](item)) <= most
        if any(item.slab_size(offsets) <= most for _, offsets in candidate_offsets(item)):
            return True
        limits = Limits(seconds=seconds)
        outcome = solve_packing(item, limits=limits, capacity=most)
        fits = outcome.offsets is not None and item.slab_size(outcome.offsets) <= most
        self.undecided += not fits and outcome.bound <= most
        return fits

    def optimum(self, item: PackingProblem, seconds: float) -> Optimum[IntArray]:
        """Return offsets of least slab."""
        return Optimum(*prove.least_slab(item, seconds))


def split(method: str) -> tuple[str, str]:
    """Return ordering and packer of a pair."""
    ordering, _, packing = method.partition("+")
    return ordering, packing
