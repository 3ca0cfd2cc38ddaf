"""Simulation of XLA's buffer assignment: the bytes that a module allocates for an order.

Groups of values that share memory are placed by size, the largest first. A group that is returned
gets memory of its own, or that of another returned group of its size which is dead by then. A
temporary may use the memory of a returned group while that group does not exist. All other
temporaries are packed together, each in the tightest gap, once by size and once by lifetime, and
the better packing is used. Lifetimes are measured by XLA's clock, which counts allocations and
releases. A result is written over an operand that dies with it, if the op allows that. Tables of
tuples do not share memory.

Example: temporaries of 8 and 4 bytes that do not overlap in time, and a returned value of 8 bytes
that is made last: both temporaries may use its memory before it exists, so 8 bytes are allocated.

References
----------
xla/service/buffer_assignment.cc, functions AssignSingleHloBuffer and MaybeAssignBuffer;
xla/service/heap_simulator/heap_simulator.cc, HeapSimulator::RunComputation and
GlobalDecreasingSizeBestFitHeap.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from optsched.formats.format import Source
from optsched.formats.hlo.allocation.timeline import Timeline
from optsched.formats.hlo.allocation.value import Group
from optsched.formats.hlo.allocation.values import ModuleValues
from optsched.formats.hlo.allocation.walks import count_thread_local
from optsched.formats.hlo.shapes import leaves
from optsched.formats.hlo.text import HloModule, parse_module
from optsched.model.arrays import IntArray
from optsched.runtime.bytes import round_up

ALIGNMENT = 64


def never_stop() -> None:
    """Let a simulation run to its end."""


@dataclass
class _Block:
    """Values that share one place: the size of the largest, and the lifetime of each."""

    size: int
    number: tuple[int, int]
    lives: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Assignment:
    """XLA's assignment for one order."""

    values: ModuleValues
    """Values of the module."""
    sequence: Sequence[str]
    """All instructions of the entry computation."""
    check: Callable[[], None] = never_stop
    """Called often; may raise an error to stop, as large modules take seconds."""

    @cached_property
    def allocated(self) -> int:
        """Bytes of temporaries and of results together.

        Results in the place of a donated argument are not counted.
        """
        # Constants and arguments are the caller's.
        groups = self.values.groups
        tables = sum(group.size for group in groups if group.is_table and group.live_out)
        made = (groups[slot[0]] for slot in self._slots)
        return self.temporary + tables + sum(x.size for x in made if not x.is_donated)

    @property
    def held(self) -> int:
        """Bytes of temporaries and of all arrays that are returned, also in donated arguments.

        The table of pointers to the results is not among them.
        """
        return self.temporary + sum(self.values.groups[slot[0]].size for slot in self._slots)

    @cached_property
    def temporary(self) -> int:
        """Bytes of temporaries outside the results' memory: tables, and the packed values."""
        total = 0
        for size in _temporary_last(self._allocations()):
            # The alignment comes before each allocation, not after the last.
            total = round_up(total, ALIGNMENT) + size
        return total

    def _allocations(self) -> list[int | None]:
        """Return XLA's allocations in its order: bytes of temporary ones, None for the others."""
        groups = self.values.groups
        slots = {slot[0] for slot in self._slots}
        made: list[tuple[Group, int | None]] = [(group, None) for group in self.values.fixed]
        for g, group in enumerate(groups):
            if group.is_table or g in slots:
                made.append((group, group.size if group.is_table and not group.live_out else None))
        ordered = [size for _, size in sorted(made, key=lambda x: _turn(x[0]))]
        ordered += [self._packed] if self._packed else []
        # Values that run inside an op take part in the partition below, which is why they are
        # counted.
        return ordered + [None] * count_thread_local(self.values.module)

    @cached_property
    def _packed(self) -> int:
        """Bytes of the temporaries that are packed together."""
        blocks = self._blocks()
        if not blocks:
            return 0
        by_size = sorted(
            range(len(blocks)),
            key=lambda i: (-blocks[i].size, _length(blocks[i].lives[:1]), blocks[i].number),
        )
        by_life = sorted(
            range(len(blocks)),
            key=lambda i: (_length(blocks[i].lives), -blocks[i].size, blocks[i].number),
        )
        clashes = _clashes(blocks, self.check)
        # XLA tries both sequences and takes the better one.
        return min(_packed_bytes(blocks, clashes, turn, self.check) for turn in (by_size, by_life))

    @cached_property
    def _timeline(self) -> Timeline:
        return Timeline(self.values, self.sequence)

    @cached_property
    def _slots(self) -> list[list[int]]:
        """Return the memory of results: the groups that lie in each, the first gives the size."""
        groups = self.values.groups
        slots: list[list[int]] = []
        slot_of: dict[int, list[int]] = {}
        for g in sorted(range(len(groups)), key=lambda g: _turn(groups[g])):
            self.check()
            if groups[g].is_table:
                continue
            # Where it reads from comes first, then the smallest.
            tried = [slot_of[h] for h in groups[g].operands if h in slot_of] + slots[::-1]
            taken = (x for x in tried if not groups[g].is_donated and self._fits(g, x))
            slot = next(taken, None)
            if slot is None and (groups[g].live_out or groups[g].is_donated):
                slot = []
                slots.append(slot)
            if slot is not None:
                slot.append(g)
                slot_of[g] = slot
        return slots

    def _fits(self, g: int, slot: list[int]) -> bool:
        group, size = self.values.groups[g], self.values.groups[slot[0]].size
        if group.size > size or (group.live_out and group.size != size):
            # A returned group's memory has exactly its size, so only an equal one may share it.
            return False
        return not any(self._clash(g, other) for other in slot)

    def _clash(self, g: int, h: int) -> bool:
        first, second = self.values.groups[g].values, self.values.groups[h].values
        return any(self._overlap(a, b) for a in first for b in second)

    def _overlap(self, a: int, b: int) -> bool:
        """Return True if two values exist at the same time; a result may replace its operand."""
        ranges = self._timeline.ranges
        first, second = ranges[a], ranges[b]
        if first[0] > second[0]:
            # Sorted by begin, so that two comparisons decide.
            a, b, first, second = b, a, second, first
        if first[1] < second[0]:
            return False
        if first[1] != second[0]:
            return True
        # They meet at one step, where an op may write its result over the operand.
        # XLA looks only at the instruction that hands the value on last.
        return (a, self._timeline.last_position(a)) not in self.values.replaces.get(b, ())

    def _blocks(self) -> list[_Block]:
        """Return the values to pack: those in no result's memory, grouped by place."""
        placed = {g for slot in self._slots for g in slot}
        groups = self.values.groups
        packed = [g for g in range(len(groups)) if g not in placed and not groups[g].is_table]
        return _Replay(self.values, self._timeline.ranges).run(
            [v for g in packed for v in groups[g].values]
        )


