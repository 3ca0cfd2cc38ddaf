"""Precedence branching: a tree of assumed precedences that decides a budget.

The search for an order uses a :class:`PrecedenceTree`; the writer of certificates grows a tree of
its own on :class:`Propagation`, one branch after another. Other rooms import only the names listed
here. It helps most on hard random graphs, where few ops can be contracted.
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
