"""AITemplate's memory planning, transcribed from the description of its rules.

Ops run in a given order; live ranges are closed. Tensors are rounded up to 64 bytes.
"""

from __future__ import annotations

from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph

ALIGNMENT = 64
LARGEST = 2**63 - 1


def size_of(graph: Graph, b: int) -> int:
    return (graph.buffers[b].size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def usage_records(graph: Graph, order: list[int]) -> list[list[int]]:
    """`[tensor, first op, last op, size]` of all that no parameter and no view is."""
    last = len(order) - 1
    records: dict[int, list[int]] = {}
    for at, v in enumerate(order):
        op = graph.ops[v]
        for b in (*op.reads, *op.writes):
            buffer = graph.buffers[b]
            if buffer.input is not None or b == op.workspace:
                continue
            record = records.setdefault(b, [b, at, at, size_of(graph, b)])
            record[2] = last if buffer.output is not None else max(record[2], at)
    for b in list(records):
        if graph.roots[b] != b:
            root = graph.roots[b]
            if graph.buffers[root].input is None:
                records[root][2] = max(records[root][2], records[b][2])
            del records[b]
    return [records[b] for b in sorted(records)]


def greedy_by_size(records: list[list[int]]) -> tuple[int, dict[int, int]]:
    """Offsets, and `max_blob`."""
    offsets: dict[int, int] = {}
    assigned: list[list[int]] = []
    most = 0
    for record in sorted(records, key=lambda r: r[3], reverse=True):
        tensor, first, last, size = record
        before, best, smallest = 0, None, LARGEST
        for other, other_first, other_last, other_size in assigned:
            if max(first, other_first) <= min(last, other_last):
                gap = offsets[other] - before
                if size <= gap < smallest:
                    smallest, best = gap, before
                before = max(before, offsets[other] + other_size)
        offsets[tensor] = before if best is None else best
        most = max(most, offsets[tensor] + size)
        at = sum(offsets[r[0]] <= offsets[tensor] for r in assigned)
        assigned.insert(at, record)
    return most, offsets


def plan(graph: Graph, order: list[int]) -> tuple[int, int, tuple[int, int]]:
    """`(max_blob, constants, (shared workspace, unique workspace))`."""
    blob, _ = greedy_by_size(usage_records(graph, order))
    constants = unique = shared = 0
    for b, buffer in enumerate(graph.buffers):
        if buffer.input is InputPolicy.CONSTANT:
            constants += size_of(graph, b)
        if buffer.input is InputPolicy.SCRATCH:
            unique += size_of(graph, b)
    for op in graph.ops:
        if op.workspace is not None:
            shared = max(shared, size_of(graph, op.workspace))
    return blob, constants, (shared, unique)
