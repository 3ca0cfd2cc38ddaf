"""Certificates by sets of ops: none is written any more, and the checker takes them still."""

from __future__ import annotations

from optsched.certificate.flow import FlowNetwork
from optsched.check.network import reach
from optsched.check.steps import Forced, SetStep
from optsched.model.graph import Graph


def refuting_set(graph: Graph, budget: int) -> SetStep | None:
    """Return a set of which no op can be last (or first) within the budget, if one is found."""
    network = FlowNetwork(graph)
    for height in sorted({born for born in network.born if born}, reverse=True):
        members = [v for v, born in enumerate(network.born) if born >= height]
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
        if not reach(network.behind if last else network.before, [v]).isdisjoint(others):
            continue
        before, after = (others, []) if last else ([], others)
        flow = network.forced(v, budget, before, after)
        if flow is None:
            return None
        flows.append((v, flow))
    return tuple(flows)
