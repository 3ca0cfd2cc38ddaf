"""Judges of a method on one instance: by how much it loses, and the proved optimum.

Where possible, an optimum is established twice: by a search or a table, and by an independent
second computation of the same number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from heuristics import ORDERINGS, PACKINGS
from heuristics.portfolio import candidate_offsets, candidate_orders
from optsched.certificate import certify_peak
from optsched.check.certificate import check_certificate
from optsched.check.packing import check_packing
from optsched.check.plan import check_order, check_plan
from optsched.counterexamples.effort import EFFORT
from optsched.counterexamples.kernels import next_capacity, peak_range
from optsched.counterexamples.shrink import PACKING_MOVES, ShrinkMoves, graph_moves
from optsched.counterexamples.small_graph import masks_of
from optsched.counterexamples.target import HuntTarget, Loss, split
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.model.steps import Order
from optsched.ordering import OrderOutcome, solve_order
from optsched.packing import solve_packing
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Event, Limits, Objective, Proof
from optsched.solver.pack import pack
from optsched.solver.pipeline import solve
from optsched.solver.status import Status

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Optimum(Generic[P]):
    """The best plan, and the proof that no plan is better."""

    value: int
    plan: P
    proved: bool
    """True if the value is proved to be the minimum."""
    proof: str


class Judge(ABC, Generic[T, P]):
    """Base class of judges of one kind of method and its rival."""

    def __init__(self, target: HuntTarget) -> None:
        self.target = target
        ordering = ORDERINGS.get(split(target.method)[0])
        self.moves: ShrinkMoves[Any] = graph_moves(ordering) if ordering else PACKING_MOVES
        """Moves that make an instance smaller."""
        self.undecided = 0
        """Number of questions that were not answered within their time limit."""

    @abstractmethod
    def plan(self, item: T, method: str) -> tuple[int, P]:
        """Return the checked value (bytes) and plan of a method."""

    def checked_value(self, item: T, method: str) -> int:
        """Return the value of a method in bytes, as the checker finds it."""
        return self.plan(item, method)[0]

    @abstractmethod
    def value(self, item: T, method: str) -> int:
        """Return the peak or slab of a method, in bytes."""

    @abstractmethod
    def optimum(self, item: T, seconds: float) -> Optimum[P]:
        """Return the optimum, or the best plan found in the given time."""

    @abstractmethod
    def has_plan(self, item: T, capacity: int, seconds: float) -> bool:
        """Return True if a plan of at most `capacity` bytes is found; count undecided questions."""

    def best(self, item: T, seconds: float) -> int:
        """Return the bytes of the best plan found in the given time, proved optimal or not."""
        return self.optimum(item, seconds).value

    def loss(self, item: T, seconds: float) -> Loss:
        """Return the method's bytes and its rival's."""
        versus = self.target.versus
        rival = self.best(item, seconds) if versus is None else self.checked_value(item, versus)
        return Loss(self.checked_value(item, self.target.method), rival, self.target.objective)

    def reaches(self, item: T, wanted: Loss, seconds: float) -> bool:
        """Return True if the method's loss on `item` is proved at least as bad as `wanted`."""
        # Exact in integers: a ratio as a float could be lost by rounding.
        value = self.value(item, self.target.method)
        capacity = wanted.rival_limit(value)
        # Without bytes nothing can be lost.
        if value == 0:
            return False
        if self.target.versus is not None:
            return self.value(item, self.target.versus) <= capacity
        return self.has_plan(item, capacity, seconds)


class OrderingJudge(Judge[Graph, Plan]):
    """Judge of an ordering, against the minimum peak or another ordering."""

    def plan(self, item: Graph, method: str) -> tuple[int, Plan]:
        """Return the peak of an ordering, and a plan with its order and the best offsets found."""
        return packed(item, ORDERINGS[method](item, 0))

    def checked_value(self, item: Graph, method: str) -> int:
        """Return the peak of an ordering, as the checker finds it."""
        return check_order(item, ORDERINGS[method](item, 0).tolist())

    def value(self, item: Graph, method: str) -> int:
        """Return the peak of an ordering."""
        return peak_memory(item, ORDERINGS[method](item, 0))

    def best(self, item: Graph, seconds: float) -> int:
        """Return the least peak that the exact search finds in the given time."""
        return _solve_order(item, seconds).peak

    def optimum(self, item: Graph, seconds: float) -> Optimum[Plan]:
        """Return a plan of minimum peak with the best offsets found in a short time."""
        found = minimum_peak(item, seconds)
        return Optimum(found.value, packed(item, found.plan)[1], found.proved, found.proof)

    def has_plan(self, item: Graph, capacity: int, seconds: float) -> bool:
        """Return True if an order has a peak of at most `capacity`: table, heuristics, search."""
        # A table over all orders is quicker than any search here.
        if len(item.ops) <= EFFORT.tabled_ops:
            return peak_range.compiled(*masks_of(item))[0] <= capacity
        best: tuple[int, Order] | None = None
        clock = Clock(Limits(seconds=seconds))
        for _, order in candidate_orders(item, random_runs=4):
            peak = peak_memory(item, order)
            if peak <= capacity:
                return True
            if best is None or peak < best[0]:
                best = peak, order
            if clock.expired():
                self.undecided += 1
                return False
        assert best is not None

        def listen(event: Event) -> None:
            # As soon as the question is answered, the rest of the search is of no interest.
            if event.incumbent is not None and event.incumbent <= capacity:
                raise _AnsweredError(True)
            if event.bound > capacity:
                raise _AnsweredError(False)

        limits, start = Limits(seconds=seconds), [int(v) for v in best[1]]
        try:
            outcome = solve_order(item, limits=limits, warm_start=start, on_event=listen)
        except _AnsweredError as answer:
            return answer.yes
        outcome.stop_reason.raise_if_interrupted()
        # Not found and not excluded in time.
        self.undecided += outcome.bound <= capacity < outcome.peak
        return outcome.peak <= capacity


