"""What XLA's buffer assignment makes of an order: the bytes a module will allocate.

Groups of values that lie in one memory are taken by size, the largest first. One that is returned
gets memory of its own, or takes that of another such group of its size which is dead by then. A
temporary may lie in the memory of what is returned while that is not there; all others are packed
together, each in the tightest hole, once by size and once by length of life, and the better packing
counts. A life is as long as things come and go in it: that is what XLA's clock counts. A result is
written over an operand that dies with it, where the op allows. Tables of tuples share nothing.

References
----------
xla/service/buffer_assignment.cc, functions AssignSingleHloBuffer and MaybeAssignBuffer;
xla/service/heap_simulator/heap_simulator.cc, HeapSimulator::RunComputation and
GlobalDecreasingSizeBestFitHeap.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from optsched.model.arrays import IntArray
from optsched.plugins.xla.values import ModuleValues

ALIGNMENT = 64


@dataclass
class _Block:
    """Values that lie at one place: the size of the largest, and when each comes and goes."""

    size: int
    number: tuple[int, int]
    lives: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Assignment:
    """XLA's assignment for one order.

    Parameters
    ----------
    values
        Of the module.
    sequence
        All instructions of the entry computation.
    """

    values: ModuleValues
    sequence: Sequence[str]

    @cached_property
    def allocated(self) -> int:
        """Bytes of temporaries and of results together, less than 64 too many."""
        return self.temporary + sum(self._sizes[homes[0]] for homes in self._returned)

    @cached_property
    def temporary(self) -> int:
        """Bytes of the temporaries that lie in no result's memory, less than 64 too many."""
        tables = [
            _round_up(size)
            for g, size in enumerate(self._sizes)
            if self._is_table[g] and not self.values.live_out[g]
        ]
        # Behind the last of these parts XLA leaves no gap; which it is does not matter here.
        return _round_up(self._packed) + sum(tables) if tables else self._packed

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
        clashes = _clashes(blocks)
        return min(_packed_bytes(blocks, clashes, turn) for turn in (by_size, by_life))

    @cached_property
    def _ranges(self) -> list[tuple[int, int]]:
        return self.values.live_ranges(self.sequence)

    @cached_property
    def _sizes(self) -> list[int]:
        """Return the bytes of each group."""
        values = self.values.values
        return [max(values[v].size for v in group) for group in self.values.groups]

    @cached_property
    def _returned(self) -> list[list[int]]:
        """Return the memory of results: the groups that lie in each, the first gives the size."""
        live_out = self.values.live_out
        turns = [min(self.values.values[v].place for v in group) for group in self.values.groups]
        turn = sorted(range(len(turns)), key=lambda g: (-self._sizes[g], not live_out[g], turns[g]))
        homes: list[list[int]] = []
        home_of: dict[int, list[int]] = {}
        for g in turn:
            if self._is_table[g]:
                if live_out[g]:
                    homes.append([g])
                continue
            tried = (home_of.get(h, []) for h in self._operands(g))
            shared = (x for x in homes[::-1] if not self._is_table[x[0]])
            home = next((x for x in (*tried, *shared) if x and self._fits(g, x, live_out[g])), None)
            if home is not None:
                home.append(g)
            elif live_out[g]:
                home = [g]
                homes.append(home)
            if home is not None:
                home_of[g] = home
        return homes

    @cached_property
    def _is_table(self) -> list[bool]:
        values = self.values.values
        return [any(values[v].is_table for v in group) for group in self.values.groups]

    def _operands(self, g: int) -> list[int]:
        """Return the groups that are read to make the tensors of a group."""
        group_of = self.values.group_of
        read = (x for v in self.values.groups[g] for x in self.values.values[v].operands)
        return [group_of[x] for x in read if x in group_of]

    def _fits(self, g: int, home: list[int], is_returned: bool) -> bool:
        size = self._sizes[home[0]]
        if self._sizes[g] > size or (is_returned and self._sizes[g] != size):
            return False
        return not any(self._clash(g, other) for other in home)

    def _clash(self, g: int, h: int) -> bool:
        groups = self.values.groups
        return any(self._overlap(a, b) for a in groups[g] for b in groups[h])

    def _overlap(self, a: int, b: int) -> bool:
        """Whether two values are there at once; a result may take the place of its operand."""
        first, second = self._ranges[a], self._ranges[b]
        if first[0] > second[0]:
            a, b, first, second = b, a, second, first
        if first[1] < second[0]:
            return False
        return first[1] != second[0] or a not in self.values.takers.get(b, ())

    def _blocks(self) -> list[_Block]:
        """Replay what comes and goes, step by step."""
        placed = {g for home in self._returned for g in home}
        groups = enumerate(self.values.groups)
        group_of = {
            v: g for g, group in groups if g not in placed and not self._is_table[g] for v in group
        }
        values, ranges = self.values.values, self._ranges
        born: dict[int, list[int]] = {}
        dying: dict[int, list[int]] = {}
        for v in sorted(group_of, key=lambda v: (*ranges[v], values[v].number)):
            born.setdefault(ranges[v][0], []).append(v)
            dying.setdefault(ranges[v][1], []).append(v)
        clock = itertools.count()
        block_of: dict[int, _Block] = {}
        first: dict[int, _Block] = {}
        since: dict[int, int] = {}
        for step in sorted(born.keys() | dying.keys()):
            leaving = dying.get(step, [])
            for v in born.get(step, ()):
                g = group_of[v]
                source = None if g in first else self._taken(v, leaving, group_of)
                if source is not None:
                    leaving.remove(source)
                    block_of[source].lives.append((since[source], next(clock)))
                    block_of[v] = block_of[source]
                else:
                    block_of[v] = first.get(g) or _Block(self._sizes[g], values[v].number)
                first[g] = block_of[v]
                since[v] = next(clock)
            for v in leaving:
                block_of[v].lives.append((since[v], next(clock)))
        return list({id(block): block for block in block_of.values()}.values())

    def _taken(self, v: int, leaving: Sequence[int], group_of: dict[int, int]) -> int | None:
        """Return the operand whose place a value takes: it dies here, and both stand alone."""
        groups = self.values.groups
        if len(groups[group_of[v]]) > 1:
            return None
        for source in self.values.takers.get(v, ()):
            if source in leaving and len(groups[group_of[source]]) == 1:
                return source
        return None


