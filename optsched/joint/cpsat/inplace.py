"""In-place in the joint model: which pairs spare bytes of the peak, and which share their offset.

These are two choices. The peak of an order counts the heaviest matching of outputs and dying
inputs, whatever lies where; offsets may share fewer bytes, or others. In each, a flag says of a
pair whether it is taken.

::

    step            0    1    2    3
    done[v]         0    0    1    1      v writes o, and runs at step 2
    live of o       0    0    1    1
    skipped[o]      0    0    1    0      where o is spared: its bytes are inside the input's
    time of o                 .    #      where it shares them: its rectangle begins one step later

An output that shares its bytes and is released at once has no rectangle of its own at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from optsched.joint.cpsat.hinted_model import HintedModel
from optsched.joint.cpsat.instance import ModelInstance
from optsched.joint.cpsat.point import ModelPoint


class InplaceVariables:
    """The variables that in-place pairs add to a model; none without pairs."""

    def __init__(self, variables: HintedModel, instance: ModelInstance) -> None:
        self.variables, self.horizon, self.pairs = variables, instance.horizon, instance.pairs
        made = range(len(self.pairs))
        self.spared = [variables.boolean(f"spared[{k}]", partial(_is_spared, k)) for k in made]
        self.shared = [variables.boolean(f"shared[{k}]", partial(_is_shared, k)) for k in made]
        self.outputs = sorted({pair.output for pair in self.pairs})
        self.skipped: dict[tuple[int, int], Any] = {}
        self.written: dict[int, Any] = {}
        for i in self.outputs:
            early, late = instance.step_windows[instance.items[i].birth]
            for step in range(early, late + 1):
                meaning = partial(_is_skipped, self.pairs_of(i), step)
                self.skipped[i, step] = variables.boolean(f"skipped[{i}][{step}]", meaning)
            meaning = partial(_is_written, self.pairs_of(i))
            self.written[i] = variables.boolean(f"written[{i}]", meaning)

    def pairs_of(self, output: int) -> list[int]:
        """Return the numbers of the pairs of an output."""
        return [k for k, pair in enumerate(self.pairs) if pair.output == output]

    def groups(self) -> Iterator[list[int]]:
        """Yield the pairs of each output, and of each input: one of them may be taken."""
        yield from (self.pairs_of(i) for i in self.outputs)
        for source in sorted({pair.source for pair in self.pairs}):
            yield [k for k, pair in enumerate(self.pairs) if pair.source == source]

    def skipped_at(self, i: int, step: int) -> Any:
        """Whether item `i` is not counted at a step, though it is live: a literal or 0."""
        return self.skipped.get((i, step), 0)

    def time_interval(self, i: int, start: Any, end: Any, name: str) -> Any:
        """Return when an output has bytes that no other item has; if never, behind the last step.

        Each output has a step of its own there. An interval that may be absent would say the same,
        but OR-Tools 9.15 then removes solutions in its presolve.
        """
        variables, horizon, pairs = self.variables, self.horizon, self.pairs_of(i)
        model = variables.model
        behind = horizon + self.outputs.index(i)
        own = variables.boolean(f"own[{i}]", partial(_has_own, pairs, i))
        times = partial(_own_times, pairs, i, behind)
        begin = variables.integer(0, behind, f"begin[{i}]", lambda p: times(p)[0])
        finish = variables.integer(0, behind + 1, f"finish[{i}]", lambda p: times(p)[1])
        length = variables.integer(1, horizon, f"length[{i}]", lambda p: times(p)[1] - times(p)[0])
        model.add(begin == start + self.written[i]).only_enforce_if(own)
        model.add(finish == end).only_enforce_if(own)
        model.add(begin == behind).only_enforce_if(~own)
        model.add(finish == behind + 1).only_enforce_if(~own)
        model.add_implication(~own, self.written[i])
        model.add(end == start + 1).only_enforce_if(~own)
        return model.new_interval_var(begin, length, finish, name)


def _is_spared(k: int, point: ModelPoint) -> int:
    return point.spared[k]


def _is_shared(k: int, point: ModelPoint) -> int:
    return point.shared[k]


def _is_written(pairs: Sequence[int], point: ModelPoint) -> int:
    return any(point.shared[k] for k in pairs)


def _is_skipped(pairs: Sequence[int], step: int, point: ModelPoint) -> int:
    known = point.instance.pairs
    return any(point.spared[k] and point.step[known[k].op] == step for k in pairs)


def _has_own(pairs: Sequence[int], i: int, point: ModelPoint) -> int:
    start, end = point.spans[i]
    return start + _is_written(pairs, point) < end


def _own_times(pairs: Sequence[int], i: int, behind: int, point: ModelPoint) -> tuple[int, int]:
    start, end = point.spans[i]
    if not _has_own(pairs, i, point):
        return behind, behind + 1
    return start + _is_written(pairs, point), end
