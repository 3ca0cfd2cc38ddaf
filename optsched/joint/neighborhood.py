"""Large neighborhoods of a plan, searched by CP-SAT: order and offsets near the highest buffers.

A neighborhood frees the order of the ops of a few consecutive steps, the offsets of all buffers
live there, those of the buffers that end at the top of the slab, and of some buffers that conflict
with the latter. All else is fixed. The question is whether the slab can be lower.

::

    released(i, v)  all users of buffer i run before op v
    below(i, j)     buffer i ends at or below the offset of buffer j
    released(i, birth of j) or released(j, birth of i) or below(i, j) or below(j, i)

Steps before and after the window do not change, so that buffers which are both live at its start,
or both at its end, conflict in any case. A neighborhood that is refuted soon makes the next one
larger, and one that is not decided makes it smaller.

Example: the slab is 20 bytes and the peak 18; one buffer ends at byte 20. Its neighbors move down,
or an op that would be live beside it runs a step later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optsched.joint.cpsat.pairwise import OrderPoint, PairwiseOrder
from optsched.joint.cpsat.parts import resized, solve_part
from optsched.joint.instance import ModelInstance, graph_instance, live_spans
from optsched.joint.order_program import Segment, instance_program, window
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.runtime.clock import Clock

LEAST_OPS, LEAST_BUFFERS = 6, 8
"""Smallest numbers of ops and of further buffers in a neighborhood."""


@dataclass(frozen=True, slots=True)
class NeighborhoodEffort:
    """Sizes and limits of neighborhoods."""

    ops: int = 12
    """Ops whose order is free, at first."""
    most_ops: int = 48
    buffers: int = 24
    """Further buffers whose offsets are free, at first."""
    most_buffers: int = 160
    seconds: float = 2.0
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
    # The constraints below hold for plain buffers on one stream only.
    if graph.on_streams or graph.in_place or graph.must_share:
        return
    if not 1 < len(graph.ops) <= effort.largest_graph:
        return
    instance = graph_instance(graph)
    if len(instance.pools) == 1:
        yield from _Neighborhoods(graph, instance, plan, clock, seed, floor, effort).search()


class _Neighborhoods:
    """A plan in units, and the sizes of the next neighborhood."""

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
        self.floor, self.ops, self.buffers = instance.up(floor), effort.ops, effort.buffers
        self.order = list(plan.order)
        places = [plan.offsets[item.id] or 0 for item in instance.items]
        self.is_whole = all(place % instance.unit == 0 for place in places)
        self.offsets = [place // instance.unit for place in places]
        self.size = np.array([item.size for item in instance.items], np.int64)
        self._measure()

    def _measure(self) -> None:
        spans = np.array(live_spans(self.instance, self.order), np.int64).reshape(-1, 2)
        self.start, self.end = spans[:, 0], spans[:, 1]
        self.tops = np.array(self.offsets, np.int64) + self.size
        self.slab = int(self.tops.max(initial=0))

    def search(self) -> Iterator[Plan]:
        """Yield better plans until the floor or a limit is reached."""
        # Offsets between units would be moved by rounding, and the plan could be lost.
        if not self.is_whole:
            return
        for number in range(self.effort.tries):
            if self.slab <= self.floor or self.clock.expired():
                return
            # Building a model takes time that CP-SAT does not count.
            self.clock.spend(len(self.offsets))
            # Every second neighborhood frees offsets only, which is quicker to decide.
            if self._improve(with_order=bool(number % 2)):
                yield self._plan()

    def _improve(self, with_order: bool) -> bool:
        """Search one neighborhood; return True if the slab is lower."""
        model = self._model(with_order)
        run = solve_part(model, lambda found: found[2], self.clock, self.effort.seconds)
        if run.best is not None and run.best[2] < self.slab:
            low, high, ops = model.low, model.high, model.part.ops
            self.order[low:high] = [ops[v] for v in run.best[0].order]
            for i, at in zip(model.free, run.best[1], strict=True):
                self.offsets[i] = at
            self._measure()
            return True
        self.ops = resized(self.ops, run.finished, (LEAST_OPS, self.effort.most_ops))
        most = self.effort.most_buffers
        self.buffers = resized(self.buffers, run.finished, (LEAST_BUFFERS, most))
        return False

    def _model(self, with_order: bool) -> _WindowModel:
        """Return the model of a random neighborhood of a buffer at the top."""
        # Any improvement must move a buffer at the top, so each neighborhood contains one.
        top = int(self.rng.choice(np.flatnonzero(self.tops == self.slab)))
        center = int(self.rng.integers(self.start[top], self.end[top]))
        width = min(self.ops, len(self.order)) if with_order else 0
        low = max(0, min(center - width // 2, len(self.order) - width))
        live = (self.start < low + width) & (self.end > low) if width else self.tops < 0
        free = live | (self.tops == self.slab)
        # Buffers that are live together with one at the top, the highest first, with some
        # randomness.
        beside = np.flatnonzero((self.start < self.end[top]) & (self.end > self.start[top]) & ~free)
        chance = self.tops[beside] * self.rng.random(len(beside))
        free[beside[np.argsort(-chance)[: self.buffers]]] = True
        chosen = [i for i in np.flatnonzero(free).tolist() if self.instance.items[i].pin is None]
        part = window(self.program, self.order, low, low + width)
        return _WindowModel(self, part, (low, low + width), chosen)

    def _plan(self) -> Plan:
        items = zip(self.instance.items, self.offsets, strict=True)
        places = {item.id: at * self.instance.unit for item, at in items}
        return Plan(tuple(self.order), tuple(places.get(root) for root in self.graph.roots))


Found = tuple[OrderPoint, tuple[int, ...], int]
"""Order of the window, offsets of the free buffers, and the slab."""


class _WindowModel:
    """The model of one neighborhood."""

    def __init__(
        self, plan: _Neighborhoods, part: Segment, steps: tuple[int, int], free: list[int]
    ) -> None:
        self.plan, self.part, self.free = plan, part, free
        self.low, self.high = steps
        self.order = PairwiseOrder(part.program)
        self.model = self.order.model
        self.number = {v: i for i, v in enumerate(part.ops)}
        loads = [self.order.load(v) for v in range(len(part.program))]
        # The order is hinted before there are variables of offsets, which have hints of their own.
        led = [self.number[v] for v in plan.order[self.low : self.high]]
        self.order.add_hint(OrderPoint.of(led))
        items, fixed = plan.instance.items, set(range(len(plan.offsets))) - set(free)
        self.fixed_top = max((int(plan.tops[i]) for i in fixed), default=0)
        # The slab cannot be below what stays fixed.
        low = max(self.fixed_top, plan.floor)
        self.slab = self.model.new_int_var(low, max(low, plan.slab - 1), "slab")
        self.impossible = low >= plan.slab
        self.offset: dict[int, Any] = {}
        for i in free:
            most = (plan.slab - 1 - items[i].room) // items[i].alignment
            slot = self.model.new_int_var(0, max(0, most), f"slot{i}")
            # The present offset, where the lower slab leaves room for it.
            self.model.add_hint(slot, min(plan.offsets[i] // items[i].alignment, max(0, most)))
            self.offset[i] = slot * items[i].alignment
            self.model.add(self.offset[i] + items[i].room <= self.slab)
        for load in loads:
            self.model.add(load <= self.slab)
        self._keep_apart(fixed)
        if self.impossible:
            # An empty clause is never true: the fixed buffers alone are as high as the slab.
            self.model.add_bool_or([])
        self.model.minimize(self.slab)

    def read(self, value: Callable[[Any], int]) -> Found:
        """Return what a solution describes."""
        offsets = tuple(value(self.offset[i]) for i in self.free)
        tops = [
            at + self.plan.instance.items[i].room for i, at in zip(self.free, offsets, strict=True)
        ]
        return self.order.read(value), offsets, max(self.fixed_top, *tops, 0)

    def _keep_apart(self, fixed: set[int]) -> None:
        """Keep free buffers apart from each other and from fixed ones."""
        plan, apart = self.plan, set(self.plan.instance.apart)
        for number, i in enumerate(self.free):
            together = (plan.start < plan.end[i]) & (plan.end > plan.start[i])
            for j in np.flatnonzero(together).tolist():
                if j in fixed:
                    self._disjoint(i, j, [])
            for j in self.free[:number]:
                if (i, j) in apart or (j, i) in apart:
                    self._disjoint(i, j, [])
                elif self._both_in_window(i, j):
                    literals = [self._released(i, j), self._released(j, i)]
                    if not any(isinstance(x, int) and x for x in literals):
                        self._disjoint(i, j, [x for x in literals if not isinstance(x, int)])
                elif together[j]:
                    self._disjoint(i, j, [])
            for j in fixed:
                if not together[j] and ((i, j) in apart or (j, i) in apart):
                    self._disjoint(i, j, [])

    def _both_in_window(self, i: int, j: int) -> bool:
        """Return True if the order of the window may decide whether two buffers conflict."""
        start, end = self.plan.start, self.plan.end
        # The conflict is decided inside the window only if it begins and ends there.
        first, last = max(start[i], start[j]), min(end[i], end[j])
        return bool(self.low <= first < self.high and self.low < last <= self.high)

    def _released(self, i: int, j: int) -> Any:
        """Return a literal that is true if buffer `i` is released before `j` is allocated."""
        first, second = self.plan.instance.items[i], self.plan.instance.items[j]
        if first.kept or second.birth not in self.number or self.plan.end[i] > self.high:
            return 0
        users = [self.number[u] for u in first.users if u in self.number]
        return self.order.released(users, self.number[second.birth])

    def _disjoint(self, i: int, j: int, unless: Sequence[Any]) -> None:
        """Require one of two buffers to lie below the other, unless a literal is true."""
        ends = []
        for a, b in ((i, j), (j, i)):
            below = self.model.new_bool_var(f"below{a}_{b}")
            room = self.plan.instance.items[a].room
            self.model.add(self._at(a) + room <= self._at(b)).only_enforce_if(below)
            ends.append(below)
        self.model.add_bool_or([*ends, *unless])

    def _at(self, i: int) -> Any:
        return self.offset.get(i, self.plan.offsets[i])
