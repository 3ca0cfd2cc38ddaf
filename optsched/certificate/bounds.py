"""Certificates of rung L2: an op, a set of ops, and the precedences that a budget implies."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from optsched.certificate.flow import FlowNetwork
from optsched.certificate.grounds import Precedence, find_grounds, find_path
from optsched.check.network import reach
from optsched.check.steps import End, EndStep, Forced, OpStep, OrderStep, SetStep, Step
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.liveness import timeline
from optsched.ordering import closure_bound
from optsched.ordering.bound.precedences import Relations, related
from optsched.ordering.context import OutOfTimeError, SearchContext
from optsched.ordering.problem import build_problem

THRESHOLDS = 24
"""Sets that are looked at: of the ops at which at least so many bytes are born."""

LARGEST = 200
"""Ops in a set at most."""

TOO_MANY = 3_000
"""Of more ops no implied precedences are looked for: each is shown by a flow of its own."""


def closure_step(
    graph: Graph, orders: Sequence[IntArray], deadline: float | None
) -> tuple[int, Step]:
    """Return the closure bound and the step that shows it."""
    network = FlowNetwork(graph)
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
) -> tuple[list[OrderStep], tuple[Step, ...] | None]:
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
        Precedences that hold within the budget, and steps that refute it; None if none do.
    """
    network = FlowNetwork(graph)
    last: Step | None = refuting_set(network, budget, deadline)
    if last is not None or len(network.born) > TOO_MANY:
        return [], None if last is None else (last,)
    steps = implied(graph, network, order, budget, deadline)
    last = refuting_op(graph, network, steps, budget) or refuting_set(network, budget, deadline)
    return steps, None if last is None else needed(graph, steps, last, budget)


def implied(
    graph: Graph, network: FlowNetwork, order: IntArray, budget: int, deadline: float | None
) -> list[OrderStep]:
    """Add the precedences that a budget implies to the network; return the step of each."""
    problem = SearchContext(build_problem(graph.arrays), graph.arrays.initial, deadline=deadline)
    during = np.empty(len(order), np.int64)
    during[order] = timeline(graph, order).running
    relations = Relations(problem, related(problem.problem))
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
    graph: Graph, network: FlowNetwork, steps: Sequence[OrderStep], budget: int
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


def refuting_set(network: FlowNetwork, budget: int, deadline: float | None) -> SetStep | None:
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
    network: FlowNetwork, members: list[int], budget: int, *, last: bool
) -> tuple[tuple[int, Forced], ...] | None:
    """Return a flow for each op that may be the last (first) of a set; None if one fits."""
    flows = []
    for v in members:
        others = [u for u in members if u != v]
        beyond = reach(network.behind if last else network.before, [v])
        if not beyond.isdisjoint(others):
            continue
        before, after = (others, []) if last else ([], others)
        flow = network.forced(v, budget, before, after)
        if flow is None:
            return None
        flows.append((v, flow))
    return tuple(flows)


def needed(graph: Graph, steps: Sequence[OrderStep], last: Step, budget: int) -> tuple[Step, ...]:
    """Leave out the precedences that neither the last step nor another that is needed rests on.

    The flows of all others are looked for again: each holds with fewer precedences, but may have
    to go another way.
    """
    places = {(step.first, step.second): number for number, step in enumerate(steps)}
    network = FlowNetwork(graph)
    for pair in places:
        network.add(*pair)
    wanted = _rests_on(network, places, last, budget)
    for step in reversed(steps):
        pair = (step.first, step.second)
        network.remove(*pair)
        if pair in wanted:
            wanted |= _rests_on(network, places, step, budget)
    kept: list[Step] = []
    for step in steps:
        if (step.first, step.second) in wanted:
            before, after = _assumed(step)
            flow = _sure(network.forced(step.at, budget, before, after))
            kept.append(replace(step, flow=flow))
            network.add(step.first, step.second)
    if isinstance(last, OpStep):
        last = replace(last, flow=_sure(network.forced(last.op, budget)))
    elif isinstance(last, SetStep):
        flows = _set_flows(network, list(last.ops), budget, last=last.last)
        last = replace(last, flows=flows or ())
    return (*kept, last)


def _assumed(step: OrderStep) -> tuple[list[int], list[int]]:
    """Which op is assumed to run before the one with the flow, or after it."""
    return ([], [step.first]) if step.at == step.second else ([step.second], [])


def _rests_on(
    network: FlowNetwork, places: Mapping[Precedence, int], step: Step, budget: int
) -> set[Precedence]:
    """The precedences among those in the network that a step rests on."""
    if isinstance(step, OpStep):
        return find_grounds(network, places, step.op, (), (), step.flow, budget)
    if isinstance(step, OrderStep):
        before, after = _assumed(step)
        return find_grounds(network, places, step.at, before, after, step.flow, budget)
    found: set[Precedence] = set()
    if isinstance(step, SetStep):
        flows = dict(step.flows)
        for v in step.ops:
            others = [u for u in step.ops if u != v]
            before, after = (others, []) if step.last else ([], others)
            if v in flows:
                found |= find_grounds(network, places, v, before, after, flows[v], budget)
            else:
                found |= find_path(network, places, v, others, backward=not step.last)
    return found
