"""A graph as XLA sees it: instructions, parameters among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heuristics.orderings.common import pack_rows
from optsched.arrays import IntArray, Rows
from optsched.graph import Graph


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
    """Translate a graph."""
    n = len(graph.ops)
    parameters = [b for b, producer in enumerate(graph.producers) if producer is None]
    maker = [-1 if producer is None else producer for producer in graph.producers]
    for v, b in enumerate(parameters, start=n):
        maker[b] = v
    count = n + len(parameters)
    operands = [[maker[b] for b in op.reads] for op in graph.ops]
    before: list[list[int]] = []
    for op, row, preds in zip(graph.ops, operands, graph.predecessors, strict=True):
        data = set(row)
        before.append(list(dict.fromkeys([*op.control, *(u for u in preds if u not in data)])))
    operand_rows, before_rows = _rows(operands, count), _rows(before, count)
    return Instructions(
        ops=n,
        listing=np.concatenate([np.arange(n, count), np.arange(n)]).astype(np.int64),
        operands=operand_rows,
        users=_reverse([list(dict.fromkeys(row)) for row in operands], count),
        before=before_rows,
        after=_reverse(before, count),
        defined=np.append(graph.arrays.alloc, np.zeros(count - n, np.int64)),
    )


def _rows(rows: list[list[int]], count: int) -> Rows:
    ptr = np.zeros(count + 1, np.int64)
    ptr[1 : len(rows) + 1] = np.cumsum([len(row) for row in rows])
    ptr[len(rows) + 1 :] = ptr[len(rows)]
    return Rows(ptr, np.array([u for row in rows for u in row], np.int64))


def _reverse(rows: list[list[int]], count: int) -> Rows:
    owners = np.array([u for row in rows for u in row], np.int64)
    entries = np.array([v for v, row in enumerate(rows) for _ in row], np.int64)
    return pack_rows(owners, entries, count)
