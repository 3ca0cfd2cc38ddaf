"""XLA's plain post-order."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.walks import run_post_order
from heuristics.orderings.common import entry_owners, pack_rows, work_of
from heuristics.orderings.instructions import Instructions, as_instructions
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph


def xla_post_order(graph: Graph, seed: int = 0, *, code: Instructions | None = None) -> IntArray:
    """Return the order of XLA's `PostOrderMemoryScheduler`.

    Instructions without users are visited as listed, each after its control predecessors (last
    one first) and its operands (in operand order). O(n + edges).

    Parameters
    ----------
    graph
        The graph.
    seed
        Not used.
    code
        The graph as instructions, if the caller has them.

    References
    ----------
    xla/service/hlo_computation.cc, `MakeInstructionPostOrder`.
    """
    code = code or as_instructions(graph)
    return code.without_parameters(post_order(code, work_of(graph.arrays)))


def post_order(code: Instructions, work: int) -> IntArray:
    """Return the post-order of all instructions."""
    roots = code.listing[np.diff(code.users.ptr)[code.listing] == 0]
    control, operands = code.before, code.operands
    children = pack_rows(
        np.concatenate([entry_owners(control)[::-1], entry_owners(operands)]),
        np.concatenate([control.idx[::-1], operands.idx]),
        len(code.defined),
    )
    return run_post_order.for_work(work)(roots, children.ptr, children.idx)
