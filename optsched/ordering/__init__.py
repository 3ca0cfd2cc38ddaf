"""Exact ordering: the least peak memory over all orders of a graph, with proof."""

from __future__ import annotations

from optsched.ordering.closure import ClosureBound, closure_bound
from optsched.ordering.witness import ClosureWitness, closure_witness

__all__ = ["ClosureBound", "ClosureWitness", "closure_bound", "closure_witness"]
