"""First pass of the simulation: lines that allocate, call and free, as code generation writes them.

Generated C++ kernels are collected into one call, so nothing is freed between two extern kernels.

Example: `k1` reads `a` and writes `b`, `k2` reads `b` and writes `c`. Both kernels are in one call,
so the lines that free `a` and `b` come after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from optsched.plugins.inductor.wrapper.facts import (
    Allocation,
    ExternCall,
    InplaceCandidate,
    Order,
    Scratch,
    WrapperFacts,
    WrapperNode,
)

Pair = tuple[str, str]
"""A buffer, and the buffer whose bytes it takes over."""


class Kind(Enum):
    """Effect of a line on names and their storages."""

    ALLOCATE = auto()
    SHARE = auto()
    """The name takes over the bytes of `source`, whose name is deleted."""
    VIEW = auto()
    CALL = auto()
    FREE = auto()
    KERNEL = auto()


@dataclass(slots=True)
class Line:
    """A line of the wrapper: its effect, the name that it is about, and the step of its node."""

    kind: Kind
    name: str
    step: int
    source: str = ""
    extern: ExternCall | None = None


class LineWriter:
    """Writer of the lines of one order, node by node as in code generation."""

    def __init__(self, facts: WrapperFacts, order: Order) -> None:
        self.facts = facts
        self.order = order
        self.lines: list[Line] = []
        self.inplace: list[Pair] = []
        self.gone: set[str] = set()
        # Allocated, freed and waiting by name, as in Inductor's code generation.
        self.allocated: set[str] = set()
        self.freed: set[str] = set()
        self.waiting: set[str] = set()
        self.arguments: set[str] = set()
        self.done: set[int] = set()

    def write(self) -> list[Line]:
        """Write all lines."""
        last_used = find_last_uses(self.facts, self.order)
        for step, v in enumerate(self.order):
            node = self.facts.nodes[v]
            # Kernels are collected into one call; an extern kernel on the device ends the call
            # before it.
            if node.extern and node.on_device:
                self._flush(max(step - 1, 0))
            # Dead buffers wait for the end of the call, since the collected kernels still have
            # their addresses.
            self.waiting |= last_used[step]
            self._define(node, step)
            if node.scratch:
                # The kernel's workspace exists together with its outputs, which are there by now.
                self._sum_up(node, node.scratch, step)
            self._call(node, step)
            self.done.add(v)
        self._flush(len(self.order) - 1)
        return self.lines

    def _define(self, node: WrapperNode, step: int) -> None:
        first_line, first_pair = len(self.lines), len(self.inplace)
        for definition in node.definitions:
            # Inductor takes the first candidate that is free, also if a later one would fit better.
            source = next(filter(self._is_free_to_take, definition.candidates), None)
            if source is None:
                self._allocate(definition.buffer, step)
            else:
                self._allocate(source.source, step)
                self.freed.add(source.source)
                self.allocated.add(definition.buffer)
                self.inplace.append((definition.buffer, source.source))
                self._add(Kind.SHARE, definition.buffer, step, source.source)
        local = self.facts.local.intersection(node.outputs)
        # Names that never leave the kernel get no lines: their values stay in registers.
        if local:
            self._remove(local, first_line, first_pair)

    def _sum_up(self, node: WrapperNode, scratch: Scratch, step: int) -> None:
        """Write the lines of a kernel with a workspace, and of the sums of what it left there."""
        self._add(Kind.ALLOCATE, scratch.buffer, step)
        self._add(Kind.KERNEL, node.name, step)
        for made in scratch.sums:
            self.allocated.add(made.name)
            self.lines.append(Line(Kind.CALL, made.name, step, extern=made))
        self._add(Kind.FREE, scratch.buffer, step)

    def _is_free_to_take(self, candidate: InplaceCandidate) -> bool:
        return candidate.source not in self.freed and candidate.others <= self.done

    def _remove(self, local: Iterable[str], first_line: int, first_pair: int) -> None:
        """Take back the lines of local buffers that share bytes with local buffers only."""
        groups: dict[str, set[str]] = {}
        for output, source in self.inplace[first_pair:]:
            # Names that share bytes form a group, which vanishes only as a whole.
            union = groups.get(output, {output}) | groups.get(source, {source})
            groups.update(dict.fromkeys(union, union))
        local = set(local)
        dead = {name for name in local if groups.get(name, {name}) <= local}
        self.gone |= dead
        self.freed |= dead
        made = (Kind.ALLOCATE, Kind.SHARE, Kind.VIEW)
        self.lines[first_line:] = [
            line
            for line in self.lines[first_line:]
            if line.kind not in made or line.name not in dead
        ]
        self.inplace[first_pair:] = [
            pair for pair in self.inplace[first_pair:] if pair[0] not in dead
        ]

    def _call(self, node: WrapperNode, step: int) -> None:
        if node.extern:
            self.lines.append(Line(Kind.CALL, node.name, step, extern=node.extern))
            self._flush(step)
            return
        self._add(Kind.KERNEL, node.name, step)
        self.arguments |= node.arguments
        # A call has a maximum number of arguments; beyond it Inductor starts another one.
        if node.arguments and len(self.arguments - self.gone) > self.facts.max_arguments:
            self._flush(step)

    def _flush(self, step: int) -> None:
        """End the call of the collected kernels, and free the buffers that are dead by now."""
        # Sorted, since sets have no order and the pool is a stack.
        for name in sorted(self.waiting - self.gone - self.freed):
            buffer = self.facts.buffers.get(name)
            if buffer is None:
                if name in self.facts.graph_inputs:
                    self._add(Kind.FREE, name, step)
            elif buffer.freed:
                self.freed.add(name)
                self._add(Kind.FREE, name, step)
        self.waiting.clear()
        self.arguments.clear()

    def _allocate(self, name: str, step: int) -> None:
        buffer = self.facts.buffers.get(name)
        if buffer is None or name in self.allocated:
            return
        self.allocated.add(name)
        if buffer.allocation is Allocation.OWN:
            self._add(Kind.ALLOCATE, name, step)
        elif buffer.view_of is not None:
            self._allocate(buffer.view_of, step)
            self._add(Kind.VIEW, name, step, buffer.view_of)

    def _add(self, kind: Kind, name: str, step: int, source: str = "") -> None:
        self.lines.append(Line(kind, name, step, source))


def find_last_uses(facts: WrapperFacts, order: Order) -> list[set[str]]:
    """Return, by step, the names that are not outputs and have their last use there."""
    still_used = set(facts.outputs)
    found: list[set[str]] = []
    for v in reversed(order):
        last = facts.nodes[v].used - still_used
        still_used |= last
        found.append(set(last))
    return found[::-1]
