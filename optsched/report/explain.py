"""Why the peak is this high, in words and as JSON."""

from __future__ import annotations

from typing import Any

from optsched.explain import Explanation
from optsched.graph import Graph
from optsched.report.bytes import format_bytes

SHOWN = 12
"""Buffers listed in the text; the JSON has all."""

NAMES = 3
"""Ops named in a row."""


def explain_record(graph: Graph, found: Explanation) -> dict[str, Any]:
    """Return what `optsched explain --json` prints."""

    def op_name(v: int | None) -> str | None:
        return None if v is None else graph.ops[v].name

    return {
        "instance": graph.name,
        "memory_model": graph.memory_model,
        "bound": found.bound,
        "at": found.at,
        "op": op_name(found.op),
        "written_in_place": [
            {
                "output": graph.buffers[output].name,
                "input": graph.buffers[source].name,
                "saves": graph.buffers[output].size,
            }
            for output, source in found.shared
        ],
        "peak_of_quick_orders": found.peak,
        "buffers": [
            {
                "name": graph.buffers[row.buffer].name,
                "size": row.size,
                "producer": op_name(row.producer),
                "held_by": [graph.ops[v].name for v in row.holders],
                "output": row.output,
                "in_every_order": row.forced,
            }
            for row in found.buffers
        ],
        "changes": [
            {
                "buffer": graph.buffers[change.buffer].name,
                "smaller_by": change.smaller_by,
                "bound": change.bound,
                "op": op_name(change.op),
            }
            for change in found.changes
        ],
    }


def explain_text(record: dict[str, Any]) -> str:
    """Return the same in lines of words."""
    lines = [
        f"{record['instance']}: no order has a peak below {_both(record['bound'])}",
        f"  (memory model: {record['memory_model']})",
        f"  because of what is live {_where(record['at'], record['op'])}:",
    ]
    shown = record["buffers"][:SHOWN]
    width = max((len(format_bytes(row["size"])) for row in shown), default=0)
    lines += [f"  {format_bytes(row['size']):>{width}}  {_buffer(row)}" for row in shown]
    rest = record["buffers"][SHOWN:]
    if rest:
        total = format_bytes(sum(row["size"] for row in rest))
        lines.append(f"  {total:>{width}}  in {len(rest):,} smaller buffers")
    if any(not row["in_every_order"] for row in record["buffers"]):
        lines.append(
            "  * not then live in every order, but in its stead others of as many bytes are"
        )
    for row in record["written_in_place"]:
        saved = _both(row["saves"])
        lines.append(f"  in place: {row['output']} is written into {row['input']}, saving {saved}")
    lines += _changes(record)
    peak = record["peak_of_quick_orders"]
    if peak > record["bound"]:
        lines.append(
            f"the best of some quick orders has a peak of {_both(peak)}: "
            "`optsched solve` tells whether that is the order's fault"
        )
    return "\n".join(lines)


def _changes(record: dict[str, Any]) -> list[str]:
    helping = [row for row in record["changes"] if row["smaller_by"]]
    if not helping:
        if not record["changes"]:
            return []
        return ["no single one of the larger buffers lowers the bound: it is reached elsewhere too"]
    lines = ["what would lower the bound, one buffer at a time:"]
    for row in helping:
        lines.append(
            f"  {row['buffer']} smaller by {_both(row['smaller_by'])}: "
            f"{_both(row['bound'])}, then {_where('op' if row['op'] else '', row['op'])}"
        )
    idle = len(record["changes"]) - len(helping)
    if idle:
        lines.append(f"  {idle} more of the largest buffers, whatever their size: nothing")
    return lines


def _buffer(row: dict[str, Any]) -> str:
    made = f"made by {row['producer']}" if row["producer"] else "graph input"
    held = row["held_by"]
    wait = ", ".join(held[:NAMES]) + (f" and {len(held) - NAMES} more" if len(held) > NAMES else "")
    why = [f"held by {wait}"] if held else []
    if row["output"]:
        why.append("live to the end")
    star = "" if row["in_every_order"] else " *"
    return f"{row['name']}{star}: {', '.join([made, *why])}"


def _where(at: str, op: str | None) -> str:
    if op is not None:
        return f"while op {op} runs"
    return {"start": "before the first op", "end": "after the last op"}.get(
        at, "before the first op or after the last"
    )


def _both(count: int) -> str:
    return f"{count:,} bytes ({format_bytes(count)})"