class _Replay:
    """XLA's heap as values come and go, step by step."""

    def __init__(self, values: ModuleValues, ranges: Sequence[tuple[int, int]]) -> None:
        self.values = values
        self.ranges = ranges
        self.clock = itertools.count()
        self.since: dict[int, int] = {}
        self.block_of: dict[int, _Block] = {}
        self.block_of_group: dict[int, _Block] = {}

    def run(self, packed: Sequence[int]) -> list[_Block]:
        """Return the blocks of these values: at a step all results come, then the rest goes."""
        born: dict[int, list[int]] = {}
        dying: dict[int, list[int]] = {}
        # Sorted as XLA takes them at one step.
        for v in sorted(packed, key=lambda v: (*self.ranges[v], self.values.values[v].number)):
            born.setdefault(self.ranges[v][0], []).append(v)
            dying.setdefault(self.ranges[v][1], []).append(v)
        for step in sorted(born.keys() | dying.keys()):
            leaving = dying.get(step, [])
            for v in born.get(step, ()):
                # At a step results are born first: an op needs operands and results together.
                self._begin(v, leaving)
            for v in leaving:
                self._end(v)
        return list({id(block): block for block in self.block_of.values()}.values())

    def _begin(self, v: int, leaving: list[int]) -> None:
        """Give a value the place of its group, or of an operand that leaves, or a new one."""
        g = self.values.group_of[v]
        block = self.block_of_group.get(g)
        if block is None:
            source = self._taken(v, leaving)
            if source is None:
                block = _Block(self.values.groups[g].size, self.values.values[v].number)
            else:
                leaving.remove(source)
                self._end(source)
                block = self.block_of[source]
        self.block_of[v] = self.block_of_group[g] = block
        self.since[v] = next(self.clock)

    def _end(self, v: int) -> None:
        self.block_of[v].lives.append((self.since[v], next(self.clock)))

    def _taken(self, v: int, leaving: Sequence[int]) -> int | None:
        """Return the operand whose place a value takes: both stand alone."""
        if not self._is_alone(v):
            return None
        values = self.values.values
        # XLA looks only at operands that define what they hand on.
        read = (x for x, by in self.values.replaces.get(v, ()) if by == values[x].definer)
        return next((x for x in read if x in leaving and self._is_alone(x)), None)

    def _is_alone(self, v: int) -> bool:
        return len(self.values.groups[self.values.group_of[v]].values) == 1


