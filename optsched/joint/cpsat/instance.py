"""What the model is built from: ops with windows and items to be placed, in scaled units.

Sizes are divided by a common unit before modelling. This loses nothing: fix which of any two
items lies below the other in some best packing. What remains are inequalities
`offset[j] >= offset[i] + c`, pins and alignments, and their least solution is reached by raising
offsets from 0. If the unit divides every `c` and pin, and of each alignment it is a multiple or a
divisor, every offset met on the way is a multiple of the unit; an alignment that divides the
unit then holds by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from optsched.errors import UsageError
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem

INPUT = -1
"""Birth of an item that is live before the first step."""

MAX_UNITS = 2**50
"""The slabs may have this many units: CP-SAT reports bounds as floats, exact up to 2**53."""

MAX_AREA = 2**60
"""Units times steps: CP-SAT sums areas in signed 64-bit integers."""


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of an item: units `[low, high)` of it, over the steps `[start, end)`.

    `start` and `end` are None where the order decides them.
    """

    low: int
    high: int
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A buffer that takes room in a slab.

    Parameters
    ----------
    id
        Buffer id in the graph, or position in the packing problem.
    size, alignment, pin
        In units; `pin` is None for a free offset.
    pool
        Only items of one pool must be kept apart.
    birth
        Op that allocates it, or :data:`INPUT`.
    users
        Ops that must have ended before it is released; empty if it is `kept`.
    kept
        Live to the end.
    parts
        What it occupies.
    """

    id: int
    size: int
    alignment: int
    pin: int | None
    pool: str
    birth: int
    users: tuple[int, ...]
    kept: bool
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Instance:
    """A problem in units.

    Parameters
    ----------
    unit
        Bytes of one unit.
    horizon
        Number of steps.
    preds, succs
        Op to ops that must run before, after it.
    items
        What is to be placed. With ops, live ranges follow from the order; without, they are given.

    Raises
    ------
    UsageError
        If the numbers are too large for CP-SAT even after scaling.
    """

    unit: int
    horizon: int
    preds: tuple[tuple[int, ...], ...]
    succs: tuple[tuple[int, ...], ...]
    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        if self.roof > MAX_UNITS or self.roof * (self.horizon + 1) > MAX_AREA:
            raise UsageError(
                f"sizes of up to {self.roof * self.unit} bytes in all, in units of {self.unit} "
                f"bytes over {self.horizon} steps, are outside the range in which CP-SAT is exact"
            )

    @property
    def op_count(self) -> int:
        """Number of ops."""
        return len(self.preds)

    @cached_property
    def roofs(self) -> dict[str, int]:
        """Units that suffice in each pool: above the pins each item has room of its own."""
        pinned, free = dict.fromkeys(self.pools, 0), dict.fromkeys(self.pools, 0)
        for item in self.items:
            if item.pin is None:
                free[item.pool] += item.size + item.alignment - 1
            else:
                pinned[item.pool] = max(pinned[item.pool], item.pin + item.size)
        return {pool: pinned[pool] + free[pool] for pool in self.pools}

    @property
    def roof(self) -> int:
        """Units that suffice for all slabs together."""
        return sum(self.roofs.values())

    @cached_property
    def pools(self) -> tuple[str, ...]:
        """Names of the slabs, in order of appearance."""
        return tuple(dict.fromkeys(item.pool for item in self.items))

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """Mask of the ops before each op."""
        return _closure(self.preds, self.topological)

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """Mask of the ops behind each op."""
        return _closure(self.succs, self.topological[::-1])

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """Some valid order."""
        missing = [len(before) for before in self.preds]
        order = [v for v, count in enumerate(missing) if not count]
        for u in order:
            for v in self.succs[u]:
                missing[v] -= 1
                if not missing[v]:
                    order.append(v)
        return tuple(order)

    def windows(self) -> list[tuple[int, int]]:
        """First and last step of each op, from the numbers of its ancestors and descendants."""
        last = self.op_count - 1
        return [
            (before.bit_count(), last - behind.bit_count())
            for before, behind in zip(self.ancestors, self.descendants, strict=True)
        ]

    def up(self, value: int) -> int:
        """Bytes to units, rounded up: a lower bound stays one since all sums are whole units."""
        return -(-value // self.unit)

    def down(self, value: int) -> int:
        """Bytes to units, rounded down: an upper bound stays one."""
        return value // self.unit


def order_instance(graph: Graph) -> Instance:
    """Return a graph without offsets: alignments and pins do not matter."""
    return _graph_instance(graph, placed=False)


def joint_instance(graph: Graph) -> Instance:
    """Return a graph whose order and offsets are both to be chosen."""
    return _graph_instance(graph, placed=True)


def _graph_instance(graph: Graph, *, placed: bool) -> Instance:
    arrays = graph.arrays
    items: list[Item] = []
    for b, buffer in enumerate(graph.buffers):
        size, birth = int(arrays.size[b]), int(arrays.birth[b])
        if not size or graph.roots[b] != b:
            continue
        users = {int(v) for v in arrays.user.row(b)} | {int(arrays.producer[b])} - {INPUT}
        kept = bool(arrays.keep[b])
        if birth == INPUT and not users and not kept:
            continue
        items.append(
            Item(
                id=b,
                size=size,
                alignment=buffer.alignment if placed else 1,
                pin=buffer.pin if placed else None,
                pool=buffer.pool,
                birth=birth,
                users=() if kept else tuple(sorted(users)),
                kept=kept,
                parts=(Part(0, size),),
            )
        )
    unit = common_unit(items)
    return Instance(
        unit=unit,
        horizon=max(1, len(graph.ops)),
        preds=graph.predecessors,
        succs=tuple(
            tuple(int(v) for v in arrays.succ.row(u)) for u in range(len(graph.predecessors))
        ),
        items=tuple(_scale(item, unit) for item in items),
    )


def packing_instance(problem: PackingProblem) -> Instance:
    """Return a problem whose live ranges are given; its steps are compressed to event times."""
    parts = problem.parts
    live = (parts.end > parts.start) & (parts.high > parts.low)
    times = sorted({*parts.start[live].tolist(), *parts.end[live].tolist()})
    step = {time: at for at, time in enumerate(times)}
    rectangles: dict[int, list[Part]] = {}
    for j in live.nonzero()[0].tolist():
        part = Part(
            int(parts.low[j]),
            int(parts.high[j]),
            step[int(parts.start[j])],
            step[int(parts.end[j])],
        )
        rectangles.setdefault(int(parts.owner[j]), []).append(part)
    items = [
        Item(
            id=i,
            size=int(problem.size[i]),
            alignment=int(problem.alignment[i]),
            pin=None if problem.pin[i] < 0 else int(problem.pin[i]),
            pool="",
            birth=INPUT,
            users=(),
            kept=True,
            parts=tuple(rectangles.get(i, ())),
        )
        for i in range(len(problem))
        if problem.end[i] > problem.start[i]
    ]
    unit = common_unit(items)
    return Instance(
        unit=unit,
        horizon=max(1, len(times) - 1),
        preds=(),
        succs=(),
        items=tuple(_scale(item, unit) for item in items),
    )


def common_unit(items: Iterable[Item]) -> int:
    """Return the largest unit that loses nothing (see the module's text); 1 without items."""
    items = tuple(items)
    lengths = [x for item in items for part in item.parts for x in (part.low, part.high)]
    unit = gcd(*lengths, *(item.size for item in items), *(item.pin or 0 for item in items)) or 1
    alignments = {item.alignment for item in items}
    while bad := [a for a in alignments if unit % a and a % unit]:
        unit = gcd(unit, *bad)
    return unit


def _scale(item: Item, unit: int) -> Item:
    return Item(
        id=item.id,
        size=item.size // unit,
        alignment=max(1, item.alignment // unit),
        pin=None if item.pin is None else item.pin // unit,
        pool=item.pool,
        birth=item.birth,
        users=item.users,
        kept=item.kept,
        parts=tuple(
            Part(part.low // unit, part.high // unit, part.start, part.end) for part in item.parts
        ),
    )


def _closure(rows: Sequence[Sequence[int]], order: Sequence[int]) -> tuple[int, ...]:
    masks = [0] * len(rows)
    for v in order:
        for u in rows[v]:
            masks[v] |= masks[u] | 1 << u
    return tuple(masks)


def spans(instance: Instance, order: Sequence[int]) -> list[tuple[int, int]]:
    """Half-open live range of every item under an order."""
    step = {v: at for at, v in enumerate(order)}
    return [
        (
            0 if item.birth == INPUT else step[item.birth],
            instance.horizon if item.kept else 1 + max(step[u] for u in item.users),
        )
        for item in instance.items
    ]


__all__ = [
    "INPUT",
    "Instance",
    "Item",
    "Part",
    "common_unit",
    "joint_instance",
    "order_instance",
    "packing_instance",
    "spans",
]
