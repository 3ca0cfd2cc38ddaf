"""A plan: an order of the ops and an offset for every buffer that needs one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import index

import numpy as np

from optsched.errors import PlanError
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs, heads
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.steps import Order
from optsched.runtime.keywords import keywords
from optsched.runtime.text import counted


@keywords
@dataclass(frozen=True, slots=True)
class Plan:
    """An order, and offsets by buffer id.

    Parameters
    ----------
    order
        Op ids, first to run first.
    offsets
        First byte of each buffer in the slab of its pool, by buffer id. None where a buffer needs
        none: it lies outside the slab, has no bytes or is never live. A view has its root's offset.
    pools
        The pool that each buffer lies in, by buffer id; empty where that is the one it names.

    Raises
    ------
    PlanError
        If an op id or an offset is no integer.
    """

    order: tuple[int, ...]
    offsets: tuple[int | None, ...]
    pools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Make Python's integers of numpy's, whose sums could pass their range unseen."""
        plain = (None if x is None else _as_integer(x) for x in self.offsets)
        object.__setattr__(self, "offsets", tuple(plain))
        object.__setattr__(self, "order", tuple(map(_as_integer, self.order)))

    def __repr__(self) -> str:
        placed = sum(offset is not None for offset in self.offsets)
        ops, buffers = counted(len(self.order), "op"), counted(len(self.offsets), "buffer")
        return f"Plan({ops}, {placed} of {buffers} placed)"

    def placed(self, graph: Graph) -> Graph:
        """Return the graph whose buffers name the pools that they lie in.

        Buffers of different pools that come to lie in one stay apart: ops write none into another.

        Raises
        ------
        PlanError
            If a view lies elsewhere than its root, or a pinned buffer is not in its own pool.
        """
        if not self.pools:
            return graph
        homes = tuple(buffer.pool for buffer in graph.buffers)
        if self.pools == homes:
            return graph
        if len(self.pools) != len(graph.buffers):
            all_ = counted(len(graph.buffers), "buffer")
            raise PlanError(f"plan has {counted(len(self.pools), 'pool')} for {all_}")
        # Buffers that name no pool may all be in one that the plan names: pins move together.
        held: dict[str, str] = {}
        rows = zip(graph.buffers, graph.roots, self.offsets, self.pools, strict=True)
        for buffer, root, offset, pool in rows:
            if pool != self.pools[root]:
                raise PlanError(
                    f"buffer {buffer.name!r} in pool {pool!r} is a view of "
                    f"{graph.buffers[root].name!r} in pool {self.pools[root]!r}"
                )
            # A buffer without an offset lies outside every pool, whatever it names.
            if offset is None or buffer.pin is None:
                continue
            if pool != held.setdefault(buffer.pool, buffer.pool or pool):
                raise PlanError(f"buffer {buffer.name!r} is pinned and can not be in pool {pool!r}")
        pools = list(self.pools)
        for group in graph.must_share:
            # One without an offset goes where the others lie.
            lies = next((pools[b] for b in group if self.offsets[b] is not None), None)
            for b in group:
                pools[b] = lies if self.offsets[b] is None and lies is not None else pools[b]
        buffers = tuple(
            buffer if buffer.pool == pool else replace(buffer, pool=pool)
            for buffer, pool in zip(graph.buffers, pools, strict=True)
        )
        inplace = tuple(pair for pair in graph.inplace if homes[pair[1]] == homes[pair[2]])
        return replace(graph, buffers=buffers, inplace=inplace)

    def keeps_pools(self, graph: Graph) -> bool:
        """Whether buffers lie together that name one pool, and only these: its bounds hold then."""
        rows = zip(graph.buffers, self.pools, self.offsets, strict=False)
        pairs = {(buffer.pool, pool) for buffer, pool, offset in rows if offset is not None}
        return all(len({*side}) == len(pairs) for side in zip(*pairs, strict=True))

    def slabs(self, graph: Graph) -> dict[str, int]:
        """Return the slab of each pool, by its name: the largest `offset + size` in it."""
        ends: dict[str, list[int]] = {}
        for b, (offset, buffer) in enumerate(zip(self.offsets, graph.buffers, strict=True)):
            if offset is not None and buffer.alias_of is None:
                pool = self.pools[b] if self.pools else buffer.pool
                ends.setdefault(pool, [0]).append(offset + buffer.size)
        return {pool: max(row) for pool, row in ends.items()}

    def slab(self, graph: Graph) -> int:
        """Return the bytes of the slab; of all slabs together where there are several pools."""
        return sum(self.slabs(graph).values())

    def peak(self, graph: Graph) -> int:
        """Return the peak memory of the order."""
        return peak_memory(self.placed(graph), self.order)


def _as_integer(value: object) -> int:
    # Asked for its index, not whether it has one: that takes fifty times as long.
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise PlanError(f"a plan is made of integers, not of {value!r}") from None


def make_plan(graph: Graph, order: Order, offsets: IntArray, taken: Pairs = ()) -> Plan:
    """Make a plan of an order and the offsets of its packing problem, shape `(k,)`.

    `taken` are the in-place pairs that the packing problem was made with.
    """
    _, ids = packing_problem(graph, order, taken)
    return placed_plan(graph, order, ids, offsets, taken)


def placed_plan(
    graph: Graph, order: Order, ids: IntArray, offsets: IntArray, taken: Pairs = ()
) -> Plan:
    """Make the same of a packing problem that is there: `ids`, shape `(k,)`, came with it."""
    if len(offsets) != len(ids):
        raise PlanError(f"{len(offsets)} offsets for {counted(len(ids), 'buffer')} to be packed")
    placed = np.full(len(graph.buffers), -1, np.int64)
    placed[ids] = offsets
    for output, head in heads(taken).items():
        placed[output] = placed[head]
    rows = placed.tolist()
    return Plan(
        order=tuple(np.asarray(order, np.int64).tolist()),
        offsets=tuple(None if rows[root] < 0 else rows[root] for root in graph.roots),
    )
