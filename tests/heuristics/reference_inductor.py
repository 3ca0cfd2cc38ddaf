"""Inductor's three sorters and backward LPMF, by the book: every ready op is looked at."""

from __future__ import annotations

from optsched.model.graph import Graph
from tests.heuristics.reference_model import Model, model_of


def frees(model: Model, v: int, done: set[int]) -> int:
    """Bytes released when `v` ends and the ops in `done` have ended."""
    released = model.dies_unread[v]
    for b in model.used[v]:
        if not model.graph.kept[b] and model.users[b] - done == {v}:
            released += model.size[b]
    return released


def lpmf(graph: Graph, threshold: int = 0) -> list[int]:
    model = model_of(graph)
    n = len(graph.ops)
    live = model.live_at_start
    most = max(live, model.kept_bytes)
    ready = [v for v in range(n) if not graph.predecessors[v]]
    done: set[int] = set()
    order: list[int] = []
    while ready:

        def key(v: int, gap: int = most - live) -> tuple[int, int, int]:
            need = model.allocates[v]
            return (need if need > gap else 0, need - frees(model, v, done), v)

        if threshold > 0 and all(model.allocates[v] > threshold for v in ready):
            v = min(ready, key=lambda v: min(model.successors[v], default=n))
        else:
            v = min(ready, key=key)
        ready.remove(v)
        order.append(v)
        live += model.allocates[v]
        most = max(most, live)
        live -= frees(model, v, done)
        done.add(v)
        for w in successors_as_met(model, v):
            if set(graph.predecessors[w]) <= done:
                ready.append(w)
    return order


def eager_free(graph: Graph) -> list[int]:
    model = model_of(graph)
    left, order = list(range(len(graph.ops))), list[int]()
    while left:
        ready = [v for v in left if set(graph.predecessors[v]) <= set(order)]
        eager = [v for v in ready if frees(model, v, set(order)) > model.allocates[v]]
        order.append((eager or ready)[0])
        left.remove(order[-1])
    return order


def successors_as_met(model: Model, v: int) -> list[int]:
    """Buffer by buffer: who reads it, who uses it; then who is ordered after for other reasons."""
    ops = model.graph.ops
    met: list[int] = []
    for b in ops[v].writes:
        met += [w for w, op in enumerate(ops) if b in op.reads]
        met += [w for w, op in enumerate(ops) if b in op.uses]
    met += sorted(model.successors[v])
    return [w for w in dict.fromkeys(met) if w in model.successors[v]]


def lpmf_backward(graph: Graph) -> list[int]:
    model = model_of(graph)
    n = len(graph.ops)
    live = model.kept_bytes
    most = max(live, model.live_at_start)
    left = set(range(n))
    backwards: list[int] = []
    while left:

        def gains(v: int) -> int:
            """Bytes that are live while `v` runs and not after it."""
            return frees(model, v, left - {v})

        def key(v: int, live: int = live, most: int = most) -> tuple[bool, int, int, int]:
            during = live + gains(v)
            before = during - model.allocates[v]
            if during <= most:
                return (False, 0, before, -v)
            return (True, during, before, -v)

        v = min((v for v in left if not model.successors[v] & left), key=key)
        live += gains(v)
        most = max(most, live)
        live -= model.allocates[v]
        left.remove(v)
        backwards.append(v)
    return backwards[::-1]


def bfs(graph: Graph) -> list[int]:
    order: list[int] = []
    left = list(range(len(graph.ops)))
    while left:
        step = {v: i for i, v in enumerate(order)}
        ready = [v for v in left if all(u in step for u in graph.predecessors[v])]
        v = min(ready, key=lambda v: (sorted(step[u] for u in graph.predecessors[v]), v))
        left.remove(v)
        order.append(v)
    return order


def dfs(graph: Graph) -> list[int]:
    model = model_of(graph)
    order: list[int] = []
    seen: set[int] = set()

    def priority(v: int) -> tuple[int, int]:
        return (model.allocates[v] + sum(model.size[b] for b in model.used[v]), v)

    def visit(v: int) -> None:
        if v in seen:
            return
        seen.add(v)
        op = graph.ops[v]
        named = {graph.producers[b] for b in op.reads} - {None} | set(op.control)
        for u in sorted((u for u in named if u is not None), key=priority):
            visit(u)
        for u in sorted(graph.predecessors[v], key=priority):
            visit(u)
        order.append(v)

    for v in sorted(range(len(graph.ops)), key=priority):
        visit(v)
    return order


def program(graph: Graph) -> list[int]:
    order: list[int] = []
    while len(order) < len(graph.ops):
        order.append(
            next(
                v
                for v in range(len(graph.ops))
                if v not in order and all(u in order for u in graph.predecessors[v])
            )
        )
    return order
