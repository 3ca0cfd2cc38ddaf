"""Memory snapshots of PyTorch's caching allocator: requested allocations and reserved bytes.

The file is written by `torch.cuda.memory._dump_snapshot` after `_record_memory_history`: a pickle
of plain dicts and lists with the trace of each device and its final segments.
:mod:`optsched.formats.plain_pickle` reads it without running any code.

References
----------
torch/cuda/memory.py, `_snapshot`: `Snapshot`, `Segment`, `Block`, `TraceEntry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsched.errors import FormatError
from optsched.formats.allocations import AllocationLog
from optsched.formats.allocator_trace import read_trace
from optsched.formats.fields import Record, show
from optsched.formats.format import Source
from optsched.formats.minimalloc import PackingTable
from optsched.formats.plain_pickle import parse_plain_pickle
from optsched.model.caching_allocator import AllocatorTrace

RESERVING = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
"""Actions by which the allocator obtains (1) or returns (-1) bytes of the device."""
OTHER = {"free_requested", "oom", "snapshot", "user_defined", "pool_create", "pool_destroy"}
"""Actions that change no allocation and no reserved bytes."""


def read_torch_snapshot(source: Source) -> PackingTable:
    """Read the allocations of a snapshot; each device with any is a pool if there are several.

    An allocation lives until its free is completed, because the allocator may not reuse it earlier.
    A file that is not a pickle of plain containers, or an entry that contradicts an earlier one, is
    rejected.
    """
    top = Record(parse_plain_pickle(source.data), "memory snapshot")
    log, reserved, traces = AllocationLog(), dict[str, int](), dict[str, AllocatorTrace]()
    segments = [Record(x, f"segment {i}") for i, x in enumerate(top.items("segments"))]
    for device, trace in enumerate(top.items("device_traces")):
        own = [x for x in segments if x.count("device", 0) == device]
        pool = f"cuda:{device}"
        entries = _entries(trace, device)
        # Events first, then what lived at the end without one.
        for entry in entries:
            _take(log, pool, entry)
        for segment in own:
            _take_blocks(log, pool, segment)
        if own or entries:
            reserved[pool] = _most_reserved(own, entries)
            traces[pool] = read_trace(top, own, entries)
    return log.table(source.name, reserved).recorded_with(reserved, traces)


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
    at = segment.count("address", 0)
    # Blocks lie side by side: a missing address follows from the sizes.
    for i, value in enumerate(segment.items("blocks")):
        block = Record(value, f"{segment.where}, block {i}")
        at = block.count("address", at)
        if block.text("state").startswith("active"):
            size = block.count("requested_size", block.count("size"))
            log.preexisting(pool, at, size, _label(block.value))
        at += block.count("size")


def _most_reserved(segments: list[Record], entries: list[Record]) -> int:
    """Return the maximum bytes of all segments, traced back from the final state."""
    # From the end backwards, since the state at the end is known.
    reserved = most = sum(segment.count("total_size") for segment in segments)
    for entry in reversed(entries):
        reserved -= RESERVING.get(entry.text("action"), 0) * entry.count("size", 0)
        most = max(most, reserved)
    return most


def _label(entry: Mapping[str, Any]) -> str:
    """Return the function that requested an allocation, if its stack was recorded."""
    frames = entry.get("frames")
    if not isinstance(frames, list):
        return ""
    names = [frame.get("name") for frame in frames if isinstance(frame, Mapping)]
    return next((str(name) for name in names if name), "")
