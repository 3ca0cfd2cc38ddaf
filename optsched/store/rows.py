"""Rows of a store: functions that find, make and read them within a connection.

A graph has one row, found by its key. A record is a graph with a question; bounds, searches and
history have rows that refer to their record. Values are checked when they are read, as the file may
be damaged or crafted.

Example: a graph that was solved for minimum slab and for minimum peak has one row in `graphs` and
two in `records`.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from optsched.errors import FormatError, UsageError
from optsched.formats.fields import Record
from optsched.formats.source import parse_json
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.runtime.collector import paused_collector
from optsched.runtime.limits import SIZES, Objective, Proof
from optsched.store.document import graph_key, kept_document
from optsched.store.question import Bound, RecordChange, StoredRecord, check_answer, read_question
from optsched.store.translate import pack, read_plan_document, unpack_json

MAX_TEXT = 2**16
"""Characters that a provenance may have."""

HOUR = 3600.0
"""Seconds."""

_RECORD = (
    "SELECT r.id, g.key, r.question, g.name, g.memory_model, g.ops, g.buffers, g.bytes,"
    " r.peak, r.slab, r.provenance, ifnull(length(s.state), 0)"
    " FROM records r JOIN graphs g ON g.id = r.graph LEFT JOIN searches s ON s.record = r.id"
)
DAMAGED = "its row is damaged"
"""Reason why a bound with a broken seal does not count."""
BOUND = (
    "SELECT record, quantity, value, proof, certificate, provenance, withdrawn, seal FROM bounds"
)
BOUND_WITH_ID = BOUND.replace("SELECT", "SELECT id,")


class GraphRow(NamedTuple):
    """The row of a graph, as it is stored."""

    key: str
    packed: bytes
    name: str
    memory_model: str
    ops: int
    buffers: int
    bytes: int


def _key_of(graph: Graph | GraphRow) -> str:
    return graph_key(graph) if isinstance(graph, Graph) else graph.key


@paused_collector()
def graph_row(graph: Graph) -> GraphRow:
    """Return the row of a graph."""
    bytes_ = sum(map(attrgetter("size"), graph.buffers))
    about = graph.name, graph.model_name, len(graph.ops), len(graph.buffers), bytes_
    return GraphRow(graph_key(graph), pack(kept_document(graph)), *about)


@paused_collector()
def read_plan(question: Question, packed: object, peak: int, slab: int) -> Plan:
    """Return a stored plan for the graph at hand, after the checker passed it."""
    plan = read_plan_document(question.planned, unpack_json(packed))
    check_answer(question, plan, peak=peak, slab=slab)
    return plan


def find_record(
    connection: sqlite3.Connection, graph: Graph | GraphRow, question: str
) -> int | None:
    """Return the row of a question about a graph."""
    query = (
        "SELECT r.id FROM records r JOIN graphs g ON g.id = r.graph"
        " WHERE g.key = ? AND r.question = ?"
    )
    row = connection.execute(query, (_key_of(graph), question)).fetchone()
    return None if row is None else int(row[0])


def add_record(connection: sqlite3.Connection, graph: Graph | GraphRow, question: str) -> int:
    """Return the row of a question about a graph; add those of both if they are new."""
    found = find_record(connection, graph, question)
    if found is not None:
        return found
    query = "INSERT INTO records (graph, question, provenance, change) VALUES (?, ?, '{}', 0)"
    row = _add_graph(connection, graph), question
    number = connection.execute(query, row).lastrowid
    assert number is not None
    return number


def _add_graph(connection: sqlite3.Connection, graph: Graph | GraphRow) -> int:
    """Return the row of a graph, which is added if it is new."""
    query = "SELECT id FROM graphs WHERE key = ?"
    known = connection.execute(query, (_key_of(graph),)).fetchone()
    if known is not None:
        return int(known[0])
    query = (
        "INSERT INTO graphs (key, document, name, memory_model, ops, buffers, bytes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    # Packed only now: most changes are of a graph that is known.
    row = graph_row(graph) if isinstance(graph, Graph) else graph
    number = connection.execute(query, row).lastrowid
    assert number is not None
    return number


def records_where(
    connection: sqlite3.Connection, condition: str = "1", *values: object
) -> list[StoredRecord]:
    """Return the records for which a condition holds, the first made first."""
    bounds: dict[int, list[Bound]] = {}
    query = f"{BOUND} WHERE record IN (SELECT r.id FROM records r WHERE {condition}) ORDER BY id"
    for row in connection.execute(query, values):
        bounds.setdefault(row[0], []).append(read_bound(row))
    rows = connection.execute(f"{_RECORD} WHERE {condition} ORDER BY r.id", values)
    return [_read_record(row, tuple(bounds.get(row[0], ()))) for row in rows]


# In the sequence of the columns of _RECORD.
def _read_record(row: tuple[Any, ...], bounds: tuple[Bound, ...]) -> StoredRecord:
    number, key, question, name, model, ops, buffers, bytes_, peak, slab, origin, search = row
    reached = [value for value in (peak, slab) if value is not None]
    _require(str, key, name, model)
    _require(int, ops, buffers, bytes_, search, *reached)
    asked = read_question(read_json(question))
    return StoredRecord(
        *(number, key, *asked, name, model, ops, buffers, bytes_, peak, slab),
        read_provenance(origin),
        bounds,
        search,
    )


def _require(kind: type, *values: object) -> None:
    """Raise an error if a value has another type; SQLite does not enforce the types of columns."""
    if not all(isinstance(value, kind) for value in values):
        raise FormatError("a row is damaged")


def read_json(text: object) -> Any:
    """Return the value of a JSON column."""
    _require(str, text)
    return parse_json(str(text))


def read_bound(row: tuple[Any, ...]) -> Bound:
    """Return a bound; it is withdrawn if its row was changed after it was written."""
    quantity, value, proof, certificate, origin, withdrawn = row[1:7]
    # The row's number is part of the seal, so that no row can be moved to another record.
    if seal(row[:7]) != row[7] or quantity not in SIZES:
        return Bound(Objective.PEAK, 0, Proof.CLAIMED, withdrawn=DAMAGED)
    made_by = read_provenance(origin)
    return Bound(Objective(quantity), value, proof, certificate is not None, made_by, withdrawn)


def add_bound(
    connection: sqlite3.Connection, record: int, bound: Bound, certificate: bytes | None = None
) -> None:
    """Add the row of a bound, sealed."""
    origin = provenance_text(bound.provenance)
    start = (record, bound.quantity.value, int(bound.value), str(bound.proof))
    row = (*start, certificate, origin, bound.withdrawn)
    connection.execute(
        "INSERT INTO bounds"
        " (record, quantity, value, proof, certificate, provenance, withdrawn, seal)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, seal(row)),
    )


def seal(row: tuple[Any, ...]) -> str:
    """Return a digest of the content of a bound's row, which shows any change of a bit."""
    digest = hashlib.sha256()
    # The length goes first: fields cannot be shifted against each other.
    for value in row:
        data = value if isinstance(value, bytes) else repr(value).encode()
        digest.update(len(data).to_bytes(8))
        digest.update(data)
    return digest.hexdigest()[:32]


