"""Optima known in two ways: a search or a table, and another road to the same number."""

from __future__ import annotations

import numpy as np

from heuristics.portfolio import candidate_offsets, candidate_orders
from optsched.certificate import certify_peak
from optsched.check.certificate import check_certificate
from optsched.check.plan import check_order, check_packing, check_plan
from optsched.counterexamples import exhaust
from optsched.counterexamples.kernels.slabs import next_capacity
from optsched.counterexamples.wiring import MOST_OPS, least_order, masks_of
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import Order, peak_memory
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.ordering import solve_order
from optsched.packing import solve_packing
from optsched.runtime.limits import Limits, Objective, Proof
from optsched.solver.pack import pack
from optsched.solver.pipeline import solve

EXHAUSTED_OPS = 12
"""Up to this many ops all orders are replayed from the definition of live bytes."""
EXHAUSTED_BUFFERS = 12
"""Up to this many buffers all packings are tried."""
PACKING_SECONDS = 5.0
"""For the offsets that accompany an order; they are no part of what is hunted."""


def least_peak(graph: Graph, seconds: float) -> tuple[int, list[int], bool, str]:
    """Return the least peak, an order that has it, whether it is proved, and how.

    Up to :data:`EXHAUSTED_OPS` ops: a compiled table over all sets of finished ops, and the same
    from the definition, in plain Python. Beyond: the exact search, and a certificate of its bound
    that the independent checker has accepted.

    Raises
    ------
    RuntimeError
        If the two disagree: a defect of this program.
    """
    if len(graph.ops) <= min(EXHAUSTED_OPS, MOST_OPS):
        order = least_order(masks_of(graph))
        peak = check_order(graph, order)
        again, _ = exhaust.least_peak(graph)
        _agree(peak, again, "table and replay of all orders")
        return peak, order, True, "all orders, tabled and replayed"
    best = min((peak_memory(graph, order), order.tolist()) for _, order in candidate_orders(graph))
    outcome = solve_order(graph, limits=Limits(seconds=seconds), warm_start=best[1])
    peak, order = check_order(graph, outcome.order), list(outcome.order)
    if outcome.proof is None:
        return peak, order, False, f"open: no order below {outcome.bound:,} bytes"
    written = certify_peak(graph, order, peak, limits=Limits(seconds=seconds))
    if written.certificate.bound < peak:
        return peak, order, True, f"{outcome.proof}, exact search; {written.missing}"
    rung = check_certificate(graph, written.certificate)
    return peak, order, True, f"{outcome.proof}, exact search; certificate checked ({rung})"


def least_slab(problem: PackingProblem, seconds: float) -> tuple[int, IntArray, bool, str]:
    """Return the least slab, offsets that have it, whether it is proved, and how.

    The exact engine, and, up to :data:`EXHAUSTED_BUFFERS` plain buffers, all packings one byte
    below. Where the slab is what is live at one step, adding these up is the second way.
    """
    result = pack(problem, limits=Limits(seconds=seconds))
    if result.offsets is None or result.slab is None:
        raise RuntimeError(f"no packing of {problem.name} found")
    slab = check_packing(problem, result.offsets.tolist())
    if result.slab_proof is None or result.slab_proof is Proof.CLAIMED:
        return slab, result.offsets, False, f"open: no slab below {result.slab_bound:,} bytes"
    if slab == problem.max_load:
        return slab, result.offsets, True, "a step's live bytes fill the slab"
    plain = not problem.gaps and (problem.alignment == 1).all() and (problem.pin < 0).all()
    if not plain or len(problem) > EXHAUSTED_BUFFERS:
        return slab, result.offsets, True, f"{result.slab_proof}, exact search"
    room = np.zeros(len(problem), np.int64)
    columns = problem.start, problem.end, problem.size
    if next_capacity.compiled(*columns, slab - 1, room) < 0:
        raise RuntimeError(f"the exact engine says {slab}, but all packings tried find less")
    return slab, result.offsets, True, "exact search, and all packings tried"


def least_joint(graph: Graph, seconds: float) -> tuple[int, Plan, bool, str]:
    """Return the least slab over all orders and offsets, a plan, whether it is proved, and how."""
    result = solve(graph, objective=Objective.SLAB, limits=Limits(seconds=seconds))
    if result.plan is None:
        raise RuntimeError(f"no plan of {graph.name} found")
    slab = check_plan(graph, result.plan).slab
    if result.slab_proof is None or result.slab_proof is Proof.CLAIMED:
        return slab, result.plan, False, f"open: no slab below {result.slab_bound:,} bytes"
    if result.slab_proof is not Proof.JOINT:
        return slab, result.plan, True, f"{result.slab_proof}, all orders and packings searched"
    peak, _, _, proof = least_peak(graph, seconds)
    _agree(slab, peak, "the slab of least peak, found twice")
    return slab, result.plan, True, f"{result.slab_proof}, no order has less: {proof}"


def packed(graph: Graph, order: Order) -> Plan:
    """Return an order with the best offsets that a moment finds."""
    problem, _ = packing_problem(graph, order)
    offsets = min((found for _, found in candidate_offsets(problem)), key=problem.slab_size)
    if problem.slab_size(offsets) > problem.max_load:
        outcome = solve_packing(problem, limits=Limits(seconds=PACKING_SECONDS), warm_start=offsets)
        offsets = offsets if outcome.offsets is None else outcome.offsets
    plan = make_plan(graph, order, offsets)
    check_plan(graph, plan)
    return plan


def _agree(one: int, other: int, words: str) -> None:
    if one != other:
        raise RuntimeError(f"{words}: {one} and {other} bytes")
