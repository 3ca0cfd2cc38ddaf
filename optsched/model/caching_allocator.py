"""The caching allocator of PyTorch for CUDA: addresses and reserved bytes of a series of requests.

The allocator obtains segments from the device and hands out parts of them. It reserves more bytes
than are live, since requests are rounded up, a freed block serves only requests that fit into it,
and segments are not returned. Its rules, for one device:

1. A request is rounded up to a multiple of 512 bytes.
2. Requests of up to 1 MiB come from small segments of 2 MiB. Larger requests come from segments of
   20 MiB below 10 MiB, and otherwise from a segment of their own size, rounded up to 2 MiB.
3. The smallest free block of the same stream that fits is used; of equal blocks the one at the
   lowest address.
4. A block is split if at least 512 bytes (small) or more than 1 MiB (large) are left over.
5. A freed block is merged with its free neighbors in the same segment.
6. With `expandable_segments`, a stream has one small and one large segment. These grow at their
   end, in steps of 2 MiB and 20 MiB, and any rest of at least 512 bytes is split off.

The addresses of new segments are the device's: here they ascend, unless the caller sets them.

References
----------
c10/cuda/CUDACachingAllocator.cpp, `DeviceCachingAllocator` (torch 2.13.0).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from optsched.runtime.bytes import round_up

MIN_BLOCK = 512
SMALL_REQUEST = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
OWN_SEGMENT = 10 << 20
"""Requests of at least this size get a segment of their own."""
OWN_SEGMENT_UNIT = 2 << 20
EXPANDABLE_RANGE = 1 << 50
"""Addresses set aside for an expandable segment, more than any device has bytes."""


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """Settings of the allocator, as in `PYTORCH_CUDA_ALLOC_CONF`."""

    expandable_segments: bool = False
    """True if segments grow."""
    max_split_size: int | None = None
    """Bytes from which blocks are not split; None for no such limit."""
    divisions: tuple[int, ...] = ()
    """`roundup_power2_divisions`: parts of a power of two to which requests are rounded, for
    requests of up to 1 MiB, 2 MiB, 4 MiB and so on; empty or 0 for multiples of 512 bytes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes on a device: requested by the program, in blocks handed out, obtained from the device.

    These are `requested_bytes`, `allocated_bytes` and `reserved_bytes` of
    `torch.cuda.memory_stats`.
    """

    requested: int = 0
    allocated: int = 0
    reserved: int = 0

    def plus(self, requested: int, allocated: int, reserved: int = 0) -> Usage:
        """Return the usage after a change."""
        return Usage(
            self.requested + requested, self.allocated + allocated, self.reserved + reserved
        )

    def most(self, other: Usage) -> Usage:
        """Return the maximum of each quantity."""
        return Usage(
            max(self.requested, other.requested),
            max(self.allocated, other.allocated),
            max(self.reserved, other.reserved),
        )


@dataclass(slots=True, eq=False)
class Block:
    """A part of a segment: in use if `requested` is given, else free.

    `pool` names the stream and tells small from large; `segment` is the address of the segment.
    """

    address: int
    size: int
    segment: int
    pool: tuple[int, bool]
    requested: int | None = None

    @property
    def end(self) -> int:
        """Address after the block."""
        return self.address + self.size


class RestoredBlock(NamedTuple):
    """A block of a segment that exists before the first request; free if `requested` is None."""

    size: int
    requested: int | None


@dataclass(frozen=True, slots=True)
class RestoredSegment:
    """A segment that exists before the first request, with all its blocks by rising address."""

    address: int
    stream: int
    small: bool
    blocks: tuple[RestoredBlock, ...]


class Action(Enum):
    """Kinds of events in an allocator's life."""

    ALLOCATE = auto()
    FREE = auto()
    OBTAIN = auto()
    """The next segment is obtained at the address `key`."""
    RETURN = auto()
    """The free segment at the address `key` is returned to the device."""


class Event(NamedTuple):
    """An event: `key` names an allocation from its request to its free, or a segment's address."""

    action: Action
    key: Hashable
    size: int = 0
    stream: int = 0


class Refused(NamedTuple):
    """A request that failed for lack of memory, and the bytes of the device at that time.

    `live` are requested bytes in use, `reserved` those of all segments, and `free` those that the
    device had left.
    """

    size: int
    live: int
    reserved: int
    free: int


@dataclass(frozen=True, slots=True)
class AllocatorTrace:
    """The recorded life of a device's caching allocator."""

    settings: AllocatorSettings
    start: tuple[RestoredSegment, ...]
    """Segments before the first event."""
    events: tuple[Event, ...]
    """Events in recorded order; the key of an allocation is its address."""
    unlike: str = ""
    """The reason for which the rules of this module do not describe this trace, such as private
    pools; empty if they do."""
    notes: tuple[str, ...] = ()
    """Sentences on what the recording lacks."""
    refused: tuple[Refused, ...] = ()
    """Requests that failed."""


