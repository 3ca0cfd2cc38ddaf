"""An order of the nodes of a colored graph that does not depend on their numbers.

Nodes of one color are a cell. If each node of a part of the graph has at most one neighbor in each
cell of tied nodes, such parts can be swapped as units, and any sequence of them is canonical. Nodes
with identical neighbors can be swapped as well, and count as one node here. In
all other parts one node of the first cell is chosen, its neighbors are distinguished from those of
the other nodes of the cell, and so on, until each node has a cell of its own. The choice makes no
difference for nodes that can be swapped. For nodes that only seem so, as in some
specially constructed graphs, two different orders of one graph are possible.

References
----------
McKay, Piperno, "Practical graph isomorphism, II" (2014): choice and refinement, without the search.
Paige, Tarjan, "Three partition refinement algorithms" (1987): cells in one array.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optsched.model.arrays import IntArray, distinct

Colors = npt.NDArray[np.uint64]


class Edges(NamedTuple):
    """Relations between nodes, each with a role.

    Parameters
    ----------
    source, target
        Nodes, shape `(edges,)`.
    role
        Number of the kind of relation.
    """

    source: IntArray
    target: IntArray
    role: Colors

    @classmethod
    def of_role(cls, source: IntArray, target: IntArray, role: int) -> Edges:
        """Return edges of one role."""
        return cls(source, target, np.full(len(source), role, np.uint64))

    @classmethod
    def joined(cls, edges: Sequence[Edges]) -> Edges:
        """Return all edges of several."""
        return cls(*map(np.concatenate, zip(*edges, strict=True)))

    def seen(self, values: Colors) -> Colors:
        """Return for each node a sum over the nodes it is related to: of their values and roles."""
        total = np.zeros(len(values), np.uint64)
        # Source and target get different values for one role, so that directions differ.
        np.add.at(total, self.target, mixed(values[self.source] + self.role))
        np.add.at(total, self.source, mixed(values[self.target] - self.role))
        return total

    def touching(self, marked: npt.NDArray[np.bool_]) -> Edges:
        """Return edges with an end that is marked."""
        return self._where(marked[self.source] | marked[self.target])

    def within(self, marked: npt.NDArray[np.bool_]) -> Edges:
        """Return edges with both ends marked."""
        return self._where(marked[self.source] & marked[self.target])

    def _where(self, chosen: npt.NDArray[np.bool_]) -> Edges:
        return Edges(self.source[chosen], self.target[chosen], self.role[chosen])


def mixed(x: Colors) -> Colors:
    """Return 64-bit numbers that look independent for all different inputs."""
    # The finalizer of SplitMix64 by Steele, Lea and Flood: each bit of the input affects all.
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def count_equals(values: npt.NDArray[np.generic]) -> IntArray:
    """Return the number of occurrences of each value."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray(counts, np.int64)[inverse]


def order_nodes(colors: Colors, kinds: Sequence[tuple[int, int]], edges: Edges) -> IntArray:
    """Return all nodes, kind by kind, in an order that depends only on colors and edges.

    Parameters
    ----------
    colors
        Shape `(nodes,)`; no two kinds share one.
    kinds
        The first node of each kind, and one past its last.
    edges
        Edges that the colors were refined by.
    """
    count = len(colors)
    kind = np.repeat(np.arange(len(kinds)), [end - first for first, end in kinds])
    _, color, alike = np.unique(colors, return_inverse=True, return_counts=True)
    tied = alike[color] > 1
    if not tied.any():
        # All colors differ: this is the order already, as in most graphs.
        return np.lexsort((colors, kind))
    # Ties hang together within parts, which can be treated one by one.
    part = _parts(count, edges.within(tied))
    sizes = np.bincount(part, minlength=count)[part]
    # Nodes that see the very same nodes can be exchanged, so that they count as one.
    own = mixed(np.arange(count, dtype=np.uint64))
    seen = colors + edges.touching(tied).seen(own)
    twins = np.unique(seen, return_inverse=True)[1]
    # In a part that is not loose, every node has a color of its own: it can be moved as a unit.
    # Twins count once, as which of them comes first makes no difference.
    loose = tied & (_count_distinct(part, color) < _count_distinct(part, twins))[part]
    # Sorted by kind and color, then by sizes of parts, then part by part: nodes of one part keep
    # together in all cells. Joined keys, as each key is one more sort.
    order = np.lexsort((part, 2 * sizes + loose, count * kind + color))
    if loose.any():
        cell = np.empty_like(order)
        cell[order] = _cells(colors[order], sizes[order], loose[order])
        _Partition(order, cell, loose, edges.within(loose)).individualize()
    return order


