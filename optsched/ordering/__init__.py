"""Exact ordering: the minimum peak memory over all orders of a graph, with proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optsched.ordering.bound.closure import ClosureBound, closure_bound
    from optsched.ordering.bound.witness import ClosureWitness, closure_witness
    from optsched.ordering.rules import ALL_RULES, OrderingRules, Statistics
    from optsched.ordering.solve import OrderOutcome, solve_order

# Loaded on first use: who asks for a simple bound only imports no search.
_HOME = {
    "ALL_RULES": "rules",
    "ClosureBound": "bound.closure",
    "ClosureWitness": "bound.witness",
    "OrderOutcome": "solve",
    "OrderingRules": "rules",
    "Statistics": "rules",
    "closure_bound": "bound.closure",
    "closure_witness": "bound.witness",
    "solve_order": "solve",
}
"""Public names by the module that has them."""

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
