"""XLA's plain post-order."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.walks import run_post_order
from heuristics.orderings.common import sort_rows, work_of
from heuristics.orderings.instructions import Instructions, as_instructions
from optsched.arrays import IntArray, Rows
from optsched.graph import Graph


def xla_post_order(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order of XLA's `PostOrderMemoryScheduler`.

    Instructions without users are visited as listed, each after its control predecessors (last
    one first) and its operands (in operand order). O(n + edges).

    References
    ----------
    xla/service/hlo_computation.cc, `MakeInstructionPostOrder`.
    """
    code = as_instructions(graph)
    return code.without_parameters(post_order(code, work_of(graph.arrays)))


def post_order(code: Instructions, work: int) -> IntArray:
    """Return the post-order of all instructions."""
    roots = code.listing[np.diff(code.users.ptr)[code.listing] == 0]
    children = children_of(code)
    place = np.arange(len(children.idx))
    control = np.isin(place, _control_places(code), assume_unique=True)
    turn = np.where(control, -1 - place, place)
    children = sort_rows(children, turn)
    return run_post_order.for_work(work)(roots, children.ptr, children.idx)


def children_of(code: Instructions) -> Rows:
    """Operands, then control predecessors."""
    ptr = code.operands.ptr + code.before.ptr
    idx = np.empty(ptr[-1], np.int64)
    control = _control_places(code)
    idx[control] = code.before.idx
    idx[np.setdiff1d(np.arange(len(idx)), control, assume_unique=True)] = code.operands.idx
    return Rows(ptr, idx)


def _control_places(code: Instructions) -> IntArray:
    """Where the control predecessors stand in :func:`children_of`."""
    owner = np.repeat(np.arange(len(code.defined)), np.diff(code.before.ptr))
    return np.arange(len(owner), dtype=np.int64) + code.operands.ptr[1:][owner]
