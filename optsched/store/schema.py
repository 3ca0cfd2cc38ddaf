"""The tables of a store and their version."""

from __future__ import annotations

import sqlite3

from optsched.errors import FormatError

VERSION = 5
"""Version of tables, keys and documents; `PRAGMA user_version` of the file."""

OLDER = (
    "has graphs in an order that is not that of their files: tune into a new store; to take a "
    "plan along, write it with the optsched that made the store ('optsched store show STORE GRAPH "
    "--plan FILE'), and give it to PlanStore.put"
)
"""Way out of stores and exports of older versions."""

TABLES = {
    "graphs": """CREATE TABLE graphs (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    document BLOB,
    name TEXT NOT NULL,
    memory_model TEXT NOT NULL,
    ops INTEGER NOT NULL,
    buffers INTEGER NOT NULL,
    bytes INTEGER NOT NULL
)""",
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
"""Statements that create each table and index, by name; a store has exactly these.

A bound's seal tells whether its row is as it was written; all else is looked at by the checker, or
compressed and so has a checksum.
"""


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file; those of a store stay as they are.

    The caller has begun a transaction: the file has all tables or none.
    """
    if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    for statement in TABLES.values():
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def require_store(connection: sqlite3.Connection) -> None:
    """Raise an error if the tables of a file are not those of a store.

    Raise `FormatError` if the version is unknown, or there are other tables, views or triggers.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    # A newer version may have other rules for bounds; guessing would make them count.
    if version > VERSION:
        raise FormatError(
            f"version {version} is newer than {VERSION}, the latest that this release reads"
        )
    if version == 1:
        raise FormatError("version 1 kept no graphs: tune into a new store")
    if 1 < version < VERSION:
        raise FormatError(f"version {version} {OLDER}")
    query = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' LIMIT 100"
    tables = dict(connection.execute(query).fetchall())
    # Compared word by word: a file with other columns, or with triggers, was not made here.
    if not version or tables != TABLES:
        why = "it has other tables" if tables else "it is empty"
        raise FormatError(f"not a plan store: {why}")
