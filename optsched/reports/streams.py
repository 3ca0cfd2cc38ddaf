"""What is said of a plan on several streams: what conflicts, what is live at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsched.model.antichain import largest_antichain
from optsched.model.graph import Graph
from optsched.model.live_states import most_live_at_once
from optsched.runtime.text import readable
from optsched.solver.result import Result

_NAMED = 6
"""Buffers of the antichain that are named in words."""


def stream_record(graph: Graph, result: Result) -> dict[str, Any]:
    """Return the field `streams` of a plan on several streams, else nothing.

    It has their names, the buffers that pairwise may be in use at once and make the peak, largest
    first, and the most bytes that are live at once in any execution, None where there are too many
    states to look at.
    """
    if result.plan is None or not graph.on_streams:
        return {}
    order = result.plan.order
    found = [graph.buffers[b] for b in largest_antichain(graph, order).buffers]
    buffers = [buffer.name for buffer in sorted(found, key=lambda buffer: -buffer.size)]
    live = most_live_at_once(graph, order)
    return {
        "streams": {
            "names": list(graph.streams),
            "antichain": buffers,
            "live_at_once": live,
        }
    }


def stream_lines(record: Mapping[str, Any]) -> list[str]:
    """Return the same in words."""
    found = record.get("streams")
    if found is None:
        return []
    buffers = found["antichain"]
    more = f" and {len(buffers) - _NAMED} more" if len(buffers) > _NAMED else ""
    named = ", ".join(map(readable, buffers[:_NAMED])) + more
    live = found["live_at_once"]
    at_once = "" if live is None else f"; live at once in some execution: {live:,} bytes"
    return [
        f"  {len(found['names'])} streams: the peak is of buffers that pairwise may be in use at "
        f"once: {named}{at_once}"
    ]