def _count_distinct(part: IntArray, value: IntArray) -> IntArray:
    """Return by part how many values its nodes have."""
    count = len(part)
    return np.bincount(distinct(part * count + value) // count, minlength=count)


def _parts(count: int, edges: Edges) -> IntArray:
    """Return for each node the least node of its connected part."""
    label = np.arange(count)
    while True:
        before = label.copy()
        least = np.minimum(label[edges.source], label[edges.target])
        for end in (edges.source, edges.target):
            # Not only the node learns of it: also the one that stood for its part so far.
            np.minimum.at(label, before[end], least)
            np.minimum.at(label, end, least)
        # Path halving: labels point at labels until each points at the least node.
        while (label != label[label]).any():
            label = label[label]
        if (label == before).all():
            return label


def _cells(*keys: npt.NDArray[np.generic]) -> IntArray:
    """Return for each place of a sorted row where the run of places with equal keys begins."""
    new = np.ones(len(keys[0]), np.bool_)
    # The first place always begins a run.
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    found: IntArray = np.flatnonzero(new)[np.cumsum(new) - 1]
    return found


class _Partition:
    """Cells of nodes, each a run of places in one row; splitting a cell costs what it moves.

    Parameters
    ----------
    order
        The row; brought into its final order.
    cell
        By node, the first place of its cell.
    loose
        True for nodes to be distinguished, which form whole cells.
    edges
        Edges between these nodes.
    """

    def __init__(
        self, order: IntArray, cell: IntArray, loose: npt.NDArray[np.bool_], edges: Edges
    ) -> None:
        self.order = order
        self.row: list[int] = order.tolist()
        self.place = {v: i for i, v in enumerate(self.row) if loose[v]}
        self.cell = {v: int(cell[v]) for v in self.place}
        self.size: dict[int, int] = defaultdict(int)
        for first in self.cell.values():
            self.size[first] += 1
        self.neighbors: dict[int, list[tuple[int, int]]] = {v: [] for v in self.place}
        # Both directions; the factor 3 keeps them apart, for a relation seen from its other end.
        for v, w, role in zip(*(x.tolist() for x in edges), strict=True):
            self.neighbors[v].append((w, role))
            self.neighbors[w].append((v, 3 * role))

    def individualize(self) -> None:
        """Split cells until each node has its own; any choice among tied nodes is as good."""
        places = sorted(self.place.values())
        self._refine(sorted(self.size))
        for place in places:
            while self.size[place] > 1:
                # The last node of the cell: it is at its new place already.
                chosen = self.row[place + self.size[place] - 1]
                self._refine(self._split(place, {chosen: 0}))
        self.order[:] = self.row

    def _refine(self, splitters: Sequence[int]) -> None:
        """Split cells until all nodes of a cell have equal relations to every cell."""
        queue, waiting = deque(splitters), set(splitters)
        while queue:
            splitter = queue.popleft()
            waiting.discard(splitter)
            # Sorted: the sequence in which cells are split decides their numbers.
            for first, scores in sorted(self._seen_from(splitter).items()):
                made = self._split(first, scores)
                if first not in waiting and made:
                    # Relations to the old cell are known, so those to the largest part follow.
                    largest = max((first, *made), key=lambda x: (self.size[x], -x))
                    made = [x for x in (first, *made) if x != largest]
                waiting.update(made)
                queue.extend(made)

    def _seen_from(self, splitter: int) -> dict[int, dict[int, int]]:
        """Return, by cell and node, the sum of the roles of the node's relations to a cell."""
        found: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for v in self.row[splitter : splitter + self.size[splitter]]:
            for w, role in self.neighbors[v]:
                first = self.cell[w]
                # A cell of one node cannot be split further.
                if self.size[first] > 1:
                    found[first][w] += role
        return found

    def _split(self, first: int, scores: dict[int, int]) -> list[int]:
        """Move the nodes that have a score to the end of their cell, equal ones into one cell.

        Returns the first places of the new cells.
        """
        size = self.size[first]
        last, begin = first + size, first + size - len(scores)
        ranked = sorted(scores, key=scores.__getitem__)
        # All have the same score, so nothing is distinguished.
        if begin == first and scores[ranked[0]] == scores[ranked[-1]]:
            return []
        # Only scored nodes move: their holes are filled with those that stay, so that a split
        # costs what it moves.
        staying = [v for v in self.row[begin:last] if v not in scores]
        holes = [self.place[v] for v in ranked if self.place[v] < begin]
        for place, v in (*zip(holes, staying, strict=True), *enumerate(ranked, begin)):
            self.row[place], self.place[v] = v, place
        made = [
            place
            for place in range(max(begin, first + 1), last)
            if place == begin or scores[self.row[place]] != scores[self.row[place - 1]]
        ]
        for cell, end in zip(made, (*made[1:], last), strict=True):
            self.size[cell] = end - cell
            for v in self.row[cell:end]:
                self.cell[v] = cell
        self.size[first] = made[0] - first
        return made
