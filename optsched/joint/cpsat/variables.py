"""The variables of the model, each with its meaning: the value it has in a given plan.

::

    step            0    1    2    3
    done[v][step]   0    0    1    1      v has ended by the end of this step (it runs at step 2)
    released[i]     0    0    0    1      every user of item i has ended
    live of i       0    0    1    1      done[birth][step] - released[i][step - 1]

The step windows of the ops fix most of `done`, and an item with a single last user needs no
`released` of its own. Since every variable knows its meaning, a hint is complete by construction.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from optsched.joint.cpsat.hinted_model import HintedModel
from optsched.joint.cpsat.inplace import InplaceVariables
from optsched.joint.cpsat.instance import INPUT, ModelInstance, ModelItem
from optsched.joint.cpsat.point import ModelPoint

Literal = Any
"""A boolean variable of CP-SAT, its negation, or the constants 0 and 1."""


class ModelVariables(HintedModel):
    """The variables of one model.

    Parameters
    ----------
    instance
        What is to be planned.
    peak_bound, slab_bound
        Lower bounds in bytes that are known already.
    """

    def __init__(
        self, instance: ModelInstance, *, peak_bound: int = 0, slab_bound: int = 0
    ) -> None:
        super().__init__()
        self.instance = instance
        self.step_windows = instance.step_windows
        self.last_users = [_last_users(instance, item) for item in instance.items]
        self.done: list[dict[int, Literal]] = []
        self.released: list[dict[int, Literal]] = [{} for _ in instance.items]
        self.position: list[Any] = []
        self.start: list[Any] = []
        self.end: list[Any] = []
        self.offset: list[Any] = []
        self.slabs: dict[str, Any] = {}
        self._add_order()
        total = sum(item.size for item in instance.items)
        self.peak = self.integer(0, total, "peak", lambda p: p.peak)
        self.model.add(self.peak >= instance.up(peak_bound))
        self._add_times()
        self._add_offsets()
        self._add_slabs(instance.up(slab_bound))
        self.inplace = InplaceVariables(self, instance)

    def done_by(self, op: int, step: int) -> Literal:
        """Whether an op has ended by the end of a step."""
        if op == INPUT:
            return 1
        early, late = self.step_windows[op]
        if step < early:
            return 0
        return 1 if step >= late else self.done[op][step]

    def released_by(self, i: int, step: int) -> Literal:
        """Whether every user of item `i` has ended by the end of a step."""
        if self.instance.items[i].kept:
            return 0
        users = self.last_users[i]
        if len(users) == 1:
            return self.done_by(users[0], step)
        if step < max(self.step_windows[u][0] for u in users):
            return 0
        if step >= max(self.step_windows[u][1] for u in users):
            return 1
        return self.released[i][step]

    def live(self, i: int, step: int) -> Any:
        """0 or 1: item `i` takes room during a step. Linear, since it is born before released."""
        return self.done_by(self.instance.items[i].birth, step) - self.released_by(i, step - 1)

    def _add_order(self) -> None:
        for v, (early, late) in enumerate(self.step_windows):
            self.done.append(
                {
                    s: self.boolean(f"done[{v}][{s}]", partial(_is_done, v, s))
                    for s in range(early, late)
                }
            )
        for i, users in enumerate(self.last_users):
            if len(users) < 2:
                continue
            early = max(self.step_windows[u][0] for u in users)
            late = max(self.step_windows[u][1] for u in users)
            self.released[i] = {
                s: self.boolean(f"released[{i}][{s}]", partial(_is_released, i, s))
                for s in range(early, late)
            }

    def _add_times(self) -> None:
        for v, (early, late) in enumerate(self.step_windows):
            self.position.append(self.integer(early, late, f"position[{v}]", partial(_step, v)))
        for i, item in enumerate(self.instance.items):
            users = self.last_users[i]
            self.start.append(0 if item.birth == INPUT else self.position[item.birth])
            if item.kept:
                self.end.append(self.instance.horizon)
            elif len(users) == 1:
                self.end.append(self.position[users[0]] + 1)
            else:
                early = max(self.step_windows[u][0] for u in users) + 1
                late = max(self.step_windows[u][1] for u in users) + 1
                self.end.append(self.integer(early, late, f"end[{i}]", partial(_end, i)))

    def _add_offsets(self) -> None:
        for i, item in enumerate(self.instance.items):
            if item.pin is not None:
                self.offset.append(item.pin)
                continue
            highest = (self.instance.slab_limits[item.pool] - item.room) // item.alignment
            slot = self.integer(0, highest, f"slot[{i}]", partial(_slot, i))
            self.offset.append(slot * item.alignment)

    def _add_slabs(self, bound: int) -> None:
        """A slab for each pool, and one variable for their sum; with one pool it is the same."""
        self.slab = self.integer(0, self.instance.slab_limit, "slab", lambda p: p.slab)
        self.model.add(self.slab >= bound)
        if len(self.instance.pools) == 1:
            self.slabs = {self.instance.pools[0]: self.slab}
            return
        for pool, limit in self.instance.slab_limits.items():
            self.slabs[pool] = self.integer(0, limit, f"slab[{pool}]", partial(_slab_of, pool))


def _slab_of(pool: str, point: ModelPoint) -> int:
    return point.slab_of(pool)


def _step(v: int, point: ModelPoint) -> int:
    return point.step[v]


def _is_done(v: int, step: int, point: ModelPoint) -> int:
    return point.step[v] <= step


def _is_released(i: int, step: int, point: ModelPoint) -> int:
    return point.spans[i][1] <= step + 1


def _end(i: int, point: ModelPoint) -> int:
    return point.spans[i][1]


def length_of(i: int, point: ModelPoint) -> int:
    """Steps for which item `i` is live."""
    return point.spans[i][1] - point.spans[i][0]


def _slot(i: int, point: ModelPoint) -> int:
    return point.offsets[i] // point.instance.items[i].alignment


def _last_users(instance: ModelInstance, item: ModelItem) -> tuple[int, ...]:
    """The users that may be last: those behind which no other user must come."""
    users = sum(1 << u for u in item.users)
    return tuple(u for u in item.users if not instance.descendants[u] & users)
