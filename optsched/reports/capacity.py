"""Reasons why a capacity is too small: bytes required, available and missing, and the buffers.

A refusal is a dictionary of the keys that it adds to a JSON record; it is empty if nothing is
refused. Its culprits are the buffers that need the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from optsched.model.elements import MAX_ADDRESS
from optsched.model.graph import Graph
from optsched.model.limits import upper_limits
from optsched.model.liveness import timeline
from optsched.model.packing_problem import PackingProblem, Parts, packing_problem
from optsched.model.pools import apart_bytes, apart_in_every_order, highest_pinned, pinned_bytes
from optsched.model.selection import select
from optsched.ordering.bound.single_ops import peak_lower_bound
from optsched.reports.view import load_of
from optsched.runtime.limits import Limits
from optsched.runtime.text import listed, readable
from optsched.solver.packing_result import PackingResult
from optsched.solver.result import Result
from optsched.solver.status import Status

if TYPE_CHECKING:
    from optsched.solver.packing_result import Shortage

SHOWN = 5
"""Maximum number of culprits named in text; records list all of them."""

SET_WORK = 20_000
"""Work limit of the search for a set of ops that forces too many bytes."""

APART = "at one step or another, and pairwise kept apart"

Refusal = dict[str, Any]
Sizes = list[tuple[str, int]]
"""Names and bytes of buffers."""
Culprits = tuple[Sizes, str]
"""Buffers that need the bytes, and a phrase that says when they are live."""


def refusal(graph: Graph, result: Result) -> Refusal:
    """Return the reason why a graph does not fit; empty unless this is proved.

    The culprits are the first of these that explains it: buffers pinned too high; buffers that
    pairwise cannot overlap in memory; buffers live at one op that needs too much; buffers live when
    the last (or first) op of a set runs that needs too much; buffers live at the fullest step of
    the best plan.
    """
    if result.capacity is None or result.status is not Status.INFEASIBLE:
        return {}
    culprits = _order_culprits(graph, result, result.capacity)
    return _refusal(result.slab_bound, result.capacity, culprits)


def packing_refusal(problem: PackingProblem, result: PackingResult) -> Refusal:
    """Return the reason why a packing does not fit; empty unless this is proved.

    The culprits are one buffer that is too large or pinned too high, the buffers live at the
    fullest step, or a set of buffers that pairwise cannot overlap.
    """
    if result.capacity is None or result.status is not Status.INFEASIBLE:
        return {}
    return _refusal(result.slab_bound, result.capacity, _packing_culprits(problem, result.capacity))


def all_orders_refusal(graph: Graph, result: Result, shortage: Shortage) -> Refusal:
    """Return why no order fits; the culprits are one large buffer, or those of the graph."""
    if len(shortage.ids) == 1:
        culprits = _named(graph, shortage.ids.tolist()), "and larger than that"
    else:
        culprits = _order_culprits(graph, result, shortage.available)
    return _refusal(shortage.required, shortage.available, culprits)


def pool_refusal(problem: PackingProblem, shortage: Shortage | None) -> Refusal:
    """Return the shortage of a pool, or of all of them, with the culprits among its buffers."""
    if shortage is None:
        return {}
    culprits = _packing_culprits(select(problem, shortage.ids), shortage.available)
    return _refusal(shortage.required, shortage.available, culprits)


def refusal_text(refused: Mapping[str, Any]) -> str:
    """Return the lines of text for a refusal: the bytes, and the largest culprits, if known."""
    named = [f"{readable(row['buffer'])} {row['size']:,}" for row in refused["culprits"]]
    text = f"does not fit in {refused['available']:,} bytes"
    if refused["required"] > MAX_ADDRESS:
        text += " or in any other number, proved"
    else:
        text += (
            f": at least {refused['required']:,} required, {refused['excess']:,} too few, proved"
        )
    if not named:
        return text
    where = refused["culprits_live"]
    # One buffer that is too large, or ends too high, is so whenever it is live.
    when = where.removeprefix("and ") if where.startswith("and ") else f"live {where}"
    return f"{text}\n  {when}: {listed(named, SHOWN)}"


def _refusal(required: int, available: int, culprits: Culprits) -> Refusal:
    sizes, where = culprits
    # By size, and by name among equals, so that two runs give the same text.
    largest = sorted(sizes, key=lambda row: (-row[1], row[0]))
    return {
        "required": required,
        "available": available,
        "excess": required - available,
        "culprits": [{"buffer": name, "size": size} for name, size in largest],
        "culprits_live": where,
    }


def _packing_culprits(problem: PackingProblem, available: int) -> Culprits:
    """Return a buffer that is too large or ends too high, upper limits, or the heaviest set."""
    # A buffer that ends above this bound does not fit alone.
    most = max(available, problem.max_load)
    for i in np.flatnonzero(problem.end > problem.start).tolist():
        if max(0, problem.pin[i]) + problem.size[i] > most:
            pinned = f"and pinned to offset {problem.pin[i]:,}"
            where = pinned if problem.pin[i] > 0 else "and larger than that"
            return [(problem.names[i], int(problem.size[i]))], where
    found = fullest_set(problem)
    if problem.has_limits and sum(size for _, size in found[0]) <= available:
        low = np.flatnonzero(problem.below < MAX_ADDRESS).tolist()
        rows = ((problem.names[i], int(problem.size[i]), int(problem.below[i])) for i in low)
        return _limit_culprits(rows)
    return found


def _limit_culprits(rows: Iterable[tuple[str, int, int]]) -> Culprits:
    """Return the buffers with upper limits, given by name, size and limit, the lowest first."""
    low = sorted(rows, key=lambda row: (row[2], row[0]))
    limits = listed([f"{readable(name)} below {limit:,}" for name, _, limit in low], SHOWN)
    return [(name, size) for name, size, _ in low], f"and with upper limits ({limits})"


def fullest_set(problem: PackingProblem) -> Culprits:
    """Return the heaviest known set of pairwise non-overlapping buffers, and when they are live."""
    parts = problem.joined.problem.solid
    step = _fullest(parts)
    is_step = step < problem.end.max(initial=1)
    where = f"at step {step}" if is_step else APART
    return _live_at(problem.joined.problem, parts, step), where


def _order_culprits(graph: Graph, result: Result, capacity: int) -> Culprits:
    # Pins and pairs kept apart hold in every order, so they explain most.
    placed = _placed_culprits(graph, max(capacity, result.peak_bound))
    return placed or _graph_culprits(graph, result, capacity)


def _graph_culprits(graph: Graph, result: Result, capacity: int) -> Culprits:
    # The bound of one op explains a refusal in a sentence.
    if result.plan is not None and not graph.in_place:
        simple = peak_lower_bound(graph, [result.plan.order])
        if simple.value > capacity:
            return _named(graph, simple.buffers), _place(graph, simple.op)
    if not graph.in_place:
        from optsched.explanation import explain_op

        found = explain_op(graph)
        if found.bound > capacity or result.plan is None:
            return _named(graph, (live.buffer for live in found.buffers)), _place(graph, found.op)
        if by_set := _set_culprits(graph, capacity):
            return by_set
    limits = upper_limits(graph)
    low = np.flatnonzero(limits < MAX_ADDRESS).tolist()
    if low or result.plan is None:
        rows = ((graph.buffers[b].name, graph.buffers[b].size, int(limits[b])) for b in low)
        return _limit_culprits(rows) if low else ([], "")
    problem, _ = packing_problem(graph, result.plan.order)
    parts = problem.parts
    if not graph.ops:
        return _live_at(problem, parts, _fullest(parts)), "throughout"
    running = timeline(graph, result.plan.order).running
    # In place, the fullest step of the packing is not that of the live bytes.
    step = int(np.argmax(running)) if graph.in_place else _fullest(parts)
    op = graph.ops[result.plan.order[step]].name
    return _live_at(problem, parts, step), f"at op {op!r}, where the best plan is fullest"


def _placed_culprits(graph: Graph, most: int) -> Culprits | None:
    """Return buffers that are pinned too high or pairwise kept apart, in every order."""
    if pinned_bytes(graph) > most:
        pinned = highest_pinned(graph)
        offsets = listed([f"{graph.buffers[b].pin:,}" for b in pinned], SHOWN)
        return _named(graph, pinned), f"and pinned to offset {offsets}"
    if apart_bytes(graph) > most:
        return _named(graph, apart_in_every_order(graph)), APART
    return None


def _set_culprits(graph: Graph, capacity: int) -> Culprits | None:
    """Return the buffers live at an op of a set that forces too much; None if no set is known."""
    from optsched.explanation import explain

    # By work, not by time: the same text on every machine.
    found = explain(graph, changes=0, limits=Limits(seconds=None, work=SET_WORK))
    if found.by is None or found.bound <= capacity:
        return None
    moment = found.by.moment([readable(op.name) for op in graph.ops])
    place = f"whenever {moment} runs, these or as many other bytes"
    return _named(graph, (live.buffer for live in found.buffers)), place


def _place(graph: Graph, op: int | None) -> str:
    if op is None:
        return "at the start or the end of every order"
    return f"whenever op {graph.ops[op].name!r} runs"


def _named(graph: Graph, buffers: Iterable[int]) -> Sizes:
    return [(graph.buffers[b].name, graph.buffers[b].size) for b in buffers]


def _fullest(parts: Parts) -> int:
    load = load_of(parts)
    return int(load.start[np.argmax(load.live)])


def _live_at(problem: PackingProblem, parts: Parts, step: int) -> Sizes:
    here = (parts.start <= step) & (step < parts.end) & (parts.high > parts.low)
    owners, sizes = parts.owner[here].tolist(), (parts.high - parts.low)[here].tolist()
    return [(problem.names[i], size) for i, size in zip(owners, sizes, strict=True)]
