"""Orders of a graph with transfers, and the time that each takes.

One stream computes: it runs all ops in the order's sequence. A second one transfers: a *launch*
hands a transfer to it, which begins when the launch has run and the transfer handed over before it
has ended. A *wait* stops the compute stream until its transfer has ended. Times are whole
microseconds.

Example: launch (1), multiplication (5), wait (1), and a transfer of 8: the wait runs from 9 to 10,
and 3 of the 10 microseconds are exposed, in which nothing computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optsched.model.graph import Graph
from optsched.model.liveness import peak_memory


@dataclass(frozen=True)
class Program:
    """A graph and the times of its ops, which are named by their positions."""

    graph: Graph
    """Its edges keep the launches in sequence."""
    durations: tuple[int, ...]
    """Time of each op on the compute stream, at least 1."""
    transfers: dict[int, int]
    """Time of each launch's transfer, at least 1, in the sequence of the launches."""
    waits: dict[int, int]
    """The launch of each wait."""

    @property
    def busy(self) -> int:
        """Time that the compute stream needs in any order."""
        return sum(self.durations)


@dataclass(frozen=True)
class Schedule:
    """Times of an order, each as early as possible."""

    starts: dict[int, int]
    """Start of each op."""
    begins: dict[int, int]
    """Start of each launch's transfer."""
    finish: int
    """End of all ops and transfers."""


def schedule(program: Program, order: Sequence[int]) -> Schedule:
    """Return the times of an order."""
    now = free = 0
    starts, begins = dict[int, int](), dict[int, int]()
    for op in order:
        if op in program.waits:
            launch = program.waits[op]
            now = max(now, begins[launch] + program.transfers[launch])
        starts[op] = now
        now += program.durations[op]
        if op in program.transfers:
            begins[op] = max(now, free)
            free = begins[op] + program.transfers[op]
    return Schedule(starts, begins, max(now, free))


def exposed_time(program: Program, order: Sequence[int]) -> int:
    """Return the time in which the compute stream does nothing, up to the end of all transfers."""
    return schedule(program, order).finish - program.busy


def shifted(program: Program, order: Sequence[int], room: int) -> list[int]:
    """Return an order with launches earlier and waits later, as long as its peak is within `room`.

    Ops are moved one at a time, to the place nearest to their limit that exposes less time.
    """
    order, best = list(order), exposed_time(program, order)
    before = program.graph.predecessors
    after = [[v for v, row in enumerate(before) if u in row] for u in range(len(before))]
    moved = True
    while moved:
        moved = False
        for op in (*program.transfers, *reversed(program.waits)):
            rest = [v for v in order if v != op]
            at, place = order.index(op), {v: i for i, v in enumerate(rest)}
            low = max((place[u] + 1 for u in before[op]), default=0)
            high = min((place[v] for v in after[op]), default=len(rest))
            for i in range(low, at) if op in program.transfers else range(high, at, -1):
                tried = [*rest[:i], op, *rest[i:]]
                exposed = exposed_time(program, tried)
                if exposed < best and peak_memory(program.graph, tried) <= room:
                    order, best, moved = tried, exposed, True
                    break
    return order
