"""What XLA's buffer assignment makes of an order: the bytes a module will allocate.

Buffers are taken by size, the largest first. One that is returned gets memory of its own, or takes
that of another such buffer of its size which is dead by then. A temporary may lie in the memory of
what is returned while that is not there yet; all others are packed together, each in the tightest
hole, once by size and once by length of life, and the better packing counts. A life is as long as
things come and go in it: that is what XLA's clock counts. A result is written over an operand that
dies with it, where the op allows.

References
----------
xla/service/buffer_assignment.cc, functions AssignSingleHloBuffer and MaybeAssignBuffer;
xla/service/heap_simulator/heap_simulator.cc, GlobalDecreasingSizeBestFitHeap.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heuristics.packings.common import place_in_turn
from optsched.model.graph import Graph
from optsched.model.liveness import live_ranges
from optsched.model.packing_problem import PackingProblem

ALIGNMENT = 64


@dataclass(frozen=True)
class Assignment:
    """XLA's assignment for one order.

    Parameters
    ----------
    graph
        Of a module, as :func:`optsched.formats.hlo.read_hlo` makes it.
    order
        Of its ops.
    rank
        Of ops by name: their place in a depth-first walk from the result. It decides which of two
        equals has the first choice of memory.
    """

    graph: Graph
    order: Sequence[int]
    rank: Mapping[str, int]

    @cached_property
    def allocated(self) -> int:
        """Bytes of temporaries and of results together."""
        return self.temporary + sum(self._size[homes[0]] for homes in self._returned)

    @cached_property
    def temporary(self) -> int:
        """Bytes of the temporaries that lie in no result's memory."""
        blocks = self._blocks()
        if not blocks:
            return 0
        made, freed = self._heap_times(blocks)
        problem = PackingProblem(
            start=np.array([min(self._start[b] for b in block) for block in blocks]),
            end=np.array([max(self._end[b] for b in block) for block in blocks]),
            size=np.array([_round_up(max(self._size[b] for b in block)) for block in blocks]),
        )
        ranks = np.array([self._rank(block[0]) for block in blocks])
        first_life = np.array([freed[block[0]] - made[block[0]] for block in blocks])
        whole_life = np.array([freed[block[-1]] - made[block[0]] for block in blocks])
        sizes = np.array([self._size[block[0]] for block in blocks])
        by_size = np.lexsort((ranks, -first_life, -sizes))
        by_life = np.lexsort((ranks, -sizes, -whole_life))
        packed = (place_in_turn(problem, turn, tightest=True) for turn in (by_size, by_life))
        return min(problem.slab_size(offsets) for offsets in packed)

    def _heap_times(self, blocks: Sequence[Sequence[int]]) -> tuple[dict[int, int], dict[int, int]]:
        """Return when buffers come and go on XLA's clock, which ticks as something does.

        At a step all results come, each after the operand whose place it takes, then the rest goes.
        """
        before = {b: a for block in blocks for a, b in itertools.pairwise(block)}
        taken = set(before.values())
        turn = sorted(
            (b for block in blocks for b in block),
            key=lambda b: (self._start[b], self._end[b], self._rank(b)),
        )
        events = [(self._start[b], False, i, b) for i, b in enumerate(turn)]
        events += [(self._end[b] - 1, True, i, b) for i, b in enumerate(turn) if b not in taken]
        made: dict[int, int] = {}
        freed: dict[int, int] = {}
        clock = itertools.count()
        for _, goes, _, b in sorted(events):
            if goes:
                freed[b] = next(clock)
                continue
            if b in before:
                freed[before[b]] = next(clock)
            made[b] = next(clock)
        return made, freed

    def _rank(self, b: int) -> int:
        producer = self.graph.producers[b]
        return -1 if producer is None else self.rank.get(self.graph.ops[producer].name, -1)

    @cached_property
    def _size(self) -> dict[int, int]:
        """Return the bytes of all buffers that the module allocates."""
        graph = self.graph
        found = ((b, graph.buffers[b]) for b in dict.fromkeys(map(int, graph.roots)))
        return {b: buffer.size for b, buffer in found if buffer.size and not buffer.external}

    @cached_property
    def _ranges(self) -> list[list[int]]:
        ranges: list[list[int]] = live_ranges(self.graph, tuple(self.order)).tolist()
        return ranges

    @cached_property
    def _start(self) -> dict[int, int]:
        return {b: self._ranges[b][0] for b in self._size}

    @cached_property
    def _end(self) -> dict[int, int]:
        return {b: self._ranges[b][1] for b in self._size}

    @cached_property
    def _overwrites(self) -> list[tuple[int, int]]:
        """Return `(operand, result)` where the result may take the operand's place, by step."""
        step = {v: i for i, v in enumerate(self.order)}
        roots, found = self.graph.roots, []
        for op, written, read in self.graph.inplace_candidates:
            result, operand = int(roots[written]), int(roots[read])
            known = result in self._size and operand in self._size
            if known and self._end[operand] == step[op] + 1:
                found.append((step[op], operand, result))
        found.sort(key=lambda entry: entry[0])
        return [(operand, result) for _, operand, result in found]

    @cached_property
    def _returned(self) -> list[list[int]]:
        """Return the memory of results: the buffers that lie in each, the first gives the size."""
        graph = self.graph
        live_out = {
            int(graph.roots[b]) for b, buffer in enumerate(graph.buffers) if buffer.output
        } & self._size.keys()
        turn = sorted(self._size, key=lambda b: (-self._size[b], b not in live_out, self._rank(b)))
        homes: list[list[int]] = []
        for b in turn:
            home = next((x for x in reversed(homes) if self._fits(b, x, b in live_out)), None)
            if home is not None:
                home.append(b)
            elif b in live_out:
                homes.append([b])
        return homes

    def _fits(self, b: int, home: list[int], is_returned: bool) -> bool:
        if is_returned and self._size[b] != self._size[home[0]]:
            return False
        return not any(self._clash(b, other) for other in home)

    def _clash(self, a: int, b: int) -> bool:
        apart = self._start[a] >= self._end[b] or self._start[b] >= self._end[a]
        return not (apart or (a, b) in self._pairs or (b, a) in self._pairs)

    @cached_property
    def _pairs(self) -> frozenset[tuple[int, int]]:
        return frozenset(self._overwrites)

    def _blocks(self) -> list[list[int]]:
        """Return the temporaries that are left, those together that share bytes."""
        placed = {b for home in self._returned for b in home}
        blocks = {b: [b] for b in self._size if b not in placed}
        head = {b: b for b in blocks}
        overwritten: set[int] = set()
        for operand, result in self._overwrites:
            if operand in head and operand not in overwritten and head.get(result) == result:
                overwritten.add(operand)
                head[result] = head[operand]
                blocks[head[operand]] += blocks.pop(result)
        return list(blocks.values())


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
