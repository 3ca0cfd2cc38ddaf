"""What a recorded allocator reserved, beside the slab that would have been enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsched.runtime.text import readable


def reserve_record(
    reserved: Mapping[str, int], slabs: Mapping[str, int | None]
) -> dict[str, dict[str, Any]]:
    """Return by device the bytes reserved and what of them no packing of its blocks needs.

    Parameters
    ----------
    reserved
        Most bytes that the allocator held of each device.
    slabs
        Bytes of the slab found for each device; None where none was found.
    """
    found = {}
    for device, count in reserved.items():
        slab = slabs.get(device)
        wasted = None if slab is None else count - slab
        found[device] = {"reserved": count, "slab": slab, "wasted": wasted}
    return found


def reserve_lines(record: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line per device."""
    lines = []
    for device, row in record.items():
        line = f"  recorded  {readable(device)}: the allocator reserved {row['reserved']:,} bytes"
        if row["wasted"] is not None:
            share = row["wasted"] / max(1, row["reserved"])
            line += f", {row['wasted']:,} ({share:.1%}) more than this slab"
        lines.append(line)
    return lines
