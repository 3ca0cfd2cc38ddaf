"""Exchange of records between stores, as JSON.

Records from elsewhere are not trusted. The graph is rebuilt and its key computed again; the checker
verifies every plan and every certificate; a bound without a certificate is only a claim unless the
user trusts the other store.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.errors import FormatError, GraphError, OptschedError, PlanError, UsageError, expect
from optsched.formats.fields import Record, check_format
from optsched.formats.source import (
    decode_text,
    errors_named,
    label_of,
    parse_json,
    read_bytes,
    write_bytes,
)
from optsched.model.graph import Graph
from optsched.model.question import Question
from optsched.runtime.limits import SIZES, Objective, Proof, choose_member
from optsched.runtime.text import readable
from optsched.solver.resume import Resume
from optsched.store import rows
from optsched.store.database import PlanStore
from optsched.store.document import MAX_VALUES, read_kept
from optsched.store.file import DAMAGE
from optsched.store.question import Bound, check_answer, read_question
from optsched.store.revoke import is_meant, read_rule
from optsched.store.schema import OLDER
from optsched.store.translate import read_certificate, read_plan_document, read_search, unpack_json

if TYPE_CHECKING:
    from optsched.check.certificate import Certificate

EXPORT_FORMAT = "optsched-store/2"
"""First line of an export, which has one line per record after it."""
MOST_EXPORTED = 2**27
"""Most bytes of an export, decompressed."""
AT_ONCE = 100
"""Number of records that are written together; other writers wait for them."""

_KEYS = {
    *("graph", "question", "plan", "peak", "slab", "provenance", "bounds", "search"),
}
_BOUND_KEYS = {"quantity", "value", "proof", "provenance", "withdrawn", "certificate"}


def dump_record(connection: sqlite3.Connection, number: int) -> dict[str, Any]:
    """Return a record as JSON; nothing of it is checked but checksums and seals.

    Raise `FormatError` if a part of it is damaged.
    """
    query = (
        "SELECT g.document, r.question, r.plan, r.peak, r.slab, r.provenance"
        " FROM records r JOIN graphs g ON g.id = r.graph WHERE r.id = ?"
    )
    row = connection.execute(query, (number,)).fetchone()
    if row is None:
        raise FormatError("its graph is lost")
    document, question, plan, peak, slab, origin = row
    bounds = connection.execute(f"{rows.BOUND} WHERE record = ? ORDER BY id", (number,))
    search = connection.execute("SELECT state FROM searches WHERE record = ?", (number,)).fetchone()
    return {
        "graph": unpack_json(document),
        "question": rows.read_json(question),
        "plan": None if plan is None else unpack_json(plan),
        "peak": peak,
        "slab": slab,
        "provenance": dict(rows.read_provenance(origin)),
        "bounds": [_dump_bound(bound) for bound in bounds],
        "search": None if search is None else unpack_json(search[0]),
    }


def _dump_bound(row: tuple[Any, ...]) -> dict[str, Any]:
    bound = rows.read_bound(row)
    # Nothing of a damaged row can be trusted, not even its quantity.
    if bound.withdrawn == rows.DAMAGED:
        raise FormatError("the row of a bound is damaged")
    return {
        "quantity": bound.quantity.value,
        "value": bound.value,
        "proof": bound.proof,
        "provenance": dict(bound.provenance),
        "withdrawn": bound.withdrawn,
        "certificate": None if row[4] is None else unpack_json(row[4]),
    }


class Parcel:
    """A record from elsewhere, taken apart, and its plan and certificates checked.

    Raise `FormatError`, `GraphError`, `PlanError` if any of it is not what it says.

    `document`: as :func:`dump_record` makes it.
    """

    def __init__(self, document: object) -> None:
        record = Record(document, "record")
        record.refuse_unknown(_KEYS)
        # The graph is made of its document and checked as any graph is; its name is only a label.
        self.graph: Graph = read_kept(record.mapping("graph"))
        objective, capacity = read_question(record.mapping("question"))
        self.question = Question(self.graph, objective=objective, capacity=capacity)
        self.origin = record.mapping("provenance")
        # Called for its checks: the text must be small and plain.
        rows.provenance_text(self.origin)
        self.plan = None
        if record.has("plan"):
            self.plan = read_plan_document(self.graph, record.mapping("plan"))
            # The checker measures the plan; a record that claims less is refused.
            peak, slab = record.count("peak"), record.count("slab")
            check_answer(self.question, self.plan, peak=peak, slab=slab)
        self.bounds = [self._read_bound(x) for x in record.items("bounds")]
        self.search: Resume | None = None
        if record.has("search"):
            self.search = read_search(self.graph, record.mapping("search"))

    def _read_bound(self, value: object) -> tuple[Bound, Any]:
        record = Record(value, "bound")
        record.refuse_unknown(_BOUND_KEYS)
        if record.text("quantity") not in SIZES or record.text("proof") not in _PROOFS:
            raise FormatError("a bound of an unknown quantity or proof")
        rows.provenance_text(record.mapping("provenance"))
        bound = Bound(
            choose_member(Objective, record.text("quantity"), "quantity"),
            record.count("value"),
            record.text("proof"),
            record.has("certificate"),
            record.mapping("provenance"),
            record.text("withdrawn"),
        )
        certificate = None
        if bound.certified:
            certificate = read_certificate(self.graph, record.mapping("certificate"))
            from optsched.check.certificate import check_certificate

            rung = check_certificate(self.graph, certificate)
            # The checker decides what a certificate proves, not the row beside it.
            if (certificate.bound, rung) != (bound.value, bound.proof):
                raise FormatError(
                    f"its certificate is of {certificate.bound} ({rung}), not {bound.value}"
                )
        return bound, certificate


_PROOFS = {"", *Proof}


def take(store: PlanStore, parcel: Parcel, *, trust: bool = False) -> tuple[bool, list[str]]:
    """Add a record from elsewhere to a store.

    `store`, `parcel`: the store, and the record. `trust`: accept bounds without a certificate,
    which are only claims otherwise, and the states of searches.

    Return True if anything was new; the errors of bounds that were rejected.
    """
    question, troubles = parcel.question, list[str]()
    with store.batch() as batch:
        rules = [read_rule(text) for text in batch.revocations()]
        before = batch.digest()
        if parcel.plan is not None:
            batch.put(question, parcel.plan, origin=parcel.origin)
        for bound, certificate in parcel.bounds:
            # Withdrawn over there, or here by a rule of this store: it may not come back that way.
            if bound.withdrawn or any(is_meant(rule, bound) for rule in rules):
                continue
            try:
                _take_bound(batch, parcel, bound, certificate, trust)
            # The plan was taken; a bound that contradicts it is reported and the rest goes on.
            except (PlanError, UsageError) as error:
                troubles.append(str(error))
        # The state of a search has bounds as well, without their provenance.
        believed = trust and not rules
        # Never in place of our own state, which is known to fit our bounds.
        if believed and parcel.search is not None and batch.search(question) is None:
            batch.put_search(question, parcel.search, origin={})
        return batch.digest() != before, troubles


def _take_bound(
    batch: PlanStore, parcel: Parcel, bound: Bound, certificate: Certificate | None, trust: bool
) -> None:
    question, origin = parcel.question, {**bound.provenance, "taken": True}
    if certificate is not None:
        batch.put_certificate(question, certificate, origin=origin)
        return
    # A bound by someone else's engine is a claim until the user says otherwise.
    proof = bound.proof if trust else Proof.CLAIMED
    batch.put_bound(question, bound.value, proof, quantity=bound.quantity, origin=origin)


@dataclass(slots=True)
class Taken:
    """Counts of records from elsewhere, by outcome."""

    new: int = 0
    known: int = 0
    refused: int = 0
    """`new`, `known` and `refused`: number of records with new content, without, and rejected."""
    troubles: list[str] = field(default_factory=list)
    """Reasons for which records, or bounds of them, were rejected."""


def take_all(store: PlanStore, documents: Iterable[object], *, trust: bool = False) -> Taken:
    """Add records from elsewhere to a store; an error stands for a record that was lost."""
    taken, numbered = Taken(), enumerate(documents, 1)
    # In chunks: one transaction per record would be slow, one for all would lock out others.
    while chunk := list(itertools.islice(numbered, AT_ONCE)):
        with store.batch() as batch:
            for number, document in chunk:
                _take_one(batch, taken, number, document, trust)
    return taken


def _take_one(store: PlanStore, taken: Taken, number: int, document: object, trust: bool) -> None:
    try:
        if isinstance(document, OptschedError):
            raise document
        changed, troubles = take(store, Parcel(document), trust=trust)
    except (FormatError, GraphError, PlanError, UsageError) as error:
        # One bad record does not stop the others; the report names it by its number.
        taken.refused += 1
        taken.troubles.append(f"record {number}: {error}")
        return
    taken.new, taken.known = taken.new + changed, taken.known + (not changed)
    taken.troubles += [f"record {number}: {text}" for text in troubles]


def dump_all(store: PlanStore, numbers: Collection[int] | None = None) -> Iterator[object]:
    """Yield the records of these numbers, or all, as JSON, with an error for each damaged one.

    Raise `FormatError` if the file is not a store, or so damaged that SQLite does not read it.
    """

    def all_numbers(connection: sqlite3.Connection) -> list[int]:
        return [n for (n,) in connection.execute("SELECT id FROM records ORDER BY id")]

    chosen = (n for n in store.read(all_numbers) or [] if numbers is None or n in numbers)
    while chunk := list(itertools.islice(chosen, AT_ONCE)):
        yield from store.read(partial(_dump_some, chunk)) or []


def _dump_some(numbers: Iterable[int], connection: sqlite3.Connection) -> list[object]:
    return [_dumped(connection, number) for number in numbers]


def _dumped(connection: sqlite3.Connection, number: int) -> object:
    try:
        return dump_record(connection, number)
    except (FormatError, *DAMAGE) as error:
        return FormatError(f"record {number}: {readable(str(error))}")


def merge(store: PlanStore, other: PlanStore, *, trust: bool = False) -> Taken:
    """Add the records of another store to a store; the other one is only read."""
    expect("merge", other, PlanStore)
    if not other.path.exists():
        raise UsageError(f"{other.path}: no such store")
    return take_all(store, dump_all(other), trust=trust)


def export_store(
    store: PlanStore, path: str | Path, numbers: Collection[int] | None = None
) -> tuple[int, list[str]]:
    """Write records as text; return how many, and why others could not be."""
    dumped = list(dump_all(store, numbers))
    lines = [json.dumps({"format": EXPORT_FORMAT})]
    lines += [json.dumps(x, separators=(",", ":")) for x in dumped if isinstance(x, dict)]
    write_bytes(path, ("\n".join(lines) + "\n").encode())
    return len(lines) - 1, [str(x) for x in dumped if isinstance(x, OptschedError)]


def import_store(store: PlanStore, path: str | Path, *, trust: bool = False) -> Taken:
    """Add exported records to a store.

    Raise `FormatError` if the file is not an export, or larger than 128 MiB: merge larger stores
    directly.
    """
    data = read_bytes(path, limit=MOST_EXPORTED)
    with errors_named(label_of(path)):
        return take_all(store, read_export(data), trust=trust)


def read_export(data: bytes) -> Iterator[object]:
    """Yield the records of an export, with an error for each invalid line.

    Raise `FormatError` if it is not an export, or of another version.
    """
    if data.startswith(b"SQLite format 3"):
        # A frequent mistake: both files have to do with stores.
        raise FormatError("not an export but a store: use merge")
    first, *lines = decode_text(data).split("\n")
    head = Record(parse_json(first, limit=10), "export")
    if head.value.get("format") == "optsched-store/1":
        raise FormatError(f"an export of version 1 {OLDER}")
    check_format(head, EXPORT_FORMAT)
    for line in lines:
        # The last line ends with a line break, so the text after it is empty.
        if line:
            try:
                yield parse_json(line, limit=MAX_VALUES)
            except FormatError as error:
                yield error
