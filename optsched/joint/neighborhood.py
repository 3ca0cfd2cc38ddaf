"""Large neighborhoods of a plan, searched by CP-SAT: order and offsets near the highest buffers.

A neighborhood frees the order of the ops of a few consecutive steps, the offsets of the buffers
allocated or released there, that of one buffer at the top of the slab, and those of other buffers,
first of those that are live with it. All else is fixed. The question is whether all that is free
fits below the top (:mod:`optsched.joint.cpsat.neighborhood_model`). Other buffers at the top stay
where they are: once they are all gone, the slab is lower.

Every second neighborhood frees offsets only. One that is refuted soon makes the next one of its
kind larger, and one that is not decided makes it smaller.

Example: the slab is 20 bytes and the peak 18; two buffers end at byte 20, at different steps. One
neighborhood moves the first one and its neighbors down, and the next one the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optsched.joint.cpsat.neighborhood_model import NeighborhoodModel, PlanInUnits
from optsched.joint.cpsat.parts import solve_part
from optsched.joint.instance import ModelInstance, graph_instance
from optsched.joint.order_program import instance_program, window
from optsched.joint.part_size import resized
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.clock import Clock

LEAST_OPS, LEAST_BUFFERS = 4, 8
"""Smallest numbers of ops and of further buffers in a neighborhood."""
LOW_CHANCE = 0.2
"""Weight of a buffer at the bottom of the slab among further ones; at the top it is 1 more."""


@dataclass(frozen=True, slots=True)
class NeighborhoodEffort:
    """Sizes and limits of neighborhoods."""

    ops: int = 8
    """Ops whose order is free, at first."""
    most_ops: int = 48
    buffers: int = 24
    """Further buffers whose offsets are free, at first; fewer where the order is free, too."""
    most_buffers: int = 400
    seconds: float = 1.0
    """Time limit of one neighborhood in seconds, or the same amount of work."""
    tries: int = 1000
    """Maximum number of neighborhoods."""
    largest_graph: int = 3000
    """Maximum number of ops: each neighborhood takes a look at the whole graph."""


def better_plans(
    graph: Graph,
    plan: Plan,
    *,
    clock: Clock,
    seed: int = 0,
    floor: int = 0,
    effort: NeighborhoodEffort | None = None,
) -> Iterator[Plan]:
    """Yield plans of ever smaller slab, starting from a given plan.

    Parameters
    ----------
    graph
        The graph: on one stream, with one pool, not in-place, and without groups that share an
        offset. Other graphs, and those with too many ops, yield nothing.
    plan
        A valid plan.
    clock
        Limits on time or work.
    seed
        Seed of the choice of neighborhoods; other seeds search other ones.
    floor
        Proved lower bound on the slab in bytes: a plan that meets it ends the search.
    effort
        Sizes and limits of neighborhoods.
    """
    effort = effort or NeighborhoodEffort()
    # The constraints of the model hold for plain buffers on one stream only.
    if graph.on_streams or graph.in_place or graph.must_share:
        return
    if not 1 < len(graph.ops) <= effort.largest_graph:
        return
    instance = graph_instance(graph)
    if len(instance.pools) == 1:
        yield from _Neighborhoods(graph, instance, plan, clock, seed, floor, effort).search()


class _Neighborhoods:
    """A plan, and the sizes of the next neighborhood of each kind."""

    def __init__(
        self,
        graph: Graph,
        instance: ModelInstance,
        plan: Plan,
        clock: Clock,
        seed: int,
        floor: int,
        effort: NeighborhoodEffort,
    ) -> None:
        self.graph, self.instance, self.clock, self.effort = graph, instance, clock, effort
        self.program = instance_program(instance)
        self.rng = np.random.default_rng((clock.limits.seed, seed))
        places = [plan.offsets[item.id] or 0 for item in instance.items]
        self.is_whole = all(place % instance.unit == 0 for place in places)
        offsets = np.array([place // instance.unit for place in places], np.int64)
        self.plan = PlanInUnits(instance, plan.order, offsets)
        pins = [item.pin for item in instance.items]
        self.is_pinned = np.array([pin is not None for pin in pins], np.bool_)
        # No slab is below the top of a pinned buffer.
        highest = int(self.plan.tops[self.is_pinned].max(initial=0))
        self.floor, self.ops = max(instance.up(floor), highest), effort.ops
        # Further buffers, by whether the order is free.
        self.buffers = {False: effort.buffers, True: LEAST_BUFFERS}

    def search(self) -> Iterator[Plan]:
        """Yield better plans until the floor or a limit is reached."""
        # Offsets between units would be moved by rounding, and the plan could be lost.
        if not self.is_whole:
            return
        for number in range(self.effort.tries):
            slab = self.plan.slab
            if slab <= self.floor or self.clock.expired():
                return
            # Every second neighborhood frees offsets only, which is quicker to decide.
            self._improve(with_order=bool(number % 2))
            if self.plan.slab < slab:
                yield self._plan()

    def _improve(self, with_order: bool) -> None:
        """Search one neighborhood, and keep what it finds."""
        model = self._model(with_order)
        # Building a model takes time that CP-SAT does not count.
        self.clock.spend(len(self.plan.offsets) + len(model.free) ** 2)
        is_decided = model.is_impossible
        if not is_decided:
            run = solve_part(model, lambda found: found.top, self.clock, self.effort.seconds)
            if run.best is not None:
                self.plan = run.best.plan()
                return
            is_decided = run.finished
        if with_order:
            self.ops = resized(self.ops, is_decided, (LEAST_OPS, self.effort.most_ops))
        limits = LEAST_BUFFERS, self.effort.most_buffers
        self.buffers[with_order] = resized(self.buffers[with_order], is_decided, limits)

    def _model(self, with_order: bool) -> NeighborhoodModel:
        """Return the model of a random neighborhood of a buffer at the top."""
        plan, steps = self.plan, len(self.plan.order)
        # Only the buffers at the top keep the slab up, so each neighborhood contains one.
        top = int(self.rng.choice(np.flatnonzero(plan.tops == plan.slab)))
        center = int(self.rng.integers(plan.start[top], plan.end[top]))
        width = min(self.ops, steps) if with_order else 0
        low = max(0, min(center - width // 2, steps - width))
        # No top buffer is pinned, as the search ends at the highest pinned one.
        free = plan.changed(low, low + width)
        free[top] = True
        free[self._nearest(free, top)[: self.buffers[with_order]]] = True
        part = window(self.program, plan.order, low, low + width)
        return NeighborhoodModel(plan, part, low, np.flatnonzero(free).tolist(), self.floor)

    def _nearest(self, free: npt.NDArray[np.bool_], top: int) -> npt.NDArray[np.int64]:
        """Return further buffers: those live with the top one, high ones first, then the others."""
        plan = self.plan
        others = np.flatnonzero(~free & ~self.is_pinned)
        gap = np.maximum(plan.start[others] - plan.end[top], plan.start[top] - plan.end[others])
        # Some randomness, so that neighborhoods of the same buffer differ.
        chance = (LOW_CHANCE + plan.tops[others] / plan.slab) * self.rng.random(len(others))
        return others[np.lexsort((-chance, np.maximum(gap, -1)))]

    def _plan(self) -> Plan:
        items = zip(self.instance.items, self.plan.offsets.tolist(), strict=True)
        places = {item.id: at * self.instance.unit for item, at in items}
        return Plan(tuple(self.plan.order), tuple(places.get(root) for root in self.graph.roots))