def _turn(group: Group) -> tuple[int, bool, tuple[int, int]]:
    """Return the key by which XLA takes groups: the largest first, then those that are returned."""
    return -group.size, not group.live_out, group.place


def _temporary_last(allocations: Sequence[int | None]) -> list[int]:
    """Return the temporary allocations in the order in which C++'s `std::partition` leaves them.

    XLA moves them after all others this way, and then makes one allocation of them: each except the
    first starts at a multiple of the alignment, and the last has no gap after it.
    """
    left, right = list(allocations), len(allocations)
    for first in range(len(left)):
        if first >= right or left[first] is None:
            continue
        # `std::partition` swaps the first that should go right with the last that should go
        # left.
        right -= 1
        while right > first and left[right] is not None:
            right -= 1
        left[first], left[right] = left[right], left[first]
    return [size for size in left if size is not None]


def _length(lives: Sequence[tuple[int, int]]) -> int:
    """Return the length of a life, less than zero: the longest come first."""
    return min(begin for begin, _ in lives) - max(end for _, end in lives)


def _clashes(blocks: Sequence[_Block], check: Callable[[], None]) -> list[IntArray]:
    """Return for each block the blocks that are live at a time when it is."""
    owner = np.repeat(np.arange(len(blocks)), [len(block.lives) for block in blocks])
    lives = np.array([life for block in blocks for life in block.lives])
    found = []
    # A block's lives are several, since it stands empty in between.
    for block in blocks:
        check()
        there = np.zeros(len(owner), bool)
        for begin, end in block.lives:
            there |= (lives[:, 0] <= end) & (lives[:, 1] >= begin)
        found.append(np.unique(owner[there]))
    return found


def _packed_bytes(
    blocks: Sequence[_Block],
    clashes: Sequence[IntArray],
    turn: Sequence[int],
    check: Callable[[], None],
) -> int:
    """Place each block in the tightest hole, or above all blocks that are live with it."""
    offset: dict[int, int] = {}
    for i in turn:
        check()
        size, at, hole = blocks[i].size, 0, None
        taken = sorted(
            (offset[j], offset[j] + blocks[j].size) for j in clashes[i].tolist() if j in offset
        )
        # The tightest hole; among equals the lowest, as only a smaller one replaces it.
        for begin, end in taken:
            if begin - at >= size and (hole is None or begin - at < hole[0]):
                hole = begin - at, at
            at = max(at, round_up(end, ALIGNMENT))
        offset[i] = at if hole is None else hole[1]
    return max(offset[i] + blocks[i].size for i in turn)


MOST_INSTRUCTIONS: Final = 20_000
"""Larger modules are not simulated, as it would take longer than to read them."""


def held(source: Source) -> int | None:
    """Return the bytes of temporaries, results and donated arguments; None if they are not known.

    They are known of schedules for the CPU: layouts there have no tiles and one memory space.
    """
    parsed = parse_module(source.text)
    if not parsed.scheduled or not _is_for_cpu(parsed):
        return None
    sequence = list(parsed.computations[parsed.entry].instructions)
    try:
        return Assignment(ModuleValues(parsed), sequence).held
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, StopIteration):
        # The simulation expects a text that XLA's verifier accepts: others have no such figure.
        return None


def _is_for_cpu(parsed: HloModule) -> bool:
    made = [x for c in parsed.computations.values() for x in c.instructions.values()]
    if len(made) > MOST_INSTRUCTIONS:
        return False
    layouts = {leaf.layout for x in made for leaf in leaves(x.shape)}
    return not any(layout.space or layout.tiles for layout in layouts)
