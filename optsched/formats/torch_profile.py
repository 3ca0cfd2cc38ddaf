"""Traces of `torch.profiler` with `profile_memory=True`: `[memory]` events as live ranges.

The file is written by `export_chrome_trace`: JSON with an instant event for each allocation and
free, which has the device, address and bytes (negative for a free), and the total bytes allocated
and reserved at that time. An allocation is named after the op that ran at its time.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from optsched.errors import FormatError
from optsched.formats.allocations import AllocationLog
from optsched.formats.fields import Record, show
from optsched.formats.format import Source
from optsched.formats.minimalloc import PackingTable

DEVICE_TYPES = {0: "cpu", 1: "cuda", 12: "xpu"}
"""Names of the values of `c10::DeviceType` with memory events."""
EVENT = "[memory]"


def read_torch_profile(source: Source) -> PackingTable:
    """Read the allocations of a trace; each device is a pool if there are several.

    An event that lacks a field, or contradicts an earlier event, is rejected.
    """
    top = Record(source.document, "profiler's trace")
    events = [e for e in top.items("traceEvents") if isinstance(e, dict)]
    memory = [e for e in events if e.get("name") == EVENT]
    labels = _Labels(events)
    log, reserved = AllocationLog(), dict[str, int]()
    # By time, as threads write events on their own.
    for event in sorted(memory, key=_time):
        record = Record(event.get("args"), f"memory event at {show(event.get('ts'))}")
        # One event has either sign: an allocation or a free.
        pool, count = _device(record), _integer(record, "Bytes")
        address = _integer(record, "Addr")
        if count > 0:
            log.allocate(pool, address, count, labels.at(event.get("tid"), _time(event)))
        elif count < 0:
            log.free(pool, address, -count)
        if record.has("Total Reserved"):
            reserved[pool] = max(reserved.get(pool, 0), record.count("Total Reserved"))
    # The host's allocator has no reserve and reports 0.
    return log.table(source.name, {pool: count for pool, count in reserved.items() if count})


class _Labels:
    """Lookup of the innermost op that runs on a thread at a given time."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.rows: dict[Any, list[tuple[float, float, str]]] = {}
        for event in events:
            if event.get("cat") == "cpu_op" and isinstance(event.get("dur"), int | float):
                start = _time(event)
                row = (start, start + event["dur"], str(event.get("name", "")))
                self.rows.setdefault(_key(event.get("tid")), []).append(row)
        for rows in self.rows.values():
            rows.sort()

    def at(self, thread: object, time: float) -> str:
        rows = self.rows.get(_key(thread), [])
        at = bisect_right(rows, (time, float("inf"), ""))
        # Ops are nested, so the last op that started and is still running is the innermost.
        # Fifty: deeper nesting of ops does not occur in a trace.
        for _, end, name in reversed(rows[max(0, at - 50) : at]):
            if time <= end:
                return name
        return ""


def _key(thread: object) -> str:
    return str(thread)


def _time(event: dict[str, Any]) -> float:
    time = event.get("ts")
    if not isinstance(time, int | float):
        raise FormatError(f"event {show(event.get('name'))}: ts must be a number, got {show(time)}")
    return float(time)


def _integer(record: Record, key: str) -> int:
    value = record.value.get(key)
    if type(value) is not int or abs(value) > 2**63:
        raise FormatError(f"{record.where}: {key} must be an integer, got {show(value)}")
    return value


def _device(record: Record) -> str:
    kind, number = _integer(record, "Device Type"), _integer(record, "Device Id")
    name = DEVICE_TYPES.get(kind, f"device{kind}")
    # -1 is the host, which has no number.
    return name if number < 0 else f"{name}:{number}"
