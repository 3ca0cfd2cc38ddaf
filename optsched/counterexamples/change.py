"""Small random changes of a graph or of live ranges."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from optsched.counterexamples.effort import EFFORT
from optsched.counterexamples.small_graph import SmallGraph

LiveRows = tuple[tuple[int, int, int], ...]
"""Start step, end step and size in bytes of each buffer."""


class _Draft:
    """A mutable copy of a small graph, with the random moves that change it."""

    def __init__(self, graph: SmallGraph, max_ops: int, largest: int) -> None:
        self.size, self.before = list(graph.size), list(graph.before)
        self.kept = graph.kept
        self.max_ops, self.largest = max_ops, largest

    def resize(self, rng: Random) -> None:
        v = rng.randrange(len(self.size))
        self.size[v] = _other_size(self.size, v, self.largest, rng)

    def toggle_edge(self, rng: Random) -> None:
        if len(self.size) > 1:
            # Edges lead from earlier ops to later ones, so every set of edges is a valid graph.
            v = rng.randrange(1, len(self.size))
            self.before[v] ^= 1 << rng.randrange(v)

    def toggle_output(self, rng: Random) -> None:
        self.kept ^= 1 << rng.randrange(len(self.size))

    def move(self, rng: Random) -> None:
        """Move an op to another place in the listing; drop edges that would point backwards."""
        n = len(self.size)
        v, at = rng.randrange(n), rng.randrange(n)
        size, mask, kept = self.size[v], self.before[v], self.kept >> v & 1
        readers = [w for w in range(v + 1, n) if self.before[w] >> v & 1]
        self.remove(v)
        mask = _without(mask, v)
        self.insert(at, size, mask & (1 << at) - 1)
        self.kept |= kept << at
        # An op that has moved after its reader loses that edge.
        for w in readers:
            # Positions above the removed one have shifted.
            if w - 1 >= at:
                self.before[w] |= 1 << at

    def grow(self, rng: Random) -> None:
        """Add a copy of an op with its readers, a reader of one op, or an op without inputs."""
        n = len(self.size)
        if n >= self.max_ops:
            return
        v = rng.randrange(n)
        at = rng.randrange(v + 1, n + 1)
        how = rng.randrange(3)
        if how == 0:
            self.insert(at, self.size[v], self.before[v])
            readers = [w for w in range(at + 1, n + 1) if self.before[w] >> v & 1]
        else:
            self.insert(at, self.size[v], 1 << v if how == 1 else 0)
            readers = [rng.randrange(at + 1, n + 1)] if at < n and rng.random() < 0.5 else []
        for w in readers:
            self.before[w] |= 1 << at

    def copy_pair(self, rng: Random) -> None:
        """Add copies of an op and of one of its readers, connected as a separate chain."""
        n = len(self.size)
        v = rng.randrange(n)
        readers = [w for w in range(v + 1, n) if self.before[w] >> v & 1]
        if n + 2 > self.max_ops or not readers:
            return
        w = rng.choice(readers)
        size = self.size[v], self.size[w]
        # The copy does not read the original.
        shared = self.before[w] & ~(1 << v)
        at = rng.choice((v, v + 1))
        self.insert(at, size[0], self.before[v])
        end = rng.randrange(w + 1, n + 2)
        # One bit is inserted at the copy's place.
        shared = shared & (1 << at) - 1 | shared >> at << at + 1
        self.insert(end, size[1], shared & (1 << end) - 1 | 1 << at)

    def drop(self, rng: Random) -> None:
        if len(self.size) > 1:
            self.remove(rng.randrange(len(self.size)))

    def insert(self, at: int, size: int, mask: int) -> None:
        low = (1 << at) - 1
        # Bits from `at` on move up by one, so that they name the same ops as before.
        self.before = [m & low | m >> at << at + 1 for m in self.before]
        self.kept = self.kept & low | self.kept >> at << at + 1
        self.size.insert(at, size)
        self.before.insert(at, mask & low)

    def remove(self, v: int) -> None:
        del self.size[v], self.before[v]
        self.before = [_without(m, v) for m in self.before]
        self.kept = _without(self.kept, v)


def _without(mask: int, v: int) -> int:
    # The inverse: bits above `v` move down.
    return mask & (1 << v) - 1 | mask >> v + 1 << v


_MOVES = (
    _Draft.resize,
    _Draft.resize,
    _Draft.toggle_edge,
    _Draft.toggle_edge,
    _Draft.toggle_edge,
    _Draft.move,
    _Draft.move,
    _Draft.grow,
    _Draft.grow,
    _Draft.copy_pair,
    _Draft.drop,
    _Draft.toggle_output,
)
"""Moves of a random change; repeated entries are chosen more often."""


def change_graph(graph: SmallGraph, rng: Random, max_ops: int, largest: int) -> SmallGraph:
    """Return a copy of a graph changed by a few random moves."""
    draft = _Draft(graph, max_ops, largest)
    # One change at least; more of them leave local optima.
    for _ in range(rng.randint(1, EFFORT.changes)):
        rng.choice(_MOVES)(draft, rng)
    return SmallGraph(tuple(draft.size), tuple(draft.before), draft.kept)


def change_packing(
    rows: LiveRows, rng: Random, max_buffers: int, steps: int, largest: int
) -> LiveRows:
    """Return live ranges changed by a few random moves."""
    draft = list(rows)
    for _ in range(rng.randint(1, EFFORT.changes)):
        i = rng.randrange(len(draft))
        start, end, size = draft[i]
        how = rng.randrange(8)
        if how <= 1:
            size = _other_size([x for _, _, x in draft], i, largest, rng)
        elif how == 2:
            start = rng.randrange(end)
        elif how == 3:
            end = rng.randint(start + 1, steps)
        elif how == 4:
            start, end = sorted(rng.sample(range(steps + 1), 2))
        elif how == 5:
            draft.insert(rng.randrange(len(draft)), draft.pop(i))
            continue
        elif how == 6 and len(draft) < max_buffers:
            start, end = sorted(rng.sample(range(steps + 1), 2))
            draft.insert(rng.randint(0, len(draft)), (start, end, size))
            continue
        elif how == 7 and len(draft) > 1:
            del draft[i]
            continue
        draft[i] = (start, end, size)
    return tuple(draft)


def _other_size(sizes: Sequence[int], at: int, largest: int, rng: Random) -> int:
    """Return another size: an extreme, a neighbor, one in use, a sum or difference, or any."""
    # Losses often depend on equal sizes, sums and extremes, which uniform sizes would rarely give.
    how = rng.randrange(6)
    if how == 0:
        size = rng.choice((1, largest))
    elif how <= 2:
        size = sizes[at] + rng.choice((-2, -1, 1, 2))
    elif how == 3:
        size = rng.choice(sizes)
    elif how == 4:
        size = rng.choice(sizes) + rng.choice((-1, 1)) * rng.choice(sizes)
    else:
        size = rng.randint(1, largest)
    # Clamped, as sums leave the range.
    return min(max(1, size), largest)
