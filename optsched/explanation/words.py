"""Why the peak is this high, in words."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from optsched.runtime.bytes import format_bytes
from optsched.runtime.text import counted, listed, readable

SHOWN = 12
"""Buffers listed in the text; the JSON has all. Of precedences and ops of a set as many."""

NAMES = 3
"""Ops named in a row."""


class Reason(StrEnum):
    """Why no order has a peak below the bound, the simplest that is known."""

    ENDS = "ends"
    """What is live before the first op or after the last."""
    OP = "op"
    """What one op forces."""
    SET = "set"
    """What the last (or first) op of a set forces."""
    PRECEDENCES = "precedences"
    """What an op or a set forces with the precedences that a smaller budget implies."""
    SEARCH = "search"
    """The engine proved it, by searching all orders below or else; nothing simpler is known."""


def explain_text(record: dict[str, Any]) -> str:
    """Return the same in lines of words."""
    record = _shown(record)
    lines = [
        f"{record['instance']}: no order has a peak below {_both(record['bound'])}",
        f"  (memory model: {record['memory_model']})",
        *_because(record),
    ]
    shown, rest = record["buffers"][:SHOWN], record["buffers"][SHOWN:]
    width = max((len(format_bytes(row["size"])) for row in shown), default=0)
    lines += [f"  {format_bytes(row['size']):>{width}}  {_buffer(row)}" for row in shown]
    if rest:
        total = format_bytes(sum(row["size"] for row in rest))
        lines.append(f"  {total:>{width}}  in {len(rest):,} smaller buffers")
    if any(not row["in_every_order"] for row in record["buffers"]):
        lines.append(
            "  * not live then in every order, but others of as many bytes are in its stead"
            if record["reason"] != Reason.SEARCH
            else "  * not live whenever this op runs: other orders have others live then"
        )
    for row in record["written_in_place"]:
        saved = _both(row["saves"])
        lines.append(f"  in place: {row['output']} is written into {row['input']}, saving {saved}")
    lines += _changes(record)
    if record["interrupted"]:
        lines.append("interrupted: more might be proved")
    if record["peak"] > record["bound"]:
        lines.append(
            f"the best order found has a peak of {_both(record['peak'])}: "
            "whether any has less is not known"
        )
    else:
        lines.append("an order of just this peak was found: no order has less")
    return "\n".join(lines)


def _shown(value: Any) -> Any:
    """Make all names in a record fit to be shown."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items()}
    return [_shown(inner) for inner in value] if isinstance(value, list) else value


def _because(record: dict[str, Any]) -> list[str]:
    """What leads to the buffers."""
    where = _where(record["at"], record["op"])
    if record["reason"] == Reason.SEARCH:
        return _by_search(record, where)
    lines = []
    if record["reason"] in (Reason.SET, Reason.PRECEDENCES):
        lines.append(f"  no single op forces that: {_most_of_one(record)}")
    for number, row in enumerate(record.get("precedences", ())):
        if number == SHOWN:
            lines.append(f"    and {len(record['precedences']) - SHOWN:,} more such precedences")
            break
        if not number:
            lines.append("  but an order below it would have to run")
        lines.append(
            f"    op {row['first']} before op {row['second']}, "
            f"else op {row['else']['op']} would need {_both(row['else']['bytes'])}"
        )
    if "set" in record:
        return [*lines, *_by_set(record)]
    if lines:
        lines.append(f"  and then {_both(record['forced'])} are live {where}:")
        return lines
    return [f"  because of what is live {where}:"]


def _by_set(record: dict[str, Any]) -> list[str]:
    """One of a set must be the last, and whichever it is forces as much."""
    group = record["set"]
    others = "have ended" if group["runs"] == "last" else "have not begun"
    best, *more = group["candidates"]
    lines = [
        f"  but one of {len(group['ops']):,} ops runs {group['runs']} of them, when all others "
        f"{others}: {listed(group['ops'], SHOWN)}"
    ]
    if not more:
        return [*lines, f"  that is op {best['op']}, and {_both(best['bytes'])} are live then:"]
    rest = [f"op {row['op']} {_both(row['bytes'])}" for row in more]
    return [
        *lines,
        f"  the fewest bytes are live if that is op {best['op']}, {_both(best['bytes'])} "
        f"({listed(rest, NAMES)}):",
    ]


def _by_search(record: dict[str, Any], where: str) -> list[str]:
    search = record["search"]
    cases = f" and {counted(search['branches'], 'case')}" if search["branches"] else ""
    peak = record["peak"]
    which = "an order of minimum peak" if peak == record["bound"] else "the best order found"
    how = _PROOFS.get(search["by"], f"by examining {counted(search['states'], 'state')}{cases}")
    return [
        f"  no single op forces that: {_most_of_one(record)}",
        f"  nor is it known of any set of ops, or few precedences; it was proved {how}",
        f"  {which} has its peak of {_both(peak)} at step {search['step']:,}, {where}; live then:",
    ]


_BY_PRECEDENCES = "by precedences that a lower order would have to keep"

_PROOFS = {
    "precedences near the peak": _BY_PRECEDENCES,
    "implied precedences": _BY_PRECEDENCES,
    "set bound": "by a set of ops, where ops that may as well run in a row were merged",
}
"""How the engine proved a bound other than by search, by what raised it last."""


def _most_of_one(record: dict[str, Any]) -> str:
    most, op = record["op_bound"]["bytes"], record["op_bound"]["op"]
    who = f"op {op}" if op is not None else "what is live at the start or the end"
    return f"the most that one does is {_both(most)} ({who}), {_both(record['bound'] - most)} less"


def _changes(record: dict[str, Any]) -> list[str]:
    helping = [row for row in record["changes"] if row["smaller_by"]]
    idle = len(record["changes"]) - len(helping)
    lines = []
    if helping:
        what = "bound of all ops and sets" if record["reason"] == Reason.SET else "bound"
        lines.append(f"what would lower the {what}, one buffer at a time:")
        for row in helping:
            as_one = " (of a set)" if row["by_set"] else ""
            lines.append(
                f"  {row['buffer']} smaller by {_both(row['smaller_by'])}: {_both(row['bound'])}, "
                f"then {_where('op' if row['op'] else '', row['op'])}{as_one}"
            )
        if idle:
            lines.append(f"  {idle} more of the largest buffers, whatever their size: nothing")
    elif idle:
        lines.append(
            "no single one of the larger buffers lowers the bound: it is reached elsewhere too"
        )
    if record["changes_untried"]:
        why = "interrupted" if record["interrupted"] else "time is up"
        lines.append(f"  {record['changes_untried']} of the largest buffers not tried: {why}")
    return lines


def _buffer(row: dict[str, Any]) -> str:
    made = f"made by {row['producer']}" if row["producer"] else "graph input"
    why = [f"held by {listed(row['held_by'], NAMES)}"] if row["held_by"] else []
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
