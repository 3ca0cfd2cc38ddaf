"""Live ranges of a module's values for one order of the entry computation.

Example: the entry runs `a`, then a call of a computation with three instructions, then `b`. The
flattened schedule has these three at steps 1 to 3, the call itself at 4, and `b` at 5.

References
----------
xla/hlo/utils/hlo_live_range.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise

from optsched.formats.hlo.allocation.values import ModuleValues
from optsched.formats.hlo.read import CALLERS


class Timeline:
    """The flattened schedule of a module.

    `values`: values of the module. `sequence`: all instructions of the entry computation.

    Attributes
    ----------
    step
        The place of each instruction, those of called computations before their caller.
    spans
        The first step of each computation, and the one after its last.
    """

    def __init__(self, values: ModuleValues, sequence: Sequence[str]) -> None:
        self.values = values
        self.step: dict[str, int] = {}
        self.spans: dict[str, tuple[int, int]] = {}
        self._last: dict[int, str] = {}
        self._flatten(values.module.entry, sequence)

    def _flatten(self, name: str, sequence: Iterable[str]) -> None:
        begin = len(self.step)
        computations = self.values.module.computations
        instructions = computations[name].instructions
        for made in (instructions[x] for x in sequence):
            called = made.called if made.opcode in CALLERS else ()
            if made.opcode == "while":
                # The condition runs before the body.
                called = tuple(sorted(called, key=lambda x: x == made.body))
            for callee in called:
                self._flatten(callee, computations[callee].instructions)
            # After what it calls: the caller's own step is the last.
            self.step[made.name] = len(self.step)
        self.spans[name] = begin, len(self.step)

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """The first and the last step of each value, both inclusive.

        Values of one memory that follow each other do not overlap.
        """
        found = []
        for value in self.values.values:
            begin = self.spans[value.begins][0] if value.begins else self.step[value.definer]
            last = max((self.step[x] for x in value.ends), default=begin)
            last = max((last, *(self.spans[x][1] for x in value.spans)))
            found.append((begin, max(begin, last)))
        for group in self.values.groups:
            turn = sorted(group.values, key=lambda v: (*found[v], self.values.values[v].number))
            # Values of one memory follow each other: the first ends where the second begins.
            for one, other in pairwise(turn):
                first, second = found[one], found[other]
                found[other] = second[0], max(first[1], second[1])
                found[one] = first[0], min(first[1], second[0])
        return found

    def last_position(self, v: int) -> str:
        """Return the last instruction that passes a value on; its definer without one."""
        if v not in self._last:
            self._last[v] = max(self.values.values[v].positions, key=self._end)
        return self._last[v]

    def _end(self, name: str) -> int:
        """Return the step of an instruction, or where its computation ends if it is the result."""
        computation = self.values.root_of.get(name)
        return self.step[name] if computation is None else self.spans[computation][1]
