"""Order and offsets freed inside a stretch of steps, all else kept: a neighbourhood for CP-SAT.

Bytes that lie above the slab wanted are its *excess*. A window frees the order of its ops and
the offsets of the buffers live in it; outside it they keep away from what stays where it is. Each
window may lower the excess and never raises it; at none the slab is reached.

::

    bytes
      |   ####        a buffer across the edge: in the window its steps follow the order,
      |   ######|##   outside they are given; its offset is one and the same
      |     [ window )
      +------------------ steps
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from optsched.joint.cpsat.constraints import add_no_overlap, add_order, add_releases, add_times
from optsched.joint.cpsat.instance import INPUT, Instance, Item, Part, common_unit
from optsched.joint.cpsat.solver import SAFE, Settings, run
from optsched.joint.cpsat.variables import Point, Variables
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem, packing_problem
from optsched.model.plan import Plan, make_plan
from optsched.runtime.limits import Limits

FIRST_WIDTH, MOST_WIDTH = 8, 48
"""Steps of a window at first; beyond the greatest width CP-SAT finds too little in its time."""
GROWTH_AFTER = 4
"""Windows in a row without progress after which the next ones are wider by a quarter."""
WINDOW_SECONDS, WINDOW_WORK = 4.0, 3.0
"""Time that CP-SAT may take for a window, by the clock and by its own deterministic measure."""
MOST_FREE = 120
"""Buffers whose offsets are freed at most; those above the slab wanted come first."""


def window_plans(
    graph: Graph, plan: Plan, target: int, *, limits: Limits, windows: int
) -> Iterator[Plan]:
    """Yield plans of ever less excess above the slab wanted; the last one has none if all is well.

    Parameters
    ----------
    graph
        The graph; not in-place, one pool.
    plan
        A valid plan.
    target
        Bytes that the slab should have.
    limits
        Time, workers, seed.
    windows
        How many to try.
    """
    end = None if limits.seconds is None else time.perf_counter() + limits.seconds
    rng = np.random.default_rng(limits.seed)
    state = _State.of(graph, plan)
    width, failed = min(FIRST_WIDTH, len(graph.ops)), 0
    for _ in range(windows):
        left = None if end is None else end - time.perf_counter()
        high = state.above(target)
        if not len(high) or (left is not None and left <= 0):
            return
        window = state.pick(int(rng.choice(high)), width, rng)
        seconds = WINDOW_SECONDS if left is None else min(WINDOW_SECONDS, left)
        part = Limits(seconds, limits.workers, int(rng.integers(2**31)))
        better = _Window(graph, state, window, target, rng).solve(part)
        if better is None:
            failed += 1
            if failed % GROWTH_AFTER == 0:
                width = min(MOST_WIDTH, len(graph.ops), width + max(1, width // 4))
            continue
        state, failed = better, 0
        yield make_plan(graph, state.order, state.offsets)


@dataclass(frozen=True, slots=True)
class _State:
    """An order with its packing problem, the buffer ids in it, and their offsets."""

    order: list[int]
    problem: PackingProblem
    ids: IntArray
    offsets: IntArray

    @classmethod
    def of(cls, graph: Graph, plan: Plan) -> _State:
        problem, ids = packing_problem(graph, plan.order)
        places = [plan.offsets[b] for b in ids.tolist()]
        offsets = np.array([-1 if place is None else place for place in places], np.int64)
        return cls(list(plan.order), problem, ids, offsets)

    def above(self, target: int) -> IntArray:
        """Positions of the buffers that end above a slab size."""
        return np.flatnonzero(self.offsets + self.problem.size > target)

    def excess(self, target: int) -> int:
        """Bytes above a slab size, added up over the buffers."""
        return int(np.maximum(self.offsets + self.problem.size - target, 0).sum())

    def pick(self, i: int, width: int, rng: np.random.Generator) -> tuple[int, int]:
        """A window over some of the live range of a buffer."""
        start, end = int(self.problem.start[i]), int(self.problem.end[i])
        at = int(rng.integers(start, end)) if end - start > width else (start + end) // 2
        low = at - width // 2 + int(rng.integers(-(width // 4), width // 4 + 1))
        low = max(0, min(low, len(self.order) - width))
        return low, min(len(self.order), low + width)


class _Window:
    """The model of one window: its ops are numbered by their step in it."""

    def __init__(
        self,
        graph: Graph,
        state: _State,
        window: tuple[int, int],
        target: int,
        rng: np.random.Generator,
    ) -> None:
        self.graph, self.state, self.target = graph, state, target
        self.low, self.high = window
        problem = state.problem
        self.start, self.end = problem.start, problem.end
        self.inside = np.flatnonzero((self.start < self.high) & (self.end > self.low)).tolist()
        tops = state.offsets + problem.size
        wanted = sorted(self.inside, key=lambda i: (tops[i] <= target, rng.random()))
        self.free = {i for i in wanted[:MOST_FREE] if problem.pin[i] < 0}
        self.beside = self._neighbours()
        items = [self._item(i) for i in self.inside]
        self.unit = common_unit([*items, *(self._still(i) for i in self.beside)])
        self.instance = self._instance([_scale(item, self.unit) for item in items])

    def solve(self, limits: Limits) -> _State | None:
        """Return what the window makes of the plan, or None if it does not help."""
        variables = self._model()
        order = tuple(range(self.high - self.low))
        places = tuple(int(self.state.offsets[i]) // self.unit for i in self.inside)
        settings = Settings({**SAFE.parameters, "max_deterministic_time": WINDOW_WORK})
        found = run(
            variables,
            lambda point: (self._excess(point),),
            limits=limits,
            settings=settings,
            hint=Point(self.instance, order, places),
        )
        if found.interrupted:
            raise KeyboardInterrupt
        return None if found.best is None else self._apply(found.best)

    def _apply(self, point: Point) -> _State | None:
        state = self.state
        ops = state.order[self.low : self.high]
        order = state.order.copy()
        order[self.low : self.high] = [ops[k] for k in point.order]
        problem, ids = packing_problem(self.graph, order)
        offsets = state.offsets.copy()
        offsets[self.inside] = np.array(point.offsets, np.int64) * self.unit
        better = _State(order, problem, ids, offsets)
        return better if better.excess(self.target) < state.excess(self.target) else None

    def _neighbours(self) -> list[int]:
        """Buffers never live in the window that meet a free one outside it."""
        beside: set[int] = set()
        outside = np.ones(len(self.start), np.bool_)
        outside[self.inside] = False
        for i in self.free:
            meets = (self.start < self.end[i]) & (self.start[i] < self.end) & outside
            beside.update(np.flatnonzero(meets).tolist())
        return sorted(beside)

    def _item(self, i: int) -> Item:
        arrays, b = self.graph.arrays, int(self.state.ids[i])
        local = {v: k for k, v in enumerate(self.state.order[self.low : self.high])}
        kept = bool(self.end[i] > self.high or arrays.keep[b])
        users = {*arrays.user.row(b).tolist(), int(arrays.producer[b])} & local.keys()
        born = self.start[i] >= self.low and arrays.birth[b] >= 0
        problem = self.state.problem
        return Item(
            id=i,
            size=int(problem.size[i]),
            alignment=int(problem.alignment[i]) if i in self.free else 1,
            pin=None if i in self.free else int(self.state.offsets[i]),
            pool="",
            birth=local[int(arrays.birth[b])] if born else INPUT,
            users=() if kept else tuple(sorted(local[v] for v in users)),
            kept=kept,
            parts=(Part(0, int(problem.size[i])),),
        )

    def _still(self, i: int) -> Item:
        """A buffer that stays where it is, for the common unit."""
        size, offset = int(self.state.problem.size[i]), int(self.state.offsets[i])
        return Item(i, size, 1, offset, "", INPUT, (), True, (Part(0, size),))

    def _instance(self, items: Sequence[Item]) -> Instance:
        local = {v: k for k, v in enumerate(self.state.order[self.low : self.high])}
        preds = [
            tuple(sorted(local[u] for u in self.graph.predecessors[v] if u in local)) for v in local
        ]
        succs = [tuple(k for k, us in enumerate(preds) if u in us) for u in range(len(preds))]
        return Instance(self.unit, len(local), tuple(preds), tuple(succs), tuple(items))

    def _model(self) -> Variables:
        variables = Variables(self.instance, ordered=True, placed=True)
        add_order(variables)
        add_releases(variables)
        add_times(variables)
        add_no_overlap(variables)
        self._add_outside(variables)
        target = self.target // self.unit
        excess = []
        for k, i in enumerate(self.inside):
            item = self.instance.items[k]
            variables.model.add(variables.offset[k] + item.size <= variables.slab)
            if i in self.free:
                over = variables.integer(
                    0, self.instance.roof, f"excess[{k}]", partial(_over, k, target)
                )
                variables.model.add(over >= variables.offset[k] + item.size - target)
                excess.append(over)
        variables.model.minimize(sum(excess))
        return variables

    def _add_outside(self, variables: Variables) -> None:
        """Keep what is freed away from all that is live with it before and after the window."""
        model, times, spaces = variables.model, [], []
        for k, i in enumerate(self.inside):
            size = self.instance.items[k].size
            for first, last in ((self.start[i], self.low), (self.high, self.end[i])):
                if first < last:
                    times.append(_interval(model, int(first), int(last)))
                    spaces.append(model.new_fixed_size_interval_var(variables.offset[k], size, ""))
        for i in self.beside:
            size = int(self.state.problem.size[i]) // self.unit
            offset = int(self.state.offsets[i]) // self.unit
            times.append(_interval(model, int(self.start[i]), int(self.end[i])))
            spaces.append(_interval(model, offset, offset + size))
        model.add_no_overlap_2d(times, spaces)

    def _excess(self, point: Point) -> int:
        target = self.target // self.unit
        return sum(_over(k, target, point) for k in range(len(self.inside)))


def _over(k: int, target: int, point: Point) -> int:
    return max(0, point.offsets[k] + point.instance.items[k].size - target)


def _interval(model: Any, start: int, end: int) -> Any:
    return model.new_fixed_size_interval_var(start, end - start, "")


def _scale(item: Item, unit: int) -> Item:
    size = item.size // unit
    pin = None if item.pin is None else item.pin // unit
    alignment = max(1, item.alignment // unit)
    whole = (Part(0, size),)
    return Item(item.id, size, alignment, pin, "", item.birth, item.users, item.kept, whole)
