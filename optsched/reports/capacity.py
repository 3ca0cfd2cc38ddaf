"""Why it does not fit: bytes required, available and too few, and the buffers that need them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.model.packing_problem import PackingProblem, packing_problem, select
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.reports.view import packing_load
from optsched.runtime.text import readable
from optsched.solver.result import PackingResult, Result, Status
from optsched.solver.spill.pack import Shortage

SHOWN = 5
"""Culprits named in text; records have all."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A capacity that is proved to be too small.

    Parameters
    ----------
    required
        Bytes that every slab has at least.
    available
        The capacity.
    culprits
        Names and bytes of the buffers that are live where it is tightest, largest first.
    where
        What that place is, in words.
    """

    required: int
    available: int
    culprits: tuple[tuple[str, int], ...]
    where: str

    @property
    def excess(self) -> int:
        """Bytes that are lacking."""
        return self.required - self.available

    def record(self) -> dict[str, Any]:
        """Return the keys that a refused capacity adds to a record."""
        return {
            "required": self.required,
            "available": self.available,
            "excess": self.excess,
            "culprits": [{"buffer": name, "size": size} for name, size in self.culprits],
            "culprits_live": self.where,
        }

    def text(self) -> str:
        """Return two lines: the bytes, and the largest culprits."""
        named = ", ".join(f"{readable(name)} {size:,}" for name, size in self.culprits[:SHOWN])
        more = len(self.culprits) - SHOWN
        return (
            f"does not fit in {self.available:,} bytes: at least {self.required:,} required, "
            f"{self.excess:,} too few, proved\n"
            f"  live {self.where}: {named}{f' and {more} more' if more > 0 else ''}"
        )


def refusal(graph: Graph, result: Result) -> Refusal | None:
    """Return why a graph does not fit; None unless it is proved that it does not.

    The culprits are live at an op that alone needs too much, if there is one; else where the best
    plan is fullest.
    """
    if result.capacity is None or result.status is not Status.INFEASIBLE:
        return None
    culprits, where = _graph_culprits(graph, result, result.capacity)
    return Refusal(result.slab_bound, result.capacity, culprits, where)


def packing_refusal(problem: PackingProblem, result: PackingResult) -> Refusal | None:
    """Return why a packing does not fit; None unless it is proved that it does not.

    The culprits are live at the fullest step; or it is a buffer pinned too high.
    """
    if result.capacity is None or result.status is not Status.INFEASIBLE:
        return None
    most = max(result.capacity, problem.max_load)
    culprits, where = _packing_culprits(problem, most)
    return Refusal(result.slab_bound, result.capacity, culprits, where)


def all_orders_refusal(graph: Graph, result: Result, shortage: Shortage) -> Refusal:
    """Return why no order has room; the culprits are a single buffer, or live where it is full."""
    if len(shortage.ids) == 1:
        culprits, where = _named(graph, shortage.ids.tolist()), "and larger than that"
    else:
        culprits, where = _graph_culprits(graph, result, shortage.available)
    return Refusal(shortage.required, shortage.available, culprits, where)


def pool_refusal(problem: PackingProblem, shortage: Shortage) -> Refusal:
    """Return a pool's shortage, or that of all of them, with the culprits of its buffers."""
    part = select(problem, shortage.ids)
    culprits, where = _packing_culprits(part, max(shortage.available, part.max_load))
    return Refusal(shortage.required, shortage.available, culprits, where)


def _packing_culprits(
    problem: PackingProblem, most: int
) -> tuple[tuple[tuple[str, int], ...], str]:
    """Return a buffer pinned so that it ends above `most`, or what is live at the fullest step."""
    for i in np.flatnonzero((problem.pin >= 0) & (problem.end > problem.start)).tolist():
        if problem.pin[i] + problem.size[i] > most:
            where = f"and pinned to offset {problem.pin[i]:,}"
            return _largest([(problem.names[i], int(problem.size[i]))]), where
    step, culprits = _fullest(problem)
    return culprits, f"at step {step}"


def _graph_culprits(
    graph: Graph, result: Result, capacity: int
) -> tuple[tuple[tuple[str, int], ...], str]:
    if result.plan is not None and not graph.in_place:
        simple = peak_lower_bound(graph, [result.plan.order])
        if simple.value > capacity:
            return _named(graph, simple.buffers), _place(graph, simple.op)
    if not graph.in_place:
        from optsched.explanation import explain_op

        found = explain_op(graph)
        if found.bound > capacity or result.plan is None:
            return _named(graph, (live.buffer for live in found.buffers)), _place(graph, found.op)
    if result.plan is None:
        return (), "nowhere known"
    problem, _ = packing_problem(graph, result.plan.order)
    step, culprits = _fullest(problem)
    if not graph.ops:
        return culprits, "throughout"
    if graph.in_place:
        step = int(np.argmax(timeline(graph, result.plan.order).running))
        culprits = _live_at(problem, step)
    op = graph.ops[result.plan.order[step]].name
    return culprits, f"at op {op!r}, where the best plan is fullest"


def _place(graph: Graph, op: int | None) -> str:
    if op is None:
        return "at the start or the end of every order"
    return f"whenever op {graph.ops[op].name!r} runs"


def _named(graph: Graph, buffers: Iterable[int]) -> tuple[tuple[str, int], ...]:
    return _largest([(graph.buffers[b].name, graph.buffers[b].size) for b in buffers])


def _largest(rows: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(rows, key=lambda row: (-row[1], row[0])))


def _fullest(problem: PackingProblem) -> tuple[int, tuple[tuple[str, int], ...]]:
    """First fullest step, and what is live then."""
    load = packing_load(problem)
    step = int(load.start[np.argmax(load.live)])
    return step, _live_at(problem, step)


def _live_at(problem: PackingProblem, step: int) -> tuple[tuple[str, int], ...]:
    parts = problem.parts
    here = (parts.start <= step) & (step < parts.end) & (parts.high > parts.low)
    owners, sizes = parts.owner[here].tolist(), (parts.high - parts.low)[here].tolist()
    return _largest([(problem.names[i], size) for i, size in zip(owners, sizes, strict=True)])
