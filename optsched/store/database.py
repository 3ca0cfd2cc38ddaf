"""One SQLite file of plans.

Many processes may read and write it at a time (write-ahead log). A plan is checked before it goes
in, and again, for the graph at hand, when it comes out.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from urllib.parse import quote

from optsched.check.plan import check_plan
from optsched.errors import FormatError, OptschedError, PlanError, UsageError
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.store.canonical import CanonicalGraph, canonical_form

VERSION = 1
"""Of the tables; `PRAGMA user_version` of the file."""

SECONDS_TO_WAIT = 5.0
"""For another process that writes."""

_TABLES = """
CREATE TABLE IF NOT EXISTS plans (
    change INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    orders TEXT NOT NULL,
    peak INTEGER NOT NULL,
    slab INTEGER NOT NULL,
    bound INTEGER NOT NULL,
    proof TEXT NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan for the graph that was asked about.

    Parameters
    ----------
    plan
        Checked for that graph.
    peak, slab
        Bytes, as the checker measured.
    bound
        No order has a lower peak than this.
    proof
        What stands behind the peak where it meets the bound, such as `L3`; else empty.
    """

    plan: Plan
    peak: int
    slab: int
    bound: int = 0
    proof: str = ""


class PlanStore:
    """Plans by canonical graph.

    Parameters
    ----------
    path
        The file; made when the first plan is put in.

    Raises
    ------
    UsageError
        If the path names a folder.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise UsageError(f"store {self.path} is a folder, not a file")

    def get(self, graph: Graph) -> StoredPlan | None:
        """Return the plan for a graph, None if there is none.

        Raises
        ------
        PlanError
            If what is stored is no plan for this graph.
        FormatError
            If the file is no store, or one of a newer version.
        OptschedError
            If another process keeps the file locked.
        """
        if not self.path.exists():
            return None
        form = canonical_form(graph)
        with self._open() as connection:
            query = "SELECT orders, peak, slab, bound, proof FROM plans WHERE key = ?"
            row = connection.execute(query, (form.key,)).fetchone()
        if row is None:
            return None
        plan = _localise(graph, form, row[0], self.path)
        check_plan(graph, plan, peak=row[1], slab=row[2])
        return StoredPlan(plan, *row[1:])

    def put(self, graph: Graph, plan: Plan, *, bound: int = 0, proof: str = "") -> bool:
        """Keep a plan unless a better one is there; return whether it was kept.

        A file that can not be written keeps nothing.

        Raises
        ------
        PlanError
            If the plan breaks a rule of the graph, or moves buffers to other pools.
        FormatError, OptschedError
            As for :meth:`get`.
        """
        if plan.pools and plan.pools != tuple(buffer.pool for buffer in graph.buffers):
            raise PlanError("a plan that moves buffers between pools can not be stored")
        checked = check_plan(graph, plan)
        form = canonical_form(graph)
        row = (form.key, _globalise(form, plan), checked.peak, checked.slab, bound, proof)
        with self._open() as connection:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(_TABLES)
                connection.execute(f"PRAGMA user_version = {VERSION}")
                query = "SELECT peak, slab, -bound FROM plans WHERE key = ?"
                known = connection.execute(query, (form.key,)).fetchone()
                if known is not None and known <= (checked.peak, checked.slab, -bound):
                    return False
                names = "(key, orders, peak, slab, bound, proof)"
                # A row that is replaced gets a new number, so that `digest` tells.
                connection.execute(f"REPLACE INTO plans {names} VALUES (?, ?, ?, ?, ?, ?)", row)
                connection.commit()
            except sqlite3.OperationalError as error:
                if "readonly" not in str(error):
                    raise
                return False
        return True

    def digest(self) -> str:
        """Return a text that changes whenever a plan does."""
        if not self.path.exists():
            return "empty"
        with self._open() as connection:
            count, last = connection.execute("SELECT count(*), max(change) FROM plans").fetchone()
        return f"{count} plans, change {last}"

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._connect()
            try:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version > VERSION:
                    raise FormatError(
                        f"store {self.path}: version {version} is newer than {VERSION}, "
                        "the last one that is known here"
                    )
                yield connection
            finally:
                connection.close()
        except sqlite3.OperationalError as error:
            raise OptschedError(f"store {self.path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise FormatError(f"store {self.path}: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        """Open the file; one that nobody may write is read as it is."""
        try:
            connection = sqlite3.connect(self.path, timeout=SECONDS_TO_WAIT)
            connection.execute("SELECT name FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            if not self.path.exists():
                raise
            address = f"file:{quote(str(self.path.resolve()))}?mode=ro&immutable=1"
            connection = sqlite3.connect(address, uri=True)
        return connection


def _globalise(form: CanonicalGraph, plan: Plan) -> str:
    """Write a plan in terms of the canonical order."""
    number = {v: i for i, v in enumerate(form.ops)}
    order = [number[v] for v in plan.order]
    offsets = [plan.offsets[b] for b in form.buffers]
    return json.dumps({"order": order, "offsets": offsets}, separators=(",", ":"))


def _localise(graph: Graph, form: CanonicalGraph, text: str, path: Path) -> Plan:
    """Read a plan for the graph at hand."""
    try:
        stored = json.loads(text)
        order = [form.ops[i] for i in stored["order"]]
        offsets = _scatter(stored["offsets"], form.buffers)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise PlanError(
            f"store {path}: what is stored for graph {graph.name!r} is no plan of it"
        ) from error
    return Plan(tuple(order), tuple(offsets))


def _scatter(values: Sequence[int | None], places: Sequence[int]) -> list[int | None]:
    if len(values) != len(places):
        raise ValueError(f"{len(values)} offsets for {len(places)} buffers")
    found: list[int | None] = [None] * len(places)
    for value, place in zip(values, places, strict=True):
        found[place] = value
    return found
