"""From a bound that is known to hold to a certificate of it, the cheapest kind first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.arrays import IntArray
from optsched.certificate.bounds import closure_step, refute
from optsched.certificate.flow import Network
from optsched.certificate.states import list_states
from optsched.check_certificate import check_certificate
from optsched.graph import Graph
from optsched.proof import Certificate, StatesStep, Step

FEW_STATES = 2_000
"""So many states are listed before precedences are looked for that would make them fewer."""

MOST_STATES = 200_000
"""Above this a list of states is too large to write."""


@dataclass(frozen=True, slots=True)
class Written:
    """A certificate and what it fell short of.

    Parameters
    ----------
    certificate
        Accepted by the checker.
    rung
        What it is: L2 or L3.
    missing
        Why its bound is below the one asked for, in one line; None if it is not.
    """

    certificate: Certificate
    rung: str
    missing: str | None = None


def certify_peak(
    graph: Graph,
    order: Sequence[int] | IntArray,
    bound: int,
    *,
    most_states: int = MOST_STATES,
    seconds: float | None = None,
) -> Written:
    """Return a certificate that no order has a peak below `bound`, or of the closure bound.

    Parameters
    ----------
    graph
        The graph.
    order
        A good order.
    bound
        Bytes; what a search proved.
    most_states
        States to list at most.
    seconds
        Time to spend on more than the closure bound.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    at = np.asarray(order, np.int64)
    value, step = closure_step(graph, [at], None)
    if value >= bound:
        return _checked(graph, bound, (step,))
    steps = _refutation(graph, at, bound - 1, most_states, deadline)
    if steps is not None:
        return _checked(graph, bound, steps)
    late = deadline is not None and time.monotonic() > deadline
    reason = "time is up" if late else f"there are more than {most_states:,} states to list"
    simple = _checked(graph, value, (step,))
    return Written(simple.certificate, simple.rung, f"no proof of {bound:,} bytes: {reason}")


def _refutation(
    graph: Graph, order: IntArray, budget: int, most_states: int, deadline: float | None
) -> tuple[Step, ...] | None:
    """Return steps that refute a budget, or None."""
    few = _states(Network(graph), budget, min(FEW_STATES, most_states), deadline)
    if few is not None:
        return (few,)
    precedences, last = refute(graph, order, budget, deadline)
    if last is not None:
        return (*precedences, last)
    network = Network(graph)
    for step in precedences:
        network.add(step.first, step.second)
    last = _states(network, budget, most_states, deadline)
    return None if last is None else (*precedences, last)


def _states(network: Network, budget: int, most: int, deadline: float | None) -> StatesStep | None:
    """List the states from one end: the one that has few, else the back, where fewer is usual."""
    tries = [(few, backward) for few in (most // 50, most) for backward in (True, False)]
    for few, backward in tries:
        found = list_states(network, budget, few, deadline, backward=backward)
        if found is not None:
            return found
    return None


def _checked(graph: Graph, bound: int, steps: tuple[Step, ...]) -> Written:
    """Return the certificate with the rung that the checker gives it."""
    certificate = Certificate(graph.name, bound, steps)
    return Written(certificate, check_certificate(graph, certificate))
