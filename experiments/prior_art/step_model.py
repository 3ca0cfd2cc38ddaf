"""A CP-SAT model of the order with a literal per op and step, as in most published models.

::

    step            0    1    2    3
    done[v][step]   0    0    1    1      v has ended by the end of this step (it runs at step 2)
    released[i]     0    0    0    1      every user of item i has ended
    live of i       0    0    1    1      done[birth][step] - released[i][step - 1]

The step windows of the ops fix most of `done`, and an item with a single last user does not need
`released` variables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optsched.joint.cpsat.hinted import HintedModel, Literal, negated
from optsched.joint.cpsat.point import ModelPoint
from optsched.joint.instance import INPUT, ModelInstance


class StepModel(HintedModel[ModelPoint]):
    """The model of an instance without in-place pairs; minimize its `peak`."""

    def __init__(self, instance: ModelInstance) -> None:
        super().__init__()
        if instance.pairs:
            raise ValueError("the model of steps does not have in-place pairs")
        self.instance, self.windows = instance, instance.step_windows
        self.last_users = [instance.last_users(i) for i in range(len(instance.items))]
        self.done = [self._literals("done", self._is_done, v, *w) for v, w in self._ops()]
        self.released = [self._release_literals(i) for i in range(len(instance.items))]
        self.peak = self.integer(
            0, sum(item.size for item in instance.items), "peak", lambda p: p.peak
        )
        self._add_monotony()
        self._add_one_op_per_step()
        self._add_precedences()
        self._add_releases()
        for step in range(instance.horizon):
            self.model.add(self._load(step) <= self.peak)

    def done_by(self, op: int, step: int) -> Literal:
        """Return a literal that is true if an op has ended by the end of a step."""
        if op == INPUT:
            return 1
        early, late = self.windows[op]
        if step < early:
            return 0
        return 1 if step >= late else self.done[op][step]

    def released_by(self, i: int, step: int) -> Literal:
        """Return a literal that is true if all users of item `i` have ended after a step."""
        if self.instance.items[i].kept:
            return 0
        users = self.last_users[i]
        if len(users) == 1:
            return self.done_by(users[0], step)
        if step < max(self.windows[u][0] for u in users):
            return 0
        if step >= max(self.windows[u][1] for u in users):
            return 1
        return self.released[i][step]

    def read(self, value: Callable[[Any], int]) -> ModelPoint:
        """Return the order that a solution describes, with all offsets 0."""
        steps = [
            early + sum(1 - value(literal) for literal in row.values())
            for (early, _), row in zip(self.windows, self.done, strict=True)
        ]
        order = tuple(sorted(range(len(steps)), key=lambda v: steps[v]))
        return ModelPoint(self.instance, order, (0,) * len(self.instance.items))

    def _ops(self) -> list[tuple[int, tuple[int, int]]]:
        return list(enumerate(self.windows))

    @staticmethod
    def _is_done(point: ModelPoint, v: int, step: int) -> int:
        return int(point.step[v] <= step)

    def _literals(
        self, name: str, meaning: Callable[..., int], key: int, early: int, late: int
    ) -> dict[int, Any]:
        return {step: self.boolean(name, meaning, key, step) for step in range(early, late)}

    def _release_literals(self, i: int) -> dict[int, Any]:
        users = self.last_users[i]
        if len(users) < 2:
            return {}
        early, late = (max(self.windows[u][at] for u in users) for at in (0, 1))
        return self._literals("released", lambda p, i, s: p.spans[i][1] <= s + 1, i, early, late)

    def _load(self, step: int) -> Any:
        """Return the units live at a step: items are allocated before they are released."""
        return sum(
            item.size * (self.done_by(item.birth, step) - self.released_by(i, step - 1))
            for i, item in enumerate(self.instance.items)
        )

    def _add_monotony(self) -> None:
        """Require that ops stay done and items stay released."""
        for row in (*self.done, *self.released):
            for step, literal in row.items():
                if step + 1 in row:
                    self.model.add_implication(literal, row[step + 1])

    def _add_one_op_per_step(self) -> None:
        """Require that exactly `s + 1` ops are done after step `s`."""
        ops = range(self.instance.op_count)
        for step in ops:
            self.model.add(sum(self.done_by(v, step) for v in ops) == step + 1)

    def _add_precedences(self) -> None:
        """Require that the predecessors of an op are done by the step before it is done."""
        instance = self.instance
        for v, before in enumerate(instance.preds):
            implied = 0
            for u in before:
                implied |= instance.ancestors[u]
            early, late = self.windows[v]
            for u in before:
                for step in range(early, late + 1) if not implied >> u & 1 else ():
                    self._add_implication(self.done_by(v, step), self.done_by(u, step - 1))

    def _add_releases(self) -> None:
        """Require that all last users of an item are done before it is released."""
        for row, users in zip(self.released, self.last_users, strict=True):
            for step, literal in row.items():
                for u in users:
                    self._add_implication(literal, self.done_by(u, step))

    def _add_implication(self, first: Literal, then: Literal) -> None:
        literals = [negated(first), then]
        if not any(isinstance(x, int) and x for x in literals):
            self.model.add_bool_or([x for x in literals if not isinstance(x, int)])
