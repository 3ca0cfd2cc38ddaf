"""Search spaces of hunts: small graphs for orderings, live ranges for packers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random
from typing import Generic, TypeVar

import numpy as np

from heuristics import ORDERINGS, PACKINGS
from optsched.counterexamples.change import LiveRows, change_graph, change_packing
from optsched.counterexamples.effort import EFFORT
from optsched.counterexamples.kernels import fullest_step, minimum_slab, peak_range, sized_above
from optsched.counterexamples.small_graph import SmallGraph, order_of_minimum_peak
from optsched.counterexamples.target import HuntTarget, Loss, LossObjective, split
from optsched.model.arrays import IntArray
from optsched.model.dependencies import members
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem

T = TypeVar("T")
WorstLoss = Callable[[], Loss | None]
"""Function that returns the worst loss found so far."""


class HuntSpace(ABC, Generic[T]):
    """Base class of spaces: the instances of one kind and a method that should lose on them."""

    def __init__(self, target: HuntTarget) -> None:
        self.target = target
        self.largest = min(EFFORT.enumerated_bytes, target.max_bytes)

    @property
    @abstractmethod
    def scope(self) -> str:
        """Description of the instances that are enumerated."""

    @abstractmethod
    def stages(self, worst: WorstLoss) -> Iterator[tuple[str, Iterator[T]]]:
        """Yield sets of instances: a description, and those that may be worse than `worst`."""

    @abstractmethod
    def random(self, rng: Random) -> T:
        """Return an instance to start from."""

    @abstractmethod
    def change(self, item: T, rng: Random) -> T:
        """Return an instance with a few random changes."""

    @abstractmethod
    def loss(self, item: T, lowest: float) -> Loss | None:
        """Return the loss, or None if its score is certainly below `lowest`."""

    @abstractmethod
    def weight(self, item: T) -> tuple[int, ...]:
        """Return ops, edges and bytes of an instance; of equal losses, the smallest one wins."""


class GraphSpace(HuntSpace[SmallGraph]):
    """Space of small graphs for an ordering, judged against the optimum or another ordering."""

    @property
    def scope(self) -> str:
        """Description of the instances that are enumerated."""
        return f"in every listing order, one buffer of 1 to {self.largest} bytes per op"

    def stages(self, worst: WorstLoss) -> Iterator[tuple[str, Iterator[SmallGraph]]]:
        """Yield all graphs of few ops: every set of edges from earlier to later ops, all sizes."""
        for ops in range(1, min(EFFORT.enumerated_ops, self.target.max_ops) + 1):
            count = 1 << ops * (ops - 1) // 2
            words = f"{count:,} graph{'s' * (count > 1)} of {ops} op{'s' * (ops > 1)}"
            yield words, self._sized_graphs(ops, worst)

    def _sized_graphs(self, ops: int, worst: WorstLoss) -> Iterator[SmallGraph]:
        sizes = np.empty((self.largest**ops, ops), np.int64)
        ratio = self.target.objective is LossObjective.RATIO
        # All graphs of this many ops: each op chooses its predecessors among earlier ones.
        for before in product(*(range(1 << v) for v in range(ops))):
            # Asked for each graph, as the worst loss rises during the search.
            known = worst() or Loss(1, 1, self.target.objective)
            masks = np.array(before, np.int64)
            count = sized_above.compiled(
                masks, self.largest, known.value, known.rival, ratio, sizes
            )
            for size in sizes[:count].tolist():
                yield SmallGraph(tuple(size), before)

    def random(self, rng: Random) -> SmallGraph:
        """Return a sparse random graph."""
        most, largest = self.target.max_ops, self.target.max_bytes
        n = rng.randint(min(4, most), most)
        share = rng.uniform(0.1, 0.4)
        return SmallGraph(
            # Extremes are frequent, because losses often need them.
            tuple(rng.choice((1, largest, rng.randint(1, largest))) for _ in range(n)),
            tuple(sum((rng.random() < share) << u for u in range(v)) for v in range(n)),
        )

    def change(self, item: SmallGraph, rng: Random) -> SmallGraph:
        """Return a graph with another size, edge, op or listing order."""
        return change_graph(item, rng, self.target.max_ops, self.target.max_bytes)

    def loss(self, item: SmallGraph, lowest: float) -> Loss | None:
        """Return the loss of the ordering; the optimum comes from a table over sets of ops."""
        optimum, most = peak_range.compiled(*item.masks)
        # No order of this graph can be worse than its worst one.
        if Loss(most, optimum, self.target.objective).score < lowest:
            return None
        graph = item.graph()
        value = peak_memory(graph, ORDERINGS[self.target.method](graph, 0))
        if self.target.versus is not None:
            optimum = peak_memory(graph, ORDERINGS[self.target.versus](graph, 0))
        return Loss(value, optimum, self.target.objective)

    def weight(self, item: SmallGraph) -> tuple[int, ...]:
        """Return the numbers of ops and edges, and the bytes."""
        return len(item), sum(mask.bit_count() for mask in item.before), sum(item.size)


class PairSpace(GraphSpace):
    """Space of small graphs for an ordering with a packer, judged by slab.

    Against the optimum, only graphs whose minimum peak is found to be a slab too are kept, because
    their optimum is then known.
    """

    def loss(self, item: SmallGraph, lowest: float) -> Loss | None:
        """Return the loss of the pair, with the optimum from an exhaustive kernel."""
        if Loss(sum(item.size), max(item.size), self.target.objective).score < lowest:
            return None
        value = self._slab(item, self.target.method)
        if self.target.versus is not None:
            return Loss(value, self._slab(item, self.target.versus), self.target.objective)
        optimum, _ = peak_range.compiled(*item.masks)
        if Loss(value, optimum, self.target.objective).score < lowest:
            return None
        ranges = live_rows(item, order_of_minimum_peak(item.masks))
        start, end, size = np.array(ranges, np.int64).T.copy()
        slab = minimum_slab.compiled(start, end, size, np.zeros(len(item), np.int64))
        # Only then is the minimum slab known to be the minimum peak.
        return Loss(value, optimum, self.target.objective) if slab == optimum else None

    def _slab(self, item: SmallGraph, method: str) -> int:
        ordering, packing = split(method)
        order = ORDERINGS[ordering](item.graph(), 0)
        problem = make_problem(live_rows(item, order.tolist()))
        return problem.slab_size(PACKINGS[packing](problem))


def live_rows(graph: SmallGraph, order: Sequence[int]) -> LiveRows:
    """Return start step, end step and bytes of each buffer, in listing order."""
    step = {v: at for at, v in enumerate(order)}
    end = [len(graph) if graph.outputs >> v & 1 else 0 for v in range(len(graph))]
    for v, mask in enumerate(graph.before):
        for u in members(mask):
            end[u] = max(end[u], step[v] + 1)
    # At least one step, for buffers without readers.
    return tuple((step[v], max(end[v], step[v] + 1), x) for v, x in enumerate(graph.size))


class PackingSpace(HuntSpace[LiveRows]):
    """Space of live ranges for a packer, judged against the minimum slab or another packer."""

    @property
    def scope(self) -> str:
        """Description of the instances that are enumerated."""
        return (
            f"in every listing order, 1 to {self.largest} bytes per buffer, "
            f"{EFFORT.enumerated_steps} steps"
        )

    @property
    def steps(self) -> int:
        """Number of steps of packings beyond those that are enumerated."""
        return max(4, self.target.max_ops)

    def stages(self, worst: WorstLoss) -> Iterator[tuple[str, Iterator[LiveRows]]]:
        """Yield all packings of few buffers in which some buffer is live from step 0."""
        kinds = [
            (start, end, size)
            for start in range(EFFORT.enumerated_steps)
            for end in range(start + 1, EFFORT.enumerated_steps + 1)
            for size in range(1, self.largest + 1)
        ]
        for count in range(1, min(EFFORT.enumerated_buffers, self.target.max_ops) + 1):
            # Shifted in time, a packing is the same.
            rows = (row for row in product(kinds, repeat=count) if min(row)[0] == 0)
            yield f"packings of {count} buffer{'s' * (count > 1)}", rows

    def random(self, rng: Random) -> LiveRows:
        """Return random live ranges, with few distinct sizes or many."""
        rows = []
        largest = min(self.target.max_bytes, rng.choice((4, 16, self.target.max_bytes)))
        for _ in range(rng.randint(min(3, self.target.max_ops), self.target.max_ops)):
            start, end = sorted(rng.sample(range(self.steps + 1), 2))
            rows.append((start, end, rng.randint(1, largest)))
        return tuple(rows)

    def change(self, item: LiveRows, rng: Random) -> LiveRows:
        """Return live ranges with another size, start, end, buffer or listing order."""
        return change_packing(item, rng, self.target.max_ops, self.steps, self.target.max_bytes)

    def loss(self, item: LiveRows, lowest: float) -> Loss | None:
        """Return the loss of the packer, with the optimum from an exhaustive kernel."""
        problem = make_problem(item)
        value = problem.slab_size(PACKINGS[self.target.method](problem))
        if self.target.versus is not None:
            rival = problem.slab_size(PACKINGS[self.target.versus](problem))
            return Loss(value, rival, self.target.objective)
        columns = problem.start, problem.end, problem.size
        load = fullest_step.compiled(*columns)
        # The load bounds the slab, so no packer can do worse than this.
        if Loss(value, load, self.target.objective).score < lowest:
            return None
        if value > load:
            load = minimum_slab.compiled(*columns, np.zeros(len(problem), np.int64))
        return Loss(value, load, self.target.objective)

    def weight(self, item: LiveRows) -> tuple[int, ...]:
        """Return the numbers of buffers and live steps, and the bytes."""
        return len(item), sum(e - s for s, e, _ in item), sum(x for _, _, x in item)


def make_problem(rows: LiveRows, name: str = "packing") -> PackingProblem:
    """Return the packing problem of live ranges; buffers are called a, b, c, ..."""
    table: IntArray = np.array(rows, np.int64).reshape(-1, 3)
    ones = np.ones(len(rows), np.int64)
    return PackingProblem(
        names=tuple(chr(ord("a") + i) for i in range(len(rows))),
        start=table[:, 0].copy(),
        end=table[:, 1].copy(),
        size=table[:, 2].copy(),
        alignment=ones,
        pin=-ones,
        name=name,
    )
