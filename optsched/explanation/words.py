"""Text of an explanation, written from its JSON record."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from optsched.ordering.bound.order_bound import OrderBound
from optsched.ordering.bound.table import ORDER_BOUNDS
from optsched.runtime.bytes import format_bytes, spelled_bytes
from optsched.runtime.text import counted, listed, readable

SHOWN = 12
"""Maximum number of buffers, precedences and ops of a set in the text; the JSON has all of them."""

NOT_ALWAYS = (
    "* if an order frees it earlier, other buffers of at least as many bytes are live here instead"
)
"""The meaning of the star at a buffer, where a bound holds for every order."""
NAMES = 3
"""Maximum number of ops named in a list."""


class Reason(StrEnum):
    """Kind of the simplest known reason why no order has a peak below the bound.

    A bound of several ops is a reason of its own (:mod:`optsched.ordering.bound.table`).
    """

    ENDS = "ends"
    """Buffers live before the first op or after the last."""
    OP = "op"
    """Bytes that one op forces."""
    PRECEDENCES = "precedences"
    """Bytes that an op or set forces given the precedences that a smaller budget implies."""
    SEARCH = "search"
    """Proof by the engine: a search of all orders below, or another method without a simple
    reason."""


def explain_text(record: dict[str, Any]) -> str:
    """Return the text of the JSON record of an explanation."""
    # Names come from files; they must not move the cursor of a terminal.
    record = _shown(record)
    kind = f" with {record['variant']}" if record["variant"] else ""
    lines = [
        f"{record['graph']}: no order{kind} has a peak below {spelled_bytes(record['bound'])}",
        f"  (memory model: {record['memory_model']})",
        *_because(record),
    ]
    shown, rest = record["buffers"][:SHOWN], record["buffers"][SHOWN:]
    # Sizes are aligned to the right, so that the eye finds the large ones.
    width = max((len(format_bytes(row["size"])) for row in shown), default=0)
    lines += [f"  {format_bytes(row['size']):>{width}}  {_buffer(row)}" for row in shown]
    if rest:
        total = format_bytes(sum(row["size"] for row in rest))
        lines.append(f"  {total:>{width}}  in {len(rest):,} smaller buffers")
    # Explained once below the list.
    if any(not row["in_every_order"] for row in record["buffers"]):
        lines.append(
            f"  {NOT_ALWAYS}"
            if record["reason"] != Reason.SEARCH
            else "  * other orders may have other buffers live here"
        )
    for row in record["written_in_place"]:
        saved = spelled_bytes(row["saves"])
        lines.append(f"  in place: {row['output']} overwrites {row['input']}, saving {saved}")
    lines += _changes(record)
    if record["interrupted"]:
        lines.append("interrupted: a longer run might prove more")
    if record["peak"] > record["bound"]:
        lines.append(
            f"the best order found has a peak of {spelled_bytes(record['peak'])}; "
            "it is not known whether a better order exists"
        )
    else:
        lines.append(f"an order with this peak was found, so the peak is minimal{kind}")
    return "\n".join(lines)


def _shown(value: Any) -> Any:
    """Return a copy of a record with all names made safe to print."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items()}
    return [_shown(inner) for inner in value] if isinstance(value, list) else value


def _because(record: dict[str, Any]) -> list[str]:
    """Return the lines between the bound and the list of buffers."""
    where = _where(record["at"], record["op"])
    if record["reason"] == Reason.SEARCH:
        return _by_search(record, where)
    lines, bound = [], _bound(record)
    if bound or record["reason"] == Reason.PRECEDENCES:
        lines.append(f"  no single op forces this bound: {_most_of_one(record)}")
    for number, row in enumerate(record.get("precedences", ())):
        if number == SHOWN:
            lines.append(f"    and {len(record['precedences']) - SHOWN:,} more such precedences")
            break
        if not number:
            lines.append("  but every order below it would have to run")
        lines.append(
            f"    op {row['first']} before op {row['second']}, "
            f"otherwise op {row['else']['op']} needs {spelled_bytes(row['else']['bytes'])}"
        )
    # A set of ops says more than the list of precedences alone.
    if bound:
        return [*lines, *bound.lines(record[bound.name])]
    if lines:
        lines.append(f"  with these, {spelled_bytes(record['forced'])} are live {where}:")
        return lines
    return [f"  because of what is live {where}:"]


def _bound(record: dict[str, Any]) -> type[OrderBound] | None:
    """Return the bound of several ops that is the reason, if one is."""
    return next((row for row in ORDER_BOUNDS if row.name in record), None)


def _by_search(record: dict[str, Any], where: str) -> list[str]:
    search = record["search"]
    cases = f" and {counted(search['branches'], 'case')}" if search["branches"] else ""
    peak = record["peak"]
    # The best order may not be optimal.
    which = "an order of minimum peak" if peak == record["bound"] else "the best order found"
    # Any other step is a search, told by its number of states.
    how = _PROOFS.get(search["by"], f"by examining {counted(search['states'], 'state')}{cases}")
    return [
        f"  no single op forces this bound: {_most_of_one(record)}",
        f"  no set of ops and no few precedences that force it are known; it was proved {how}",
        f"  {which} reaches its peak of {spelled_bytes(peak)} at step {search['step']:,}, {where}; "
        "live then:",
    ]


_BY_PRECEDENCES = "by precedences that any better order would have to keep"

_PROOFS = {
    "precedences near the peak": _BY_PRECEDENCES,
    "implied precedences": _BY_PRECEDENCES,
    **{
        row.source: f"by a {row.name} of ops, after merging ops that can run consecutively "
        "without loss"
        for row in ORDER_BOUNDS
    },
}
"""Text for bounds proved by methods other than search, by the step that raised the bound last."""


def _most_of_one(record: dict[str, Any]) -> str:
    most, op = record["op_bound"]["bytes"], record["op_bound"]["op"]
    who = f"op {op}" if op is not None else "buffers live at the start or the end"
    less = spelled_bytes(record["bound"] - most)
    return f"the most that one forces is {spelled_bytes(most)} ({who}), {less} less"


def _changes(record: dict[str, Any]) -> list[str]:
    # 0 bytes: even without this buffer the bound stays.
    helping = [row for row in record["changes"] if row["smaller_by"]]
    idle = len(record["changes"]) - len(helping)
    lines = []
    if helping:
        by = _bound(record)
        what = f"bound of all ops and {by.name}s" if by else "bound"
        lines.append(f"the {what} would fall if one of these buffers alone were smaller:")
        for row in helping:
            as_one = " (of a set)" if row["by_set"] else ""
            # After the change another op may be the bottleneck.
            then = _where("op" if row["op"] else "", row["op"])
            less, bound = spelled_bytes(row["smaller_by"]), spelled_bytes(row["bound"])
            lines.append(f"  {row['buffer']} smaller by {less}: {bound}, then {then}{as_one}")
        if idle:
            lines.append(f"  {idle} more of the largest buffers: no effect at any size")
    elif idle:
        lines.append("no single smaller buffer lowers the bound: it is also reached elsewhere")
    if record["changes_untried"]:
        why = "interrupted" if record["interrupted"] else "time limit reached"
        lines.append(f"  not tried: {record['changes_untried']} of the largest buffers ({why})")
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
