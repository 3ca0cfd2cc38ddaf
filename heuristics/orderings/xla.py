"""XLA's memory schedulers of instructions, on a graph translated into XLA's view.

Source: xla/service/hlo_memory_scheduler.cc.

Example: an op that reads a graph input becomes an instruction with a parameter as operand;
parameters are scheduled as well, and left out of the order that is returned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heuristics.kernels.walks import run_post_order
from heuristics.kernels.xla_list import run_history, run_list_scheduler
from heuristics.orderings.common import balance, sort_rows, work_of
from optsched.model.arrays import IntArray, Rows, distinct, flat_rows, pack_rows, transpose
from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory


@dataclass(frozen=True, slots=True)
class Instructions:
    """A graph as XLA's instructions: `0 .. n - 1` are the ops, then come graph inputs (parameters).

    In an HLO module (:mod:`heuristics.xla_module`) parameters are ops as well.
    """

    ops: int
    """Number of ops, `n`."""
    listing: IntArray
    """Program order: parameters, then ops."""
    operands: Rows
    """Operands in operand order, including repeats."""
    users: Rows
    """Instructions that have this one as an operand, ascending."""
    before: Rows
    after: Rows
    """`before` and `after`: control predecessors in the given order, and control successors,
    ascending. Other ops that must run before an op (overwriters, its parents at birth) count as
    control predecessors."""
    defined: IntArray
    """Bytes that each instruction defines; 0 for instructions that the heuristics ignore."""
    ignored: npt.NDArray[np.bool_]
    """Shape `(instructions,)`: True for parameters and constants."""
    uses: Rows
    """Buffers that each instruction uses."""
    counted: IntArray
    live_out: npt.NDArray[np.bool_]
    """`counted` and `live_out`: shape `(buffers,)`: bytes that count when freed; True for buffers
    that outlive all ops."""
    limit: int
    """Number of instructions of the full module."""
    root: int | None = None
    """The instruction whose result is that of the computation, or None."""

    def without_parameters(self, order: IntArray) -> IntArray:
        """Return the ops of an order of instructions."""
        return order[order < self.ops]


def as_instructions(graph: Graph) -> Instructions:
    """Translate a graph into instructions, in O((n + edges) log n)."""
    n, arrays = len(graph.ops), graph.arrays
    # Graph inputs become parameters, with numbers after those of the ops.
    parameters = np.flatnonzero(arrays.producer < 0)
    count = n + len(parameters)
    maker = arrays.producer.copy()
    maker[parameters] = np.arange(n, count)

    reader, buffer = flat_rows([op.reads for op in graph.ops])
    operand = maker[buffer]
    data = distinct(reader * count + operand)
    owner, given = flat_rows([dict.fromkeys(op.control) for op in graph.ops])
    v, u = arrays.pred.owners(), arrays.pred.idx
    known = distinct(np.append(data, owner * count + given))
    # Predecessors that no operand or control edge names: overwriters and parents.
    named = np.isin(v * count + u, known, assume_unique=True)
    before = pack_rows(
        np.concatenate([owner, v[~named]]), np.concatenate([given, u[~named]]), count
    )
    return Instructions(
        ops=n,
        listing=np.concatenate([np.arange(n, count), np.arange(n)]).astype(np.int64),
        operands=pack_rows(reader, operand, count),
        users=pack_rows(data % count, data // count, count),
        before=before,
        after=transpose(before, count),
        defined=np.append(arrays.alloc, np.zeros(count - n, np.int64)),
        ignored=np.arange(count) >= n,
        uses=_root_uses(graph, count),
        counted=np.where(arrays.producer < 0, 0, arrays.size),
        live_out=arrays.keep,
        limit=count,
    )


def xla_default(graph: Graph, seed: int = 0) -> IntArray:
    """Return the order of minimum peak among list, DFS and post-order; ties go to the first.

    References
    ----------
    xla/service/hlo_memory_scheduler.cc, `DefaultMemoryScheduler`.
    """
    code = as_instructions(graph)
    orders = [order(graph, seed, code=code) for order in (xla_list, xla_dfs, xla_post_order)]
    return min(orders, key=lambda order: peak_memory(graph, order))


def xla_list(graph: Graph, seed: int = 0, *, code: Instructions | None = None) -> IntArray:
    """Return the order of XLA's `ListMemoryScheduler`; `code` is the graph as instructions.

    The ready instruction with the most bytes freed minus bytes defined runs next; ties go to the
    one with more users, then to the one queued last. O((n + edges) log n).

    Notes
    -----
    Parameters (graph inputs) are instructions without bytes: they come first in the listing, are
    scheduled, and are dropped at the end. Bytes of an output that no op reads are never freed. The
    reference does not specify the order of users and control successors (it is the order in which
    the module was built); here it is ascending, as in a parsed module.

    References
    ----------
    xla/service/hlo_memory_scheduler.cc.
    """
    arrays, code = graph.arrays, code or as_instructions(graph)
    count = len(code.defined)
    uses = code.uses
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
        code.counted,
        np.diff(holders.ptr) + code.live_out,
        code.defined,
        balance(count),
    )
    return code.without_parameters(order)


def _root_uses(graph: Graph, count: int) -> Rows:
    """Return the buffers that each instruction uses, without views, which define no buffer."""
    read = graph.arrays.read
    owners = np.repeat(np.arange(len(graph.ops)), np.diff(read.ptr))
    roots = np.array(graph.roots, np.int64)
    real = roots[read.idx] == read.idx
    return pack_rows(owners[real], read.idx[real], count)


def xla_dfs(graph: Graph, seed: int = 0, *, code: Instructions | None = None) -> IntArray:
    """Return the order of XLA's `DFSMemoryScheduler`.

    The order is a post-order. The operands and control predecessors of an instruction are visited
    by decreasing extra users, then decreasing bytes, both summed over their history, then by name.
    O((n + edges) log n). `code` is as in :func:`xla_list`.

    Notes
    -----
    XLA visits instructions without users or successors in listing order, and the root of the
    computation last. A graph does not have a root: all ops without users and control successors are
    visited in listing order. The cap of the extra users is the number of instructions of the
    module; for a graph, it is the number of its own.

    References
    ----------
    xla/service/hlo_memory_scheduler.cc.
    """
    arrays, code = graph.arrays, code or as_instructions(graph)
    count, work = len(code.defined), work_of(arrays)
    extra, total = run_history.for_work(work)(
        post_order(code, work),
        code.limit,
        code.operands.ptr,
        code.operands.idx,
        code.users.ptr,
        code.defined,
        (~code.ignored).astype(np.int64),
    )
    # XLA breaks ties by name, so names are part of the order.
    names = [op.name for op in graph.ops]
    names += [b.name for b, p in zip(graph.buffers, graph.producers, strict=True) if p is None]
    by_name = np.empty(count, np.int64)
    by_name[sorted(range(count), key=names.__getitem__)] = np.arange(count)
    parent = np.append(code.operands.owners(), code.before.owners())
    children = pack_rows(parent, np.append(code.operands.idx, code.before.idx), count)
    child = children.idx
    children = sort_rows(children, -extra[child], -total[child], by_name[child])
    leads_nowhere = (np.diff(code.users.ptr) == 0) & (np.diff(code.after.ptr) == 0)
    roots = code.listing[leads_nowhere[code.listing]]
    # XLA visits the root of a computation last.
    if code.root is not None:
        roots = np.append(roots[roots != code.root], code.root)
    order = run_post_order.for_work(work)(roots, children.ptr, children.idx)
    return code.without_parameters(order)


def xla_post_order(graph: Graph, seed: int = 0, *, code: Instructions | None = None) -> IntArray:
    """Return the order of XLA's `PostOrderMemoryScheduler`.

    Instructions without users are visited in listing order, each one after its control predecessors
    (last one first) and its operands (in operand order). O(n + edges). `code` is as in
    :func:`xla_list`.

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
        np.concatenate([control.owners()[::-1], operands.owners()]),
        np.concatenate([control.idx[::-1], operands.idx]),
        len(code.defined),
    )
    return run_post_order.for_work(work)(roots, children.ptr, children.idx)
