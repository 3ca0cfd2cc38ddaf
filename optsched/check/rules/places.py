"""Rule: each buffer with bytes has one valid offset; buffers outside the slab have none."""

from __future__ import annotations

from optsched.check.facts import PlanFacts
from optsched.errors import PlanError
from optsched.model.elements import Buffer


def check(facts: PlanFacts) -> None:
    """Check the offset of each root alone: presence, sign, alignment, pin."""
    spans = facts.spans
    rows = zip(facts.graph.buffers, facts.graph.roots, facts.offsets, strict=True)
    for b, (buffer, root, offset) in enumerate(rows):
        # A view has the bytes of its root.
        if root == b:
            _check_offset(buffer, offset, is_live=b in spans)


def _check_offset(buffer: Buffer, offset: int | None, *, is_live: bool) -> None:
    if offset is None:
        if is_live and buffer.size:
            raise PlanError(f"buffer {buffer.name!r} of {buffer.size} bytes has no offset")
    elif buffer.external:
        raise PlanError(f"buffer {buffer.name!r} lies outside the slab but has offset {offset}")
    else:
        check_place(buffer.name, offset, buffer.alignment, buffer.pin)


def check_place(name: str, offset: int, alignment: int, pin: int | None) -> None:
    """Check the offset of a buffer against its alignment and its pin, if any."""
    if offset < 0:
        raise PlanError(f"buffer {name!r} has the negative offset {offset}")
    if offset % alignment:
        raise PlanError(f"buffer {name!r} at {offset} is not aligned to {alignment}")
    if pin is not None and offset != pin:
        raise PlanError(f"buffer {name!r} at {offset} is pinned to {pin}")
