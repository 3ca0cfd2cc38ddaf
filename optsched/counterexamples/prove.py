"""Optima known in two ways: a search or a table, and another road to the same number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from heuristics.portfolio import candidate_offsets, candidate_orders
from optsched.certificate import certify_peak
from optsched.check.certificate import check_certificate
from optsched.check.plan import check_order, check_packing, check_plan
from optsched.counterexamples.effort import EFFORT
from optsched.counterexamples.kernels import next_capacity
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.model.steps import Order
from optsched.ordering import solve_order
from optsched.packing import solve_packing
from optsched.runtime.limits import Limits, Objective, Proof
from optsched.solver.pack import pack
from optsched.solver.pipeline import solve

P = TypeVar("P")


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


def minimum_peak(graph: Graph, seconds: float) -> Optimum[list[int]]:
    """Return an order of minimum peak.

    By the exact search, and by a certificate of its bound that the independent checker accepts.
    """
    best = min((peak_memory(graph, order), order.tolist()) for _, order in candidate_orders(graph))
    outcome = solve_order(graph, limits=Limits(seconds=seconds), warm_start=best[1])
    peak, order = check_order(graph, outcome.order), list(outcome.order)
    if outcome.proof is None:
        return Optimum(peak, order, False, f"open: no order below {outcome.bound:,} bytes")
    written = certify_peak(graph, order, peak, limits=Limits(seconds=seconds))
    if written.certificate.bound < peak:
        return Optimum(peak, order, True, f"{outcome.proof}, exact search; {written.missing}")
    rung = check_certificate(graph, written.certificate)
    words = f"{outcome.proof}, exact search; certificate checked ({rung})"
    return Optimum(peak, order, True, words)


def minimum_peak_plan(graph: Graph, seconds: float) -> Optimum[Plan]:
    """Return a plan of minimum peak, packed as well as a moment allows."""
    found = minimum_peak(graph, seconds)
    return Optimum(found.value, packed(graph, found.plan), found.proved, found.proof)


def minimum_packing(problem: PackingProblem, seconds: float) -> Optimum[IntArray]:
    """Return offsets of minimum slab.

    The exact engine, and, up to `searched_buffers` plain buffers, all packings one byte
    below. Where the slab is what is live at one step, adding these up is the second way.
    """
    result = pack(problem, limits=Limits(seconds=seconds))
    if result.offsets is None or result.slab is None:
        raise RuntimeError(f"no packing of {problem.name} found")
    offsets = result.offsets
    slab = check_packing(problem, offsets.tolist())
    if result.slab_proof is None or result.slab_proof is Proof.CLAIMED:
        return Optimum(slab, offsets, False, f"open: no slab below {result.slab_bound:,} bytes")
    if slab == problem.peak:
        return Optimum(slab, offsets, True, "a step's live bytes fill the slab")
    if slab == problem.max_load:
        return Optimum(slab, offsets, True, "buffers that are all kept apart fill the slab")
    plain = not problem.gaps and (problem.alignment == 1).all() and (problem.pin < 0).all()
    plain = plain and not len(problem.keep_apart) and not problem.must_share
    if not plain or len(problem) > EFFORT.searched_buffers:
        return Optimum(slab, offsets, True, f"{result.slab_proof}, exact search")
    room = np.zeros(len(problem), np.int64)
    columns = problem.start, problem.end, problem.size
    if next_capacity.compiled(*columns, slab - 1, room) < 0:
        raise RuntimeError(f"the exact engine says {slab}, but all packings tried find less")
    return Optimum(slab, offsets, True, "exact search, and all packings tried")


def minimum_slab_plan(graph: Graph, seconds: float) -> Optimum[Plan]:
    """Return a plan of minimum slab over all orders and offsets."""
    result = solve(graph, objective=Objective.SLAB, limits=Limits(seconds=seconds))
    plan = result.plan
    if plan is None:
        raise RuntimeError(f"no plan of {graph.name} found")
    slab = check_plan(graph, plan).slab
    if result.slab_proof is None or result.slab_proof is Proof.CLAIMED:
        return Optimum(slab, plan, False, f"open: no slab below {result.slab_bound:,} bytes")
    if result.slab_proof is not Proof.JOINT:
        return Optimum(slab, plan, True, f"{result.slab_proof}, all orders and packings searched")
    peak = minimum_peak(graph, seconds)
    if peak.value != slab:
        raise RuntimeError(f"a slab of {slab} and a minimum peak of {peak.value} bytes disagree")
    return Optimum(slab, plan, True, f"{result.slab_proof}, no order has less: {peak.proof}")


def packed(graph: Graph, order: Order) -> Plan:
    """Return an order with the best offsets that a moment finds."""
    problem, _ = packing_problem(graph, order)
    offsets = min((found for _, found in candidate_offsets(problem)), key=problem.slab_size)
    if problem.slab_size(offsets) > problem.max_load:
        outcome = solve_packing(
            problem, limits=Limits(seconds=EFFORT.packing_seconds), warm_start=offsets
        )
        offsets = offsets if outcome.offsets is None else outcome.offsets
    plan = make_plan(graph, order, offsets)
    check_plan(graph, plan)
    return plan
