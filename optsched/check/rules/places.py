"""Rule: each buffer with bytes has one valid offset; buffers outside the slab have none."""

from __future__ import annotations

from optsched.check.facts import PlanFacts
from optsched.errors import PlanError


def check(facts: PlanFacts) -> None:
    """Check the offset of each root alone: presence, sign, alignment, pin."""
    buffers, outside, spans = facts.graph.buffers, facts.graph.outside, facts.spans
    for b, (root, offset) in enumerate(zip(facts.graph.roots, facts.offsets, strict=True)):
        # A view has the bytes of its root.
        if root != b:
            continue
        buffer = buffers[b]
        if offset is None:
            if b in spans and buffer.size:
                raise PlanError(f"buffer {buffer.name!r} of {buffer.size} bytes has no offset")
        elif b in outside:
            raise PlanError(f"buffer {buffer.name!r} lies outside the slab but has offset {offset}")
        # As in `check_place`, which names what is wrong; a call per buffer takes longer.
        elif offset < 0 or offset % buffer.alignment or buffer.pin not in (None, offset):
            check_place(buffer.name, offset, buffer.alignment, buffer.pin)


def check_place(name: str, offset: int, alignment: int, pin: int | None) -> None:
    """Check the offset of a buffer against its alignment and its pin, if any."""
    if offset < 0:
        raise PlanError(f"buffer {name!r} has the negative offset {offset}")
    if offset % alignment:
        raise PlanError(f"buffer {name!r} at {offset} is not aligned to {alignment}")
    if pin is not None and offset != pin:
        raise PlanError(f"buffer {name!r} at {offset} is pinned to {pin}")
