"""Windows of an order around its fullest steps, reordered by CP-SAT so that their loads fall.

Let the largest load of an order be at some steps. A window of consecutive steps around one of them
is freed, all else is fixed, and CP-SAT looks for an order of the window's ops whose loads are all
below the largest one. Ops before and after the window keep their loads: the same ops have ended
when they run. Once no step has the old load, the peak is lower. A window that is refuted makes the
next one larger, and one that is not decided makes it smaller.

Example: loads 3, 9, 4, 9, 5. The first window lowers the load of step 1 to 8, the second one that
of step 3 to 7; the order now has the peak 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.joint.cpsat.pairwise import OrderPoint, PairwiseOrder
from optsched.joint.cpsat.parts import solve_part
from optsched.joint.instance import MAX_UNITS, graph_instance
from optsched.joint.order_program import OrderProgram, instance_program, window
from optsched.joint.part_size import resized
from optsched.joint.units import in_units
from optsched.model.graph import Graph
from optsched.runtime.clock import Clock

LEAST_OPS = 6
"""Smallest number of ops in a window."""


@dataclass(frozen=True, slots=True)
class WindowEffort:
    """Sizes and limits of windows."""

    ops: int = 16
    """Ops whose order is free, at first."""
    most_ops: int = 80
    seconds: float = 2.0
    """Time limit of one window in seconds, or the same amount of work."""
    tries: int = 1000
    """Maximum number of windows."""
    largest_graph: int = 3000
    """Maximum number of ops: each window takes a look at the whole graph."""


def lower_orders(
    graph: Graph,
    order: Sequence[int],
    *,
    clock: Clock,
    seed: int = 0,
    floor: int = 0,
    effort: WindowEffort | None = None,
) -> Iterator[list[int]]:
    """Yield orders of ever smaller peak, starting from a given order.

    Parameters
    ----------
    graph
        The graph, on one stream. Graphs with too many ops, or with sizes outside the range in which
        CP-SAT is exact, yield nothing.
    order
        A valid order.
    clock
        Limits on time or work.
    seed
        Seed of the choice of windows; other seeds search other ones.
    floor
        Proved lower bound on the peak in bytes: an order that meets it ends the search.
    effort
        Sizes and limits of windows.

    Raises
    ------
    UsageError
        If sizes are outside the range in which CP-SAT is exact.
    """
    effort = effort or WindowEffort()
    if 1 < len(graph.ops) <= effort.largest_graph and not graph.on_streams:
        instance = graph_instance(graph)
        program = instance_program(instance)
        if program.most <= MAX_UNITS:
            search = _Windows(program, order, clock, seed, effort)
            yield from search.run(instance.up(floor))


class _Windows:
    """An order with its loads, and the size of the next window."""

    def __init__(
        self,
        program: OrderProgram,
        order: Sequence[int],
        clock: Clock,
        seed: int,
        effort: WindowEffort,
    ) -> None:
        self.program, self.order, self.clock = program, [int(v) for v in order], clock
        self.effort, self.ops = effort, effort.ops
        self.rng = np.random.default_rng((clock.limits.seed, seed))
        self.loads = np.array(program.loads(self.order))

    def run(self, floor: int) -> Iterator[list[int]]:
        """Lower one window after another."""
        for _ in range(self.effort.tries):
            peak = int(self.loads.max())
            if peak <= floor or self.clock.expired():
                return
            # Building a model takes time that CP-SAT does not count.
            self.clock.spend(self.ops**2)
            if self._lower(peak):
                self.loads = np.array(self.program.loads(self.order))
                if int(self.loads.max()) < peak:
                    yield list(self.order)

    def _lower(self, peak: int) -> bool:
        """Search one window around a step of the largest load; return True if it is lower."""
        center = int(self.rng.choice(np.flatnonzero(self.loads == peak)))
        width = min(self.ops, len(self.order))
        first = center - int(self.rng.integers(width))
        low = max(0, min(first, len(self.order) - width))
        part = window(self.program, self.order, low, low + width)
        program, scale = in_units(part.program, 1)
        high = scale.up(peak) - 1
        found, decided = None, True
        # Loads are never negative.
        if high >= 0:
            orders = PairwiseOrder(program)
            orders.model.minimize(orders.add_peak(0, high))
            place = {v: i for i, v in enumerate(part.ops)}
            orders.add_hint(OrderPoint.of([place[v] for v in self.order[low : low + width]]))
            seconds = self.effort.seconds
            run = solve_part(orders, lambda p: program.peak(p.order), self.clock, seconds)
            found, decided = run.best, run.finished
        self.ops = resized(self.ops, decided, (LEAST_OPS, self.effort.most_ops))
        if found is None or program.peak(found.order) > high:
            return False
        self.order[low : low + width] = [part.ops[v] for v in found.order]
        return True
