"""Ways to lower the bytes that a recorded caching allocator reserved.

Reserved bytes exceed the live bytes by rounding, cached blocks, and pieces too small for later
requests. Another setting of the allocator or a slab lowers that part. The live bytes themselves are
lower only in another order of ops, or if ops run again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from optsched.model.caching_allocator import Action, AllocatorTrace, Event, Refused, replay
from optsched.runtime.text import percent, readable


@dataclass(frozen=True, slots=True)
class Advice:
    """Bytes of a device under the recorded allocator, and under others."""

    reserved: int
    """Maximum that the recorded allocator reserved."""
    slab: int | None
    """Bytes of the slab found for the same requests; None without one."""
    live: int | None = None
    """Most bytes requested at one time, below which no allocator and no slab can get; None if the
    trace cannot be replayed."""
    expandable: int | None = None
    """Maximum that the allocator would have reserved with `expandable_segments:True`, had it handed
    out the blocks in use at the trace's beginning by rising address; None as for `live`."""
    unknown: str = ""
    """The reason for which the trace cannot be replayed; empty if it can."""
    notes: tuple[str, ...] = ()
    """Sentences on what the recording lacks."""
    refused: tuple[Refused, ...] = ()
    """Requests that failed for lack of memory, in order."""

    def savings(self) -> dict[str, int]:
        """Return the bytes that each way saves, if any, by its name."""
        found = {"expandable_segments": self.expandable, "slab": self.slab}
        return {
            name: self.reserved - count
            for name, count in found.items()
            if count is not None and count < self.reserved
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the record of `optsched pack --json`."""
        record: dict[str, Any] = {
            "reserved": self.reserved,
            "slab": self.slab,
            "wasted": None if self.slab is None else self.reserved - self.slab,
        }
        if self.live is not None:
            record["live"] = self.live
            record["expandable_segments"] = self.expandable
            record["saved_by"] = self.savings()
        more = {
            "not_replayed": self.unknown,
            "notes": list(self.notes),
            "refused": [request._asdict() for request in self.refused],
        }
        return {**record, **{key: value for key, value in more.items() if value}}

    def lines(self, device: str) -> list[str]:
        """Return sentences for people."""
        line = f"  recorded  {readable(device)}: the allocator reserved {self.reserved:,} bytes"
        if self.slab is not None:
            more = self.reserved - self.slab
            line += f", {more:,} ({percent(more / max(1, self.reserved))}) more than this slab"
        notes = [f"    {text}" for text in (*self.notes, *self._failures())]
        return [line, *notes, *self._reasons()]

    def _failures(self) -> list[str]:
        """Return a sentence about the last request that failed."""
        if not self.refused:
            return []
        size, live, reserved, free = self.refused[-1]
        text = f"{size:,} bytes were refused with {live:,} live"
        if len(self.refused) > 1:
            text += f", the last of {len(self.refused):,} requests that failed"
        room = f"{reserved:,} reserved + {free:,} free on the device"
        if self.slab is not None and self.slab + size <= reserved + free:
            # Even on top of the slab.
            return [f"{text}; a slab would have had room in {room}"]
        if live + size <= reserved + free:
            return [f"{text}; {live + size:,} are within {room}, but not in one piece"]
        return [f"{text}; {room} are too few for both, however they are placed"]

    def _reasons(self) -> list[str]:
        if self.unknown:
            return [f"    expandable_segments was not tried: {self.unknown}"]
        if self.live is None:
            return []
        saved = [f"{name} would have saved {count:,}" for name, count in self.savings().items()]
        return [
            f"    {self.live:,} bytes were live at one time: only another order of ops needs fewer",
            f"    {self.reserved - self.live:,} bytes were reserved beyond these: "
            + (" and ".join(saved) or "no setting and no slab would have saved any of them"),
        ]


def advise(trace: AllocatorTrace | None, reserved: int, slab: int | None) -> Advice:
    """Replay a trace as it was recorded, and with the other setting.

    `trace`: the recorded events of a device, if any. `reserved`: maximum that the allocator
    reserved. `slab`: bytes of the slab found for its requests, if any.
    """
    # The file has a size only, so that nothing can be replayed.
    if trace is None:
        return Advice(reserved, slab)
    advice = Advice(reserved, slab, notes=trace.notes, refused=trace.refused)
    if trace.unlike:
        return replace(advice, unknown=trace.unlike)
    # First as recorded: rules that do not give the recorded bytes cannot predict others.
    own = replay(trace.events, trace.settings, trace.start).peak
    if own.reserved != reserved:
        unlike = f"by the allocator's rules, {own.reserved:,} bytes would have been reserved"
        return replace(advice, unknown=unlike)
    settings = replace(trace.settings, expandable_segments=True)
    # Blocks from before the first event were requested too.
    grown = replay((*_present(trace), *trace.events), settings).peak
    return replace(advice, live=own.requested, expandable=grown.reserved)


def _present(trace: AllocatorTrace) -> list[Event]:
    """Return the requests of the blocks in use at the beginning."""
    events = []
    for segment in trace.start:
        at = segment.address
        for block in segment.blocks:
            if block.requested is not None:
                events.append(Event(Action.ALLOCATE, at, block.requested, segment.stream))
            at += block.size
    return events
