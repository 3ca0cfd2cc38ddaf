"""Maximum flow by OR-Tools: the only place below the engines that calls a solver package.

The result is a candidate. :mod:`optsched.check.antichain` verifies flow and cut in plain integers;
:mod:`optsched.model.antichain` uses them as they are. The flows of the engines run in kernels
(:mod:`optsched.ordering.kernels.max_flow`). Those take paths from source to sink one by one, which
is ten to twenty times as slow on the networks of streams: chains of thousands of places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


class Flow(NamedTuple):
    """A flow and a cut of the same value."""

    value: int
    """Units that flow from source to sink."""
    sent: IntArray
    """Shape `(arcs,)`: units on each arc."""
    inside: IntArray
    """Nodes on the source's side of the cut."""


def largest_flow(
    tails: IntArray, heads: IntArray, capacities: IntArray, ends: tuple[int, int]
) -> Flow | None:
    """Return a maximum flow, or None if the capacities are too large to add up.

    `tails`, `heads`, `capacities`: shape `(arcs,)`: first node, second node and capacity of each
    arc. `ends`: source and sink.
    """
    from ortools.graph.python import max_flow

    network = max_flow.SimpleMaxFlow()
    arcs = network.add_arcs_with_capacity(tails, heads, capacities)
    # Any other status: the sum of the capacities exceeds 64 bits.
    if network.solve(*ends) != network.OPTIMAL:
        return None
    inside = np.array(network.get_source_side_min_cut(), np.int64)
    return Flow(int(network.optimal_flow()), network.flows(arcs), inside)
