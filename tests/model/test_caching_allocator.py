"""The caching allocator's model against a slow reference, and its reader against made-up traces."""

from __future__ import annotations

import lzma
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from optsched.compare.allocator_advice import advise
from optsched.formats import read_packing
from optsched.model.caching_allocator import (
    Action,
    AllocatorSettings,
    CachingAllocator,
    Event,
    Usage,
    replay,
    round_request,
)

KIB, MIB = 1 << 10, 1 << 20
SNAPSHOTS = Path(__file__).parents[3] / "shared/instances/cuda_snapshots"


@dataclass
class Segment:
    """A segment of the reference: its blocks by address as `[bytes, request or None]`."""

    address: int
    small: bool
    stream: int
    blocks: list[list[Any]] = field(default_factory=list)

    def places(self) -> Iterator[tuple[int, list[Any]]]:
        at = self.address
        for block in self.blocks:
            yield at, block
            at += block[0]


class Reference:
    """The allocator's rules, with lists and a scan of all blocks for each request."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = float("inf") if limit is None else limit
        self.segments: list[Segment] = []
        self.next = 1 << 40
        self.log: list[dict[str, Any]] = []

    def allocate(self, requested: int, stream: int = 0) -> int:
        size = max(512, -(-requested // 512) * 512)
        small = size <= MIB
        fitting = [
            (block[0], at, segment, block)
            for segment in self.segments
            if (segment.small, segment.stream) == (small, stream)
            for at, block in segment.places()
            if block[1] is None and block[0] >= size
        ]
        best = min(fitting, key=lambda found: found[:2], default=None)
        # A block above the limit serves only requests above it that are nearly as large.
        if best and best[0] >= (self.limit if size < self.limit else size + 20 * MIB):
            best = None
        if best is None:
            total = 2 * MIB if small else 20 * MIB
            total = -(-size // (2 * MIB)) * 2 * MIB if size >= 10 * MIB else total
            segment = Segment(self.next, small, stream, [[total, None]])
            self.next += total
            self.segments.append(segment)
            self.log.append(entry("segment_alloc", segment.address, total, stream))
            best = (total, segment.address, segment, segment.blocks[0])
        _, at, segment, block = best
        rest = block[0] - size
        if rest >= 512 if small else (rest > MIB and size < self.limit):
            block[0] = size
            segment.blocks.insert(segment.blocks.index(block) + 1, [rest, None])
        block[1] = requested
        self.log.append(entry("alloc", at, requested, stream))
        return at

    def free(self, address: int) -> None:
        for segment in self.segments:
            for at, block in segment.places():
                if at == address and block[1] is not None:
                    self.log.append(entry("free_completed", at, block[1], segment.stream))
                    block[1] = None
                    segment.blocks = list(joined(segment.blocks))
                    return

    def reserved(self) -> int:
        return sum(block[0] for segment in self.segments for block in segment.blocks)

    def snapshot(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "device_traces": [events],
            "segments": [
                {
                    "device": 0,
                    "address": segment.address,
                    "total_size": sum(size for size, _ in segment.blocks),
                    "stream": segment.stream,
                    "segment_type": "small" if segment.small else "large",
                    "blocks": [
                        {
                            "address": at,
                            "size": size,
                            "requested_size": requested or 0,
                            "state": "inactive" if requested is None else "active_allocated",
                        }
                        for at, (size, requested) in segment.places()
                    ],
                }
                for segment in self.segments
            ],
        }


def entry(action: str, address: int, size: int, stream: int) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": stream}


def joined(blocks: list[list[Any]]) -> Iterator[list[Any]]:
    """Merge free neighbors."""
    last: list[Any] | None = None
    for block in blocks:
        if last is not None and last[1] is None and block[1] is None:
            last[0] += block[0]
            continue
        if last is not None:
            yield last
        last = block
    if last is not None:
        yield last


def requests(seed: int, count: int = 120, streams: int = 1) -> Iterator[tuple[int, int]]:
    """Yield pairs `(bytes, stream)` to allocate and `(-k, 0)` to free the k-th block in use."""
    draw = random.Random(seed)
    sizes = [1, 512, 513, 300 * KIB, MIB - 1, MIB, MIB + 1, 3 * MIB, 9 * MIB, 10 * MIB, 21 * MIB]
    sizes += [draw.randrange(1, 30 * MIB) for _ in range(6)]
    live = 0
    for _ in range(count):
        if live and draw.random() < 0.45:
            yield -draw.randrange(1, live + 1), 0
            live -= 1
        else:
            yield draw.choice(sizes), draw.randrange(streams)
            live += 1


@pytest.mark.parametrize("limit", [None, 8 * MIB], ids=["splits", "max_split_size"])
@pytest.mark.parametrize("seed", range(60))
def test_addresses_and_usage_are_those_of_the_reference(seed: int, limit: int | None) -> None:
    slow, fast = Reference(limit), CachingAllocator(AllocatorSettings(max_split_size=limit))
    used: list[tuple[int, Any]] = []
    for size, stream in requests(seed, streams=1 + seed % 2):
        if size > 0:
            block = fast.allocate(size, stream)
            used.append((slow.allocate(size, stream), block))
            assert used[-1][0] == block.address
        else:
            address, block = used.pop(-size - 1)
            slow.free(address)
            fast.free(block)
        blocks = [b for s in slow.segments for b in s.blocks if b[1] is not None]
        assert fast.usage == Usage(
            sum(asked for _, asked in blocks), sum(held for held, _ in blocks), slow.reserved()
        )


class GrowingReference:
    """Expandable segments: one list of blocks per pool, `[bytes, request or None]`."""

    def __init__(self) -> None:
        self.pools: dict[bool, list[list[Any]]] = {True: [], False: []}

    def allocate(self, requested: int) -> list[Any]:
        size = -(-requested // 512) * 512
        blocks, unit = self.pools[size <= MIB], 2 * MIB if size <= MIB else 20 * MIB
        last = [block for block in blocks[-1:] if block[1] is None]
        # The last block counts as larger than all others, since it can grow.
        fitting = [b for b in blocks if b[1] is None and b[0] >= size and b not in last]
        block = min(fitting, key=lambda b: (b[0], blocks.index(b)), default=None)
        if block is None:
            block = last[0] if last else [0, None]
            if not last:
                blocks.append(block)
            block[0] += -(-max(0, size - block[0]) // unit) * unit
        if block[0] > size:
            blocks.insert(blocks.index(block) + 1, [block[0] - size, None])
            block[0] = size
        block[1] = requested
        return block

    def free(self, block: list[Any]) -> None:
        block[1] = None
        self.pools = {small: list(joined(blocks)) for small, blocks in self.pools.items()}

    def usage(self) -> Usage:
        blocks = [block for pool in self.pools.values() for block in pool]
        used = [block for block in blocks if block[1] is not None]
        return Usage(sum(b[1] for b in used), sum(b[0] for b in used), sum(b[0] for b in blocks))


@pytest.mark.parametrize("seed", range(60))
def test_expandable_segments_are_those_of_the_reference(seed: int) -> None:
    slow, fast = GrowingReference(), CachingAllocator(AllocatorSettings(expandable_segments=True))
    used: list[tuple[list[Any], Any]] = []
    # Equal blocks are told apart by identity only if no two requests are equal.
    for i, (size, _) in enumerate(requests(seed)):
        if size > 0:
            used.append((slow.allocate(size + i), fast.allocate(size + i)))
        else:
            first, block = used.pop(-size - 1)
            slow.free(first)
            fast.free(block)
        assert fast.usage == slow.usage()


@pytest.mark.parametrize("seed", range(40))
def test_a_trace_that_begins_late_is_replayed_from_its_end(seed: int, tmp_path: Path) -> None:
    """A recording keeps only its last events; the state before them follows from the final one."""
    slow = Reference()
    used: list[int] = []
    for size, _ in requests(seed, 200):
        if size > 0:
            used.append(slow.allocate(size))
        else:
            slow.free(used.pop(-size - 1))
    for kept in (0, 1, 40, len(slow.log)):
        events = slow.log[len(slow.log) - kept :]
        path = tmp_path / f"{kept}.pickle"
        path.write_bytes(pickle.dumps(slow.snapshot(events)))
        table = read_packing(path)
        trace = table.traces["cuda:0"]
        found = replay(trace.events, trace.settings, trace.start)
        assert found.peak.reserved == table.reserved["cuda:0"] == slow.reserved()
        assert list(found.addresses) == [e["addr"] for e in events if e["action"] == "alloc"]


def test_a_request_takes_a_multiple_of_512_bytes_or_a_part_of_a_power_of_two() -> None:
    assert [round_request(size) for size in (1, 512, 513, 1200)] == [512, 512, 1024, 1536]
    # With four parts, 1,200 is below 512 x 4; 5 MiB is a quarter of 4 MiB above 4 MiB.
    parts = (0, 4)
    assert round_request(1200, parts) == 1536
    assert round_request(4 * MIB + 1, parts) == 5 * MIB
    assert round_request(4 * MIB, parts) == 4 * MIB


def test_blocks_of_another_stream_are_not_used() -> None:
    allocator = CachingAllocator()
    first = allocator.allocate(3 * MIB, stream=1)
    allocator.free(first)
    assert allocator.allocate(3 * MIB, stream=2).address != first.address
    assert allocator.allocate(3 * MIB, stream=1).address == first.address


def test_a_segment_in_use_is_not_returned() -> None:
    allocator = CachingAllocator()
    block = allocator.allocate(3 * MIB)
    allocator.give_back(block.segment)
    assert allocator.usage.reserved == 20 * MIB
    allocator.free(block)
    allocator.give_back(block.segment)
    assert allocator.usage == Usage()
    assert allocator.peak.reserved == 20 * MIB


def alternating() -> list[Event]:
    """Blocks that grow: each is too large for the space that the one before freed."""
    events = []
    for k in range(1, 8):
        events.append(Event(Action.ALLOCATE, k, (10 + 4 * k) * MIB))
        events.append(Event(Action.FREE, k))
    return events


def test_expandable_segments_use_what_growing_requests_leave_behind() -> None:
    events = alternating()
    plain = replay(events).peak
    grown = replay(events, AllocatorSettings(expandable_segments=True)).peak
    assert plain.reserved == sum(10 + 4 * k for k in range(1, 8)) * MIB
    assert grown.reserved == 40 * MIB
    assert plain.requested == grown.requested == 38 * MIB


@pytest.mark.skipif(not SNAPSHOTS.is_dir(), reason="the recordings of real GPUs are not here")
@pytest.mark.parametrize("path", sorted(SNAPSHOTS.glob("*.xz")), ids=lambda path: path.stem)
def test_recordings_of_real_gpus_are_reproduced(path: Path, tmp_path: Path) -> None:
    plain = tmp_path / path.stem
    plain.write_bytes(lzma.decompress(path.read_bytes()))
    table = read_packing(plain)
    (trace,) = table.traces.values()
    seen = [e.key for e in trace.events if e.action is Action.ALLOCATE and e.size]
    for events in (trace.events, [e for e in trace.events if e.action is not Action.OBTAIN]):
        found = replay(events, trace.settings, trace.start)
        assert found.peak.reserved == table.reserved["cuda:0"]
    found = replay(trace.events, trace.settings, trace.start)
    equal = sum(a == b for a, b in zip(found.addresses, seen, strict=True))
    assert equal >= 0.99 * len(seen)
    advice = advise(trace, table.reserved["cuda:0"], table.problem.max_load)
    assert advice.live is not None
    assert advice.expandable is not None
    assert advice.live <= table.problem.max_load <= advice.reserved
    assert advice.live <= advice.expandable


def test_a_trace_that_breaks_the_rules_is_not_advised_about(tmp_path: Path) -> None:
    slow = Reference()
    slow.allocate(3 * MIB)
    document = slow.snapshot(slow.log)
    document["segments"][0]["total_size"] = 18 * MIB
    document["device_traces"][0][0]["size"] = 18 * MIB
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(document))
    table = read_packing(path)
    advice = advise(table.traces["cuda:0"], table.reserved["cuda:0"], None)
    assert advice.live is None
    assert "20,971,520 bytes would have been reserved" in advice.lines("cuda:0")[1]
    private = replace(table.traces["cuda:0"], unlike="it has private pools")
    assert "not tried: it has private pools" in advise(private, 5, None).lines("cuda:0")[1]
