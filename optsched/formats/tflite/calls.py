"""Operators that run other subgraphs, and how TFLite Micro lays those out: all in one arena.

The interpreter walks the operators in their order, and into the subgraphs of an operator right
before the next one. Each operator is a step. An operator's outputs are there before its subgraphs
run, its inputs until they have run; branches of an IF, and condition and body of a WHILE, come one
after the other, so they share bytes. For example, `A, IF(then: B, C; else: D), E` has the steps::

    A  IF  then  B  C  else  D  E

A subgraph has a step of its own first, at which its inputs are there; its outputs stay to its
last step. Tensors that nothing uses are there at a step before all others. The planner then places
all tensors of all subgraphs, large ones first and among equal ones the last one first, as low as
they fit. Offsets that the file gives come first; the entry of a number is that of the tensors with
this number in all subgraphs.

References
----------
tensorflow/lite/micro/micro_allocation_info.cc and memory_planner/greedy_memory_planner.cc of
https://github.com/tensorflow/tflite-micro
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from optsched.errors import FormatError
from optsched.formats.tflite.model import Model, Operator, options_of

CALLERS = ("IF", "WHILE", "CALL", "CALL_ONCE")
"""Kinds of the operators that run other subgraphs."""


def called(model: Model, op: Operator) -> list[int]:
    """Return the numbers of the subgraphs that an operator runs, 1 for the first of the others."""
    # Without options the default subgraph would be the main one.
    if op.kind not in CALLERS or op.options is None:
        return []
    import tflite

    make: dict[str, type] = {
        "IF": tflite.IfOptions,
        "WHILE": tflite.WhileOptions,
        "CALL": tflite.CallOptions,
        "CALL_ONCE": tflite.CallOnceOptions,
    }
    names = {
        "IF": ("ThenSubgraphIndex", "ElseSubgraphIndex"),
        "WHILE": ("CondSubgraphIndex", "BodySubgraphIndex"),
        "CALL": ("Subgraph",),
        "CALL_ONCE": ("InitSubgraphIndex",),
    }
    options = options_of(op, make[op.kind])
    found = [int(getattr(options, name)()) for name in names[op.kind]]
    for number in found:
        if not 1 <= number <= len(model.others):
            raise FormatError(f"op {op.name!r} runs subgraph {number}, which is not in the file")
    return found


def subgraph(model: Model, number: int) -> Model:
    """Return one of the other subgraphs, which knows the others as well."""
    return replace(model.others[number - 1], others=model.others)


@dataclass(frozen=True, slots=True)
class Part:
    """A subgraph as it is planned: bytes of its tensors and of its operators' scratch.

    `sizes` has the bytes of each tensor, 0 for one outside the arena; `scratch` those of each
    operator by its number; `skipped` are operators that make constants, and do not run.
    """

    model: Model
    sizes: Sequence[int]
    scratch: Sequence[Sequence[int]]
    skipped: frozenset[int] = frozenset()


Key = tuple[int, int, int, int]
"""Subgraph and number of a tensor; of scratch, `_SCRATCH`, subgraph, operator and number."""
_SCRATCH: Final = 1 << 30
_UNUSED: Final = -1


@dataclass
class Layout:
    """Steps at which tensors and scratch are first and last there, over all subgraphs.

    `planned` are the offsets of the file by number of the tensor, -1 where it gives none.
    """

    parts: Callable[[Model], Part]
    planned: Sequence[int] = ()
    step: int = 0
    first: dict[Key, int] = field(default_factory=dict)
    last: dict[Key, int] = field(default_factory=dict)
    sizes: dict[Key, int] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)

    def walk(self, number: int, model: Model, order: Sequence[int] | None = None) -> None:
        """Mark the lifetimes in a subgraph, whose operators run in this order."""
        # Recursion would need unlimited memory.
        if number in self.running:
            raise FormatError(f"subgraph {number} runs itself")
        self.running.add(number)
        part = self.parts(model)
        # The step of a subgraph's own inputs; the main one begins at step 0.
        self.step += number > 0
        for t in model.inputs:
            self._mark(part, number, t)
        for v in range(len(model.operators)) if order is None else order:
            if v not in part.skipped:
                self._run(part, number, model.operators[v])
        for t in model.outputs:
            self._mark(part, number, t)
        self.running.remove(number)

    def add_unused(self, number: int, model: Model) -> None:
        """Mark the tensors of a subgraph that nothing uses, at the step before all others."""
        part = self.parts(model)
        for t, size in enumerate(part.sizes):
            if size and (number, t, 0, 0) not in self.sizes:
                self.sizes[number, t, 0, 0] = size
                self.first[number, t, 0, 0] = self.last[number, t, 0, 0] = _UNUSED

    def _run(self, part: Part, number: int, op: Operator) -> None:
        self.step += 1
        begun = self.step
        for t in op.outputs:
            self._mark(part, number, t)
        for inner in called(part.model, op):
            self.walk(inner, subgraph(part.model, inner))
        # Inputs are marked again, since they last until the subgraphs have run.
        for t in (*op.inputs, *op.outputs):
            self._mark(part, number, t)
        for i, size in enumerate(part.scratch[op.number]):
            key = (_SCRATCH, number, op.number, i)
            self.sizes[key] = size
            self.first[key] = min(begun, self.first.get(key, begun))
            self.last[key] = self.step

    def _mark(self, part: Part, number: int, t: int) -> None:
        if t >= 0 and part.sizes[t]:
            key = (number, t, 0, 0)
            self.sizes[key] = part.sizes[t]
            self.first.setdefault(key, self.step)
            self.last[key] = self.step

    @property
    def unused(self) -> int:
        """Bytes of the tensors that nothing uses."""
        return sum(self.sizes[key] for key, step in self.last.items() if step == _UNUSED)

    def head(self) -> int:
        """Return the bytes of the arena's head, as TFLite Micro's planner packs all of it."""
        given = [key for key in self.sizes if self._offset(key) >= 0]
        placed = sorted((self._offset(key), key) for key in given)
        free = self.sizes.keys() - given
        # By size, then by key: the planner's own sequence among equals.
        for key in sorted(free, key=lambda key: (self.sizes[key], key), reverse=True):
            size, first, last, place = self.sizes[key], self.first[key], self.last[key], 0
            for at, other in placed:
                if first <= self.last[other] and self.first[other] <= last:
                    # The first hole that is large enough.
                    if at - place >= size:
                        break
                    place = max(place, at + self.sizes[other])
            insort(placed, (place, key))
        return max((at + self.sizes[key] for at, key in placed), default=0)

    def _offset(self, key: Key) -> int:
        """Return the offset that the file gives to a tensor, or -1."""
        is_given = key[0] != _SCRATCH and key[1] < len(self.planned)
        return self.planned[key[1]] if is_given else -1
