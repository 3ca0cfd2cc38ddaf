"""The events of a memory snapshot, and the allocator's segments before the first event.

A snapshot has the segments at its end. Undoing the events, last first, gives the segments and the
blocks in use at its beginning. The sizes of those blocks are known where a block was never freed,
and otherwise follow from the allocator's rules, except in one case: a large block keeps up to 1 MiB
more than was requested, and a free block follows. The first allocation there shows where it began.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from optsched.formats.fields import Record
from optsched.model.caching_allocator import (
    SMALL_REQUEST,
    SMALL_SEGMENT,
    Action,
    AllocatorSettings,
    AllocatorTrace,
    Event,
    RestoredBlock,
    RestoredSegment,
    round_request,
)

_ACTIONS = {
    "alloc": Action.ALLOCATE,
    "free_completed": Action.FREE,
    "segment_alloc": Action.OBTAIN,
    "segment_free": Action.RETURN,
}
_SEGMENTS = ("segment_alloc", "segment_free")
_GROWS = ("segment_map", "segment_unmap")


def read_trace(
    top: Record, segments: Sequence[Record], entries: Sequence[Record]
) -> AllocatorTrace:
    """Return the trace of a device, given its final segments and its recorded entries."""
    settings = _settings(top.mapping("allocator_settings", {}))
    events = tuple(
        Event(
            _ACTIONS[entry.text("action")],
            entry.count("addr"),
            entry.count("size"),
            entry.count("stream", 0),
        )
        for entry in entries
        if entry.text("action") in _ACTIONS
    )
    # If the allocator worked by other rules than ours, its segments cannot be restored.
    unlike = _difference(settings, segments, entries)
    start = () if unlike else tuple(_Undone(segments, events, settings).segments())
    return AllocatorTrace(settings, start, events, unlike)


def frees_completed(entries: Iterable[Record]) -> bool:
    """Return False if frees were requested, but the file says of none that it was completed.

    So it is with `skip_actions=["free_completed"]`, and if the trace ends too early.
    """
    actions = {entry.text("action") for entry in entries}
    return "free_completed" in actions or "free_requested" not in actions


def blocks_of(segment: Record) -> Iterator[tuple[int, Record]]:
    """Yield the blocks of a segment with their addresses."""
    at = segment.count("address", 0)
    # Blocks lie side by side: a missing address follows from the sizes.
    for i, value in enumerate(segment.items("blocks")):
        block = Record(value, f"{segment.where}, block {i}")
        at = block.count("address", at)
        yield at, block
        at += block.count("size")


def _settings(values: Mapping[str, object]) -> AllocatorSettings:
    limit, divisions = values.get("max_split_size"), values.get("roundup_power2_divisions")
    parts = divisions.values() if isinstance(divisions, Mapping) else ()
    return AllocatorSettings(
        bool(values.get("expandable_segments")),
        limit if isinstance(limit, int) and limit > 0 else None,
        tuple(part for part in parts if isinstance(part, int)),
    )


def _difference(
    settings: AllocatorSettings, segments: Sequence[Record], entries: Sequence[Record]
) -> str:
    if settings.expandable_segments or any(e.text("action") in _GROWS for e in entries):
        return "its segments were expandable already"
    for segment in segments:
        if tuple(segment.value.get("segment_pool_id", (0, 0))) != (0, 0):
            return "it has private pools, as CUDA graphs use them"
    if not frees_completed(entries):
        return "the file does not say when blocks were free again"
    if not any(segment.has("address") for segment in segments):
        return "the file has no segment with an address"
    if _blocks_elsewhere(segments, entries):
        return "it has blocks in segments that were not recorded, so more was reserved"
    return ""


def _blocks_elsewhere(segments: Sequence[Record], entries: Sequence[Record]) -> bool:
    """Return True if an event is about a block outside of all segments that the file names."""
    known = [(x.count("address", 0), x.count("total_size")) for x in segments]
    known += [(x.count("addr"), x.count("size")) for x in entries if x.text("action") in _SEGMENTS]
    known.sort()
    begins = [begin for begin, _ in known]
    # Segments obtained again may be larger: the largest end so far decides.
    ends = list(accumulate((begin + size for begin, size in known), max))
    for entry in entries:
        if entry.text("action") in ("alloc", "free_completed"):
            i = bisect_right(begins, entry.count("addr")) - 1
            if i < 0 or entry.count("addr") >= ends[i]:
                return True
    return False


@dataclass
class _Segment:
    size: int
    stream: int
    small: bool | None


class _Undone:
    """The state before the events."""

    def __init__(
        self, segments: Sequence[Record], events: Sequence[Event], settings: AllocatorSettings
    ) -> None:
        self.settings = settings
        self.events = events
        self.held: dict[int, _Segment] = {}
        self.used: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        for segment in segments:
            self._add_final(segment)
        # Last event first: the state at the end is known, the state at the beginning is wanted.
        for event in reversed(events):
            self._undo(event)

    def segments(self) -> Iterator[RestoredSegment]:
        """Yield the segments by rising address."""
        starts = sorted(self.used)
        begins = sorted(self.held)
        inside: dict[int, list[int]] = {begin: [] for begin in begins}
        for address in starts:
            # The last segment that begins at or below the address, if it reaches that far.
            i = bisect_right(begins, address) - 1
            if i >= 0 and address < begins[i] + self.held[begins[i]].size:
                inside[begins[i]].append(address)
        cut = self._find_cuts(inside)
        for begin in begins:
            segment = self.held[begin]
            small = self._is_small(segment, inside[begin])
            blocks = self._blocks(begin, segment, inside[begin], small, cut)
            yield RestoredSegment(begin, segment.stream, small, tuple(blocks))

    def _add_final(self, segment: Record) -> None:
        begin = segment.count("address", 0)
        small = segment.value.get("segment_type")
        self.held[begin] = _Segment(
            segment.count("total_size"),
            segment.count("stream", 0),
            None if small is None else small == "small",
        )
        for at, block in blocks_of(segment):
            if block.text("state") != "inactive":
                self.used[at] = block.count("requested_size", block.count("size"))
                self.sizes[at] = block.count("size")

    def _undo(self, event: Event) -> None:
        address = event.key
        assert isinstance(address, int)
        if event.action is Action.ALLOCATE:
            # Undone, an allocation frees its address, and a free makes it used again.
            self.used.pop(address, None)
            self.sizes.pop(address, None)
        elif event.action is Action.FREE:
            self.used[address] = event.size
        elif event.action is Action.OBTAIN:
            self.held.pop(address, None)
        else:
            # Its kind is not in the event: `_is_small` decides by what it held.
            self.held[address] = _Segment(event.size, event.stream, None)

    def _is_small(self, segment: _Segment, starts: Iterable[int]) -> bool:
        if segment.small is not None:
            return segment.small
        requests = all(self.used[address] <= SMALL_REQUEST for address in starts)
        return segment.size == SMALL_SEGMENT and requests

    def _find_cuts(self, inside: Mapping[int, Sequence[int]]) -> dict[int, int]:
        """Return by block the address of the first allocation between it and the next block."""
        limits = {
            address: following
            for begin, starts in inside.items()
            for address, following in pairwise([*starts, begin + self.held[begin].size])
        }
        addresses, cut, closed = sorted(limits), dict[int, int](), set[int]()
        for event in self.events:
            assert isinstance(event.key, int)
            if event.action is Action.FREE:
                closed.add(event.key)
            elif event.action is Action.ALLOCATE:
                i = bisect_right(addresses, event.key) - 1
                if i >= 0 and addresses[i] < event.key < limits[addresses[i]]:
                    # A block freed in the meantime may have been split or merged: what follows
                    # says nothing.
                    if addresses[i] not in closed:
                        cut[addresses[i]] = event.key
                    closed.add(addresses[i])
        return cut

    def _blocks(
        self,
        begin: int,
        segment: _Segment,
        starts: Sequence[int],
        small: bool,
        cut: Mapping[int, int],
    ) -> Iterator[RestoredBlock]:
        at, end = begin, begin + segment.size
        for address, following in pairwise([*starts, end]):
            # A hole between blocks is a free block of its own.
            if address > at:
                yield RestoredBlock(address - at, None)
            requested = self.used[address]
            size = self.sizes.get(address) or self._size(
                requested, following - address, small, cut.get(address, following) - address
            )
            yield RestoredBlock(size, requested)
            at = address + size
        if end > at:
            yield RestoredBlock(end - at, None)

    def _size(self, requested: int, room: int, small: bool, cut: int) -> int:
        """Return the size of a block that is followed by `room` bytes without a block in use."""
        size = round_request(requested, self.settings.divisions)
        if small:
            return size
        # The allocator does not split off a rest this small, so the block takes all of it.
        if room - size <= SMALL_REQUEST:
            return room
        # An allocation inside the room began where the block ended.
        return cut if cut - size <= SMALL_REQUEST else size
