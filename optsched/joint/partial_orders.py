"""Partial orders that grow op by op, with the constraints that their steps put on a packing.

An op that may write outputs in place uses any matching of its outputs and its dying inputs. The
steps of an order put *constraints* on pairs of buffers, stored as a bit mask. Two buffers that are
live together must not share any byte, or, if one is written into the other, must share their
offset.

Example: after the steps `p`, `q` the buffers of `p` and `q` are live together, so the mask holds
the constraint that they share no byte. If `q` writes its output into that of `p`, it holds the
constraint that both have the same offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from optsched.model.dependencies import members, topological_order
from optsched.model.graph import Graph
from optsched.model.inplace import Pair
from optsched.model.inplace_choice import Pairs, heads
from optsched.model.liveness import live_ranges
from optsched.model.packing_problem import packing_problem


@dataclass(frozen=True, slots=True)
class PartialOrder:
    """The first steps of an order: ops, and the in-place pairs they use."""

    steps: tuple[tuple[int, Pairs], ...]
    """Op and in-place pairs, as buffer ids, of each step."""
    done: int
    live: int
    """Bit masks of the ops that have run, and of the buffers that are live after them."""
    constraints: int
    """Bit mask of the constraints of the steps; see :meth:`OrderGrowth.constraints`."""
    peaks: tuple[int, ...]
    """Maximum of live bytes of each pool so far."""


class OrderGrowth:
    """Generator of the partial orders of a graph; buffers are numbered among those ever live."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.all = (1 << len(graph.ops)) - 1
        self.needs = [sum(1 << u for u in before) for before in graph.predecessors]
        self._number_buffers()
        self._number_pairs()

    def _number_buffers(self) -> None:
        graph, arrays = self.graph, self.graph.arrays
        _, ids = packing_problem(graph, topological_order(graph.predecessors))
        # Buffers that are never live take no bit in the masks.
        self.position = {int(b): i for i, b in enumerate(ids)}
        self.size = [int(arrays.size[b]) for b in ids]
        self.kept = [bool(arrays.keep[b]) for b in ids]
        pools = [graph.buffers[b].pool for b in ids]
        # Only buffers of one pool can share bytes, so others need no constraint.
        self.same_pool = [
            sum(1 << i for i, other in enumerate(pools) if other == pool) for pool in pools
        ]
        self.pool_masks = sorted(set(self.same_pool))
        self.users: list[int] = []
        self.born: list[list[int]] = [[] for _ in graph.ops]
        self.inputs: list[int] = []
        for i, b in enumerate(ids.tolist()):
            self.users.append(sum(1 << v for v in arrays.users(b)))
            birth = int(arrays.birth[b])
            (self.inputs if birth < 0 else self.born[birth]).append(i)

    def _number_pairs(self) -> None:
        self.pairs: list[list[Pair]] = [[] for _ in self.graph.ops]
        for v, output, source in self.graph.arrays.inplace_pairs():
            self.pairs[v].append((output, source))

    def start(self) -> PartialOrder:
        """Return the empty order, with the buffers that are live before the first step."""
        live, constraints = self._allocate(0, self.inputs, {})
        peaks = self._raised((0,) * len(self.pool_masks), live)
        return PartialOrder((), 0, live, constraints, peaks)

    def longer(self, at: PartialOrder) -> Iterator[PartialOrder]:
        """Yield the partial orders with one more step."""
        for v, needs in enumerate(self.needs):
            if at.done >> v & 1 or needs & ~at.done:
                continue
            done = at.done | 1 << v
            # An input dies at this op if all of its users have run.
            able = [p for p in self.pairs[v] if not self.users[self.position[p[1]]] & ~done]
            for chosen in matchings(able):
                into = {self.position[output]: self.position[source] for output, source in chosen}
                live, constraints = self._allocate(at.live, self.born[v], into)
                written = sum(1 << output for output in into)
                yield PartialOrder(
                    (*at.steps, (v, chosen)),
                    done,
                    self._release(live, done),
                    at.constraints | constraints,
                    # While the op runs, the bytes of outputs written in place lie inside those of
                    # inputs.
                    self._raised(at.peaks, live & ~written),
                )

    def _allocate(self, live: int, born: Sequence[int], into: dict[int, int]) -> tuple[int, int]:
        """Return the live buffers after allocating `born`, and the constraints that these add."""
        constraints = 0
        for i in born:
            # Buffers allocated together conflict as well: each is added before the next one is
            # compared.
            for j in members(live & self.same_pool[i]):
                constraints |= self._shared(i, j) if into.get(i) == j else self._apart(i, j)
            live |= 1 << i
        return live, constraints

    def _release(self, live: int, done: int) -> int:
        for i in members(live):
            if not self.kept[i] and not self.users[i] & ~done:
                live &= ~(1 << i)
        return live

    def _apart(self, i: int, j: int) -> int:
        """Return the constraint that two buffers must not share any byte."""
        # The two masks of a pair differ in which index is first, so one integer holds both kinds.
        return 1 << max(i, j) * len(self.size) + min(i, j)

    def _shared(self, i: int, j: int) -> int:
        """Return the constraint that two buffers must have the same offset."""
        return 1 << min(i, j) * len(self.size) + max(i, j)

    def _raised(self, peaks: tuple[int, ...], live: int) -> tuple[int, ...]:
        """Return the maximum of live bytes of each pool, including those of `live`."""
        now = [sum(self.size[i] for i in members(live & mask)) for mask in self.pool_masks]
        return tuple(max(pair) for pair in zip(peaks, now, strict=True))

    def constraints(
        self, order: Sequence[int], chosen: Pairs, packed: set[int], low: int, high: int
    ) -> int:
        """Return the constraints of the steps `[low, high)` of an order on the buffers of a pool.

        `packed` contains the pool's buffers that are roots in the packing: others may be written
        into them.
        """
        ranges, into, head = live_ranges(self.graph, order), dict(chosen), heads(chosen)
        start, end = np.maximum(ranges[:, 0], low), np.minimum(ranges[:, 1], high)
        inside = [b for b in self.position if start[b] < end[b] and head.get(b, b) in packed]
        core = 0
        for a, b in combinations(inside, 2):
            meet = start[a] < end[b] and start[b] < end[a]
            if meet and into.get(a) != b and into.get(b) != a:
                core |= self._apart(self.position[a], self.position[b])
        heads_inside = {head.get(b, b) for b in inside}
        # Shared offsets matter only if their bytes are in the range of steps.
        for output, source in chosen:
            if head[output] in heads_inside and ranges[output, 0] < high:
                core |= self._shared(self.position[output], self.position[source])
        return core


def matchings(pairs: Sequence[Pair]) -> Iterator[Pairs]:
    """Yield all sets of pairs in which no output and no input occurs twice.

    Sets that contain the first pair come before the others, at each level of the recursion.
    """
    if not pairs:
        yield ()
        return
    (output, source), rest = pairs[0], pairs[1:]
    # Matchings that use the first pair, then those that do not.
    apart = [pair for pair in rest if pair[0] != output and pair[1] != source]
    for others in matchings(apart):
        yield ((output, source), *others)
    yield from matchings(rest)
