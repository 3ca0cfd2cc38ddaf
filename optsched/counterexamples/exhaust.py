"""Optima of tiny instances by trying everything; no bound, no rule, no solver."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem


def least_peak(graph: Graph) -> tuple[int, list[int]]:
    """Return the least peak over all orders and one order that has it.

    Dynamic programming over every set of ops that is closed under predecessors; the live bytes of
    a set are added up from the definition.
    """
    n = len(graph.ops)
    before = [sum(1 << u for u in us) for us in graph.predecessors]
    best: dict[int, tuple[int, list[int]]] = {0: (_live(graph, 0, None), [])}
    for size in range(n):
        layer = [done for done in best if done.bit_count() == size]
        for done in layer:
            peak, order = best[done]
            for v in range(n):
                if done >> v & 1 or before[v] & ~done:
                    continue
                now = done | 1 << v
                reached = max(peak, _live(graph, done, v))
                if now not in best or reached < best[now][0]:
                    best[now] = (reached, [*order, v])
    return best[(1 << n) - 1]


def _live(graph: Graph, done: int, running: int | None) -> int:
    """Bytes live while `running` runs after exactly the ops of `done`."""
    total = 0
    started = done | (0 if running is None else 1 << running)
    for b, buffer in enumerate(graph.buffers):
        if graph.roots[b] != b or buffer.external:
            continue
        maker = graph.producers[b] if buffer.birth is None else buffer.birth
        users = {
            v
            for v, op in enumerate(graph.ops)
            if any(graph.roots[x] == b for x in (*op.reads, *op.uses, *op.writes))
        }
        waiting = graph.is_kept(b) or any(not done >> v & 1 for v in users)
        if (maker is None or started >> maker & 1) and waiting:
            total += buffer.size
    return total


def least_slab(problem: PackingProblem) -> tuple[int, IntArray]:
    """Return the least slab and offsets that have it, for problems without alignment or pins.

    In some best packing every buffer rests on 0 or on the top of another; placing the buffers in
    ascending order of offset, each as low as it can lie, makes a packing at least as good. So the
    best over all permutations is the optimum.
    """
    k = len(problem)
    start, end, size = problem.start.tolist(), problem.end.tolist(), problem.size.tolist()
    best, found = sum(size) + 1, np.zeros(k, np.int64)
    for permutation in permutations(range(k)):
        offsets: dict[int, int] = {}
        slab = 0
        for i in permutation:
            blocks = sorted(
                (offsets[j], offsets[j] + size[j])
                for j in offsets
                if start[j] < end[i] and start[i] < end[j]
            )
            at = 0
            for low, high in blocks:
                if at + size[i] <= low:
                    break
                at = max(at, high)
            offsets[i] = at
            slab = max(slab, at + size[i])
            if slab >= best:
                break
        if slab < best:
            best, found = slab, np.array([offsets[i] for i in range(k)], np.int64)
    return best, found
