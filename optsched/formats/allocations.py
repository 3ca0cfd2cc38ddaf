"""Live ranges from a recorded stream of allocations and frees."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.minimalloc import PackingTable, packing_of, with_pools
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.model.packing_problem import PackingProblem

MOST_LABEL = 80
"""Maximum number of characters of a label that become part of an allocation's name."""


@dataclass(slots=True)
class AllocatedBlock:
    """A block from its allocation to the free of the same address.

    The pool is the device. `start` and `end` count events (half-open); `end` is None while the
    block lives.
    """

    name: str
    pool: str
    size: int
    start: int
    end: int | None = None


@dataclass
class AllocationLog:
    """Log of allocation events in recorded order; each event is a step.

    Blocks that exist before the first event are live from step 0; blocks never freed are live to
    the end; without any event, there is one step. Each allocation is a separate live range, even if
    others use the same addresses.
    """

    blocks: list[AllocatedBlock] = field(default_factory=list)
    steps: int = 0
    _live: dict[tuple[str, int], AllocatedBlock] = field(default_factory=dict)
    _freed: dict[tuple[str, int], int] = field(default_factory=dict)
    """Event of the last free by address."""

    def allocate(self, pool: str, address: int, size: int, label: str = "") -> None:
        """Record an allocation at an address that is not in use."""
        known = self._live.get((pool, address))
        if known is not None:
            raise FormatError(
                f"event {self.steps} allocates {size} bytes at address {address:#x}, where "
                f"{show(known.name)} of {known.size} bytes lives"
            )
        self._add(pool, address, size, label, self.steps)
        self.steps += 1

    def free(self, pool: str, address: int, size: int | None = None) -> None:
        """Record a free; a free of an unknown address ends a block from before the first event.

        If `size` is given, it must equal the number of bytes allocated.
        """
        block = self._live.pop((pool, address), None)
        if block is None:
            # Without a size, nothing is known of the block.
            if size is None:
                raise FormatError(
                    f"event {self.steps} frees address {address:#x}, which nothing allocated"
                )
            self._require_unfreed(pool, address, f"event {self.steps} frees")
            block = self._add(pool, address, size, "from before", 0)
            # `_add` takes every block for live; this one ends with the event.
            del self._live[pool, address]
        if size not in (None, block.size):
            raise FormatError(
                f"event {self.steps} frees {size} bytes at address {address:#x}, where "
                f"{show(block.name)} has {block.size}"
            )
        block.end = self._freed[pool, address] = self.steps
        self.steps += 1

    def live_bytes(self, pool: str) -> int:
        """Return the bytes of a pool that are in use."""
        return sum(block.size for (own, _), block in self._live.items() if own == pool)

    def preexisting(self, pool: str, address: int, size: int, label: str = "") -> None:
        """Record a block that existed throughout, unless an event mentioned it."""
        # An address in use at the end, without any event, was in use from the start.
        if (pool, address) not in self._live:
            self._require_unfreed(pool, address, "a block is in use at the end at")
            self._add(pool, address, size, label or "throughout", 0)

    def table(self, name: str, reserved: dict[str, int]) -> PackingTable:
        """Return the live ranges as a packing, with the bytes that the allocator reserved."""
        last = max(1, self.steps)
        problem = PackingProblem(
            names=tuple(block.name for block in self.blocks),
            start=np.array([block.start for block in self.blocks], np.int64),
            end=np.array([last if x.end is None else x.end for x in self.blocks], np.int64),
            size=np.array([block.size for block in self.blocks], np.int64),
            name=name,
            memory_model="recorded allocations",
        )
        table = packing_of(problem)
        pools = [block.pool for block in self.blocks]
        if len(set(pools)) > 1:
            table = with_pools(table, pools)
        return table.recorded_with(reserved)

    def _require_unfreed(self, pool: str, address: int, found: str) -> None:
        """Refuse a block whose begin is unknown, since an event freed its address before."""
        if (pool, address) in self._freed:
            raise FormatError(
                f"{found} address {address:#x}, which event {self._freed[pool, address]} freed: "
                "the allocation in between was not recorded"
            )

    def _add(self, pool: str, address: int, size: int, label: str, start: int) -> AllocatedBlock:
        if size > MAX_TOTAL_BYTES:
            # The total of all blocks is limited when the problem is made.
            raise FormatError(f"event {self.steps}: {size} bytes are above the limit of 2**62")
        text = " ".join(label.split())[:MOST_LABEL]
        # The number makes names unique: labels are mostly types or stack frames.
        block = AllocatedBlock(f"{len(self.blocks)} {text}".strip(), pool, size, start)
        self.blocks.append(block)
        self._live[pool, address] = block
        return block
