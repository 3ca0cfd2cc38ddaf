"""A plan: an order of the ops, and an offset for every buffer that needs one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from optsched.errors import PlanError, UsageError, expect
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.inplace_choice import Pairs, heads
from optsched.model.liveness import peak_memory
from optsched.model.packing_problem import packing_problem
from optsched.model.steps import Order, has_both, order_ids
from optsched.runtime.integers import as_integer
from optsched.runtime.keywords import keywords
from optsched.runtime.text import counted


@keywords
@dataclass(frozen=True, slots=True)
class Plan:
    """An order of ops, with the offsets of buffers.

    Parameters
    ----------
    order
        Op ids, first to run first.
    offsets
        Offset of each buffer in bytes in the slab of its pool, by buffer id. None for a buffer that
        lies outside the slab, has no bytes, or is never live. A view has the offset of its root.
    pools
        Name of the pool of each buffer, by buffer id; empty if each buffer lies in the pool that it
        names in the graph.

    Raises
    ------
    PlanError
        If an op id or an offset is not an integer.

    Examples
    --------
    >>> from optsched import GraphBuilder, Plan
    >>> build = GraphBuilder("chain")
    >>> build.op("p", writes={"a": 4})
    >>> build.op("q", reads=["a"], writes={"b": 6})
    >>> graph, plan = build.build(), Plan(order=(0, 1), offsets=(0, 4))
    >>> plan.peak(graph), plan.slab(graph)
    (10, 10)
    """

    order: tuple[int, ...]
    offsets: tuple[int | None, ...]
    pools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Convert NumPy integers, whose sums could overflow silently, to Python integers."""
        object.__setattr__(self, "offsets", _plain(self.offsets, NoneType))
        object.__setattr__(self, "order", _plain(self.order))
        expect("pools of a plan", self.pools, tuple, list)
        object.__setattr__(self, "pools", tuple(self.pools))

    @classmethod
    def from_names(cls, graph: Graph, order: Sequence[str], offsets: Mapping[str, int]) -> Plan:
        """Return a plan from names of ops, first to run first, and of buffers.

        A view has the offset of its root, which may be given under either name.

        Raises
        ------
        PlanError
            If a name is not in the graph.

        Examples
        --------
        >>> from optsched import GraphBuilder, Plan
        >>> build = GraphBuilder("chain")
        >>> build.op("p", writes={"a": 4})
        >>> build.op("q", reads=["a"], writes={"b": 6})
        >>> Plan.from_names(build.build(), ["p", "q"], {"a": 0, "b": 4})
        Plan(2 ops, 2 of 2 buffers placed)
        """
        ids = {buffer.name: b for b, buffer in enumerate(graph.buffers)}
        placed: dict[int, int] = {}
        for name, offset in offsets.items():
            if name not in ids:
                raise PlanError(f"offsets name buffer {name!r}, which is not in the graph")
            placed[graph.roots[ids[name]]] = offset
        found = tuple(placed.get(root) for root in graph.roots)
        return cls(order=tuple(order_ids(graph, order).tolist()), offsets=found)

    def __repr__(self) -> str:
        placed = sum(offset is not None for offset in self.offsets)
        ops, buffers = counted(len(self.order), "op"), counted(len(self.offsets), "buffer")
        return f"Plan({ops}, {placed} of {buffers} placed)"

    def placed(self, graph: Graph) -> Graph:
        """Return the graph in which each buffer names the pool in which it lies.

        Buffers of different pools that lie in the same pool in this plan stay separate: ops do not
        write one into the other.

        Raises
        ------
        PlanError
            If a view lies in another pool than its root, or a pinned buffer is not in its own pool.
        """
        if not self.pools:
            return graph
        own_pools = tuple(buffer.pool for buffer in graph.buffers)
        # Nothing moves, so the graph with all that is known of it can be used.
        if self.pools == own_pools:
            return graph
        if len(self.pools) != len(graph.buffers):
            all_ = counted(len(graph.buffers), "buffer")
            raise PlanError(f"plan has {counted(len(self.pools), 'pool')} for {all_}")
        # Buffers without a pool name may lie in a pool of the plan; pinned ones must share that
        # pool.
        held: dict[str, str] = {}
        rows = zip(graph.buffers, graph.roots, self.offsets, self.pools, strict=True)
        for buffer, root, offset, pool in rows:
            if pool != self.pools[root]:
                raise PlanError(
                    f"buffer {buffer.name!r} in pool {pool!r} is a view of "
                    f"{graph.buffers[root].name!r} in pool {self.pools[root]!r}"
                )
            # A buffer without an offset lies outside every pool, regardless of the pool it names.
            if offset is None or buffer.pin is None:
                continue
            if pool != held.setdefault(buffer.pool, buffer.pool or pool):
                raise PlanError(f"buffer {buffer.name!r} is pinned and cannot be in pool {pool!r}")
        pools = list(self.pools)
        for group in graph.must_share:
            # Members without an offset are assigned to the pool of the other members.
            lies = next((pools[b] for b in group if self.offsets[b] is not None), None)
            for b in group:
                pools[b] = lies if self.offsets[b] is None and lies is not None else pools[b]
        return graph.in_pools(pools)

    def keeps_pools(self, graph: Graph) -> bool:
        """Return True if two buffers lie in the same pool exactly if they name the same pool.

        The bounds of the graph hold for the plan in that case.
        """
        rows = zip(graph.buffers, self.pools, self.offsets, strict=False)
        pairs = {(buffer.pool, pool) for buffer, pool, offset in rows if offset is not None}
        return all(len({*side}) == len(pairs) for side in zip(*pairs, strict=True))

    def slabs(self, graph: Graph) -> dict[str, int]:
        """Return the slab of each pool by name: the largest `offset + size` in it."""
        ends: dict[str, int] = {}
        own = self.pools or [buffer.pool for buffer in graph.buffers]
        for pool, offset, buffer in zip(own, self.offsets, graph.buffers, strict=True):
            if offset is not None and buffer.alias_of is None:
                end = offset + buffer.size
                if end > ends.setdefault(pool, 0):
                    ends[pool] = end
        return ends

    def slab(self, graph: Graph) -> int:
        """Return the slab in bytes; the sum of all slabs if there are several pools."""
        return sum(self.slabs(graph).values())

    def peak(self, graph: Graph) -> int:
        """Return the peak memory of the order in bytes."""
        return peak_memory(self.placed(graph), self.order)


