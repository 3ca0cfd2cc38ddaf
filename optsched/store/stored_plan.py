"""A stored plan as a result: read back as untrusted data, checked, with the bounds that count."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import replace
from typing import Any

from optsched.errors import FormatError, PlanError
from optsched.formats.fields import Record
from optsched.formats.source import parse_json
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.runtime.limits import Objective, Proof, StopReason
from optsched.solver.result import Result
from optsched.store import rows
from optsched.store.file import WAY_OUT
from optsched.store.question import Bound, objective_bound, question_text


def stored_result(connection: sqlite3.Connection, question: Question) -> Result | None:
    """Return the plan stored for a question; None without one.

    Raise `FormatError`, `PlanError` if the stored plan is damaged, or does not fit the graph.
    """
    graph = question.planned
    number = rows.find_record(connection, graph, question_text(question))
    row = _plan_row(connection, number)
    # A record may lack a plan, as a bound alone can be stored.
    if number is None or row is None:
        return None
    try:
        plan = rows.read_plan(question, *row)
    # The file is read back as untrusted: a damaged plan is an error, never an answer.
    except (FormatError, PlanError) as error:
        raise type(error)(f"graph {graph.name!r}: {error}; {WAY_OUT}") from None
    reason = _stop_reason(connection, number)
    return _result(question, plan, row[1:], rows.bounds_of(connection, number), reason)


def _plan_row(connection: sqlite3.Connection, record: int | None) -> tuple[Any, int, int] | None:
    query = "SELECT plan, peak, slab FROM records WHERE id = ? AND plan IS NOT NULL"
    row: tuple[Any, int, int] | None = connection.execute(query, (record,)).fetchone()
    return row


def _stop_reason(connection: sqlite3.Connection, record: int) -> StopReason:
    """Return why the search that found a plan ended; a plan of unknown origin says nothing."""
    query = "SELECT provenance FROM records WHERE id = ?"
    with suppress(FormatError, ValueError):
        made = parse_json(connection.execute(query, (record,)).fetchone()[0])
        found = StopReason(Record(made, "provenance").text("stop_reason"))
        # A bound may have been withdrawn since the plan was proved.
        return StopReason.EXHAUSTED if found is StopReason.PROVED else found
    return StopReason.EXHAUSTED


def _result(
    question: Question,
    plan: Plan,
    figures: tuple[int, int],
    bounds: tuple[Bound, ...],
    reason: StopReason,
) -> Result:
    """Return a stored plan, its peak and slab, and the bounds that count, as a result."""
    (peak, peak_proof), (slab, slab_proof) = (
        _proved(objective_bound(bounds, quantity), reached)
        for quantity, reached in zip((Objective.PEAK, Objective.SLAB), figures, strict=True)
    )
    found = Result(plan, *figures, peak, slab, peak_proof, slab_proof, reason, question)
    met = found.value == found.bound
    return replace(found, stop_reason=StopReason.PROVED) if met else found


def _proved(bound: Bound, reached: int) -> tuple[int, Proof | None]:
    """Return the value of a bound, and its proof if the plan meets it."""
    # A proof is of the value reached. A bound below it proves nothing about this plan.
    return bound.value, Proof(bound.proof) if bound.proof and bound.value == reached else None
