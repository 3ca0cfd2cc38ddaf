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
    return usage_records_of_levels(graph, [[v] for v in order])


def usage_records_of_levels(graph: Graph, levels: list[list[int]]) -> list[list[int]]:
    """Plan a graph whose ops of a level run side by side: steps are levels."""
    last = len(levels) - 1
    records: dict[int, list[int]] = {}
    for at, v in ((at, v) for at, level in enumerate(levels) for v in level):
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


def parallel_levels(graph: Graph, most: int) -> list[list[int]]:
    """Ops by the longest way that leads to them, each set cut into pieces of at most `most`."""
    by_order: dict[int, list[int]] = {}
    left, known = list(range(len(graph.ops))), dict[int, int]()
    while left:
        ready = [v for v in left if all(u in known for u in graph.predecessors[v])]
        found = {v: 1 + max((known[u] for u in graph.predecessors[v]), default=-1) for v in ready}
        known |= found
        left = [v for v in left if v not in known]
    for v in range(len(graph.ops)):
        by_order.setdefault(known[v], []).append(v)
    pieces = []
    for level in sorted(by_order):
        row = by_order[level]
        while row:
            pieces.append(row[:most])
            row = row[most:]
    return pieces


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