def _plain(values: Iterable[Any], *others: type) -> tuple[Any, ...]:
    """Return integers as `int`; values of the other types stay as they are."""
    row = tuple(values)
    # Nearly all rows are plain already, and a set of types shows that in one pass.
    if {int, *others}.issuperset(map(type, row)):
        return row
    return tuple(x if type(x) in others else _as_integer(x) for x in row)


def _as_integer(value: object) -> int:
    number = as_integer(value)
    if number is None:
        raise PlanError(f"op ids and offsets of a plan must be integers, got {value!r}")
    return number


def make_plan(graph: Graph, order: Order, offsets: IntArray, chosen: Pairs = ()) -> Plan:
    """Return the plan of an order with the offsets of its packing problem, shape `(k,)`.

    `chosen` are the in-place pairs with which the packing problem was made.
    """
    _, ids = packing_problem(graph, order, chosen)
    return placed_plan(graph, order, ids, offsets, chosen)


def placed_plan(
    graph: Graph, order: Order, ids: IntArray, offsets: IntArray, chosen: Pairs = ()
) -> Plan:
    """Return the plan of a packing problem made before; `ids`, shape `(k,)`, are its buffer ids."""
    if len(offsets) != len(ids):
        raise PlanError(f"got {len(offsets)} offsets for {counted(len(ids), 'buffer')} to pack")
    # -1 marks a buffer without an offset: outside the slab, without bytes or never live.
    placed = np.full(len(graph.buffers), -1, np.int64)
    placed[ids] = offsets
    for output, head in heads(chosen).items():
        placed[output] = placed[head]
    rows = placed.tolist()
    return Plan(
        order=tuple(np.asarray(order, np.int64).tolist()),
        offsets=tuple(None if rows[root] < 0 else rows[root] for root in graph.roots),
    )


class Planned(NamedTuple):
    """A graph, and its plan if there is one; results have it as `graph_and_plan`."""

    graph: Graph
    plan: Plan | None


@runtime_checkable
class HasPlan(Protocol):
    """A result of a solver."""

    @property
    def graph_and_plan(self) -> Planned:
        """The graph whose ops and buffers the plan names, and the plan."""


def graph_with_plan(where: str, graph: object, plan: object) -> Planned:
    """Return a graph and a plan: of two arguments, or of a result that has both.

    Raise `UsageError` if the plan is missing, or an argument has another type.
    """
    if has_both(graph):
        graph, own = graph.graph_and_plan
        plan = own if plan is None else plan
    if has_both(plan):
        plan = plan.graph_and_plan[1]
    if plan is None and isinstance(graph, Graph):
        raise UsageError(f"{where}: the plan is missing")
    expect(where, graph, Graph)
    expect(where, plan, Plan)
    assert isinstance(graph, Graph)
    assert isinstance(plan, Plan)
    return Planned(graph, plan)
