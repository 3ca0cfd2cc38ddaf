"""Changes of a fleet since an earlier run, known from a store or from the page of that run.

A graph is compared with the earlier graph that equals it except for names, else with the latest
one from a file of the same path, which has changed since.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from optsched.errors import FormatError
from optsched.fleet.graphs import FleetGraph
from optsched.formats.fields import Record
from optsched.formats.source import parse_json
from optsched.runtime.limits import Objective
from optsched.store import PlanStore, StoredRecord

_ROWS = re.compile(r"<script type=application/json id=rows>(.*?)</script>", re.DOTALL)
_STORE = b"SQLite format 3\0"


class What(StrEnum):
    """Kind of a change, the most urgent first."""

    FAILS = "fails now"
    LARGER = "larger"
    CHANGED = "other graph"
    """The file of this path has another graph."""
    GONE = "gone"
    NEW = "new"
    SMALLER = "smaller"
    PROVED = "proved now"
    PLANNED = "planned now"
    """The graph had no plan before."""


@dataclass(frozen=True, slots=True)
class Before:
    """An earlier answer about a graph: its value (None: no plan), in bytes, and if it is proved."""

    path: str
    name: str
    key: str
    value: int | None
    is_proved: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one graph; `before` and `now` are bytes of the objective, None without a plan."""

    what: What
    graph: str
    path: str
    before: int | None
    now: int | None


@dataclass(frozen=True, slots=True)
class Earlier:
    """Answers of an earlier run; those of a store may be of any runs."""

    answers: Sequence[Before]
    is_store: bool


def read_earlier(path: str | Path, objective: Objective) -> Earlier:
    """Read the answers of a store, or of a page that `optsched tune --report` wrote.

    A file that does not exist yet has none.

    Raise `FormatError` if the file is neither, or a page of an older version.
    """
    try:
        with open(path, "rb") as file:
            is_store = file.read(len(_STORE)) == _STORE
    except FileNotFoundError:
        return Earlier((), is_store=True)
    if is_store:
        records = PlanStore(path).records()
        known = [_stored(x) for x in records if x.objective is objective]
        return Earlier(known, is_store=True)
    found = _ROWS.search(Path(path).read_text(encoding="utf-8", errors="replace"))
    if found is None:
        raise FormatError(
            f"{path}: not a store, and not a page of 'optsched tune --report' with its rows"
        )
    rows = Record({"rows": parse_json(found[1])}, str(path)).items("rows")
    return Earlier([_row(Record(row, str(path)), objective) for row in rows], is_store=False)


def page_rows(rows: Sequence[dict[str, Any]]) -> str:
    """Return the element of a page that keeps the table of a fleet for :func:`read_earlier`."""
    # A name may not end the element.
    text = json.dumps(rows, separators=(",", ":")).replace("<", "\\u003c")
    return f"<script type=application/json id=rows>{text}</script>"


def _stored(record: StoredRecord) -> Before:
    path = record.provenance.get("path")
    # Provenance of imported stores may be anything.
    own = path if isinstance(path, str) else ""
    return Before(own, record.name, record.key, record.value, record.is_proved)


def _row(row: Record, objective: Objective) -> Before:
    value = row.count(objective.value) if row.has(objective.value) else None
    path, name, key = (row.text(field, "") for field in ("path", "graph", "key"))
    return Before(path, name, key, value, row.text("state") == "proved")


def changes_since(
    earlier: Earlier, graphs: Iterable[FleetGraph], objective: Objective
) -> list[Change]:
    """Return the changes of a fleet, the most urgent first."""
    # The latest of a path comes last in a store.
    by_key = {x.key: x for x in earlier.answers if x.key}
    by_path = {x.path or x.name: x for x in earlier.answers}
    found, met = [], set()
    for graph in graphs:
        known = by_path.get(graph.path or graph.name)
        if known is None or known.key != graph.key:
            known = by_key.get(graph.key, known)
        met |= {graph.path or graph.name, graph.key}
        now = graph.value(objective)
        what = _what(known, graph, now, is_proved=graph.gap(objective) == 0)
        if what is not None:
            was = None if known is None else known.value
            found.append(Change(what, graph.name, graph.path, was, now))
    # A store also keeps graphs of other runs, and what had no plan is not missed.
    found += [
        Change(What.GONE, x.name, x.path, x.value, None)
        for x in earlier.answers
        if not earlier.is_store
        and x.value is not None
        and not met.intersection((x.path or x.name, x.key))
    ]
    rank = list(What)
    return sorted(found, key=lambda change: rank.index(change.what))


def _what(known: Before | None, graph: FleetGraph, now: int | None, is_proved: bool) -> What | None:
    if now is None:
        return What.FAILS if known is not None and known.value is not None else None
    if known is None:
        return What.NEW
    if known.value is None:
        return What.PLANNED
    if known.key != graph.key:
        return What.CHANGED
    if known.value != now:
        return What.LARGER if now > known.value else What.SMALLER
    return What.PROVED if is_proved and not known.is_proved else None
