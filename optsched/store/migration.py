"""From versions 2 and 3 of a store to version 4: other keys, other canonical numbers.

Version 2 told fewer ops and buffers apart, so that some graphs were not found again in another
order; version 3 took three times as long to number them. The tables have stayed the same: each
graph is rebuilt from its document and gets its new key and numbers, and its plans, searches and
certificates are translated to the new numbers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from optsched.errors import FormatError, GraphError
from optsched.model.graph import Graph
from optsched.store.canonical import CanonicalGraph, canonical_form
from optsched.store.document import canonical_document, read_canonical
from optsched.store.rows import seal
from optsched.store.translate import (
    globalise_certificate,
    globalise_plan,
    globalise_search,
    localise_certificate,
    localise_plan,
    localise_search,
    pack,
    unpack_bytes,
    unpack_json,
)

_OF_GRAPH = "SELECT id FROM records WHERE graph = ?"


def migrate(connection: sqlite3.Connection) -> None:
    """Convert the rows of an older version; damaged rows stay as they are.

    Graphs stored by version 1 with only a key cannot be found again, and are deleted.
    """
    lost = "SELECT id FROM graphs WHERE document IS NULL"
    records = f"SELECT id FROM records WHERE graph IN ({lost})"
    for table in ("bounds", "searches", "history"):
        connection.execute(f"DELETE FROM {table} WHERE record IN ({records})")
    connection.execute(f"DELETE FROM records WHERE graph IN ({lost})")
    connection.execute("DELETE FROM graphs WHERE document IS NULL")
    for number, packed in connection.execute("SELECT id, document FROM graphs").fetchall():
        # A damaged row stays, so that `verify` can report it.
        with suppress(FormatError, GraphError):
            _renumber(connection, number, read_canonical(unpack_bytes(packed)))


def identity_form(graph: Graph) -> CanonicalGraph:
    """Return the form of a graph that was made of a document: its ids are its numbers."""
    return CanonicalGraph("", tuple(range(len(graph.ops))), tuple(range(len(graph.buffers))))


def _renumber(connection: sqlite3.Connection, number: int, graph: Graph) -> None:
    # The document has the old numbers as ids, so that `before` is the identity.
    before, now = identity_form(graph), canonical_form(graph)
    connection.execute(
        "UPDATE graphs SET key = ?, document = ? WHERE id = ?",
        (now.key, pack(canonical_document(graph, now)), number),
    )

    def plan(packed: object) -> bytes:
        return pack(globalise_plan(now, graph, localise_plan(before, unpack_json(packed))))

    def search(packed: object) -> bytes:
        return globalise_search(now, localise_search(before, unpack_json(packed)))

    def certificate(packed: object) -> bytes:
        known = localise_certificate(before, graph, unpack_json(packed))
        return pack(globalise_certificate(now, graph, known))

    change = partial(_change, connection, number)
    change("records", "plan", "graph = ? AND plan IS NOT NULL", plan)
    change("searches", "state", f"record IN ({_OF_GRAPH})", search)
    # The seals of bounds are of their whole rows.
    query = (
        "SELECT id, seal, record, quantity, value, proof, certificate, provenance, withdrawn"
        f" FROM bounds WHERE certificate IS NOT NULL AND record IN ({_OF_GRAPH})"
    )
    for row, sealed, *columns in connection.execute(query, (number,)).fetchall():
        # A broken seal must not be renewed: that would turn a damaged row into a sound one.
        if sealed == seal(tuple(columns)):
            with suppress(FormatError):
                columns[4] = certificate(columns[4])
                connection.execute(
                    "UPDATE bounds SET certificate = ?, seal = ? WHERE id = ?",
                    (columns[4], seal(tuple(columns)), row),
                )


def _change(
    connection: sqlite3.Connection,
    graph: int,
    table: str,
    column: str,
    condition: str,
    translate: Callable[[Any], bytes],
) -> None:
    """Translate a column of the rows of a graph that have one."""
    rows = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE {condition}", (graph,))
    for row, packed in rows.fetchall():
        with suppress(FormatError):
            connection.execute(
                f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (translate(packed), row)
            )
