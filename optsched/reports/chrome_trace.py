"""A plan as a trace that Perfetto and chrome://tracing open: a step is a millisecond.

The ops are slices of one track, the live bytes a counter above it; every buffer is a slice from
its allocation to its release, on the track of its offset, lowest address first.

References
----------
Trace Event Format (Google, 2016): phases `X`, `C` and `M`; times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optsched.formats import write_bytes
from optsched.reports.record import versions
from optsched.reports.view import Slab, View
from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import readable

STEP = 1000
"""Microseconds of a step."""


def write_trace(path: str | Path, views: Sequence[View], bound: int) -> None:
    """Write the trace of plans; each of them is a process, and each of its slabs is another."""
    write_bytes(path, json.dumps(trace_document(views, bound)).encode())


def trace_document(views: Sequence[View], bound: int) -> dict[str, Any]:
    """Return the trace as a JSON object.

    Parameters
    ----------
    views
        The plans.
    bound
        Bytes: the proven bound on the peak, a counter of its own.
    """
    events: list[dict[str, Any]] = []
    pid = 0
    for shown in views:
        pid += 1
        events += _process(pid, f"{readable(shown.name)}: ops and live bytes")
        events += _ops(shown, pid) + _live_bytes(shown, pid, bound)
        for slab in shown.slabs:
            pid += 1
            pool = f" of pool {readable(slab.pool)}" if slab.pool else ""
            title = f"{readable(shown.name)}: slab{pool}, {format_bytes(slab.size)}"
            events += _process(pid, title) + _buffers(shown, slab, pid)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "graph": readable(views[0].subject.name),
            "memory_model": readable(views[0].subject.memory_model),
            "versions": versions(),
        },
    }


def _process(pid: int, name: str) -> list[dict[str, Any]]:
    return [
        _metadata("process_name", pid, 0, name=name),
        _metadata("process_sort_index", pid, 0, sort_index=pid),
    ]


def _metadata(what: str, pid: int, tid: int, **args: str | int) -> dict[str, Any]:
    return {"name": what, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": args}


def _slice(
    name: str, category: str, start: int, steps: int, track: tuple[int, int], args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": start * STEP,
        "dur": steps * STEP,
        "pid": track[0],
        "tid": track[1],
        "args": args,
    }


def _ops(shown: View, pid: int) -> list[dict[str, Any]]:
    if not shown.steps:
        return []
    events = [_metadata("thread_name", pid, 1, name="ops")]
    live = np.repeat(shown.load.live, shown.load.end - shown.load.start).tolist()
    for step, (name, kind) in enumerate(shown.steps):
        args = {"step": step, "live bytes": live[step]}
        events.append(_slice(readable(name), readable(kind) or "op", step, 1, (pid, 1), args))
    return events


def _live_bytes(shown: View, pid: int, bound: int) -> list[dict[str, Any]]:
    load, end = shown.load, shown.length * STEP
    rows = [
        (step * STEP, "live bytes", live)
        for step, live in zip(load.start.tolist(), load.live.tolist(), strict=True)
    ]
    rows += [(end, "live bytes", 0), (0, "proven bound", bound), (end, "proven bound", bound)]
    return [
        {"name": name, "ph": "C", "ts": ts, "pid": pid, "tid": 0, "args": {"bytes": value}}
        for ts, name, value in rows
    ]


def _buffers(shown: View, slab: Slab, pid: int) -> list[dict[str, Any]]:
    """Buffers of one offset are never live together, so each offset is a track."""
    events, subject = [], shown.subject
    offsets, track = np.unique(slab.offset, return_inverse=True)
    for place, offset in enumerate(offsets.tolist(), start=1):
        events.append(_metadata("thread_name", pid, place, name=f"offset {offset:,}"))
        events.append(_metadata("thread_sort_index", pid, place, sort_index=place))
    for i, b in enumerate(slab.buffers.tolist()):
        start, end = int(slab.start[i]), int(slab.end[i])
        args = {
            "bytes": int(subject.sizes[b]),
            "offset": int(slab.offset[i]),
            "live": shown.lifetime(b),
        }
        kind = "buffer"
        if subject.makers:
            args["made by"], kind = subject.makers[b], readable(subject.kinds[b])
        own = (pid, int(track[i]) + 1)
        name = readable(subject.buffers[b])
        events.append(_slice(name, kind, start, end - start, own, args))
    return events
