"""The plan store: plans, bounds and certificates in a file, found by graph and question.

A plan is checked before it is stored, and again, for the graph at hand, when it is read. It is
replaced only by a better one. A bound never falls, unless a plan below it proves it wrong, or
the engine that proved it turns out to be wrong (:mod:`optsched.store.revoke`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from optsched.errors import FormatError, PlanError, UsageError, expect
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.runtime.keywords import keywords
from optsched.runtime.limits import Objective
from optsched.solver.result import Result
from optsched.solver.resume import Resume
from optsched.store import rows
from optsched.store.file import StoreFile
from optsched.store.open_record import OpenRecord
from optsched.store.prepared import PreparedResult, prepare_plan, prepare_result
from optsched.store.question import (
    Bound,
    RecordChange,
    StoredRecord,
    among_record,
    objective_text,
    provenance,
    question_text,
    stored_question,
)
from optsched.store.stored_plan import stored_result
from optsched.store.translate import (
    pack_certificate,
    pack_search,
    read_certificate,
    read_search,
    unpack_json,
)

if TYPE_CHECKING:
    from optsched.check.certificate import Certificate

_Found = TypeVar("_Found")


@keywords
class PlanStore:
    """A file of plans, which any number of processes may read, and write one at a time.

    Parameters
    ----------
    path
        The file; it is created by the first write.

    Raises
    ------
    UsageError
        If the path names a folder, a device or a pipe.

    Notes
    -----
    Reading raises :class:`FormatError` if the file is not a store, damaged or of a newer version,
    :class:`PlanError` if the stored plan does not fit the graph; writing raises
    :class:`OptschedError` if another process keeps the file locked, locks fail or the disk is full,
    and :class:`UsageError` if two machines would not see each other's locks.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from optsched import GraphBuilder, PlanStore, solve
    >>> build = GraphBuilder("pair")
    >>> build.op("load", writes={"x": 8})
    >>> build.op("scale", reads=["x"], writes={"y": 4})
    >>> build.output("y")
    >>> graph = build.build()
    >>> with TemporaryDirectory() as folder:
    ...     store = PlanStore(f"{folder}/plans.db")
    ...     stored = store.put_result(graph, solve(graph))
    ...     (graph in store, store.get(graph).slab)
    (True, 12)
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file = StoreFile(path)
        self._held: sqlite3.Connection | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self.file.path

    def __enter__(self) -> PlanStore:
        """Return the store itself: every call opens and closes the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, as nothing stays open between calls."""

    def __len__(self) -> int:
        """Return the number of records."""

        def query(connection: sqlite3.Connection) -> int:
            return int(connection.execute("SELECT count(*) FROM records").fetchone()[0])

        return self.read(query) or 0

    def __bool__(self) -> bool:
        """Return True: an empty store is a store."""
        return True

    def __contains__(self, about: object) -> bool:
        """Return True if the store has a plan for a graph, or for a question."""
        if not isinstance(about, Graph | Question):
            return False
        record = self.record(about)
        return record is not None and record.value is not None

    def __repr__(self) -> str:
        return f"PlanStore({str(self.path)!r})"

    def get(self, graph: Graph | Question, question: Question | None = None) -> Result | None:
        """Return the best stored plan of a graph or a question with its bounds, or None.

        Parameters
        ----------
        graph
            A graph, for its plan of minimum slab, as :func:`optsched.solve` makes it by
            default; or a :class:`Question`.
        question
            A :class:`Question` about the graph.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from optsched import GraphBuilder, Objective, PlanStore, Question, solve
        >>> build = GraphBuilder("pair")
        >>> build.op("p", writes={"a": 9})
        >>> build.op("q", reads=["a"], writes={"b": 1})
        >>> graph = build.build()
        >>> with TemporaryDirectory() as folder, PlanStore(f"{folder}/plans.db") as store:
        ...     stored = store.put_result(graph, solve(graph))
        ...     stored, store.get(graph).slab, len(store), graph in store
        ...     peak = Question(graph, objective=Objective.PEAK)
        ...     store.get(peak) is None, store.get(graph, peak) is None
        (True, 10, 1, True)
        (True, True)
        """
        asked = stored_question(graph, question)

        def query(connection: sqlite3.Connection) -> Result | None:
            try:
                return stored_result(connection, asked)
            except (FormatError, PlanError) as error:
                # The same type, so that callers distinguish a bad file from a bad plan.
                raise type(error)(f"store {self.path}: {error}") from None

        return self.read(query)

    def put(
        self,
        graph: Graph | Question,
        plan: Plan,
        *,
        bound: int = 0,
        proof: str = "",
        origin: Mapping[str, Any] | None = None,
    ) -> bool:
        """Store a plan and a bound, each unless the store has an equal or a better one.

        Parameters
        ----------
        graph, plan
            The graph or the question, and its plan.
        bound, proof
            Lower bound on the objective, in bytes, and its kind of proof.
        origin
            Provenance (default: :func:`optsched.store.provenance`).

        Returns
        -------
        bool
            True if anything was stored; False also if the file cannot be written.

        Raises
        ------
        PlanError
            If the plan breaks a rule of the graph, or does not fit; or the bound is above it.
        """
        asked = stored_question(graph)
        made = _made(asked, origin)
        prepared, text = prepare_plan(asked, plan), rows.provenance_text(made)
        # Tested late: a plan that is wrong is an error even where nothing can be written.
        if not self._is_writable():
            return False
        with self._changing(asked.planned, question_text(asked)) as record:
            # A plan first: bounds above it are withdrawn before the new bound is compared.
            better = record.keep_plan(prepared, asked.objective, text)
            raised = record.raise_bound(Bound(asked.objective, bound, proof, False, made))
        return better or raised

    def put_bound(
        self,
        graph: Graph | Question,
        value: int,
        proof: str = "",
        *,
        quantity: Objective | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> bool:
        """Store a bound that an engine proved, unless an equal or higher one is stored.

        Parameters
        ----------
        graph
            The graph, or the question that the bound is about.
        value, proof
            The bound in bytes, and a value of :class:`Proof`; empty
            for a bound on the way to a proof, `claimed` for one that only a solver reported.
        quantity
            Quantity of the bound (default: the question's objective).
        origin
            As for :meth:`put`.

        Raises
        ------
        PlanError
            If a stored plan has fewer bytes, so that the bound is wrong.
        """
        asked = stored_question(graph)
        made = _made(asked, origin)
        chosen = asked.objective if quantity is None else quantity
        bound = Bound(chosen, value, proof, False, made)
        if not self._is_writable():
            return False
        with self._changing(asked.planned, question_text(asked)) as record:
            return record.raise_bound(bound)

    def put_certificate(
        self,
        graph: Graph | Question,
        certificate: Certificate,
        *,
        origin: Mapping[str, Any] | None = None,
    ) -> bool:
        """Store a certificate of a bound on the peak, if the checker accepts it.

        It replaces a certificate of a lower bound, and bounds without a certificate.

        Raises
        ------
        PlanError
            If the certificate does not hold.
        """
        from optsched.check.certificate import check_certificate

        asked = stored_question(graph)
        made = _made(asked, origin)
        # Checked before anything is opened, as checking takes long and writers exclude each other.
        rung = check_certificate(asked.planned, certificate)
        packed = pack_certificate(asked.planned, certificate)
        bound = Bound(Objective.PEAK, certificate.bound, rung, True, made)
        if not self._is_writable():
            return False
        with self._changing(asked.planned, question_text(asked)) as record:
            return record.raise_bound(bound, packed)

    def put_result(
        self, graph: Graph, result: Result, *, origin: Mapping[str, Any] | None = None
    ) -> bool:
        """Store a result of :func:`optsched.solve`; return True if anything was stored.

        It is stored under the result's own question: its objective, capacity and order rules.

        Raises
        ------
        UsageError
            If the result is of another graph, or its question limits moves or lets buffers spill.
        """
        return self.put_prepared(prepare_result(graph, result), origin=origin)

    def put_prepared(
        self, prepared: PreparedResult, *, origin: Mapping[str, Any] | None = None
    ) -> bool:
        """Store a result that was prepared elsewhere; return True if anything was stored.

        The state of its search replaces that of a search that had done less work.

        Raises
        ------
        PlanError
            If a bound is above a stored plan, and so wrong.
        """
        given = origin or provenance()
        made = {**given, "stop_reason": prepared.stop_reason.value} | among_record(prepared.among)
        if not self._is_writable():
            return False
        kept = False
        with self._changing(prepared.graph, prepared.question) as record:
            if prepared.plan is not None:
                text = rows.provenance_text(made)
                kept |= record.keep_plan(prepared.plan, prepared.objective, text)
            for quantity, value, proof in prepared.bounds:
                kept |= record.raise_bound(Bound(quantity, value, proof, False, made))
            if prepared.search is not None:
                # Only with the bounds it led to: a state alone says nothing to others.
                record.keep_search(prepared.search, given, prepared.units)
        return kept

    def certificate(
        self, graph: Graph | Question, question: Question | None = None
    ) -> Certificate | None:
        """Return the certificate of the highest bound that has one, without checking it again."""
        asked = stored_question(graph, question)

        def query(connection: sqlite3.Connection) -> Certificate | None:
            record = rows.find_record(connection, asked.planned, question_text(asked))
            chosen = (
                "SELECT certificate FROM bounds WHERE record = ? AND certificate IS NOT NULL"
                " AND withdrawn = '' ORDER BY value DESC"
            )
            row = connection.execute(chosen, (record,)).fetchone()
            if row is None:
                return None
            return read_certificate(asked.planned, unpack_json(row[0]))

        return self.read(query)

    def put_search(
        self,
        graph: Graph | Question,
        state: Resume | None,
        *,
        origin: Mapping[str, Any] | None = None,
    ) -> bool:
        """Store the state of a search in place of an earlier one; None deletes it.

        Raises
        ------
        UsageError
            If its JSON is larger than 16 MiB.
        """
        asked = stored_question(graph)
        expect("put_search", state, Resume, NoneType)
        packed = None if state is None else pack_search(asked.planned, state)
        units = 0 if state is None else state.units
        if not self._is_writable():
            return False
        with self._changing(asked.planned, question_text(asked)) as record:
            record.keep_search(packed, origin or provenance(), units)
        return True

    def search(self, graph: Graph | Question, question: Question | None = None) -> Resume | None:
        """Return the state of the last search, in the ids of this graph; it is not verified."""
        asked = stored_question(graph, question)

        def query(connection: sqlite3.Connection) -> Resume | None:
            record = rows.find_record(connection, asked.planned, question_text(asked))
            chosen = "SELECT state FROM searches WHERE record = ?"
            row = connection.execute(chosen, (record,)).fetchone()
            return None if row is None else read_search(asked.planned, unpack_json(row[0]))

        return self.read(query)

    def record(
        self, graph: Graph | Question, question: Question | None = None
    ) -> StoredRecord | None:
        """Return the record of a question: bounds, proofs, provenance."""
        asked = stored_question(graph, question)

        def query(connection: sqlite3.Connection) -> StoredRecord | None:
            number = rows.find_record(connection, asked.planned, question_text(asked))
            return next(iter(rows.records_where(connection, "r.id = ?", number)), None)

        return self.read(query)

    def records(self) -> list[StoredRecord]:
        """Return all records, the oldest first."""
        return self.read(rows.records_where) or []

    def mark_met(self, keys: Iterable[str], objective: Objective = Objective.SLAB) -> None:
        """Note that the records of these graphs (by :func:`graph_key`) are in use.

        Their age, by which `optsched store gc --older-than` deletes, is 0 again.
        """
        expect("a store of plans", objective, Objective)
        if self._is_writable():
            with self.writing() as connection:
                rows.mark_met(connection, keys, objective_text(objective))

    def history(self, record: int) -> list[RecordChange]:
        """Return the changes of the record of this number, the oldest first."""
        return self.read(lambda connection: rows.history_of(connection, record)) or []

    def at_once(self, query: Callable[[PlanStore], _Found]) -> _Found | None:
        """Return the result of several look-ups in one state of the store; None without a file."""
        return self.read(lambda connection: query(self._on(connection)))

    def digest(self) -> str:
        """Return a text that changes whenever a plan or a bound does."""

        def query(connection: sqlite3.Connection) -> str:
            # Records without a change hold nothing; the numbers of changes only rise.
            counted = "SELECT count(*), max(change) FROM records WHERE change"
            count, last = connection.execute(counted).fetchone()
            return f"{count} plans, change {last}" if count else "empty"

        return self.read(query) or "empty"

    def revocations(self) -> list[str]:
        """Return the rules by which bounds were withdrawn."""

        def query(connection: sqlite3.Connection) -> list[str]:
            return [str(rule) for (rule,) in connection.execute("SELECT rule FROM revocations")]

        return self.read(query) or []

    def require_writable(self) -> None:
        """Raise an error now if the store cannot be written; create the file otherwise.

        Raises
        ------
        UsageError
            If the file or its folder may not be written, or locks hold for one machine alone.
        """
        if not self.file.is_writable():
            raise UsageError(f"store {self.path} cannot be written")
        # An empty change creates the file, and shows that locks work here.
        with self.writing():
            pass

    @contextmanager
    def batch(self) -> Iterator[PlanStore]:
        """Yield this store for several changes that are written at once, all or none.

        Other writers wait for its end, so it should be short.
        """
        # A batch within a batch is part of the outer one.
        if self._held is not None or not self.file.is_writable():
            yield self
            return
        with self.file.writing() as connection:
            yield self._on(connection)

    def _on(self, connection: sqlite3.Connection) -> PlanStore:
        """Return this store on a connection that is open."""
        held = copy(self)
        # The copy shares the path, not the connection: this object can go on being used elsewhere.
        held._held = connection
        return held

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection of the open batch, or one for a single change."""
        if self._held is not None:
            yield self._held
            return
        with self.file.writing() as connection:
            yield connection

    def _is_writable(self) -> bool:
        """Return True if the store can be written; an open batch has tested that already."""
        return self._held is not None or self.file.is_writable()

    @contextmanager
    def _changing(self, graph: Graph | rows.GraphRow, question: str) -> Iterator[OpenRecord]:
        """Yield the record of a question about a graph, created if missing, for changes."""
        with self.writing() as connection:
            yield OpenRecord(connection, rows.add_record(connection, graph, question))

    def read(self, query: Callable[[sqlite3.Connection], _Found]) -> _Found | None:
        """Return the result of a query in one state of the store; None without a file."""
        if self._held is not None:
            return query(self._held)
        # A store that does not exist yet is an empty one; a reader must not create it.
        return self.file.read(query) if self.path.exists() else None


def _made(asked: Question, origin: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the origin of an answer, with the plans that it is about."""
    return {**(origin or provenance()), **among_record(asked.restriction)}
