"""Precedence branching, for hard random graphs: what the rest of the project may use of it.

The search for an order asks a :class:`PrecedenceTree` whether a budget can be kept; the writer of
certificates grows a tree of its own on :class:`Propagation`, one branch after the other.
"""

from __future__ import annotations

from optsched.ordering.tree.kernels.downsets import Branch
from optsched.ordering.tree.propagation import Propagation, count_pairs, known_pairs
from optsched.ordering.tree.search import PrecedenceTree

__all__ = [
    "Branch",
    "PrecedenceTree",
    "Propagation",
    "count_pairs",
    "known_pairs",
]
