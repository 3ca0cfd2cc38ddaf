"""Decisions on the order of the scheduler's nodes: facts are read, and orders are simulated.

Example: the nodes `a` and `b` are given in Inductor's order. Their facts say what each allocates
and frees, and the decision has the order of least simulated peak.

This module imports torch at its top: import it inside the function that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from optsched.plugins.gain import DEFAULT_GAIN, MinGain
from optsched.plugins.inductor.earlier import Earlier
from optsched.plugins.inductor.orders.candidates import Decision, decide
from optsched.plugins.inductor.reading.collectives import keep_windows
from optsched.plugins.inductor.reading.ownership import find_owned_inputs
from optsched.plugins.inductor.reading.planning import holders
from optsched.plugins.inductor.reading.scheduler import read_facts
from optsched.plugins.inductor.reading.snapshot import take_snapshot
from optsched.plugins.inductor.sizes.kernels import KernelMemory
from optsched.plugins.inductor.sizes.ranges import add_worst_sizes
from optsched.plugins.inductor.wrapper.facts import Order, WrapperFacts
from optsched.store import PlanStore


def decide_order(
    nodes: Sequence[Any],
    kernels: Mapping[str, KernelMemory],
    *,
    seconds: float,
    name: str,
    reorder: bool = True,
    reuse: bool = True,
    store: PlanStore | None = None,
    earlier: Earlier[tuple[Order, bool]] | None = None,
    min_gain: MinGain = DEFAULT_GAIN,
    enough: int = 0,
) -> tuple[WrapperFacts, Decision]:
    """Return the facts of nodes, and the decision on their order.

    Parameters
    ----------
    nodes
        The scheduler's nodes in the order of the hook.
    kernels
        Memory of the extern kernels.
    seconds
        Time for the solver.
    name
        Name of the graph.
    reorder, reuse
        Inductor's settings `reorder_for_peak_memory` and `allow_buffer_reuse`.
    store
        Store of plans, if any.
    earlier
        Orders of other calls and their reuse, if any.
    min_gain
        Least saving for which Inductor's own order is replaced.
    enough
        A peak that is small enough.
    """
    document = take_snapshot(
        nodes,
        V.graph.scheduler.name_to_buf,
        holders(nodes),
        OrderedSet(V.graph.graph_inputs),
        OrderedSet(V.graph.get_output_names()),
    )
    if not reorder:
        # With reordering off, Inductor runs the nodes in the order of the pass.
        document["extra"]["chosen"] = "baseline"
    facts = add_worst_sizes(read_facts(nodes, find_owned_inputs(nodes), kernels))
    own = document["extra"]["orders"][document["extra"]["chosen"]]
    facts = keep_windows(facts, nodes, tuple(own))
    decision = decide(
        facts,
        document,
        reuse=reuse,
        seconds=seconds,
        name=name,
        store=store,
        earlier=earlier,
        min_gain=min_gain,
        enough=enough,
    )
    return facts, decision
