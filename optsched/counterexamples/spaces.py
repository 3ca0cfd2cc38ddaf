"""What is hunted through: wirings for orderings, live ranges for packers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from random import Random
from typing import Protocol, TypeVar

import numpy as np

from heuristics import ORDERINGS, PACKINGS
from optsched.counterexamples import enumerate as every
from optsched.counterexamples.change import change_packing, change_wiring
from optsched.counterexamples.kernels.downsets import least_and_most, peak_of, sized_above
from optsched.counterexamples.kernels.slabs import fullest_step, least_slab
from optsched.counterexamples.loss import Loss, Objective
from optsched.counterexamples.quick import QUICK, Quick, Rows
from optsched.counterexamples.wiring import Wiring, least_order, ops_in
from optsched.model.arrays import IntArray
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import PackingProblem

T = TypeVar("T")
Best = Callable[[], Loss | None]
"""The worst loss found so far."""

EXHAUSTED_OPS, EXHAUSTED_BYTES = 5, 3
"""Wirings up to here are all tried, if time allows."""
EXHAUSTED_BUFFERS, EXHAUSTED_STEPS = 3, 4
"""Packings up to here are all tried."""


class Space(Protocol[T]):
    """Instances of one kind, and a method that is to lose on them."""

    scope: str
    """What is enumerated, in words."""

    def stages(self, best: Best) -> Iterator[tuple[str, Iterator[T]]]:
        """Yield what is enumerated, in words, and its instances that may be worse than `best`."""

    def random(self, rng: Random) -> T:
        """Return an instance to start from."""

    def change(self, item: T, rng: Random) -> T:
        """Return an instance that differs in little."""

    def loss(self, item: T, least: float) -> Loss | None:
        """Return the loss, or None if its score is surely below `least`."""

    def weight(self, item: T) -> tuple[int, ...]:
        """Of equal losses the least weight is wanted: ops, edges, bytes."""


class Wirings:
    """Wirings for an ordering, judged against the least peak or another ordering.

    Parameters
    ----------
    method, versus
        Names of orderings; the optimum is the rival if `versus` is None.
    objective
        What is compared.
    max_ops, max_bytes
        Ops of a wiring; bytes of a buffer.
    """

    def __init__(
        self, method: str, versus: str | None, objective: Objective, max_ops: int, max_bytes: int
    ) -> None:
        self.method, self.versus, self.objective = method, versus, objective
        self.max_ops, self.max_bytes = max_ops, max_bytes
        self.largest = min(EXHAUSTED_BYTES, max_bytes)
        self.scope = (
            f"up to isomorphism, one buffer of 1 to {self.largest} bytes an op, in every listing"
        )

    def stages(self, best: Best) -> Iterator[tuple[str, Iterator[Wiring]]]:
        """All wirings of few ops, up to isomorphism, in every listing."""
        for ops in range(1, min(EXHAUSTED_OPS, self.max_ops) + 1):
            graphs = every.dags(ops)
            words = f"{len(graphs):,} graph{'s' * (ops > 1)} of {ops} op{'s' * (ops > 1)}"
            yield words, self._wirings(graphs, best)

    def _wirings(self, graphs: tuple[every.Masks, ...], best: Best) -> Iterator[Wiring]:
        for before in graphs:
            n = len(before)
            known = best() or Loss(1, 1, self.objective)
            sizes = np.empty((self.largest**n, n), np.int64)
            count = sized_above.compiled(
                np.array(before, np.int64),
                self.largest,
                known.value,
                known.rival,
                self.objective is Objective.RATIO,
                sizes,
            )
            symmetries = every.automorphisms(before) if count else []
            for size in sizes[:count].tolist():
                if every.is_least(size, symmetries):
                    for listing in every.listings(before):
                        listed = tuple(size[v] for v in listing)
                        yield Wiring(listed, every.relabel(before, listing))

    def random(self, rng: Random) -> Wiring:
        """Return a sparse random wiring."""
        n = rng.randint(min(4, self.max_ops), self.max_ops)
        share = rng.uniform(0.1, 0.4)
        return Wiring(
            tuple(
                rng.choice((1, self.max_bytes, rng.randint(1, self.max_bytes))) for _ in range(n)
            ),
            tuple(sum((rng.random() < share) << u for u in range(v)) for v in range(n)),
        )

    def change(self, item: Wiring, rng: Random) -> Wiring:
        """Return a wiring with another size, edge, op or listing."""
        return change_wiring(item, rng, self.max_ops, self.max_bytes)

    def loss(self, item: Wiring, least: float) -> Loss | None:
        """Judge by the compiled kernels; no graph is made."""
        masks = item.masks
        optimum, most = least_and_most.compiled(*masks)
        if Loss(most, optimum, self.objective).score < least:
            return None
        rows = Rows(item)
        value = self._peak(item, rows, self.method)
        rival = optimum if self.versus is None else self._peak(item, rows, self.versus)
        return Loss(value, rival, self.objective)

    def _peak(self, item: Wiring, rows: Rows, method: str) -> int:
        make: Quick | None = QUICK.get(method)
        if make is None:
            graph = item.graph()
            return peak_memory(graph, ORDERINGS[method](graph, 0))
        return peak_of.compiled(make(rows), *item.masks[1:])

    def weight(self, item: Wiring) -> tuple[int, ...]:
        """Ops, edges, bytes."""
        return len(item), sum(mask.bit_count() for mask in item.before), sum(item.size)


class PairWirings(Wirings):
    """Wirings for an ordering and a packer together, judged by slab.

    Kept are only wirings whose least peak is seen to be a slab too: their optimum is known.
    """

    def loss(self, item: Wiring, least: float) -> Loss | None:
        """Judge by packer and kernels; no graph is made."""
        if Loss(sum(item.size), max(item.size), self.objective).score < least:
            return None
        rows = Rows(item)
        value = self._slab(rows, self.method)
        if self.versus is not None:
            return Loss(value, self._slab(rows, self.versus), self.objective)
        optimum, _ = least_and_most.compiled(*item.masks)
        if Loss(value, optimum, self.objective).score < least:
            return None
        ranges = live_rows(item, least_order(item.masks))
        start, end, size = np.array(ranges, np.int64).T.copy()
        slab = least_slab.compiled(start, end, size, np.zeros(len(item), np.int64))
        return Loss(value, optimum, self.objective) if slab == optimum else None

    def _slab(self, rows: Rows, method: str) -> int:
        ordering, packing = method.split("+")
        problem = make_problem(live_rows(rows.wiring, QUICK[ordering](rows).tolist()))
        return problem.slab_size(PACKINGS[packing](problem))


def live_rows(wiring: Wiring, order: Sequence[int]) -> every.Rows:
    """Return start, end and bytes of each buffer, in listing order."""
    step = {v: at for at, v in enumerate(order)}
    end = [len(wiring) if wiring.outputs >> v & 1 else 0 for v in range(len(wiring))]
    for v, mask in enumerate(wiring.before):
        for u in ops_in(mask):
            end[u] = max(end[u], step[v] + 1)
    return tuple((step[v], max(end[v], step[v] + 1), x) for v, x in enumerate(wiring.size))


class LiveRanges:
    """Live ranges for a packer, judged against the least slab or another packer.

    The parameters are those of :class:`Wirings`, with buffers for ops.
    """

    def __init__(
        self, method: str, versus: str | None, objective: Objective, max_ops: int, max_bytes: int
    ) -> None:
        self.method, self.versus, self.objective = method, versus, objective
        self.max_buffers, self.max_bytes = max_ops, max_bytes
        self.steps = max(4, max_ops)
        self.largest = min(EXHAUSTED_BYTES, max_bytes)
        self.scope = (
            f"up to isomorphism, 1 to {self.largest} bytes a buffer, {EXHAUSTED_STEPS} steps, "
            "in every listing"
        )

    def stages(self, best: Best) -> Iterator[tuple[str, Iterator[every.Rows]]]:
        """All packings of few buffers up to isomorphism, in every listing."""
        for count in range(1, min(EXHAUSTED_BUFFERS, self.max_buffers) + 1):
            words = f"packings of {count} buffer{'s' * (count > 1)}"
            rows = every.packings(count, EXHAUSTED_STEPS, self.largest)
            yield words, (listed for row in rows for listed in sorted(set(permutations(row))))

    def random(self, rng: Random) -> every.Rows:
        """Return random live ranges, of few different sizes or many."""
        rows = []
        largest = min(self.max_bytes, rng.choice((4, 16, self.max_bytes)))
        for _ in range(rng.randint(min(3, self.max_buffers), self.max_buffers)):
            start, end = sorted(rng.sample(range(self.steps + 1), 2))
            rows.append((start, end, rng.randint(1, largest)))
        return tuple(rows)

    def change(self, item: every.Rows, rng: Random) -> every.Rows:
        """Return live ranges with another size, start, end, buffer or listing."""
        return change_packing(item, rng, self.max_buffers, self.steps, self.max_bytes)

    def loss(self, item: every.Rows, least: float) -> Loss | None:
        """Judge by the packer itself and an exhaustive kernel."""
        problem = make_problem(item)
        value = problem.slab_size(PACKINGS[self.method](problem))
        if self.versus is not None:
            rival = problem.slab_size(PACKINGS[self.versus](problem))
            return Loss(value, rival, self.objective)
        columns = problem.start, problem.end, problem.size
        load = fullest_step.compiled(*columns)
        if Loss(value, load, self.objective).score < least:
            return None
        if value > load:
            load = least_slab.compiled(*columns, np.zeros(len(problem), np.int64))
        return Loss(value, load, self.objective)

    def weight(self, item: every.Rows) -> tuple[int, ...]:
        """Buffers, steps and bytes."""
        return len(item), sum(e - s for s, e, _ in item), sum(x for _, _, x in item)


def make_problem(rows: every.Rows, name: str = "packing") -> PackingProblem:
    """Make a packing problem of live ranges; buffers are called a, b, c, ..."""
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
