"""Facts about a packing, or a plan, in several pools: the buffers that leave their own pool, why.

:class:`~optsched.solver.packing_result.PackingResult` and :class:`~optsched.solver.result.Result`
have one of these as `in_pools` if pools were given. They inherit the properties here, so that
`result.spilled_bytes` needs no case distinction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from optsched.model.arrays import IntArray
from optsched.model.packing_problem import PackingProblem
from optsched.model.pools import Pool

if TYPE_CHECKING:
    from optsched.solver.packing_result import PackingResult
    from optsched.solver.result import Result


@dataclass(frozen=True, slots=True)
class Shortage:
    """Buffers, shape `(n,)`, that need more bytes than are available; `reason` says it in words."""

    ids: IntArray
    required: int
    available: int
    reason: str


@dataclass(frozen=True, slots=True)
class PackedPool:
    """The buffers that lie in a pool, shape `(n,)`, and their packing."""

    pool: Pool
    ids: IntArray
    result: PackingResult


@dataclass(frozen=True, slots=True)
class PackingInPools:
    """Packings of all pools.

    Parameters
    ----------
    packed
        One entry per pool, in the order of preference.
    spilled
        Buffers that lie in a later pool than their own.
    spilled_bytes, spilled_bound
        Bytes of these, and a lower bound on the bytes spilled by any packing.
    unplaced
        Buffers for which no pool has room.
    shortage
        Reason why no choice of pools has room, or None.
    short
        By pool name: reason why the pool cannot hold all buffers that name it.
    """

    packed: tuple[PackedPool, ...] = ()
    spilled: tuple[int, ...] = ()
    spilled_bytes: int = 0
    spilled_bound: int = 0
    unplaced: tuple[int, ...] = ()
    shortage: Shortage | None = None
    short: Mapping[str, Shortage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlanInPools:
    """A plan whose buffers may lie in later pools than their own.

    Parameters
    ----------
    before
        Result of the search in which every buffer stays in its own pool; its capacity is that
        pool's if there is only one.
    problem, packing
        The buffers as they are live in the plan's order, and their packing; both None if no order
        has room.
    spilled_bytes, spilled_bound
        Bytes of the buffers in a later pool than their own, and a lower bound on these bytes in any
        plan; a group counts as one buffer, as large as its largest.
    refuted
        Reason why no order has room, or None; its ids are those of buffers of the graph.
    """

    before: Result
    problem: PackingProblem | None = None
    packing: PackingResult | None = None
    spilled_bytes: int = 0
    spilled_bound: int = 0
    refuted: Shortage | None = None

    @property
    def is_limited(self) -> bool:
        """True if every pool that holds a buffer has a capacity, so that fitting is enough."""
        packed = () if self.packing is None else self.packing.packed
        # Pools without buffers do not count: a plan need not use every pool that is offered.
        held = [part for part in packed if len(part.ids)]
        return bool(held) and all(part.pool.capacity is not None for part in held)


NO_POOLS = PackingInPools()
"""Facts about a packing for which no pools were given."""


class PackedInPools:
    """Properties of a packing that concern pools; empty and 0 if no pools were given."""

    __slots__ = ()
    in_pools: PackingInPools | None

    @property
    def packed(self) -> tuple[PackedPool, ...]:
        """The packing of each pool, in the order of preference."""
        return (self.in_pools or NO_POOLS).packed

    @property
    def spilled(self) -> tuple[int, ...]:
        """Positions of the buffers that lie in a later pool than their own."""
        return (self.in_pools or NO_POOLS).spilled

    @property
    def spilled_bytes(self) -> int:
        """Bytes of the spilled buffers."""
        return (self.in_pools or NO_POOLS).spilled_bytes

    @property
    def spilled_bound(self) -> int:
        """Lower bound on the bytes spilled by any packing."""
        return (self.in_pools or NO_POOLS).spilled_bound

    @property
    def unplaced(self) -> tuple[int, ...]:
        """Positions of the buffers for which no pool has room."""
        return (self.in_pools or NO_POOLS).unplaced

    @property
    def shortage(self) -> Shortage | None:
        """Reason why no choice of pools has room, or None."""
        return (self.in_pools or NO_POOLS).shortage

    @property
    def short(self) -> Mapping[str, Shortage]:
        """By pool name: reason why the pool cannot hold all buffers that name it."""
        return (self.in_pools or NO_POOLS).short


class PlannedInPools:
    """Properties of a plan that concern pools; None and 0 if no pools were given."""

    __slots__ = ()
    in_pools: PlanInPools | None

    @property
    def spilled_bytes(self) -> int:
        """Bytes of the buffers that lie in a later pool than their own."""
        return 0 if self.in_pools is None else self.in_pools.spilled_bytes

    @property
    def spilled_bound(self) -> int:
        """Lower bound on the bytes spilled by any plan."""
        return 0 if self.in_pools is None else self.in_pools.spilled_bound

    @property
    def refuted(self) -> Shortage | None:
        """Reason why no order has room in the pools, or None."""
        return None if self.in_pools is None else self.in_pools.refuted

    @property
    def before(self) -> Result | None:
        """Result of the search in which every buffer stays in its own pool."""
        return None if self.in_pools is None else self.in_pools.before

    @property
    def problem(self) -> PackingProblem | None:
        """The buffers as they are live in the plan's order, if pools were given."""
        return None if self.in_pools is None else self.in_pools.problem

    @property
    def packing(self) -> PackingResult | None:
        """The packing of the plan's order in the pools."""
        return None if self.in_pools is None else self.in_pools.packing
