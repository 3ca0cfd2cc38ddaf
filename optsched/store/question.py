"""Questions about graphs, and the facts that a store has about their answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from optsched.check.plan import Checked, check_plan
from optsched.errors import FormatError, PlanError, UsageError, expect
from optsched.formats.fields import Record
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.pools import Pool
from optsched.model.question import Question
from optsched.runtime.facts import machine, versions
from optsched.runtime.limits import SIZES, Limits, Objective, Proof, choose_member
from optsched.runtime.text import readable

_KEYS = {"objective", "capacity", "pools", "rules"}
AMONG = "among"
"""Key of a provenance: the plans that an answer is about, in words."""


@dataclass(frozen=True)
class StoredQuestion:
    """The part of a question that a store writes beside the graph; both together name a record.

    The memory model and order rules are part of the graph (:attr:`Question.planned`), in which
    sizes, in-place pairs and control edges are plain data.

    Parameters
    ----------
    objective
        Quantity to minimize first; the other breaks ties.
    capacity
        Bytes that the slab may have; None for any number.
    pools
        Names and capacities of slabs, preferred first; empty if each buffer stays in the pool
        that it names.
    rules
        Anything else that answers depend on and that the graph does not show.
    """

    objective: Objective = Objective.SLAB
    capacity: int | None = None
    pools: tuple[tuple[str, int | None], ...] = ()
    rules: str = ""

    def __post_init__(self) -> None:
        # A store has no budgets and no sequences with repeats.
        if self.objective not in SIZES:
            raise UsageError(
                f"a store does not keep answers about {str(self.objective)!r}: keep the plan in a "
                "file (optsched recompute -o)"
            )

    @cached_property
    def text(self) -> str:
        """The question as a store writes it; equal for equal questions alone."""
        record: dict[str, Any] = {"objective": self.objective.value}
        if self.capacity is not None:
            record["capacity"] = self.capacity
        if self.pools:
            record["pools"] = [list(pool) for pool in self.pools]
        if self.rules:
            record["rules"] = self.rules
        # The sequence of keys is fixed here, so equal questions are equal texts.
        return json.dumps(record, separators=(",", ":"))

    @property
    def capacities(self) -> dict[str, int]:
        """Capacities by pool; the one of a single slab is not among them."""
        return {name: bytes_ for name, bytes_ in self.pools if bytes_ is not None}

    def about(self, graph: Graph) -> Question:
        """Return the full question about a planned graph."""
        pools = tuple(Pool(name, capacity) for name, capacity in self.pools)
        return Question(graph, objective=self.objective, capacity=self.capacity, pools=pools)

    def check(
        self, graph: Graph, plan: Plan, *, peak: int | None = None, slab: int | None = None
    ) -> Checked:
        """Check a plan as an answer to this question about a graph, and its claims.

        Raises
        ------
        PlanError
            If it breaks a rule of the graph, does not fit, or moves buffers without being asked.
        """
        expect("a store of plans", plan, Plan)
        # Only a question about pools leaves open in which pool a buffer lies.
        if not self.pools and plan.pools and plan.placed(graph) is not graph:
            raise PlanError("a plan that moves buffers between pools answers a question of pools")
        checked = check_plan(graph, plan, peak=peak, slab=slab, capacities=self.capacities)
        if self.capacity is not None and checked.slab > self.capacity:
            raise PlanError(f"slab of {checked.slab} bytes exceeds the capacity of {self.capacity}")
        return checked

    def __str__(self) -> str:
        words = [self.objective.value]
        if self.capacity is not None:
            words.append(f"capacity {self.capacity:,}")
        words += [f"{n} {'any' if size is None else format(size, ',')}" for n, size in self.pools]
        return ", ".join([*words, self.rules] if self.rules else words)


def read_question(document: object) -> StoredQuestion:
    """Make a question of parsed JSON, such as that of :attr:`StoredQuestion.text`.

    Raises
    ------
    FormatError
        On a missing, unknown or malformed field.
    """
    record = Record(document, "question")
    record.refuse_unknown(_KEYS)
    name = record.text("objective")
    if name not in SIZES:
        raise FormatError(f"question: objective {name[:60]!r} is none of {', '.join(SIZES)}")
    # A pool without a capacity is written as [name, null].
    pools = []
    for row in record.items("pools", []):
        if not isinstance(row, list) or len(row) != 2:
            raise FormatError("question: pools are not pairs of a name and a capacity")
        pool = Record(dict(zip(("name", "capacity"), row, strict=True)), "question, pool")
        pools.append((pool.text("name"), pool.count("capacity") if pool.has("capacity") else None))
    return StoredQuestion(
        choose_member(Objective, name, "objective"),
        record.count("capacity") if record.has("capacity") else None,
        tuple(pools),
        record.text("rules", ""),
    )


Asking = StoredQuestion | Question
"""Second argument of a store: a question about the graph, or the part of one beside the graph."""
MINIMUM_SLAB = StoredQuestion()
"""Question of :func:`optsched.solve` and :func:`optsched.tune` if nothing else is asked."""
MINIMUM_PEAK = StoredQuestion(Objective.PEAK)
"""Question of compilers that pack the slab themselves."""


def stored_question(question: Question) -> tuple[Graph, StoredQuestion]:
    """Return the graph and the rest of a question, by which a store finds its record.

    Raises
    ------
    UsageError
        If the question limits moves or lets buffers spill: a store would compare its plans as if
        all were allowed.
    """
    # Such answers are few, and depend on more than the store writes down.
    if question.max_moved is not None or question.pools:
        raise UsageError(
            f"{question.graph.name}: a store does not keep answers about {question.restriction}: "
            "keep the plan in a file (write_plan)"
        )
    return question.planned, StoredQuestion(question.objective, question.capacity)


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound: no plan that answers the question needs less.

    Parameters
    ----------
    quantity
        Quantity that is bounded.
    value
        Bytes.
    proof
        Code of a :class:`Proof`; empty for a bound that an engine proved on the way to one.
    certified
        True if the store has a certificate that the checker accepted.
    provenance
        Origin of the bound: versions, limits, machine (:func:`provenance`).
    withdrawn
        Reason why it no longer counts; empty if it does.
    """

    quantity: Objective
    value: int
    proof: str = ""
    certified: bool = False
    provenance: Mapping[str, Any] = field(default_factory=dict)
    withdrawn: str = ""

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
    """One entry of a record's history.

    Parameters
    ----------
    number
        Ascending in the full store, regardless of clocks.
    what
        `plan`, `bound`, `certificate`, `withdrawn` ...
    detail
        The numbers.
    at
        Seconds since 1970 by the clock of the machine that wrote it; deletion by age uses it.
    """

    number: int
    what: str
    detail: Mapping[str, Any]
    at: float


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """All that a store knows about a question, without the plan and the certificate.

    Parameters
    ----------
    number
        Number of the record in its file.
    key
        Key of the graph (:func:`optsched.store.graph_key`).
    question
        The question.
    name, memory_model, ops, buffers, bytes
        Of the graph that was stored first: name, memory model, counts, and bytes of all buffers.
    peak, slab
        Bytes of the best plan; None where there is none yet.
    provenance
        Origin of the plan.
    bounds
        All bounds that were proved, claimed or withdrawn.
    search_bytes
        Size of the stored state of a search; 0 without one.
    """

    number: int
    key: str
    question: StoredQuestion
    name: str
    memory_model: str
    ops: int
    buffers: int
    bytes: int
    peak: int | None
    slab: int | None
    provenance: Mapping[str, Any]
    bounds: tuple[Bound, ...]
    search_bytes: int

    @property
    def among(self) -> str:
        """The plans that answers are about, in words; empty if they are all of the graph's.

        Order rules are edges of the stored graph, which no longer shows that they were asked for.
        """
        origins = (self.provenance, *(bound.provenance for bound in self.bounds))
        found = (origin.get(AMONG) for origin in origins)
        # Provenance of imported stores may be anything.
        return next((readable(x, 200) for x in found if isinstance(x, str)), self.question.rules)

    @property
    def value(self) -> int | None:
        """Bytes of the objective that the best plan needs."""
        return self.peak if self.question.objective is Objective.PEAK else self.slab

    @property
    def best_bound(self) -> Bound:
        """The highest bound on the objective that counts."""
        return objective_bound(self.bounds, self.question.objective)

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


def provenance(limits: Limits | None = None, **more: Any) -> dict[str, Any]:
    """Return the origin of an answer: versions, machine, limits, seed, and the given fields."""
    found: dict[str, Any] = {"versions": versions(), "machine": machine(), "system": sys.platform}
    if limits is not None:
        found["limits"] = {"seconds": limits.seconds, "work": limits.work}
        found |= {"workers": limits.workers, "seed": limits.seed}
    return {**found, **more}
