"""Upkeep of a store: check everything again, and delete unused records."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator

from optsched.errors import FormatError, GraphError, PlanError
from optsched.runtime.limits import SIZES, Objective, Proof
from optsched.runtime.text import readable
from optsched.store import rows
from optsched.store.database import PlanStore
from optsched.store.document import graph_key
from optsched.store.exchange import Parcel, dump_record
from optsched.store.file import DAMAGE
from optsched.store.question import Bound, StoredRecord, best_bound

KEPT_CHANGES = 100
"""Entries of each record's history that are kept, the latest ones."""


def verify(store: PlanStore) -> list[str]:
    """Check all of a store again; return the problems found, an empty list if it is sound.

    SQLite tests the file, checksums and seals are compared, each key is computed again, the checker
    checks every plan and every certificate, and no bound that counts may be above a plan.

    Raise `FormatError` if the file is not a store, or so damaged that SQLite does not open it.
    """
    return store.read(lambda connection: list(_troubles(connection))) or []


def _troubles(connection: sqlite3.Connection) -> Iterator[str]:
    try:
        yield from _troubles_of_file(connection)
    # On some damage these tests themselves end with an error; records may be sound all the same.
    except DAMAGE as error:
        yield f"file: {readable(str(error))}"
    try:
        numbers = [n for (n,) in connection.execute("SELECT id FROM records ORDER BY id")]
    # Without the list of records nothing else can be looked at.
    except DAMAGE as error:
        yield f"records: {readable(str(error))}"
        return
    for number in numbers:
        try:
            _check_record(connection, number)
        except (FormatError, GraphError, PlanError, *DAMAGE) as error:
            yield f"record {number}: {readable(str(error), 500)}"


def _troubles_of_file(connection: sqlite3.Connection) -> Iterator[str]:
    # The pragma alone finds damaged pages; everything else is about the content of rows.
    for (text,) in connection.execute("PRAGMA integrity_check(20)").fetchall():
        if text != "ok":
            yield f"file: {readable(text)}"
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(20):
        yield f"table {table}, row {row}: what it belongs to in {parent} is lost"


def _check_record(connection: sqlite3.Connection, number: int) -> None:
    found = rows.records_where(connection, "r.id = ?", number)
    if not found:
        raise FormatError("its graph is lost")
    record = found[0]
    # Called for its checks alone.
    rows.history_of(connection, number)
    # Taken apart as a record from another store is: nothing in it is trusted.
    parcel = Parcel(dump_record(connection, number))
    if graph_key(parcel.graph) != record.key:
        raise FormatError("its key is not that of its graph")
    counts = len(parcel.graph.ops), len(parcel.graph.buffers)
    if counts != (record.ops, record.buffers):
        raise FormatError("its summary is not that of its graph")
    _check_bounds(record)


def _check_bounds(record: StoredRecord) -> None:
    for quantity, reached in ((Objective.PEAK, record.peak), (Objective.SLAB, record.slab)):
        bound = best_bound(record.bounds, quantity)
        if reached is not None and bound.value > reached:
            raise PlanError(f"bound {bound.value} on the {quantity} is above a plan of {reached}")


def collect_garbage(store: PlanStore, older_than: float | None = None) -> dict[str, int]:
    """Delete unused data, and free their bytes; return the counts by kind.

    These are bounds that were withdrawn or that a higher one makes superfluous, states of searches
    of proved records, all but the latest changes, and graphs without a record; and records
    unchanged for `older_than` seconds that no :func:`optsched.tune` met.
    """
    counts: dict[str, int] = {}
    with store.writing() as connection:
        if older_than is not None:
            counts["records"] = _drop_old(connection, time.time() - older_than)
        records = rows.records_where(connection)
        counts["bounds"] = sum(_drop_bounds(connection, record) for record in records)
        proved = [(x.number,) for x in records if x.is_proved and x.search_bytes]
        counts["searches"] = len(proved)
        connection.executemany("DELETE FROM searches WHERE record = ?", proved)
        counts["changes"] = sum(_drop_changes(connection, record.number) for record in records)
        unused = "DELETE FROM graphs WHERE id NOT IN (SELECT graph FROM records)"
        counts["graphs"] = connection.execute(unused).rowcount
    # Deleted rows leave free pages; this returns them.
    store.file.vacuum()
    return counts


def _drop_old(connection: sqlite3.Connection, limit: float) -> int:
    """Delete the records whose last change was before a time; return their number."""
    # Records without a history are of unknown age, and stay.
    query = "SELECT record FROM history GROUP BY record HAVING max(at) < ?"
    old = connection.execute(query, (limit,)).fetchall()
    for table in ("bounds", "searches", "history"):
        connection.executemany(f"DELETE FROM {table} WHERE record = ?", old)
    connection.executemany("DELETE FROM records WHERE id = ?", old)
    return len(old)


def _drop_bounds(connection: sqlite3.Connection, record: StoredRecord) -> int:
    kept = [bound for quantity in SIZES for bound in _worth_keeping(record, quantity)]
    query = f"{rows.BOUND_WITH_ID} WHERE record = ?"
    found = connection.execute(query, (record.number,)).fetchall()
    dropped = [(row[0],) for row in found if rows.read_bound(row[1:]) not in kept]
    connection.executemany("DELETE FROM bounds WHERE id = ?", dropped)
    return len(dropped)


def _worth_keeping(record: StoredRecord, quantity: Objective) -> Iterator[Bound]:
    """Yield the best bound of each version, the best certified bound, and higher claims.

    Those of one version count no longer once they are revoked, and then the others do.
    """
    best = best_bound(record.bounds, quantity)
    for bound in record.bounds:
        others = tuple(x for x in record.bounds if x.made_by == bound.made_by)
        yield best_bound(others, quantity)
    yield best_bound(tuple(bound for bound in record.bounds if bound.certified), quantity)
    # A claim is not believed, but it is worth knowing that someone claims more.
    for bound in record.bounds:
        if bound.proof == Proof.CLAIMED and not bound.withdrawn and bound.value > best.value:
            yield bound


def _drop_changes(connection: sqlite3.Connection, record: int) -> int:
    query = (
        "DELETE FROM history WHERE record = ? AND id NOT IN"
        " (SELECT id FROM history WHERE record = ? ORDER BY id DESC LIMIT ?)"
    )
    return connection.execute(query, (record, record, KEPT_CHANGES)).rowcount
