"""A plan as a point of the model, from which the value of each variable follows.

Example: the order p, q with offsets 0 and 4 gives `done[p] = (1, 1)`, `done[q] = (0, 1)`, and every
other variable follows from these and the offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from optsched.joint.instance import ModelInstance, ModelPair, live_spans
from optsched.model.inplace import heaviest_matching
from optsched.model.plan import Plan

Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class ModelPoint:
    """A plan as a point of the model."""

    instance: ModelInstance
    """The planned instance."""
    order: tuple[int, ...]
    """Op ids by step."""
    offsets: tuple[int, ...]
    """First unit of each item."""
    step: tuple[int, ...] = field(init=False)
    spans: tuple[tuple[int, int], ...] = field(init=False)
    """Step of each op, and live range of each item."""
    spared: tuple[bool, ...] = field(init=False)
    shared: tuple[bool, ...] = field(init=False)
    """For each in-place pair: True if its output does not count toward the peak, and True if the
    output lies at the offset of the input.
    """

    def __post_init__(self) -> None:
        step = [0] * len(self.order)
        for at, v in enumerate(self.order):
            step[v] = at
        # The class is frozen, so derived fields are set past its guard.
        object.__setattr__(self, "step", tuple(step))
        object.__setattr__(self, "spans", tuple(live_spans(self.instance, self.order)))
        object.__setattr__(self, "spared", _spared_pairs(self.instance, self.step, self.spans))
        shared = _shared_pairs(self.instance, self.step, self.spans, self.offsets)
        object.__setattr__(self, "shared", shared)

    @classmethod
    def of_plan(cls, instance: ModelInstance, plan: Plan) -> ModelPoint:
        """Return a valid plan as a point of the model.

        Plans of the engines of this package lie on whole units
        (:mod:`optsched.joint.instance`), so CP-SAT accepts them as its first solution. Other
        offsets are rounded down to units, and CP-SAT repairs the violated constraints.
        """
        offsets = tuple((plan.offsets[item.id] or 0) // instance.unit for item in instance.items)
        return cls(instance, plan.order, offsets)

    def slot(self, i: int) -> int:
        """Return the offset of an item in multiples of its alignment."""
        return self.offsets[i] // self.instance.items[i].alignment

    @cached_property
    def written(self) -> frozenset[int]:
        """Outputs that lie at the offset of an input into which their ops write them."""
        pairs = zip(self.instance.pairs, self.shared, strict=True)
        return frozenset(pair.output for pair, shared in pairs if shared)

    @cached_property
    def skipped(self) -> frozenset[tuple[int, int]]:
        """Outputs that do not count toward the peak, each with the step of its op."""
        pairs = zip(self.instance.pairs, self.spared, strict=True)
        return frozenset((pair.output, self.step[pair.op]) for pair, spared in pairs if spared)

    def own_span(self, output: int) -> tuple[int, int] | None:
        """Return the range of steps at which an output has bytes of its own, or None."""
        start, end = self.spans[output]
        # An output in its input's place has no bytes of its own at the first step.
        start += output in self.written
        return (start, end) if start < end else None

    def rests_on(self, i: int, j: int) -> bool:
        """Return True if item `i` lies as low above item `j` as its alignment allows.

        The two overlap in time, or are kept apart.
        """
        (start, end), (other, last) = self.spans[i], self.spans[j]
        apart = (i, j) in self.instance.apart or (j, i) in self.instance.apart
        if not apart and not (start < last and other < end):
            return False
        step = self.instance.items[i].alignment
        top = self.offsets[j] + self.instance.items[j].room
        return self.offsets[i] == -(-top // step) * step

    @property
    def peak(self) -> int:
        """Units live at the fullest step."""
        return max(self.loads(), default=0)

    def loads(self) -> list[int]:
        """Return the units live at each step."""
        change = [0] * (self.instance.horizon + 1)
        for item, (start, end) in zip(self.instance.items, self.spans, strict=True):
            change[start] += item.size
            change[end] -= item.size
        for pair, spared in zip(self.instance.pairs, self.spared, strict=True):
            if spared:
                size, at = self.instance.items[pair.output].size, self.step[pair.op]
                change[at] -= size
                change[at + 1] += size
        total, loads = 0, []
        for delta in change[:-1]:
            total += delta
            loads.append(total)
        return loads

    @property
    def slab(self) -> int:
        """Sum of all slabs in units."""
        return sum(self.slab_of(pool) for pool in self.instance.pools)

    def slab_of(self, pool: str) -> int:
        """Return the highest end of an item in a pool, in units."""
        tops = zip(self.offsets, self.instance.items, strict=True)
        return max((offset + item.room for offset, item in tops if item.pool == pool), default=0)


def _spared_pairs(instance: ModelInstance, step: Sequence[int], spans: Spans) -> tuple[bool, ...]:
    """Return, for each pair, True if it is in the heaviest matching of its op."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for pair in instance.pairs:
        if _dies(pair, step, spans):
            rows.setdefault(pair.op, []).append((pair.output, pair.source))
    size = {i: item.size for i, item in enumerate(instance.items)}
    chosen = {
        (v, *couple) for v, row in rows.items() for couple in heaviest_matching(row, size).items()
    }
    return tuple((pair.op, pair.source, pair.output) in chosen for pair in instance.pairs)


def _shared_pairs(
    instance: ModelInstance, step: Sequence[int], spans: Spans, offsets: Sequence[int]
) -> tuple[bool, ...]:
    """Return, for each pair, True if the output lies at the offset of the dying input.

    Each output and each input is in at most one such pair.
    """
    used: set[int] = set()
    found = []
    for pair in instance.pairs:
        apart = offsets[pair.output] != offsets[pair.source]
        # A pair is used at most once per output and per input, in the order of the list.
        free = used.isdisjoint((pair.output, ~pair.source))
        found.append(free and not apart and _dies(pair, step, spans))
        if found[-1]:
            # An item may be the output of one pair and the input of another, so keys differ in
            # sign.
            used |= {pair.output, ~pair.source}
    return tuple(found)


def _dies(pair: ModelPair, step: Sequence[int], spans: Spans) -> bool:
    return spans[pair.source][1] == step[pair.op] + 1
