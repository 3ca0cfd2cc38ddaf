"""Reports of plan stores: JSON objects, a table and texts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from optsched.formats.labels import distinct_labels
from optsched.reports.tables import Column, Table
from optsched.runtime.limits import Proof, optimality_gap, proof_legend
from optsched.runtime.text import counted, percent, readable

if TYPE_CHECKING:
    from optsched.store import Bound, RecordChange, StoredRecord

_COLUMNS = (
    Column("record"),
    Column("graph", "s"),
    Column("ops", rank=3),
    Column("asked", "s", rank=1),
    Column("best"),
    Column("bound"),
    Column("proof", "s"),
    Column("gap %", rank=2),
    Column("key", "s", rank=4),
)


def record_dict(record: StoredRecord) -> dict[str, Any]:
    """Return a record in the form of `optsched store --json`."""
    plain = ("name", "key", "memory_model", "ops", "buffers", "bytes", "peak", "slab")
    return {
        "record": record.number,
        **{name: getattr(record, name) for name in plain},
        "objective": record.objective.value,
        "capacity": record.capacity,
        "among": record.among,
        "bound": record.best_bound.value,
        "proof": record.best_bound.proof,
        "certified": record.best_bound.certified,
        "proved": record.is_proved,
        "gap": None if record.value is None else gap(record),
        "provenance": dict(record.provenance),
        "bounds": [bound_dict(bound) for bound in record.bounds],
        "search_bytes": record.search_bytes,
    }


def bound_dict(bound: Bound) -> dict[str, Any]:
    """Return a bound as a JSON object."""
    return {
        "quantity": bound.quantity.value,
        "value": bound.value,
        "proof": bound.proof,
        "certified": bound.certified,
        "provenance": dict(bound.provenance),
        "withdrawn": bound.withdrawn,
    }


def change_dict(change: RecordChange) -> dict[str, Any]:
    """Return an entry of a record's history as a JSON object."""
    # A damaged file may have any number, and dates beyond 2**35 seconds cannot be shown.
    moment = datetime.fromtimestamp(min(max(change.at, 0.0), 2.0**35), UTC)
    when = moment.isoformat(timespec="seconds")
    return {"change": change.number, "what": change.what, "at": when, **change.detail}


def gap(record: StoredRecord) -> float:
    """Return the optimality gap of a record with a plan."""
    assert record.value is not None
    return optimality_gap(record.value, record.best_bound.value)


def records_table(records: Sequence[StoredRecord]) -> Table:
    """Return the table of records, one per line."""
    # Records of one graph, about several questions, have one label.
    first = {record.key: record for record in reversed(records)}
    paths = [record.provenance.get("path", "") for record in first.values()]
    # Provenance of imported stores may be anything.
    known = [path if isinstance(path, str) else "" for path in paths]
    found = distinct_labels([record.name for record in first.values()], known)
    labels = dict(zip(first, found, strict=True))
    return Table(_COLUMNS, [_row(record, labels[record.key]) for record in records])


def records_legend(records: Sequence[StoredRecord]) -> str:
    """Return the names of the codes in the table of records; empty if it has none."""
    proved = [record.best_bound for record in records if record.is_proved]
    legend = proof_legend(Proof(bound.proof) for bound in proved if bound.proof)
    return f"{legend}; + with a certificate" if any(bound.certified for bound in proved) else legend


def _row(record: StoredRecord, label: str) -> list[str]:
    best, planned = record.best_bound, record.value is not None
    return [
        f"{record.number}",
        readable(label),
        f"{record.ops:,}",
        _asked(record),
        f"{record.value:,}" if planned else "-",
        f"{best.value:,}",
        # A plus stands for a certificate.
        best.proof + "+" * best.certified if record.is_proved else "",
        percent(gap(record), 2, "") if planned else "-",
        record.key[:12],
    ]


def _asked(record: StoredRecord) -> str:
    """Return the question, with the plans that its answers are about."""
    among = f" among {record.among}" if record.among else ""
    room = "" if record.capacity is None else f", capacity {record.capacity:,}"
    return f"{record.objective}{room}{among}"


def record_lines(record: StoredRecord, changes: Sequence[RecordChange]) -> str:
    """Return all facts about a record as text."""
    value = "no plan" if record.value is None else f"peak {record.peak:,}, slab {record.slab:,}"
    lines = [
        f"record {record.number}: {readable(record.name)}, {counted(record.ops, 'op')}, "
        f"{counted(record.buffers, 'buffer')} of {counted(record.bytes, 'byte')} "
        f"({readable(record.memory_model)})",
        f"asked    {_asked(record)}",
        f"plan     {value}; {'proved' if record.is_proved else 'not proved'}",
        *(f"bound    {_bound_words(bound)}" for bound in record.bounds),
    ]
    if record.search_bytes:
        lines.append(f"search   {record.search_bytes:,} bytes of state to resume")
    lines += [f"key      {record.key}", f"made by  {_origin_words(record.provenance)}"]
    lines += [f"history  {_change_words(change)}" for change in changes]
    return "\n".join(lines)


def _bound_words(bound: Bound) -> str:
    words = f"{bound.quantity} at least {bound.value:,}"
    words += f", {Proof(bound.proof).with_code}" if bound.proof else ""
    words += ", with a certificate" if bound.certified else ""
    return words + (f" (withdrawn: {readable(bound.withdrawn, 200)})" if bound.withdrawn else "")


def _origin_words(origin: object) -> str:
    known = origin if isinstance(origin, dict) else {}
    versions = known.get("versions")
    found = [f"{k} {v}" for k, v in versions.items()] if isinstance(versions, dict) else []
    # The framework's own plan stands in the saving, before the records.
    shown = ("versions", "own_plan", "among")
    found += [f"{k} {v}" for k, v in known.items() if k not in shown]
    return readable(", ".join(found) or "unknown", 500)


def _change_words(change: RecordChange) -> str:
    record = change_dict(change)
    detail = ", ".join(f"{k} {v}" for k, v in record.items() if k not in ("change", "what", "at"))
    return readable(f"{record['at']} {change.what}: {detail}", 300)
