"""Exact ordering: the minimum peak memory over all orders of a graph, with proof."""

from __future__ import annotations

from optsched.ordering.bound.closure import ClosureBound, closure_bound
from optsched.ordering.bound.witness import ClosureWitness, closure_witness
from optsched.ordering.rules import ALL_RULES, OrderingRules, Statistics
from optsched.ordering.solve import OrderOutcome, solve_order

__all__ = [
    "ALL_RULES",
    "ClosureBound",
    "ClosureWitness",
    "OrderOutcome",
    "OrderingRules",
    "Statistics",
    "closure_bound",
    "closure_witness",
    "solve_order",
]
