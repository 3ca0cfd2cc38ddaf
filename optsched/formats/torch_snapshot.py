"""Memory snapshots of PyTorch's caching allocator: requested allocations and reserved bytes.

The file is written by `torch.cuda.memory._dump_snapshot` after `_record_memory_history`: a pickle
of plain dicts and lists with the trace of each device and its final segments. A list of segments
alone, as `torch.cuda.memory_snapshot` returns it, is one without events.
:mod:`optsched.formats.plain_pickle` reads it without running any code.

References
----------
torch/cuda/memory.py, `_snapshot`: `Snapshot`, `Segment`, `Block`, `TraceEntry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from optsched.errors import FormatError
from optsched.formats.allocations import AllocationLog
from optsched.formats.allocator_trace import blocks_of, frees_completed, read_trace
from optsched.formats.fields import Record, show
from optsched.formats.format import Source
from optsched.formats.minimalloc import PackingTable
from optsched.formats.plain_pickle import parse_plain_pickle
from optsched.model.caching_allocator import AllocatorTrace, Refused

RESERVING = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
"""Actions by which the allocator obtains (1) or returns (-1) bytes of the device."""
LIVE = ("alloc", "free_requested", "free_completed")
"""Actions that begin or end an allocation."""
OTHER = {"free_requested", "oom", "snapshot", "user_defined", "pool_create", "pool_destroy"}
"""Actions that change no allocation and no reserved bytes."""


def read_torch_snapshot(source: Source) -> PackingTable:
    """Read the allocations of a snapshot; each device with any is a pool if there are several.

    An allocation lives until its free is completed, because the allocator may not reuse it earlier.
    If only its request was recorded, the block ends there. A file that is not a pickle of plain
    containers, or an entry that contradicts an earlier one, is rejected.
    """
    found = parse_plain_pickle(source.data)
    top = Record({"segments": found} if isinstance(found, list) else found, "memory snapshot")
    log, reserved, traces = AllocationLog(), dict[str, int](), dict[str, AllocatorTrace]()
    segments = [Record(x, f"segment {i}") for i, x in enumerate(top.items("segments"))]
    # Nothing was recorded of devices beyond the last trace, but their blocks are in the segments.
    recorded = top.items("device_traces") if top.value.get("device_traces") is not None else []
    devices = {x.count("device", 0) for x in segments} | set(range(len(recorded)))
    for device in sorted(devices):
        own = [x for x in segments if x.count("device", 0) == device]
        entries = _entries(recorded[device], device) if device < len(recorded) else []
        if own or entries:
            pool = f"cuda:{device}"
            reserves = _reserves(own, entries)
            reserved[pool] = max(reserves)
            trace = read_trace(top, own, entries)
            traces[pool] = replace(
                trace,
                # The requests that led to these segments are in no event.
                unlike=trace.unlike or ("" if _records_blocks(entries) else "it has no events"),
                refused=tuple(_take_all(log, pool, own, entries, reserves)),
                notes=tuple(_notes(top, device, entries)),
            )
    return log.table(source.name, reserved).recorded_with(reserved, traces)


def _notes(top: Record, device: int, entries: list[Record]) -> Iterator[str]:
    """Yield sentences on what the recording of a device lacks."""
    overflowed = top.value.get("trace_alloc_overflowed")
    if isinstance(overflowed, list) and device < len(overflowed) and overflowed[device]:
        yield (
            f"the trace begins in the middle: its buffer of {len(entries):,} entries overflowed, "
            "and all figures are about the recorded part"
        )
    if not _records_blocks(entries):
        yield (
            "no allocation or free was recorded: these are the blocks in use when the file was "
            "written"
        )
    elif not frees_completed(entries):
        yield (
            "'free_completed' was not recorded: blocks end where their free was requested, and the "
            "allocator may have kept them longer"
        )


def _records_blocks(entries: list[Record]) -> bool:
    return any(entry.text("action") in LIVE for entry in entries)


def _take_all(
    log: AllocationLog,
    pool: str,
    segments: list[Record],
    entries: list[Record],
    reserves: list[int],
) -> Iterator[Refused]:
    """Record the allocations of a device, and yield the requests that failed."""
    waiting = () if frees_completed(entries) else _awaiting_free(segments)
    asked = {e.count("addr", 0): e for e in entries if e.text("action") == "free_requested"}
    # Events first, then what lived at the end without one.
    for entry, before in zip(entries, reserves, strict=False):
        action = entry.text("action")
        if action == "oom":
            free = entry.count("device_free", 0)
            yield Refused(entry.count("size"), log.live_bytes(pool), before, free)
        elif action == "free_requested" and not frees_completed(entries):
            address = entry.count("addr")
            # The last free of a block that waits at the end was not completed.
            if address not in waiting or asked[address] is not entry:
                log.free(pool, address, entry.count("size"))
        else:
            _take(log, pool, entry)
    for segment in segments:
        _take_blocks(log, pool, segment)


def _entries(trace: object, device: int) -> list[Record]:
    if not isinstance(trace, list):
        raise FormatError(f"device_traces: entry {device} must be an array, got {show(trace)}")
    return [Record(x, f"device {device}, event {i}") for i, x in enumerate(trace)]


def _take(log: AllocationLog, pool: str, entry: Record) -> None:
    action = entry.text("action")
    if action == "alloc":
        log.allocate(pool, entry.count("addr"), entry.count("size"), _label(entry.value))
    elif action == "free_completed":
        log.free(pool, entry.count("addr"), entry.count("size"))
    elif action not in RESERVING and action not in OTHER:
        raise FormatError(f"{entry.where}: unknown action {show(action)}")


def _take_blocks(log: AllocationLog, pool: str, segment: Record) -> None:
    """Record a segment's final blocks that no event mentioned; these existed throughout."""
    for address, block in blocks_of(segment):
        if block.text("state").startswith("active"):
            size = block.count("requested_size", block.count("size"))
            log.preexisting(pool, address, size, _label(block.value))


def _reserves(segments: list[Record], entries: list[Record]) -> list[int]:
    """Return the bytes of all segments before each event and at the end."""
    # From the end backwards, since the state at the end is known.
    found = [sum(segment.count("total_size") for segment in segments)]
    for entry in reversed(entries):
        change = RESERVING.get(entry.text("action"), 0) * entry.count("size", 0)
        found.append(found[-1] - change)
    return found[::-1]


def _awaiting_free(segments: list[Record]) -> set[int]:
    """Return the addresses of blocks whose free was requested, and not completed at the end."""
    return {
        address
        for segment in segments
        for address, block in blocks_of(segment)
        if block.text("state") == "active_awaiting_free"
    }


def _label(entry: Mapping[str, Any]) -> str:
    """Return the function that requested an allocation, if its stack was recorded."""
    frames = entry.get("frames")
    if not isinstance(frames, list):
        return ""
    names = [frame.get("name") for frame in frames if isinstance(frame, Mapping)]
    return next((str(name) for name in names if name), "")
