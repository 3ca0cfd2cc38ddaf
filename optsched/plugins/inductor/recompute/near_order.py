"""A plan's order brought near to that of the joint graph, with the same repeats and no more bytes.

A search for a small peak leaves ops anywhere where this costs no bytes: sums of all biases at the
end, for example, although each could run while its operand is still in the processor's cache. Of
orders that need no more, the one of the joint graph is the one that Inductor expects, and on one
core it was measured to be faster.

Example: the joint graph has ops a, b, sum a, sum b, and a plan a, b, sum b, sum a of the same peak.
The order returned is the joint graph's.
"""

from __future__ import annotations

from collections.abc import Sequence

from optsched.check.runs import check_runs
from optsched.model.graph import Graph
from optsched.model.runs import Unrolled, unroll
from optsched.ordering.improve.few_moves import move_back
from optsched.runtime.clock import Clock
from optsched.runtime.limits import Limits

TRIES = 20_000
"""Most orders that are tried, each with a stretch of ops put back; 600 runs take some hundreds."""


def near_order(graph: Graph, sequence: Sequence[int], names: Sequence[str]) -> tuple[int, ...]:
    """Return a sequence of the same runs, of at most the same peak, near to another order.

    `graph`: the graph that is planned. `sequence`: op ids in the order of their runs. `names`:
    names of nodes in the order of the joint graph. Ops without a node run before their reader.
    """
    unrolled, peak = unroll(graph, sequence), check_runs(graph, sequence).peak
    place = {name: i for i, name in enumerate(names)}
    turns = [place.get(op.name, len(place)) for op in graph.ops]
    clock = Clock.of(Limits(work=TRIES))
    order = range(len(sequence))
    tried = list(move_back(unrolled.graph, _joint_order(unrolled, turns), order, peak, clock))
    found = unrolled.reorder(tried[-1] if tried else order)
    # A run reads the latest copy, which may be another one in another order.
    return found if check_runs(graph, found).peak <= peak else tuple(sequence)


def _joint_order(unrolled: Unrolled, turns: Sequence[int]) -> list[int]:
    """Return the runs in the order of the joint graph, repeats before the first run that reads."""
    runs = range(len(unrolled.source))
    origins = zip(unrolled.source, unrolled.number, strict=True)
    place = [max(turns) + 1 if number else turns[op] for op, number in origins]
    for run in reversed(runs):
        for before in unrolled.graph.predecessors[run]:
            place[before] = min(place[before], place[run])
    return sorted(runs, key=lambda run: (place[run], run))
