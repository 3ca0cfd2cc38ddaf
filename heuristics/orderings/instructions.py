"""A graph as XLA sees it: instructions, parameters among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heuristics.orderings.common import entry_owners, flatten, is_among, pack_rows
from optsched.model.arrays import IntArray, Rows, transpose
from optsched.model.graph import Graph


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions `0 .. n - 1` are the ops, the following ones the graph inputs (parameters).

    Parameters
    ----------
    ops
        Number of ops, `n`.
    listing
        Program order: parameters, then ops.
    operands
        In operand order, repeats included.
    users
        Instructions that have this one as an operand, ascending.
    before, after
        Control predecessors in the order given, and successors, ascending. What else must run
        before an op (its overwriters, its parents at birth) counts as a control predecessor.
    defined
        Bytes each instruction defines; 0 for parameters, which the heuristics ignore.
    """

    ops: int
    listing: IntArray
    operands: Rows
    users: Rows
    before: Rows
    after: Rows
    defined: IntArray

    def without_parameters(self, order: IntArray) -> IntArray:
        """Return the ops of an order of instructions."""
        return order[order < self.ops]


def as_instructions(graph: Graph) -> Instructions:
    """Translate a graph; O((n + edges) log n)."""
    n, arrays = len(graph.ops), graph.arrays
    parameters = np.flatnonzero(arrays.producer < 0)
    count = n + len(parameters)
    maker = arrays.producer.copy()
    maker[parameters] = np.arange(n, count)

    reader, buffer = flatten([op.reads for op in graph.ops])
    operand = maker[buffer]
    data = np.unique(reader * count + operand)
    owner, given = flatten([dict.fromkeys(op.control) for op in graph.ops])
    v, u = entry_owners(arrays.pred), arrays.pred.idx
    known = np.sort(np.append(data, owner * count + given))
    named = is_among(v * count + u, known)
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
    )
