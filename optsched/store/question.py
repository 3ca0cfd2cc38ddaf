"""Questions about graphs, and the facts that a store has about their answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any

from optsched.check.plan import Checked, check_plan
from optsched.errors import FormatError, PlanError, UsageError, expect
from optsched.formats.fields import Record
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import Question
from optsched.runtime.facts import machine, versions
from optsched.runtime.limits import SIZES, Objective, Proof, choose_member
from optsched.runtime.text import readable

AMONG = "among"
"""Key of a provenance: the plans that an answer is about, in words."""


def stored_question(about: Graph | Question, question: Question | None = None) -> Question:
    """Return the question of a record, whose planned graph has the rules as edges.

    Raise `UsageError` if the question is about another graph, has a budget, limits moves or lets
    buffers spill: a store would compare its plans as if all were allowed.

    `about`, `question`: a question; or a graph, for its plan of minimum slab, or with a question
    about it.
    """
    expect("a store of plans", about, Graph, Question)
    expect("a store of plans", question, Question, NoneType)
    asked = Question(about) if isinstance(about, Graph) else about
    if question is not None:
        # Sizes and in-place pairs are part of both graphs: one of them would be ignored.
        if asked.graph != question.graph:
            raise UsageError("the graph is not that of the question; give a store one of the two")
        asked = question
    # Such answers are few, and depend on more than the store writes down.
    if asked.objective not in SIZES:
        kept, command = repr(str(asked.objective)), "optsched recompute -o"
    elif asked.max_moved is not None or asked.pools:
        kept, command = asked.restriction, "write_plan"
    else:
        return asked
    raise UsageError(
        f"{asked.graph.name}: a store does not keep answers about {kept}: keep the plan in a file "
        f"({command})"
    )


def question_text(question: Question) -> str:
    """Return the part of a question that a store writes beside the graph."""
    return objective_text(question.objective, question.capacity)


def objective_text(objective: Objective, capacity: int | None = None) -> str:
    """Return the text of a question that asks for the objective, or for a slab that fits."""
    record: dict[str, Any] = {"objective": objective.value}
    if capacity is not None:
        record["capacity"] = capacity
    # The sequence of keys is fixed here, so equal questions are equal texts.
    return json.dumps(record, separators=(",", ":"))


def read_question(document: object) -> tuple[Objective, int | None]:
    """Return objective and capacity of parsed JSON, such as that of :func:`question_text`.

    Raise `FormatError` on a missing, unknown or malformed field.
    """
    record = Record(document, "question")
    record.refuse_unknown({"objective", "capacity"})
    name = record.text("objective")
    if name not in SIZES:
        raise FormatError(f"question: objective {name[:60]!r} is none of {', '.join(SIZES)}")
    capacity = record.count("capacity") if record.has("capacity") else None
    return choose_member(Objective, name, "objective"), capacity


def check_answer(
    question: Question, plan: Plan, *, peak: int | None = None, slab: int | None = None
) -> Checked:
    """Check a plan as an answer to a question, and its claims.

    Raise `PlanError` if it breaks a rule of the graph, does not fit, or moves buffers to other
    pools.
    """
    expect("a store of plans", plan, Plan)
    graph = question.planned
    if plan.pools and plan.placed(graph) is not graph:
        raise PlanError("a plan that moves buffers between pools answers a question of pools")
    checked = check_plan(graph, plan, peak=peak, slab=slab)
    if question.capacity is not None and checked.slab > question.capacity:
        raise PlanError(f"slab of {checked.slab} bytes exceeds the capacity of {question.capacity}")
    return checked


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound: no plan that answers the question needs less."""

    quantity: Objective
    """Quantity that is bounded."""
    value: int
    """Bytes."""
    proof: str = ""
    """Code of a :class:`Proof`; empty for a bound that an engine proved on the way to one."""
    certified: bool = False
    """True if the store has a certificate that the checker accepted."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Origin of the bound: versions, limits, machine (:func:`provenance`)."""
    withdrawn: str = ""
    """Reason why it no longer counts; empty if it does."""

    @property
    def counts(self) -> bool:
        """True if it has a proof and is not only claimed."""
        return not self.withdrawn and self.proof != Proof.CLAIMED

    @property
    def made_by(self) -> Any:
        """Versions of the packages that proved it; None if unknown."""
        return self.provenance.get("versions")


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One entry of a record's history."""

    number: int
    """Ascending in the full store, regardless of clocks."""
    what: str
    """`plan`, `bound`, `certificate`, `withdrawn` ..."""
    detail: Mapping[str, Any]
    """The numbers."""
    at: float
    """Seconds since 1970 by the clock of the machine that wrote it; deletion by age uses it."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """All that a store knows about a question, without the plan and the certificate."""

    number: int
    """Number of the record in its file."""
    key: str
    """Key of the graph (:func:`optsched.store.graph_key`)."""
    objective: Objective
    capacity: int | None
    """`objective` and `capacity`: quantity to minimize first, and bytes of slab that are enough;
    None for the minimum."""
    name: str
    memory_model: str
    ops: int
    buffers: int
    bytes: int
    """`name`, `memory_model`, `ops`, `buffers` and `bytes`: of the graph that was stored first:
    name, memory model, counts, and bytes of all buffers."""
    peak: int | None
    slab: int | None
    """`peak` and `slab`: bytes of the best plan; None where there is none yet."""
    provenance: Mapping[str, Any]
    """Origin of the plan."""
    bounds: tuple[Bound, ...]
    """All bounds that were proved, claimed or withdrawn."""
    search_bytes: int
    """Size of the stored state of a search; 0 without one."""

    @property
    def among(self) -> str:
        """The plans that answers are about, in words; empty if they are all of the graph's.

        Order rules are edges of the stored graph, which no longer shows that they were asked for.
        """
        origins = (self.provenance, *(bound.provenance for bound in self.bounds))
        found = (origin.get(AMONG) for origin in origins)
        # Provenance of imported stores may be anything.
        return next((readable(x, 200) for x in found if isinstance(x, str)), "")

    @property
    def value(self) -> int | None:
        """Bytes of the objective that the best plan needs."""
        return self.peak if self.objective is Objective.PEAK else self.slab

    @property
    def best_bound(self) -> Bound:
        """The highest bound on the objective that counts."""
        return objective_bound(self.bounds, self.objective)

    @property
    def is_proved(self) -> bool:
        """True if the plan is proved optimal."""
        return self.value is not None and self.value == self.best_bound.value


def best_bound(bounds: tuple[Bound, ...], quantity: Objective) -> Bound:
    """Return the greatest bound that counts, one with a certificate among equals."""
    known = [bound for bound in bounds if bound.counts and bound.quantity is quantity]
    # A bound of 0 that always holds, so that there is a greatest one.
    known.append(Bound(quantity, 0))
    # Among equal values one that can be verified, then one that was proved, is worth more.
    return max(known, key=lambda bound: (bound.value, bound.certified, bound.proof != ""))


def objective_bound(bounds: tuple[Bound, ...], objective: Objective) -> Bound:
    """Return the highest bound on the objective that counts.

    No slab is smaller than the peak of its order, so a bound on the peak is one on the slab, too.
    """
    own = best_bound(bounds, objective)
    if objective is Objective.SLAB:
        peak = best_bound(bounds, Objective.PEAK)
        # A certificate decides between equal values.
        if (peak.value, peak.certified) > (own.value, own.certified):
            return replace(peak, quantity=objective, proof=Proof.JOINT if peak.proof else "")
    return own


def among_record(words: str) -> dict[str, str]:
    """Return the provenance field that tells which plans an answer is about; none for all."""
    return {AMONG: words} if words else {}


def provenance(**more: Any) -> dict[str, Any]:
    """Return the origin of an answer: versions, machine, and the given fields."""
    return {"versions": versions(), "machine": machine(), "system": sys.platform, **more}
