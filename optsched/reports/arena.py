"""The array that a runtime needs for a plan: the slab, and what it keeps after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optsched.model.origin import ArenaTail
from optsched.runtime.text import listed

SHOWN = 3


def arena_fields(tails: Sequence[ArenaTail], slab: int | None) -> dict[str, Any]:
    """Return the field `arena` of a record: a row per size of a pointer; none without a plan."""
    if slab is None or not tails:
        return {}
    return {
        "arena": [
            {
                "pointer": tail.pointer,
                "head": slab,
                "tail": tail.tail,
                "bytes": tail.needed(slab),
                "not_counted": list(tail.unknown),
            }
            for tail in tails
        ]
    }


def arena_lines(record: Mapping[str, Any]) -> list[str]:
    """Return a line that gives the size of the array, with what is not counted in it."""
    rows = record.get("arena", ())
    if not rows:
        return []
    sizes = [
        f"{row['bytes']:,} with pointers of {row['pointer']} bytes (tail {row['tail']:,})"
        for row in rows
    ]
    lines = [f"  kTensorArenaSize  {', '.join(sizes)}"]
    if kinds := rows[0]["not_counted"]:
        named = listed([repr(kind) for kind in kinds], SHOWN)
        lines.append(f"  not counted in the tail: what kernels keep for {named}")
    return lines


def arena_code(record: Mapping[str, Any]) -> list[str]:
    """Return lines of C++ that declare the array, for the firmware; none without a runtime."""
    rows = sorted(record.get("arena", ()), key=lambda row: int(row["pointer"]))
    if not rows:
        return []
    *small, last = rows
    sizes = "".join(f"sizeof(void*) <= {row['pointer']} ? {row['bytes']} : " for row in small)
    return [
        f"constexpr int kTensorArenaSize = {sizes}{last['bytes']};",
        "alignas(16) uint8_t tensor_arena[kTensorArenaSize];",
    ]


def within_fields(capacity: int, tail: ArenaTail | None, slab: int | None) -> dict[str, Any]:
    """Return the fields of a capacity that includes the runtime's tail."""
    if tail is None:
        return {}
    needed = None if slab is None else tail.needed(slab)
    taken = {"tail": tail.tail, "pointer": tail.pointer, "needed": needed}
    return {"capacity": capacity, "within": {"room": max(0, capacity - tail.tail), **taken}}


def within_line(record: Mapping[str, Any], fits: bool) -> str:
    """Return the line that tells whether the whole array fits in the capacity."""
    taken, capacity = record["within"], record["capacity"]
    beside = f"a tail of {taken['tail']:,}, with pointers of {taken['pointer']} bytes"
    if not fits:
        return f"  {capacity:,} bytes leave {taken['room']:,} for the slab, after {beside}"
    if taken["needed"] > capacity:
        needed = f"{taken['needed']:,} while it prepares the model"
        return f"  unknown if it fits in {capacity:,} bytes: TFLite Micro may take {needed}"
    return f"  fits in {capacity:,} bytes: {taken['needed']:,} with {beside}"
