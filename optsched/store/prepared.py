"""Results in the form of rows of a store, prepared where the graph is.

The process that searched has the graph: it checks the plan, and packs plan and orders. The process
that writes the store then works without graph and plan.
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
from optsched.store.question import check_answer, question_text, stored_question
from optsched.store.translate import pack, pack_search, plan_document


class PreparedPlan(NamedTuple):
    """A plan that the checker passed: packed, and the bytes that the checker measured."""

    packed: bytes
    peak: int
    slab: int


@dataclass(frozen=True)
class PreparedResult:
    """The parts of a result that are stored, as plain data that can be sent between processes."""

    graph: rows.GraphRow
    question: str
    objective: Objective
    """`graph`, `question` and `objective`: the graph, the rest of the question as a store writes
    it, and its objective."""
    plan: PreparedPlan | None
    """The packed plan, or None."""
    bounds: tuple[tuple[Objective, int, str], ...]
    """Quantity, bytes and kind of proof of each bound; the proof may be empty."""
    stop_reason: StopReason
    """Why the search ended."""
    search: bytes | None = None
    units: int = 0
    """`search` and `units`: packed state for the next search, and its units of work; None: keep the
    stored state."""
    among: str = ""
    """The plans that the result is about, in words; empty if they are all of the graph's."""


def prepare_result(
    graph: Graph, result: Result, search: Resume | None = None, *, check: bool = True
) -> PreparedResult:
    """Check and pack a result of :func:`optsched.solve`.

    It is kept under the result's own question. Order rules are control edges of the graph there,
    so that bounds proved under rules are never read as bounds of the graph without them.

    Raise `UsageError` if the result is of another graph, or its question is one that a store does
    not keep. Raise `PlanError` if the plan breaks a rule of the graph, or does not fit.

    `graph`, `result`, `search`: the graph, its result, and the state for the next search. `check`:
    True to check the plan; not needed for a plan that was solved, and so checked, in this process.
    """
    expect("a store of plans", graph, Graph)
    expect("a store of plans", result, Result)
    # The rules of the question are edges of the planned graph.
    asked = _question_about(graph, result)
    planned = stored_question(asked).planned
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
        plan = prepare_plan(asked, result.plan)
    # Measured by the caller's own check.
    else:
        plan = _pack_plan(planned, result.plan, result.peak or 0, result.slab or 0)
    return PreparedResult(
        rows.graph_row(planned),
        question_text(asked),
        asked.objective,
        plan,
        bounds,
        result.stop_reason,
        None if search is None else pack_search(planned, search),
        0 if search is None else search.units,
        asked.restriction,
    )


def _question_about(graph: Graph, result: Result) -> Question:
    """Return the question of a result, which must be about the graph."""
    asked = result.question
    if asked is None:
        raise UsageError("a result without its question is not kept: nothing says what it is about")
    asked.require_about(graph)
    return asked


def prepare_plan(question: Question, plan: Plan) -> PreparedPlan:
    """Check and pack a plan that answers a question."""
    checked = check_answer(question, plan)
    return _pack_plan(question.planned, plan, checked.peak, checked.slab)


def _pack_plan(graph: Graph, plan: Plan, peak: int, slab: int) -> PreparedPlan:
    return PreparedPlan(pack(plan_document(graph, plan)), peak, slab)


def _proof_name(rung: Proof | None) -> str:
    """Return the kind of proof of a bound; a claim is about the plan, not about the lower bound."""
    return "" if rung in (None, Proof.CLAIMED) else rung.value