def _length(lives: Sequence[tuple[int, int]]) -> int:
    """Return the length of a life, less than zero: the longest come first."""
    return min(begin for begin, _ in lives) - max(end for _, end in lives)


def _clashes(blocks: Sequence[_Block]) -> list[IntArray]:
    """Return for each block those that are there at a time when it is."""
    owner = np.repeat(np.arange(len(blocks)), [len(block.lives) for block in blocks])
    lives = np.array([life for block in blocks for life in block.lives])
    found = []
    for block in blocks:
        there = np.zeros(len(owner), bool)
        for begin, end in block.lives:
            there |= (lives[:, 0] <= end) & (lives[:, 1] >= begin)
        found.append(np.unique(owner[there]))
    return found


def _packed_bytes(
    blocks: Sequence[_Block], clashes: Sequence[IntArray], turn: Sequence[int]
) -> int:
    """Place each block in the tightest hole, or above all that are there when it is."""
    offset: dict[int, int] = {}
    for i in turn:
        size, at, hole = blocks[i].size, 0, None
        taken = sorted(
            (offset[j], offset[j] + blocks[j].size) for j in clashes[i].tolist() if j in offset
        )
        for begin, end in taken:
            if begin - at >= size and (hole is None or begin - at < hole[0]):
                hole = begin - at, at
            at = max(at, _round_up(end))
        offset[i] = at if hole is None else hole[1]
    return max(offset[i] + blocks[i].size for i in turn)


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
