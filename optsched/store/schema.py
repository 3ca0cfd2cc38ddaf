"""The tables of a store, their version, and the way from older versions to this one."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import Record
from optsched.formats.source import parse_json
from optsched.runtime.limits import Objective, Proof
from optsched.store.question import LEAST_PEAK, Bound
from optsched.store.translate import pack

VERSION = 2
"""Of the tables; `PRAGMA user_version` of the file."""

TABLES = {
    "graphs": """CREATE TABLE graphs (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    document BLOB,
    name TEXT NOT NULL,
    memory_model TEXT NOT NULL,
    ops INTEGER NOT NULL,
    buffers INTEGER NOT NULL,
    bytes INTEGER NOT NULL
)""",
    "graphs_by_key": "CREATE INDEX graphs_by_key ON graphs (key)",
    "records": """CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    graph INTEGER NOT NULL REFERENCES graphs (id),
    question TEXT NOT NULL,
    plan BLOB,
    peak INTEGER,
    slab INTEGER,
    provenance TEXT NOT NULL,
    change INTEGER NOT NULL,
    UNIQUE (graph, question)
)""",
    "bounds": """CREATE TABLE bounds (
    id INTEGER PRIMARY KEY,
    record INTEGER NOT NULL REFERENCES records (id),
    quantity TEXT NOT NULL,
    value INTEGER NOT NULL,
    proof TEXT NOT NULL,
    certificate BLOB,
    provenance TEXT NOT NULL,
    withdrawn TEXT NOT NULL,
    seal TEXT NOT NULL
)""",
    "bounds_of_record": "CREATE INDEX bounds_of_record ON bounds (record)",
    "searches": """CREATE TABLE searches (
    record INTEGER PRIMARY KEY REFERENCES records (id),
    state BLOB NOT NULL,
    provenance TEXT NOT NULL
)""",
    "history": """CREATE TABLE history (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    record INTEGER NOT NULL,
    what TEXT NOT NULL,
    detail TEXT NOT NULL,
    at REAL NOT NULL
)""",
    "history_of_record": "CREATE INDEX history_of_record ON history (record)",
    "revocations": """CREATE TABLE revocations (
    id INTEGER PRIMARY KEY,
    rule TEXT NOT NULL UNIQUE
)""",
}
"""What makes each table and index, by name; a file with others is no store.

A graph of version 1 has no document: nothing was kept of it but its key. A bound's seal tells
whether its row is as it was written; all else is looked at by the checker, or compressed and so
has a checksum.
"""


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file, or bring those of an older version up to date.

    The caller has begun a transaction: the file is of the old version or of the new one.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == VERSION:
        return
    for statement in TABLES.values():
        connection.execute(statement)
    if version == 1:
        _migrate_first(connection)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def require_store(connection: sqlite3.Connection) -> int:
    """Return the version of a file's tables, after a look at whether they are a store's.

    Raises
    ------
    FormatError
        If the version is newer than this one, or there are other tables, views or triggers.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise FormatError(
            f"version {version} is newer than {VERSION}, the last one that is known here"
        )
    query = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' LIMIT 100"
    wanted = {1: {"plans": _FIRST}, VERSION: TABLES}.get(version)
    if dict(connection.execute(query).fetchall()) != wanted:
        raise FormatError("this is no plan store: its tables are others")
    return version


_FIRST = (
    "CREATE TABLE plans (\n"
    "    change INTEGER PRIMARY KEY AUTOINCREMENT,\n"
    "    key TEXT NOT NULL UNIQUE,\n"
    "    orders TEXT NOT NULL,\n"
    "    peak INTEGER NOT NULL,\n"
    "    slab INTEGER NOT NULL,\n"
    "    bound INTEGER NOT NULL,\n"
    "    proof TEXT NOT NULL\n"
    ")"
)
"""The one table of version 1."""


def _migrate_first(connection: sqlite3.Connection) -> None:
    """Take over the rows of version 1, but for those that hold no plan.

    Of a graph nothing was kept but its key, so that another one could be meant: the plans are
    checked when they are asked for, and the bounds are claims until they are proved again.
    """
    query = "SELECT key, orders, peak, slab, bound, proof FROM plans ORDER BY change"
    for row in connection.execute(query).fetchall():
        with suppress(FormatError):
            _take_over(connection, *row)
    connection.execute("DROP TABLE plans")


def _take_over(
    connection: sqlite3.Connection,
    key: Any,
    text: Any,
    peak: Any,
    slab: Any,
    bound: Any,
    proof: Any,
) -> None:
    said = {"key": key, "text": text, "peak": peak, "slab": slab, "bound": bound, "proof": proof}
    row, origin = Record(said, "row"), {"store": "version 1"}
    plan = Record(parse_json(row.text("text")), "plan")
    sizes = row.text("key"), len(plan.items("order")), len(plan.items("offsets"))
    values = row.count("peak"), row.count("slab")
    then = {**origin, "proof": row.text("proof")}
    claim = Bound(Objective.PEAK, row.count("bound"), Proof.CLAIMED, False, then)
    graph = connection.execute(
        "INSERT INTO graphs (key, name, memory_model, ops, buffers, bytes)"
        " VALUES (?, '', '', ?, ?, 0)",
        sizes,
    ).lastrowid
    record = connection.execute(
        "INSERT INTO records (graph, question, plan, peak, slab, provenance, change)"
        " VALUES (?, ?, ?, ?, ?, ?, 0)",
        (graph, LEAST_PEAK.text, pack(dict(plan.value)), *values, json.dumps(origin)),
    ).lastrowid
    assert record is not None
    if claim.value:
        add_bound(connection, record, claim)
    number = add_history(connection, record, "migrated", {"peak": values[0], "slab": values[1]})
    connection.execute("UPDATE records SET change = ? WHERE id = ?", (number, record))


def add_bound(
    connection: sqlite3.Connection, record: int, bound: Bound, certificate: bytes | None = None
) -> None:
    """Add the row of a bound, sealed."""
    origin = json.dumps(dict(bound.provenance))
    start = (record, bound.quantity.value, int(bound.value), str(bound.proof))
    row = (*start, certificate, origin, bound.withdrawn)
    connection.execute(
        "INSERT INTO bounds"
        " (record, quantity, value, proof, certificate, provenance, withdrawn, seal)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, seal(row)),
    )


def seal(row: tuple[Any, ...]) -> str:
    """Return a number of the content of a bound's row; another one if a bit of it is another."""
    digest = hashlib.sha256()
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
