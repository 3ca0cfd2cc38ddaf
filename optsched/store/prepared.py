"""What came of a search as rows of a store hold it, made where the graph is.

Who searched has a checked plan, and brings plan and orders into canonical numbers; who writes the
store, perhaps in another process, needs neither the graph nor the plan itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from optsched.errors import UsageError, expect
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.runtime.limits import Objective, Proof, StopReason
from optsched.solver.result import Result
from optsched.solver.resume import Resume
from optsched.store import rows
from optsched.store.question import StoredQuestion, stored_question
from optsched.store.translate import globalise_plan, globalise_search, pack


class PreparedPlan(NamedTuple):
    """A plan that the checker passed: packed, and the bytes that the checker measured."""

    packed: bytes
    peak: int
    slab: int


@dataclass(frozen=True)
class PreparedResult:
    """All that is to be kept of one result; it travels as plain data.

    Parameters
    ----------
    graph, question
        What it is about.
    plan
        None if there is none.
    bounds
        Of which quantity, how many bytes, and the proof; empty where none has a name.
    stop_reason
        Why the search ended.
    search, units
        What it leaves behind for the next one, packed, and the units of work behind that; None to
        leave what is there as it is.
    """

    graph: rows.GraphRow
    question: StoredQuestion
    plan: PreparedPlan | None
    bounds: tuple[tuple[Objective, int, str], ...]
    stop_reason: StopReason
    search: bytes | None = None
    units: int = 0


def prepare_result(
    graph: Graph, result: Result, search: Resume | None = None, *, check: bool = True
) -> PreparedResult:
    """Check and pack what :func:`optsched.solve` found and proved.

    It is kept under the result's own question. Order rules are control edges of the graph there,
    so that bounds proved under rules are never read as bounds of the graph without them.

    Parameters
    ----------
    graph, result, search
        What was searched, what came of it, and what the next search needs.
    check
        Whether to check the plan; the solver has, so who solved it in this process need not.

    Raises
    ------
    UsageError
        If the result is of another graph, or its question is one that a store does not keep.
    PlanError
        If the plan breaks a rule of the graph, or does not fit.
    """
    expect("a store of plans", graph, Graph)
    expect("a store of plans", result, Result)
    planned, question = stored_question(_question_about(graph, result))
    asked = rows.ask(planned)
    bounds = (
        (Objective.PEAK, result.peak_bound, _proof_name(result.peak_proof)),
        (Objective.SLAB, result.slab_bound, _proof_name(result.slab_proof)),
    )
    # The best plan of a capacity that is not met answers nothing; the bounds do.
    too_large = result.capacity is not None and (result.slab or 0) > result.capacity
    plan = None
    if result.plan is None or too_large:
        pass
    elif check:
        plan = prepare_plan(asked, result.plan, question)
    else:
        plan = _pack_plan(asked, result.plan, result.peak or 0, result.slab or 0)
    return PreparedResult(
        asked.text.row,
        question,
        plan,
        bounds,
        result.stop_reason,
        None if search is None else globalise_search(asked.form, search),
        0 if search is None else search.units,
    )


def _question_about(graph: Graph, result: Result) -> Question:
    """Return the question of a result, which must be about the graph."""
    asked = result.question
    if asked is None:
        raise UsageError("a result without its question is not kept: nothing says what it is about")
    asked.require_about(graph)
    return asked


def prepare_plan(asked: rows.Asked, plan: Plan, question: StoredQuestion) -> PreparedPlan:
    """Check and pack a plan that answers a question."""
    checked = question.check(asked.graph, plan)
    return _pack_plan(asked, plan, checked.peak, checked.slab)


def _pack_plan(asked: rows.Asked, plan: Plan, peak: int, slab: int) -> PreparedPlan:
    return PreparedPlan(pack(globalise_plan(asked.form, asked.graph, plan)), peak, slab)


def _proof_name(rung: Proof | None) -> str:
    """Return what stands behind a bound: a claim is about the plan, the bound below is proved."""
    return "" if rung in (None, Proof.CLAIMED) else rung.value
