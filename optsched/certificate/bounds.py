"""Certificates of rung L2: an op, a set of ops, and the precedences that a budget implies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from optsched.arrays import IntArray
from optsched.certificate.flow import Network
from optsched.graph import Graph
from optsched.liveness import timeline
from optsched.ordering import closure_bound
from optsched.ordering.model import build_net
from optsched.ordering.problem import OutOfTimeError, Problem
from optsched.ordering.relations import TOO_MANY, Relations, related
from optsched.proof import End, EndStep, Flow, Forced, OpStep, OrderStep, SetStep, Step

THRESHOLDS = 24
"""Sets that are looked at: of the ops at which at least so many bytes are born."""

LARGEST = 200
"""Ops in a set at most."""


def closure_step(
    graph: Graph, orders: Sequence[IntArray], deadline: float | None
) -> tuple[int, Step]:
    """Return the closure bound and the step that shows it."""
    network = Network(graph)
    found = closure_bound(graph, orders, deadline=deadline)
    if found.op is None:
        at = End.START if network.initial >= network.kept else End.END
        return max(network.initial, network.kept), EndStep(at)
    return found.value, OpStep(found.op, _sure(network.forced(found.op, found.value - 1)))


def _sure(forced: Forced | None) -> Forced:
    """What the closure bound of the search says can be shown."""
    if forced is None:
        raise RuntimeError("a closure bound can not be shown")
    return forced


def refute(
    graph: Graph, order: IntArray, budget: int, deadline: float | None
) -> tuple[tuple[OrderStep, ...], Step | None]:
    """Look for a refutation of a budget by sets of ops and implied precedences.

    Parameters
    ----------
    graph
        The graph.
    order
        A good order: the ops with most live bytes in it are looked at first.
    budget
        Bytes.
    deadline
        `time.monotonic()` after which to stop with the precedences found so far.

    Returns
    -------
    tuple
        Precedences, and the step that refutes the budget with them; None if there is none, and
        then the precedences still hold within the budget.
    """
    network = Network(graph)
    last: Step | None = refuting_set(network, budget, deadline)
    if last is not None or len(network.born) > TOO_MANY:
        return (), last
    steps = implied(graph, network, order, budget, deadline)
    last = refuting_op(graph, network, steps, budget) or refuting_set(network, budget, deadline)
    return (tuple(steps), None) if last is None else (needed(graph, steps, last), last)


def implied(
    graph: Graph, network: Network, order: IntArray, budget: int, deadline: float | None
) -> list[OrderStep]:
    """Add the precedences that a budget implies to the network; return the step of each."""
    problem = Problem(build_net(graph.arrays), graph.arrays.initial, deadline=deadline)
    during = np.empty(len(order), np.int64)
    during[order] = timeline(graph, order).running
    relations = Relations(problem, related(problem.net))
    with suppress(OutOfTimeError):
        relations.refute(budget, during)
    steps = []
    for first, second in relations.added:
        at = first
        flow = network.forced(first, budget, before=[second])
        if flow is None:
            at = second
            flow = network.forced(second, budget, after=[first])
        if flow is not None:
            steps.append(OrderStep(first, second, at, flow))
            network.add(first, second)
    return steps


def refuting_op(
    graph: Graph, network: Network, steps: Sequence[OrderStep], budget: int
) -> OpStep | None:
    """Return an op that can not run within the budget, if precedences leave one."""
    control = [set(op.control) for op in graph.ops]
    for step in steps:
        control[step.second].add(step.first)
    ops = (replace(op, control=tuple(row)) for op, row in zip(graph.ops, control, strict=True))
    found = closure_bound(replace(graph, ops=tuple(ops)))
    if found.op is None or found.value <= budget:
        return None
    flow = network.forced(found.op, budget)
    return None if flow is None else OpStep(found.op, flow)


def refuting_set(network: Network, budget: int, deadline: float | None) -> SetStep | None:
    """Return a set of which no op can be last (or first) within the budget, if one is found."""
    heights = sorted({born for born in network.born if born}, reverse=True)
    for height in heights[:: -(-len(heights) // THRESHOLDS) or 1]:
        members = [v for v, born in enumerate(network.born) if born >= height]
        if len(members) > LARGEST or (deadline is not None and time.monotonic() > deadline):
            break
        for last in (True, False):
            flows = _set_flows(network, members, budget, last=last)
            if flows is not None and len(members) > 1:
                return SetStep(last, tuple(members), flows)
    return None


def _set_flows(
    network: Network, members: list[int], budget: int, *, last: bool
) -> tuple[tuple[int, Forced], ...] | None:
    """Return a flow for each op that may be the last (first) of a set; None if one fits."""
    flows = []
    for v in members:
        others = [u for u in members if u != v]
        beyond = network.descendants([v]) if last else network.ancestors([v])
        if not beyond.isdisjoint(others):
            continue
        before, after = (others, []) if last else ([], others)
        flow = network.forced(v, budget, before, after)
        if flow is None:
            return None
        flows.append((v, flow))
    return tuple(flows)


def needed(graph: Graph, steps: Sequence[OrderStep], last: Step) -> tuple[OrderStep, ...]:
    """Leave out the precedences that neither the last step nor another that is needed rests on."""
    known = {(step.first, step.second): number for number, step in enumerate(steps)}
    wanted: set[int] = set()
    open_steps: list[tuple[int, Step]] = [(len(steps), last)]
    while open_steps:
        limit, step = open_steps.pop()
        earlier = [(s.first, s.second) for s in steps[:limit]]
        for pair in _rests_on(graph, earlier, step):
            number = known[pair]
            if number not in wanted:
                wanted.add(number)
                open_steps.append((number, steps[number]))
    return tuple(steps[number] for number in sorted(wanted))


def _rests_on(graph: Graph, added: Sequence[tuple[int, int]], step: Step) -> set[tuple[int, int]]:
    """The precedences among those added that a step's flows and the sets around them use."""
    uses: list[tuple[int, Sequence[int], Sequence[int], Forced]] = []
    if isinstance(step, OpStep):
        uses = [(step.op, [step.op], [step.op], step.flow)]
    elif isinstance(step, OrderStep):
        both = (step.first, step.second)
        if step.at == step.second:
            uses = [(step.at, [step.at], both, step.flow)]
        else:
            uses = [(step.at, both, [step.at], step.flow)]
    elif isinstance(step, SetStep):
        flows = dict(step.flows)
        for v in step.ops:
            flow = flows.get(v, Flow())
            uses.append((v, step.ops, [v], flow) if step.last else (v, [v], step.ops, flow))
    arrays = graph.arrays
    pairs = set(added)
    backward = [(second, first) for first, second in added]
    found: set[tuple[int, int]] = set()
    for v, done, later, forced in uses:
        found |= _crossed(arrays.succ.row, added, later)
        for ended, flow in _flows(graph, v, done, forced):
            found |= {(w, u) for u, w, _ in flow.passes if (w, u) in pairs}
            found |= {(b, a) for a, b in _crossed(arrays.pred.row, backward, ended)}
    return {pair for pair in found if pair in pairs}