def add_history(
    connection: sqlite3.Connection, record: int, what: str, detail: Mapping[str, Any]
) -> int:
    """Add an entry to a record's history; return its number."""
    row = (record, what, json.dumps(dict(detail)), time.time())
    query = "INSERT INTO history (record, what, detail, at) VALUES (?, ?, ?, ?)"
    number = connection.execute(query, row).lastrowid
    assert number is not None
    return number


def mark_met(connection: sqlite3.Connection, keys: Iterable[str], question: str) -> None:
    """Note that records are in use, at most once an hour each, so that their age is 0 again."""
    query = (
        "SELECT r.id FROM records r JOIN graphs g ON g.id = r.graph WHERE g.key = ? AND"
        " r.question = ? AND (SELECT max(at) FROM history WHERE record = r.id) < ?"
    )
    for key in keys:
        for (record,) in connection.execute(query, (key, question, time.time() - HOUR)):
            # One entry of this kind is enough.
            forget = "DELETE FROM history WHERE record = ? AND what = 'met'"
            connection.execute(forget, (record,))
            add_history(connection, record, "met", {})


def bounds_of(connection: sqlite3.Connection, record: int) -> tuple[Bound, ...]:
    """Return all bounds of a record."""
    query = f"{BOUND} WHERE record = ? ORDER BY id"
    return tuple(map(read_bound, connection.execute(query, (record,))))


def withdraw(
    connection: sqlite3.Connection, record: int, is_meant: Callable[[Bound], bool], why: str
) -> list[Bound]:
    """Withdraw some bounds of a record, and return them."""
    query = f"{BOUND_WITH_ID} WHERE record = ? AND withdrawn = ''"
    found = []
    for number, *columns in connection.execute(query, (record,)).fetchall():
        bound = read_bound(tuple(columns))
        if is_meant(bound):
            # The reason is a column under the seal, so the row gets a new seal.
            row = (*columns[:6], why)
            update = "UPDATE bounds SET withdrawn = ?, seal = ? WHERE id = ?"
            connection.execute(update, (why, seal(row), number))
            found.append(bound)
    return found


def history_of(connection: sqlite3.Connection, record: int) -> list[RecordChange]:
    """Return the changes of a record, the oldest first."""
    query = "SELECT id, what, detail, at FROM history WHERE record = ? ORDER BY id"
    found = []
    for number, what, detail, at in connection.execute(query, (record,)):
        _require(str, what)
        _require(float, at)
        found.append(RecordChange(number, what, read_provenance(detail), at))
    return found


def read_provenance(text: object) -> Mapping[str, Any]:
    """Return the provenance of a row, a small JSON object."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise FormatError("the stored provenance is invalid")
    return Record(parse_json(text), "provenance").value


def provenance_text(origin: Mapping[str, Any]) -> str:
    """Return the JSON text of a provenance.

    Raise `UsageError` if it is too long, or cannot be written as JSON.
    """
    try:
        text = json.dumps(origin, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a provenance is JSON: {error}") from None
    if len(text) > MAX_TEXT:
        raise UsageError(f"a provenance of {len(text):,} characters is above {MAX_TEXT:,}")
    return text