class _AnsweredError(Exception):
    """Exception that stops a search as soon as the question is answered."""

    def __init__(self, yes: bool) -> None:
        self.yes = yes


class PairJudge(Judge[Graph, Plan]):
    """Judge of an ordering with a packer, against the minimum slab of all plans or another pair."""

    def plan(self, item: Graph, method: str) -> tuple[int, Plan]:
        """Return the slab and the plan of an ordering with a packer."""
        ordering, packing = split(method)
        order = ORDERINGS[ordering](item, 0)
        plan = make_plan(item, order, PACKINGS[packing](packing_problem(item, order)[0]))
        return check_plan(item, plan).slab, plan

    def value(self, item: Graph, method: str) -> int:
        """Return the slab of an ordering with a packer."""
        return self.plan(item, method)[0]

    def optimum(self, item: Graph, seconds: float) -> Optimum[Plan]:
        """Return a plan of minimum slab over all orders and offsets."""
        result = solve(item, objective=Objective.SLAB, limits=Limits(seconds=seconds))
        plan = result.plan
        if plan is None:
            raise RuntimeError(f"no plan found for graph {item.name!r}")
        slab = check_plan(item, plan).slab
        if result.slab_proof is None or result.slab_proof is Proof.CLAIMED:
            return Optimum(slab, plan, False, f"open: no slab below {result.slab_bound:,} bytes")
        if result.slab_proof is not Proof.JOINT:
            return Optimum(
                slab, plan, True, f"{result.slab_proof.words}, all orders and packings searched"
            )
        # The joint bound says that no order has less, so the minimum peak must agree.
        peak = minimum_peak(item, seconds)
        if peak.value != slab:
            raise RuntimeError(
                f"proofs disagree: minimum slab {slab} bytes, minimum peak {peak.value} bytes"
            )
        words = f"{result.slab_proof.words}, no order has less: {peak.proof}"
        return Optimum(slab, plan, True, words)

    def has_plan(self, item: Graph, capacity: int, seconds: float) -> bool:
        """Return True if a plan's slab is at most `capacity`: by heuristics, then the solver."""
        small = len(item.ops) <= EFFORT.tabled_ops
        # The minimum peak is a bound on the slab.
        if small and peak_range.compiled(*masks_of(item))[0] > capacity:
            return False
        if any(slab <= capacity for slab in self._quick_slabs(item)):
            return True
        result = solve(item, capacity=capacity, limits=Limits(seconds=seconds))
        result.stop_reason.raise_if_interrupted()
        self.undecided += result.status is Status.UNKNOWN
        return result.slab is not None and result.slab <= capacity

    def _quick_slabs(self, item: Graph) -> Iterator[int]:
        for _, order in candidate_orders(item, random_runs=0):
            problem, _ = packing_problem(item, order)
            for _, offsets in candidate_offsets(problem):
                yield problem.slab_size(offsets)