def _flows(
    graph: Graph, op: int, done: Sequence[int], forced: Forced
) -> list[tuple[Sequence[int], Flow]]:
    """The flows of all cases, each with what is assumed to have ended in its case."""
    if isinstance(forced, Flow):
        return [(done, forced)]
    others = graph.arrays.user.row(forced.input).tolist()
    more = [*done, *(u for u in others if u != op)]
    return _flows(graph, op, more, forced.free) + _flows(graph, op, done, forced.held)


def _crossed(
    row: Callable[[int], IntArray], added: Sequence[tuple[int, int]], start: Iterable[int]
) -> set[tuple[int, int]]:
    """The added arcs that a walk from `start` can not do without; any of several that would do."""
    leaving: dict[int, list[int]] = {}
    for tail, head in added:
        leaving.setdefault(tail, []).append(head)
    crossed: set[tuple[int, int]] = set()
    found: set[int] = set()
    waiting: list[tuple[int, int]] = [(v, v) for v in start]
    while waiting:
        tail, head = waiting.pop()
        if head in found:
            continue
        if tail != head:
            crossed.add((tail, head))
        found.add(head)
        stack = [head]
        while stack:
            v = stack.pop()
            waiting = [*((v, w) for w in leaving.get(v, ())), *waiting]
            for w in row(v).tolist():
                if w not in found:
                    found.add(w)
                    stack.append(w)
    return crossed
