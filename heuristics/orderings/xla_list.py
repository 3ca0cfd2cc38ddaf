"""XLA's list scheduler."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.xla_list import run_list_scheduler
from heuristics.orderings.common import balance, pack_rows, work_of
from heuristics.orderings.instructions import Instructions, as_instructions
from optsched.model.arrays import IntArray, Rows, transpose
from optsched.model.graph import Graph


def xla_list(graph: Graph, seed: int = 0, *, code: Instructions | None = None) -> IntArray:
    """Return the order of XLA's `ListMemoryScheduler`.

    The ready instruction that frees most bytes, less those it defines, runs next; ties go to the
    one with more users, then to the one queued last. O((n + edges) log n).

    Parameters
    ----------
    graph
        The graph.
    seed
        Not used.
    code
        The graph as instructions, if the caller has them.

    Notes
    -----
    Parameters (graph inputs) are instructions of no bytes: they are scheduled, first in the
    listing, and dropped at the end. Bytes of an output that nobody reads are never freed. The
    reference leaves open the order of users and control successors (it is the order in which the
    module was built): here ascending, as in a parsed module.

    References
    ----------
    xla/service/hlo_memory_scheduler.cc.
    """
    arrays, code = graph.arrays, code or as_instructions(graph)
    count = len(code.defined)
    uses = _root_uses(graph, count)
    counted = np.where(arrays.producer < 0, 0, arrays.size)
    holders = transpose(uses, arrays.buffer_count)
    order = run_list_scheduler.for_work(work_of(arrays) + count - code.ops)(
        code.listing,
        code.operands.ptr,
        code.operands.idx,
        code.users.ptr,
        code.users.idx,
        code.before.ptr,
        code.after.ptr,
        code.after.idx,
        uses.ptr,
        uses.idx,
        holders.ptr,
        holders.idx,
        counted,
        np.diff(holders.ptr) + arrays.keep,
        code.defined,
        balance(count),
    )
    return code.without_parameters(order)


def _root_uses(graph: Graph, count: int) -> Rows:
    """Buffers that each instruction uses; a view defines no buffer."""
    read = graph.arrays.read
    owners = np.repeat(np.arange(len(graph.ops)), np.diff(read.ptr))
    roots = np.array(graph.roots, np.int64)
    real = roots[read.idx] == read.idx
    return pack_rows(owners[real], read.idx[real], count)