class PackingJudge(Judge[PackingProblem, IntArray]):
    """Judge of a packer on live ranges, against the minimum slab or another packer."""

    def plan(self, item: PackingProblem, method: str) -> tuple[int, IntArray]:
        """Return the slab and the offsets of a packer."""
        offsets = np.asarray(PACKINGS[method](item))
        return check_packing(item, offsets.tolist()), offsets

    def value(self, item: PackingProblem, method: str) -> int:
        """Return the slab of a packer."""
        return item.slab_size(PACKINGS[method](item)) if len(item) else 0

    def optimum(self, item: PackingProblem, seconds: float) -> Optimum[IntArray]:
        """Return offsets of minimum slab.

        The exact engine finds them. The second proof is a step whose live bytes fill the slab or,
        for at most `searched_buffers` buffers without constraints, a search of all packings with
        one byte less.
        """
        result = pack(item, limits=Limits(seconds=seconds))
        if result.offsets is None or result.slab is None:
            raise RuntimeError(f"no packing found for {item.name!r}")
        offsets = result.offsets
        slab = check_packing(item, offsets.tolist())
        if result.slab_proof is None or result.slab_proof is Proof.CLAIMED:
            return Optimum(slab, offsets, False, f"open: no slab below {result.slab_bound:,} bytes")
        if slab == item.peak:
            return Optimum(slab, offsets, True, "a step's live bytes fill the slab")
        if slab == item.max_load:
            return Optimum(slab, offsets, True, "buffers that are all kept apart fill the slab")
        plain = not item.gaps and (item.alignment == 1).all() and (item.pin < 0).all()
        plain = plain and not len(item.keep_apart) and not item.must_share
        if not plain or len(item) > EFFORT.searched_buffers:
            return Optimum(slab, offsets, True, f"{result.slab_proof.words}, exact search")
        room = np.zeros(len(item), np.int64)
        columns = item.start, item.end, item.size
        # A second, independent answer: no packing with one byte less exists.
        if next_capacity.compiled(*columns, slab - 1, room) < 0:
            raise RuntimeError(
                f"proofs disagree: a packing below the exact engine's {slab} bytes exists"
            )
        return Optimum(slab, offsets, True, "exact search, and all packings tried")

    def has_plan(self, item: PackingProblem, capacity: int, seconds: float) -> bool:
        """Return True if a packing has a slab of at most `capacity`: by heuristics, then search."""
        # A bound above the capacity is an answer.
        if item.slab_bound > capacity:
            return False
        if any(item.slab_size(offsets) <= capacity for _, offsets in candidate_offsets(item)):
            return True
        outcome = solve_packing(item, limits=Limits(seconds=seconds), capacity=capacity)
        fits = outcome.offsets is not None and item.slab_size(outcome.offsets) <= capacity
        self.undecided += not fits and outcome.bound <= capacity
        return fits


def minimum_peak(graph: Graph, seconds: float) -> Optimum[list[int]]:
    """Return an order of minimum peak.

    The exact search proves it, and the independent checker verifies a certificate of its bound
    where one can be written.
    """
    outcome = _solve_order(graph, seconds)
    peak, order = check_order(graph, outcome.order), list(outcome.order)
    if outcome.proof is None:
        return Optimum(peak, order, False, f"open: no order below {outcome.bound:,} bytes")
    written = certify_peak(graph, order, peak, limits=Limits(seconds=seconds))
    # The certificate may prove less than the search; then the search is named.
    if written.certificate.bound < peak:
        words = f"{outcome.proof.words}, exact search; {written.missing}"
        return Optimum(peak, order, True, words)
    rung = check_certificate(graph, written.certificate)
    words = f"{outcome.proof.words}, exact search; certificate checked ({Proof(rung).words})"
    return Optimum(peak, order, True, words)


def _solve_order(graph: Graph, seconds: float) -> OrderOutcome:
    clock, found = Clock(Limits(seconds=seconds)), []
    for _, order in candidate_orders(graph):
        found.append((peak_memory(graph, order), order.tolist()))
        # Orders for a warm start must not take the time of the search.
        if clock.spent(EFFORT.question_share):
            break
    return solve_order(graph, limits=clock, warm_start=min(found)[1])


def packed(graph: Graph, order: Order) -> tuple[int, Plan]:
    """Return the checked peak of an order, and a plan with the best offsets of a short search."""
    problem, _ = packing_problem(graph, order)
    seconds = EFFORT.packing_seconds
    if len(graph.ops) > EFFORT.small:
        seconds *= EFFORT.reduced_packing
    offsets = _best_offsets(problem, Clock(Limits(seconds=seconds)))
    # Above the load, better offsets may exist.
    if problem.slab_size(offsets) > problem.max_load:
        outcome = solve_packing(problem, limits=Limits(seconds=seconds), warm_start=offsets)
        offsets = offsets if outcome.offsets is None else outcome.offsets
    plan = make_plan(graph, order, offsets)
    return check_plan(graph, plan).peak, plan


def _best_offsets(problem: PackingProblem, clock: Clock) -> IntArray:
    """Return the best offsets of the packers that there is time for, those of one at least."""
    best: tuple[int, IntArray] | None = None
    for _, offsets in candidate_offsets(problem):
        slab = problem.slab_size(offsets)
        if best is None or slab < best[0]:
            best = slab, offsets
        if clock.expired():
            break
    if best is None:
        raise RuntimeError(f"no packer packs {problem.name!r}")
    return best[1]
