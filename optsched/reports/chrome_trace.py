"""Plans as traces for Perfetto and chrome://tracing; one step lasts a millisecond.

The ops are slices of one track, and the live bytes a counter above it. Each buffer is a slice from
its allocation to its release, on the track of its offset; the lowest address comes first.

References
----------
Trace Event Format (Google, 2016): phases `X`, `C` and `M`; times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from optsched.reports.view import Slab, View
from optsched.runtime.bytes import format_bytes
from optsched.runtime.facts import versions
from optsched.runtime.text import readable

STEP = 1000
"""Microseconds per step."""


def trace_document(
    views: Sequence[View], bound: int, label: str = "proven bound"
) -> dict[str, Any]:
    """Return the trace of plans as a JSON object.

    Each plan is a process, and each of its slabs is another. `bound`, the proved lower bound on the
    peak in bytes, is a separate counter named `label`.
    """
    events: list[dict[str, Any]] = []
    pid = 0
    for shown in views:
        # Perfetto groups tracks by process, so each plan and each slab is one.
        pid += 1
        events += _process(pid, f"{readable(shown.name)}: ops and live bytes")
        events += [*_ops(shown, pid), *_live_bytes(shown, pid, bound, label)]
        for slab in shown.slabs:
            pid += 1
            pool = f" of pool {readable(slab.pool)}" if slab.pool else ""
            title = f"{readable(shown.name)}: slab{pool}, {format_bytes(slab.size)}"
            events += [*_process(pid, title), *_buffers(shown, slab, pid)]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "graph": readable(views[0].subject.name),
            "memory_model": readable(views[0].subject.memory_model),
            "versions": versions(),
        },
    }


def _event(
    phase: str, name: str, track: tuple[int, int], ts: int, args: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Return an event on a track, which is a process and a thread."""
    pid, tid = track
    return {"name": name, "ph": phase, "ts": ts, "pid": pid, "tid": tid, "args": args, **more}


def _metadata(what: str, pid: int, tid: int, **args: str | int) -> dict[str, Any]:
    return _event("M", what, (pid, tid), 0, args)


def _process(pid: int, name: str) -> list[dict[str, Any]]:
    return [
        _metadata("process_name", pid, 0, name=name),
        _metadata("process_sort_index", pid, 0, sort_index=pid),
    ]


def _ops(shown: View, pid: int) -> Iterator[dict[str, Any]]:
    if shown.steps:
        yield _metadata("thread_name", pid, 1, name="ops")
    # The load is stored as runs of equal values: back to one value per step.
    live = np.repeat(shown.load.live, shown.load.end - shown.load.start).tolist()
    for step, (name, kind) in enumerate(shown.steps):
        args = {"step": step, "live bytes": live[step]}
        own = {"cat": readable(kind) or "op", "dur": STEP}
        yield _event("X", readable(name), (pid, 1), step * STEP, args, **own)


def _live_bytes(shown: View, pid: int, bound: int, label: str) -> Iterator[dict[str, Any]]:
    load, end = shown.load, shown.length
    # A last point of 0, where the line ends.
    live = zip([*load.start.tolist(), end], [*load.live.tolist(), 0], strict=True)
    rows = [("live bytes", step, value) for step, value in live]
    for name, step, value in [*rows, *((label, step, bound) for step in (0, end))]:
        yield _event("C", name, (pid, 0), step * STEP, {"bytes": value})


def _buffers(shown: View, slab: Slab, pid: int) -> Iterator[dict[str, Any]]:
    """Yield the buffers of a slab, one track per offset; these never overlap in time."""
    subject = shown.subject
    # Buffers at one offset follow each other in time, so they share a track.
    offsets, track = np.unique(slab.offset, return_inverse=True)
    for place, offset in enumerate(offsets.tolist(), start=1):
        yield _metadata("thread_name", pid, place, name=f"offset {offset:,}")
        yield _metadata("thread_sort_index", pid, place, sort_index=place)
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
        own = {"cat": kind, "dur": (end - start) * STEP}
        at = (pid, int(track[i]) + 1)
        yield _event("X", readable(subject.buffers[b]), at, start * STEP, args, **own)