@dataclass(frozen=True, slots=True)
class Replay:
    """An allocator's answers to a sequence of events."""

    peak: Usage
    """Maximum of each quantity; these need not occur at one time."""
    addresses: tuple[int, ...]
    """Address of each allocation, in the order of the requests."""


def round_request(size: int, divisions: Sequence[int] = ()) -> int:
    """Return the bytes that a request takes of its block."""
    parts = 0
    if divisions:
        # Entry k is for sizes from 2**k MiB; the first and the last serve all beyond the list.
        parts = divisions[min(max(size.bit_length() - 1 - 20, 0), len(divisions) - 1)]
    if parts > 1 and size > MIN_BLOCK * parts:
        floor = 1 << (size.bit_length() - 1)
        return round_up(size, floor // parts)
    return max(MIN_BLOCK, round_up(size, MIN_BLOCK))


@dataclass
class CachingAllocator:
    """The allocator of one device.

    Examples
    --------
    >>> allocator = CachingAllocator()
    >>> block = allocator.allocate(3_000_000)
    >>> allocator.usage
    Usage(requested=3000000, allocated=3000320, reserved=20971520)
    >>> allocator.free(block)
    >>> allocator.usage, allocator.peak.allocated
    (Usage(requested=0, allocated=0, reserved=20971520), 3000320)
    """

    settings: AllocatorSettings = AllocatorSettings()
    usage: Usage = Usage()
    peak: Usage = Usage()
    next_segment: int = 1 << 40
    """Address of the next segment, which the caller may set."""
    _starts: dict[int, Block] = field(default_factory=dict)
    _ends: dict[tuple[int, int], Block] = field(default_factory=dict)
    """Blocks by segment and end."""
    _free: dict[tuple[int, bool], list[tuple[int, int]]] = field(default_factory=dict)
    """Sizes and addresses of the free blocks of each pool, ascending."""
    _growing: dict[tuple[int, bool], tuple[int, int]] = field(default_factory=dict)
    """Begin and end of the expandable segment of each pool."""

    def allocate(self, requested: int, stream: int = 0) -> Block:
        """Hand out a block for a request of at least 1 byte."""
        size = round_request(requested, self.settings.divisions)
        # Small and large requests have separate segments, as in the original.
        pool = (stream, size <= SMALL_REQUEST)
        block = self._take(pool, size)
        if block is None:
            grow = self._expand if self.settings.expandable_segments else self._obtain
            block = grow(pool, size)
        if self._splits(block, size):
            self._split(block, size)
        block.requested = requested
        self._count(requested, block.size)
        return block

    def free(self, block: Block) -> None:
        """Take back a block and merge it with its free neighbors."""
        requested, size = block.requested or 0, block.size
        block.requested = None
        # At most one neighbor on each side, since free neighbors are merged at once.
        for other in (self._ends.get((block.segment, block.address)), self._starts.get(block.end)):
            if other is not None and other.segment == block.segment and other.requested is None:
                self._listed(other.pool).remove((other.size, other.address))
                block = self._join(*sorted((block, other), key=lambda b: b.address))
        insort(self._listed(block.pool), (block.size, block.address))
        self._count(-requested, -size)

    def give_back(self, address: int) -> None:
        """Return a segment to the device, unless a block of it is in use."""
        block = self._starts.get(address)
        following = None if block is None else self._starts.get(block.end)
        # In use, or not the beginning of its segment: the device does not take it back.
        if block is None or block.requested is not None or address != block.segment:
            return
        if following is not None and following.segment == address:
            return
        del self._starts[address], self._ends[block.segment, block.end]
        self._listed(block.pool).remove((block.size, block.address))
        self._count(0, 0, -block.size)

    def restore(self, segment: RestoredSegment) -> None:
        """Add a segment that exists already."""
        pool, at = (segment.stream, segment.small), segment.address
        for size, requested in segment.blocks:
            block = self._add(Block(at, size, segment.address, pool, requested))
            if requested is None:
                insort(self._listed(pool), (size, at))
            else:
                self._count(requested, size)
            at = block.end
        self.next_segment = max(self.next_segment, at)
        self._count(0, 0, at - segment.address)

    def at(self, address: int) -> Block:
        """Return the block that begins at an address."""
        return self._starts[address]

    def _take(self, pool: tuple[int, bool], size: int) -> Block | None:
        """Return the best free block, unless it is too large to be given to this request."""
        listed = self._listed(pool)
        # The smallest block that fits, the lowest address among equals: the list is sorted so.
        i = bisect_left(listed, (size, 0))
        if i == len(listed):
            return None
        while i + 1 < len(listed) and self._room(listed[i + 1], pool) < self._room(listed[i], pool):
            # A block at the end of an expandable segment counts with all that it can grow by.
            i += 1
        limit = self.settings.max_split_size
        if limit is not None:
            # A request below the limit must not take a block above it; a larger one may waste 20
            # MiB at most.
            too_large = limit if size < limit else size + LARGE_SEGMENT
            if listed[i][0] >= too_large:
                return None
        return self._starts[listed.pop(i)[1]]

    def _room(self, free: tuple[int, int], pool: tuple[int, bool]) -> int:
        size, address = free
        _, end = self._growing.get(pool, (0, 0))
        return size + EXPANDABLE_RANGE * (end == address + size)

    def _obtain(self, pool: tuple[int, bool], size: int) -> Block:
        total = SMALL_SEGMENT if pool[1] else LARGE_SEGMENT
        if size >= OWN_SEGMENT:
            total = round_up(size, OWN_SEGMENT_UNIT)
        address = self.next_segment
        self.next_segment += total
        self._count(0, 0, total)
        return self._add(Block(address, total, address, pool))

    def _expand(self, pool: tuple[int, bool], size: int) -> Block:
        """Grow the pool's segment until the block at its end is large enough."""
        if pool not in self._growing:
            self._growing[pool] = self.next_segment, self.next_segment
            self.next_segment += EXPANDABLE_RANGE
        segment, end = self._growing[pool]
        last = self._ends.get((segment, end))
        # A free block at the end of the segment is used first and only made longer.
        spare = last.size if last is not None and last.requested is None else 0
        unit = SMALL_SEGMENT if pool[1] else LARGE_SEGMENT
        more = -(-(size - spare) // unit) * unit
        self._growing[pool] = segment, end + more
        self._count(0, 0, more)
        grown = self._add(Block(end, more, segment, pool))
        if not spare or last is None:
            return grown
        self._listed(pool).remove((last.size, last.address))
        return self._join(last, grown)

    def _splits(self, block: Block, size: int) -> bool:
        rest, limit = block.size - size, self.settings.max_split_size
        # Small blocks, and those of expandable segments, are split down to the smallest block.
        if block.pool[1] or self.settings.expandable_segments:
            return rest >= MIN_BLOCK
        return rest > SMALL_REQUEST and (limit is None or size < limit)

    def _split(self, block: Block, size: int) -> None:
        """Cut a block down to a size; the rest becomes free."""
        rest = Block(block.address + size, block.size - size, block.segment, block.pool)
        block.size = size
        self._add(block)
        self._add(rest)
        insort(self._listed(rest.pool), (rest.size, rest.address))

    def _join(self, low: Block, high: Block) -> Block:
        del self._ends[low.segment, low.end], self._starts[high.address]
        low.size += high.size
        return self._add(low)

    def _add(self, block: Block) -> Block:
        self._starts[block.address] = block
        self._ends[block.segment, block.end] = block
        return block

    def _listed(self, pool: tuple[int, bool]) -> list[tuple[int, int]]:
        return self._free.setdefault(pool, [])

    def _count(self, requested: int, allocated: int, reserved: int = 0) -> None:
        self.usage = self.usage.plus(requested, allocated, reserved)
        self.peak = self.peak.most(self.usage)


def replay(
    events: Iterable[Event],
    settings: AllocatorSettings = AllocatorSettings(),
    start: Iterable[RestoredSegment] = (),
) -> Replay:
    """Return the answers of an allocator that has the segments `start` at first.

    The key of an allocation that exists before the first event is its address.
    """
    allocator = CachingAllocator(settings)
    held: dict[Hashable, Block] = {}
    for segment in start:
        allocator.restore(segment)
        at = segment.address
        for block in segment.blocks:
            if block.requested is not None:
                held[at] = allocator.at(at)
            at += block.size
    # Segments that exist before the first event make the first peak.
    allocator.peak = allocator.usage
    addresses = []
    for event in events:
        if event.action is Action.ALLOCATE:
            if event.size:
                held[event.key] = allocator.allocate(event.size, event.stream)
                addresses.append(held[event.key].address)
        elif event.action is Action.FREE:
            if event.key in held:
                allocator.free(held.pop(event.key))
        elif not settings.expandable_segments and isinstance(event.key, int):
            if event.action is Action.OBTAIN:
                allocator.next_segment = event.key
            else:
                allocator.give_back(event.key)
    return Replay(allocator.peak, tuple(addresses))
