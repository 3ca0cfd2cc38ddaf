"""Input of the model: ops with step windows, and items to place, in scaled units.

All sizes are divided by a common unit before modeling, without loss. Take an optimal packing and
fix, for any two items that are live together, which one lies below the other. The remaining
conditions are inequalities `offset[j] >= offset[i] + c`, pins and alignments. Raising all offsets
from 0 until these conditions hold leads to their smallest solution. If the unit divides every `c`
and every pin, and is a multiple or a divisor of every alignment, then each offset on the way is a
multiple of the unit; an alignment that divides the unit holds automatically. Upper limits hold on
the way, as they hold for the packing that is not below it.

Example: sizes 12 and 20 with alignments 8 and 1 have the unit 4. The sizes become 3 and 5, and the
alignments 2 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from optsched.errors import UsageError
from optsched.model.dependencies import reachable
from optsched.model.graph import Graph
from optsched.model.limits import upper_limits

INPUT = -1
"""Value of `birth` for an item that is live before the first step."""

MAX_UNITS = 2**50
"""Maximum sum of all slabs in units: CP-SAT reports bounds as floats, which are exact up to
2**53.
"""

MAX_AREA = 2**60
"""Maximum of units times steps: CP-SAT adds up areas in signed 64-bit integers."""


@dataclass(frozen=True, slots=True)
class ModelItem:
    """A buffer that takes room in a slab."""

    id: int
    """Buffer id in the graph."""
    size: int
    alignment: int
    pin: int | None
    """In units; `pin` is None for a free offset."""
    pool: str
    """Name of the pool; only items of the same pool must not overlap."""
    birth: int
    """Op that allocates the buffer, or :data:`INPUT`."""
    users: tuple[int, ...]
    """Ops that must have ended before the buffer is released; empty if it is `kept`."""
    kept: bool
    """True if the buffer is live to the end."""
    highest: int
    """Highest offset in units that its upper limit allows."""
    room: int
    """Units reserved from its offset on while it is live: its size, or that of the largest item of
    the group with the same offset.
    """


@dataclass(frozen=True, slots=True)
class ModelPair:
    """An in-place pair: the op, and the positions of the output and the input among the items."""

    op: int
    output: int
    source: int


@dataclass(frozen=True)
class ModelInstance:
    """A graph in scaled units.

    Raise `UsageError` if the numbers are too large for the models even after scaling.
    """

    unit: int
    """Bytes per unit."""
    horizon: int
    """Number of steps."""
    preds: tuple[tuple[int, ...], ...]
    succs: tuple[tuple[int, ...], ...]
    """Ops that must run before each op, and ops that must run after it."""
    items: tuple[ModelItem, ...]
    """Items to place."""
    apart: tuple[tuple[int, int], ...] = ()
    """Pairs of items, by position, that must not share a unit at any time."""
    shared: tuple[tuple[int, ...], ...] = ()
    """Groups of items, by position, that start at the same unit."""
    pairs: tuple[ModelPair, ...] = ()
    """In-place pairs, if the graph is in-place."""

    def __post_init__(self) -> None:
        # Beyond these limits CP-SAT's floats and sums are not exact, so a claim would mean
        # nothing.
        if self.slab_limit > MAX_UNITS or self.slab_limit * (self.horizon + 1) > MAX_AREA:
            raise UsageError(
                f"sizes of up to {self.slab_limit * self.unit} bytes in all, in units of "
                f"{self.unit} bytes over {self.horizon} steps, are outside the range in which "
                "engines cpsat and milp are exact"
            )

    @property
    def op_count(self) -> int:
        """Number of ops."""
        return len(self.preds)

    @cached_property
    def slab_limits(self) -> dict[str, int]:
        """Number of units that is enough in each pool: separate room above the pins for all."""
        pinned, free = dict.fromkeys(self.pools, 0), dict.fromkeys(self.pools, 0)
        for item in self.items:
            if item.pin is None:
                # With padding for its alignment, in case all items lie one above the other.
                free[item.pool] += item.room + item.alignment - 1
            else:
                pinned[item.pool] = max(pinned[item.pool], item.pin + item.room)
        return {pool: pinned[pool] + free[pool] for pool in self.pools}

    def highest(self, item: ModelItem) -> int:
        """Return the highest offset of an item without a pin."""
        return min(self.slab_limits[item.pool] - item.room, item.highest)

    @property
    def slab_limit(self) -> int:
        """Number of units that is enough for all slabs together."""
        return sum(self.slab_limits.values())

    @cached_property
    def pools(self) -> tuple[str, ...]:
        """Names of the slabs, in order of appearance."""
        return tuple(dict.fromkeys(item.pool for item in self.items))

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """Ops that must run before each op, as bit masks."""
        return reachable(self.preds)

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """Ops that must run after each op, as bit masks."""
        return reachable(self.succs)

    @cached_property
    def step_windows(self) -> tuple[tuple[int, int], ...]:
        """First and last step at which each op can run, from its ancestors and descendants."""
        last = self.op_count - 1
        return tuple(
            (before.bit_count(), last - after.bit_count())
            for before, after in zip(self.ancestors, self.descendants, strict=True)
        )

    def last_users(self, i: int) -> tuple[int, ...]:
        """Return the users of an item that may be last: those before no other user."""
        users = self.items[i].users
        mask = sum(1 << u for u in set(users))
        return tuple(u for u in users if not self.descendants[u] & mask)

    def up(self, value: int) -> int:
        """Convert bytes to units, rounded up; lower bounds stay valid, as sums are whole units."""
        return -(-value // self.unit)


def graph_instance(graph: Graph) -> ModelInstance:
    """Return the model instance of a graph."""
    arrays, limits = graph.arrays, upper_limits(graph).tolist()
    items: list[ModelItem] = []
    for b, buffer in enumerate(graph.buffers):
        size, birth = int(arrays.size[b]), int(arrays.birth[b])
        users, kept = arrays.users(b), bool(arrays.keep[b])
        # Views, buffers without bytes and inputs that are never used take no room.
        if not size or graph.roots[b] != b or not (birth != INPUT or users or kept):
            continue
        items.append(
            ModelItem(
                id=b,
                size=size,
                alignment=buffer.alignment,
                pin=buffer.pin,
                pool=buffer.pool,
                birth=birth,
                users=() if kept else tuple(users),
                kept=kept,
                highest=limits[b] - size,
                room=size,
            )
        )
    place = {item.id: i for i, item in enumerate(items)}
    apart = tuple((place[a], place[b]) for a, b in graph.keep_apart if a in place and b in place)
    shared = tuple(tuple(place[b] for b in x if b in place) for x in graph.must_share)
    for group in shared:
        for i in group:
            # A group starts at one offset, and its largest member needs the room.
            items[i] = replace(items[i], room=max(items[j].size for j in group))
    unit = common_unit(items)
    scaled = tuple(
        replace(
            item,
            size=item.size // unit,
            highest=item.highest // unit,
            room=item.room // unit,
            alignment=max(1, item.alignment // unit),
            pin=None if item.pin is None else item.pin // unit,
        )
        for item in items
    )
    succs = tuple(tuple(arrays.succ.row(u).tolist()) for u in range(len(graph.ops)))
    pairs = tuple(
        ModelPair(v, place[output], place[source]) for v, output, source in arrays.inplace_pairs()
    )
    horizon = max(1, len(graph.ops))
    preds = graph.predecessors
    try:
        return ModelInstance(unit, horizon, preds, succs, scaled, apart, shared, pairs)
    except UsageError as error:
        largest = max(items, key=lambda item: item.room)
        named = f"{graph.buffers[largest.id].name!r} has {largest.size} bytes"
        raise UsageError(f"{graph.name}: {error}; buffer {named}; use engine auto") from None


def common_unit(items: Sequence[ModelItem]) -> int:
    """Return the largest unit that loses no packing (see the module docstring); 1 without items."""
    unit = gcd(*(item.size for item in items), *(item.pin or 0 for item in items)) or 1
    alignments = {item.alignment for item in items}
    # An alignment must divide the unit or be a multiple of it; shrink the unit until that holds.
    while bad := [a for a in alignments if unit % a and a % unit]:
        unit = gcd(unit, *bad)
    return unit


def live_spans(instance: ModelInstance, order: Sequence[int]) -> list[tuple[int, int]]:
    """Return the half-open live range of every item in an order."""
    step = {v: at for at, v in enumerate(order)}
    return [
        (
            0 if item.birth == INPUT else step[item.birth],
            instance.horizon if item.kept else 1 + max(step[u] for u in item.users),
        )
        for item in instance.items
    ]
