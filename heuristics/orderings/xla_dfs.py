"""XLA's depth-first scheduler."""

from __future__ import annotations

import numpy as np

from heuristics.kernels.walks import run_post_order
from heuristics.kernels.xla_list import run_history
from heuristics.orderings.common import entry_owners, pack_rows, sort_rows, work_of
from heuristics.orderings.instructions import Instructions, as_instructions
from heuristics.orderings.xla_post_order import post_order
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph


def xla_dfs(graph: Graph, seed: int = 0, *, code: Instructions | None = None) -> IntArray:
    """Return the order of XLA's `DFSMemoryScheduler`.

    Post-order; the operands and control predecessors of an instruction are visited by
    decreasing extra users, then decreasing bytes, both summed over all that leads to them, then
    by name. O((n + edges) log n).

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
    XLA visits instructions that lead nowhere as listed and the root of the computation last. A
    graph has no root: all ops without users and control successors are visited as listed. The cap
    of the extra users is the number of instructions of the module: here that of the graph.

    References
    ----------
    xla/service/hlo_memory_scheduler.cc.
    """
    arrays, code = graph.arrays, code or as_instructions(graph)
    count, work = len(code.defined), work_of(arrays)
    counts = np.zeros(count, np.int64)
    counts[: code.ops] = 1
    extra, total = run_history.for_work(work)(
        post_order(code, work),
        count,
        code.operands.ptr,
        code.operands.idx,
        code.users.ptr,
        code.defined,
        counts,
    )
    names = [op.name for op in graph.ops]
    names += [b.name for b, p in zip(graph.buffers, graph.producers, strict=True) if p is None]
    by_name = np.empty(count, np.int64)
    by_name[sorted(range(count), key=names.__getitem__)] = np.arange(count)
    parent = np.append(entry_owners(code.operands), entry_owners(code.before))
    children = pack_rows(parent, np.append(code.operands.idx, code.before.idx), count)
    child = children.idx
    children = sort_rows(children, -extra[child], -total[child], by_name[child])
    leads_nowhere = (np.diff(code.users.ptr) == 0) & (np.diff(code.after.ptr) == 0)
    roots = code.listing[leads_nowhere[code.listing]]
    order = run_post_order.for_work(work)(roots, children.ptr, children.idx)
    return code.without_parameters(order)
