"""Exact ordering: find an order of minimum peak memory, and prove that it is one.

The order of the ops decides how many bytes are live at once. This room searches all orders of a
graph (:func:`solve_order`) and bounds their peak from below (:func:`closure_bound`). It runs one op
at a time and knows no addresses: placing buffers is the job of :mod:`optsched.packing`.

Where to read on: :mod:`~optsched.ordering.problem` (the arrays that all parts work on),
:mod:`~optsched.ordering.rounds` (the order in which the parts are used), then `bound` (lower
bounds), `reduce` (smaller problems with the same optimum), `search` and `kernels` (the search over
states), `tree` (branching on precedences) and `improve` (better orders, without proof).

Examples
--------
The order as given needs 15 bytes, as `o` is live throughout; if `other` runs last, 9 are enough.

>>> from optsched import GraphBuilder
>>> from optsched.ordering import solve_order
>>> builder = GraphBuilder("example")
>>> builder.op("other", writes={"o": 6})
>>> builder.op("big", writes={"b": 8})
>>> builder.op("shrink", reads=["b"], writes={"s": 1})
>>> builder.output("o", "s")
>>> outcome = solve_order(builder.build())
>>> outcome.peak, outcome.bound
(9, 9)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optsched.ordering.bound.closure import ClosureBound as ClosureBound
    from optsched.ordering.bound.closure import closure_bound as closure_bound
    from optsched.ordering.bound.witness import ClosureWitness as ClosureWitness
    from optsched.ordering.bound.witness import closure_witness as closure_witness
    from optsched.ordering.rules import ALL_RULES as ALL_RULES
    from optsched.ordering.rules import OrderingRules as OrderingRules
    from optsched.ordering.rules import Statistics as Statistics
    from optsched.ordering.solve import OrderOutcome as OrderOutcome
    from optsched.ordering.solve import solve_order as solve_order

# Loaded on first use, so that a caller of a simple bound does not import the search.
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
"""Module of each public name."""

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
