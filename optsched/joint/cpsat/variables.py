"""The variables of the model, each with its meaning: its value in a given plan.

::

    step            0    1    2    3
    done[v][step]   0    0    1    1      v has ended by the end of this step (it runs at step 2)
    released[i]     0    0    0    1      every user of item i has ended
    live of i       0    0    1    1      done[birth][step] - released[i][step - 1]

The step windows of the ops fix most of `done`, and an item with a single last user does not need
`released` variables. Since every variable knows its meaning, every hint is complete.

With in-place pairs, two choices are modeled separately. The peak of an order counts the heaviest
matching of outputs and dying inputs, regardless of offsets; a packing may share fewer bytes, or
others. For each choice, a flag states whether a pair is used::

    skipped[o]      0    0    1    0      o, written by v, is not counted: it lies in the input
    time of o                 .    #      if o shares the offset, its rectangle begins a step later

An output that shares its bytes and is released at once does not have a rectangle.

Example: in the drawing, `v` makes item `i`, runs at step 2, and the last user of `i` runs at step
3; so `i` is live at steps 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ortools.sat.python import cp_model

from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.instance import INPUT, ModelInstance, ModelItem

Meaning = Callable[..., int]
"""Function that returns the value of a variable in a point."""
Literal = Any
"""A boolean variable of CP-SAT, its negation, or one of the constants 0 and 1."""


Point = TypeVar("Point")


def negated(literal: Literal) -> Literal:
    """Return the negation of a literal or constant."""
    return 1 - literal if isinstance(literal, int) else ~literal


class HintedModel(Generic[Point]):
    """A model whose variables have meanings, so that every hint is complete."""

    def __init__(self) -> None:
        self.model = cp_model.CpModel()
        self.meanings: list[tuple[Any, Meaning]] = []

    def add_hint(self, point: Point) -> None:
        """Add a hint for every variable with its value in a point."""
        for variable, meaning in self.meanings:
            self.model.add_hint(variable, int(meaning(point)))
        # CP-SAT represents constants as variables, and requires values for them in a complete hint.
        hinted = {variable.index for variable, _ in self.meanings}
        for index, made in enumerate(self.model.proto.variables):
            if index not in hinted:
                # `domain[0]` is the value of a constant.
                self.model.add_hint(self.model.get_int_var_from_proto_index(index), made.domain[0])

    def boolean(self, name: str, meaning: Meaning, *key: int | str) -> Any:
        """Add the boolean variable `name[key]`."""
        return self.integer(0, 1, name, meaning, *key)

    def integer(self, low: int, high: int, name: str, meaning: Meaning, *key: int | str) -> Any:
        """Add the integer variable `name[key]`; `meaning` takes a point and the key."""
        variable = self.model.new_int_var(low, high, name + "".join(f"[{x}]" for x in key))
        self.meanings.append((variable, lambda point: meaning(point, *key)))
        return variable


class ModelVariables(HintedModel[ModelPoint]):
    """The variables of one model; known lower bounds are given in bytes."""

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
        """Return a literal that is true if an op has ended by the end of a step."""
        if op == INPUT:
            return 1
        early, late = self.step_windows[op]
        # Outside its window the graph decides, so no variable is needed.
        if step < early:
            return 0
        return 1 if step >= late else self.done[op][step]

    def released_by(self, i: int, step: int) -> Literal:
        """Return a literal that is true if all users of item `i` have ended after a step."""
        if self.instance.items[i].kept:
            return 0
        # One user that may be last: its own end is the release.
        users = self.last_users[i]
        if len(users) == 1:
            return self.done_by(users[0], step)
        if step < max(self.step_windows[u][0] for u in users):
            return 0
        if step >= max(self.step_windows[u][1] for u in users):
            return 1
        return self.released[i][step]

    def live(self, i: int, step: int) -> Any:
        """Return a term that is 1 if item `i` is live during a step, else 0.

        It is linear, as the item is allocated before it is released.
        """
        return self.done_by(self.instance.items[i].birth, step) - self.released_by(i, step - 1)

    def read(self, value: Callable[[Any], int]) -> ModelPoint:
        """Return the plan that a solution describes."""
        # The step of an op is the number of steps at which it is not done.
        steps = [
            early + sum(1 - value(literal) for literal in row.values())
            for (early, _), row in zip(self.step_windows, self.done, strict=False)
        ]
        order = tuple(sorted(range(len(steps)), key=lambda v: steps[v]))
        return ModelPoint(self.instance, order, tuple(value(offset) for offset in self.offset))

    def _add_order(self) -> None:
        for v, (early, late) in enumerate(self.step_windows):
            self.done.append(
                {
                    s: self.boolean("done", lambda p, v, s: p.step[v] <= s, v, s)
                    for s in range(early, late)
                }
            )
        for i, users in enumerate(self.last_users):
            if len(users) < 2:
                continue
            early = max(self.step_windows[u][0] for u in users)
            late = max(self.step_windows[u][1] for u in users)
            self.released[i] = {
                s: self.boolean("released", lambda p, i, s: p.spans[i][1] <= s + 1, i, s)
                for s in range(early, late)
            }

    def _add_times(self) -> None:
        for v, (early, late) in enumerate(self.step_windows):
            self.position.append(self.integer(early, late, "position", lambda p, v: p.step[v], v))
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
                self.end.append(self.integer(early, late, "end", lambda p, i: p.spans[i][1], i))

    def _add_offsets(self) -> None:
        for i, item in enumerate(self.instance.items):
            if item.pin is not None:
                self.offset.append(item.pin)
                continue
            # In multiples of the alignment, so that alignment needs no constraint.
            highest = (self.instance.slab_limits[item.pool] - item.room) // item.alignment
            slot = self.integer(0, highest, "slot", ModelPoint.slot, i)
            self.offset.append(slot * item.alignment)

    def _add_slabs(self, bound: int) -> None:
        """Add a slab variable per pool and one for their sum; with one pool they are the same."""
        self.slab = self.integer(0, self.instance.slab_limit, "slab", lambda p: p.slab)
        self.model.add(self.slab >= bound)
        # One slab: the sum is the slab itself.
        if len(self.instance.pools) == 1:
            self.slabs = {self.instance.pools[0]: self.slab}
            return
        for pool, limit in self.instance.slab_limits.items():
            self.slabs[pool] = self.integer(0, limit, "slab", ModelPoint.slab_of, pool)


class InplaceVariables:
    """The variables that in-place pairs add to a model; empty without pairs."""

    def __init__(self, variables: HintedModel[ModelPoint], instance: ModelInstance) -> None:
        self.variables, self.horizon, self.pairs = variables, instance.horizon, instance.pairs
        made = range(len(self.pairs))
        self.spared = [variables.boolean("spared", lambda p, k: p.spared[k], k) for k in made]
        self.shared = [variables.boolean("shared", lambda p, k: p.shared[k], k) for k in made]
        self.outputs = sorted({pair.output for pair in self.pairs})
        self.skipped: dict[tuple[int, int], Any] = {}
        self.written: dict[int, Any] = {}
        for i in self.outputs:
            early, late = instance.step_windows[instance.items[i].birth]
            for step in range(early, late + 1):
                self.skipped[i, step] = variables.boolean(
                    "skipped", lambda p, i, step: (i, step) in p.skipped, i, step
                )
            self.written[i] = variables.boolean("written", lambda p, i: i in p.written, i)

    def pairs_of(self, output: int) -> list[int]:
        """Return the positions of the pairs of an output."""
        return [k for k, pair in enumerate(self.pairs) if pair.output == output]

    def groups(self) -> Iterator[list[int]]:
        """Yield the pairs of each output and of each input; at most one of each may be chosen."""
        yield from (self.pairs_of(i) for i in self.outputs)
        for source in sorted({pair.source for pair in self.pairs}):
            yield [k for k, pair in enumerate(self.pairs) if pair.source == source]

    def skipped_at(self, i: int, step: int) -> Any:
        """Return a literal, or 0, that is true if item `i` is live but not counted at a step."""
        return self.skipped.get((i, step), 0)

    def time_interval(self, i: int, start: Any, end: Any, name: str) -> Any:
        """Return the interval of steps at which an output has bytes of its own.

        Without such a step, the interval lies after the last step, at a separate position for each
        output. An optional interval would be equivalent, but OR-Tools 9.15 then removes solutions
        in its presolve.
        """
        variables, horizon, model = self.variables, self.horizon, self.variables.model
        # A place of its own after the horizon, where it meets no other interval.
        behind = horizon + self.outputs.index(i)

        def times(point: ModelPoint) -> tuple[int, int]:
            return point.own_span(i) or (behind, behind + 1)

        own = variables.boolean("own", lambda p, i: p.own_span(i) is not None, i)
        begin = variables.integer(0, behind, "begin", lambda p, _: times(p)[0], i)
        finish = variables.integer(0, behind + 1, "finish", lambda p, _: times(p)[1], i)
        length = variables.integer(1, horizon, "length", lambda p, _: times(p)[1] - times(p)[0], i)
        model.add(begin == start + self.written[i]).only_enforce_if(own)
        model.add(finish == end).only_enforce_if(own)
        model.add(begin == behind).only_enforce_if(~own)
        model.add(finish == behind + 1).only_enforce_if(~own)
        model.add_implication(~own, self.written[i])
        model.add(end == start + 1).only_enforce_if(~own)
        return model.new_interval_var(begin, length, finish, name)


def _last_users(instance: ModelInstance, item: ModelItem) -> tuple[int, ...]:
    """Return the users that may be last: those after which no other user must run."""
    users = sum(1 << u for u in item.users)
    return tuple(u for u in item.users if not instance.descendants[u] & users)
