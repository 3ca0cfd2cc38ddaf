"""Paths through the network of a graph: the least extra multiplications, or total bytes.

For each load the search finds all paths that are best in tail and extra, the largest load first.
The paths found stay the best ones down to their own largest load, so the next one is the byte
below it.

Example: a path with load 90 and no extra, found for 100 bytes, is the best for 90 to 100 bytes.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from optsched.model.arrays import IntArray
from optsched.runtime.clock import Clock
from optsched.solver.tiling.arcs import OPS, OUT_OF_REACH, Lines
from optsched.solver.tiling.labels import FAR, MOST_LABELS, Bounds, Labels, extend, narrowest, to_go


@dataclass(frozen=True, slots=True)
class Path:
    """A path: its figures and arcs."""

    load: int
    tail: int
    extra: int
    """`load`, `tail` and `extra`: live bytes at most, bytes of the tail, extra multiplications."""
    arcs: tuple[int, ...]
    """Numbers of the arcs, first to run first."""

    @property
    def total(self) -> int:
        """Load and tail."""
        return self.load + self.tail


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of all paths: some arcs come first, and certain others must not follow them."""

    prefix: tuple[int, ...] = ()
    banned: frozenset[int] = frozenset()

    def children(self, path: Path) -> Iterator[Branch]:
        """Yield parts that hold each path of this part once, but the given one."""
        start = len(self.prefix)
        for k in range(start, len(path.arcs)):
            banned = self.banned if k == start else frozenset[int]()
            yield Branch(path.arcs[:k], banned | {path.arcs[k]})


NO_BRANCH = Branch()


@dataclass
class Paths:
    """Searches of paths in one network."""

    net: Lines
    """The network, or its arcs by ends of the slab."""
    tail: int
    """Bytes of the untiled model's tail."""
    clock: Clock
    """Limit of all searches."""
    dropped: bool = field(default=False, init=False)
    """True if labels were dropped for lack of room, so a better path may have been missed."""

    def __post_init__(self) -> None:
        positions = len(self.net.arcs.ptr) - 1
        self._labels = Labels(
            np.zeros(positions + 1, np.int64), np.zeros((5, MOST_LABELS), np.int64)
        )
        self._draft = np.zeros((5, 1 << 16), np.int64)
        self._go = np.zeros((2, positions), np.int64)

    @cached_property
    def least_load(self) -> int:
        """The least load of all paths."""
        found = np.zeros(len(self.net.arcs.ptr) - 1, np.int64)
        narrowest.for_work(self._work)(self.net.arcs, found)
        return int(found[-1])

    @property
    def _work(self) -> int:
        return len(self.net.arcs.load) + len(self.net.arcs.ptr)

    def within(
        self,
        load: int,
        total: int = FAR,
        extra: int = FAR,
        front: IntArray | None = None,
        branch: Branch = NO_BRANCH,
    ) -> list[Path]:
        """Return the paths of at most these values that are best in tail and extra.

        `front` are known plans, shape `(2, plans)`: paths that one of them beats are left out.
        """
        arcs, banned = self.net.arcs, list(branch.banned)
        kept = arcs.load[banned]
        arcs.load[banned] = OUT_OF_REACH
        try:
            return self._within(load, total, extra, front, branch)
        finally:
            arcs.load[banned] = kept

    def _within(
        self, load: int, total: int, extra: int, front: IntArray | None, branch: Branch
    ) -> list[Path]:
        arcs, begun = self.net.arcs, list(branch.prefix)
        first = int(self.net.ends[begun[-1]]) if begun else 0
        for column in range(2):
            to_go.for_work(self._work)(arcs, load, column, self._go[column])
        so_far = int(arcs.load[begun].max(initial=0))
        if self._go[0, first] >= FAR or so_far > load:
            return []
        known = np.zeros((2, 0), np.int64) if front is None else front
        most = min(extra, FAR // OPS) * OPS + OPS - 1
        bounds = Bounds(load, total - self.tail, most, self.least_load, first)
        self._labels.values[:, 0] = arcs.tail[begun].sum(), arcs.extra[begun].sum(), so_far, -1, -1
        count = extend.for_work(4 * self._work)(
            arcs, bounds, self._go[0], self._go[1], known, self._labels, self._draft
        )
        self.clock.spend(abs(count))
        self.dropped |= count < 0
        ends = range(*self._labels.ptr[-2:].tolist())
        return [self._path(i, branch.prefix) for i in ends]

    def _path(self, label: int, prefix: tuple[int, ...]) -> Path:
        values = self._labels.values
        tail, extra, load = values[:3, label].tolist()
        arcs = []
        while values[4, label] >= 0:
            arcs.append(int(values[4, label]))
            label = int(values[3, label])
        return Path(load, self.tail + tail, extra // OPS, (*prefix, *reversed(arcs)))

    def cheapest(self, size: int, load: int = FAR, branch: Branch = NO_BRANCH) -> Path | None:
        """Return the path of least extra multiplications within a size and a load."""
        best: Path | None = None
        at = min(load, size - self.tail)
        while not self.clock.expired():
            limit = FAR if best is None else best.extra - 1
            found = self.within(at, size, limit, branch=branch)
            fits = [path for path in found if path.total <= size]
            best = min(fits, key=lambda x: (x.extra, x.total), default=best)
            # Fewer bytes never cost less, so the cheapest of all paths ends the search.
            if not found or (best in fits and best.extra == min(x.extra for x in found)):
                break
            at = max(path.load for path in found) - 1
        return best

    def smallest(self, extra: int, size: int = FAR, branch: Branch = NO_BRANCH) -> Path | None:
        """Return the path of least size within a number of extra multiplications and a size."""
        best: Path | None = None
        at = size - self.tail
        while not self.clock.expired():
            found = self.within(at, size, extra, branch=branch)
            if not found:
                break
            near = min(found, key=lambda x: (x.total, x.extra))
            if near.total <= size:
                best, size = near, near.total - 1
            at = min(max(path.load for path in found) - 1, size - self.tail)
        return best

    def sweep(self, load: int, total: int = FAR) -> Iterator[list[Path]]:
        """Yield the best paths for each load, downwards; stop at the end of the time."""
        front = np.zeros((2, 0), np.int64)
        known: list[tuple[int, int]] = []
        while not self.clock.expired():
            found = self.within(load, total, front=front)
            if not found:
                return
            yield found
            known = non_dominated([*known, *((x.total - self.tail, x.extra * OPS) for x in found)])
            front = np.array(known, np.int64).T.copy()
            load = max(path.load for path in found) - 1


def non_dominated(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the points that no other one is as small as in both values, ascending."""
    kept: list[tuple[int, int]] = []
    for first, second in sorted(points):
        if not kept or second < kept[-1][1]:
            kept.append((first, second))
    return kept


def ranked(
    find: Callable[[Branch], Path | None], key: Callable[[Path], int]
) -> Iterator[tuple[Path, int]]:
    """Yield paths, the best one first, each with a lower bound on the keys of all that follow.

    `find` returns the best path of a part. This is Lawler's scheme for the k best solutions.
    """
    count = itertools.count()
    path = find(NO_BRANCH)
    heap = [] if path is None else [(key(path), next(count), path, NO_BRANCH)]
    while heap:
        value, _, path, branch = heapq.heappop(heap)
        yield path, value
        for child in branch.children(path):
            other = find(child)
            if other is not None:
                # Loads may have risen meanwhile, but no part gets better.
                heapq.heappush(heap, (max(value, key(other)), next(count), other, child))
