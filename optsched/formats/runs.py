"""Plan files with repeats: `optsched-plan/1` whose order names an op more than once.

Offsets are those of the unrolled graph, in which the second copy of buffer `x` is `x@2`
(:mod:`optsched.model.runs`). The key `recompute` states the budget and what the repeats cost.

Example: `"order": ["a", "b", "c", "a", "d"]` with `"offsets": {"x": 0, "y": 5, "x@2": 1, ..}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from optsched.errors import PlanError, UsageError
from optsched.formats.fields import Record
from optsched.formats.native_plan import plan_document, read_plan_document
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import contents_digest
from optsched.model.runs import Unrolled, unroll

RECOMPUTE_KEYS = ("peak", "extra", "bound", "cost_unit", "loss")


@runtime_checkable
class WithRepeats(Protocol):
    """The result of `recompute`, as far as its file needs it."""

    @property
    def graph(self) -> Graph:
        """Graph whose ops run again."""

    @property
    def unrolled(self) -> Unrolled:
        """The graph with an op per run; raises `UsageError` without a plan."""

    @property
    def budget(self) -> int:
        """Most bytes that may be live."""

    @property
    def extra(self) -> int | None:
        """Cost of the repeats."""

    @property
    def bound(self) -> int | None:
        """Lower bound on the cost of repeats within the budget."""

    @property
    def loss(self) -> tuple[str, ...]:
        """Names of the ops that make the loss."""

    def pack(self, seconds: float) -> Plan | None:
        """Return the runs with offsets, packed within a time."""


def result_document(
    result: WithRepeats, graph: Graph | None = None, seconds: float = 5.0
) -> dict[str, Any]:
    """Return the plan file of a result; its offsets are packed within a time.

    `graph` is the graph as it was given, if costs were added to it for the search.

    Raises
    ------
    UsageError
        If the result has no plan, or no offsets were found in time.
    """
    unrolled = result.unrolled
    plan = result.pack(seconds)
    if plan is None:
        raise UsageError(f"no offsets were found for the plan within {seconds:g} s")
    claims = {
        "peak": result.budget,
        "extra": result.extra,
        "bound": result.bound,
        "cost_unit": result.graph.cost_unit,
        "loss": list(result.loss),
    }
    return runs_document(graph or result.graph, unrolled, plan, claims)


def runs_document(
    graph: Graph, unrolled: Unrolled, plan: Plan, claims: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the plan file of a plan of an unrolled graph; `claims` go under `recompute`."""
    document = plan_document(unrolled.graph, plan)
    # Names of the graph as it was given, each as often as it runs.
    document["order"] = [graph.ops[v].name for v in unrolled.reorder(plan.order)]
    document["contents"] = contents_digest(graph)
    document["recompute"] = dict(claims)
    return document


class Repeats(NamedTuple):
    """A plan file with repeats, read beside its graph but not checked."""

    unrolled: Unrolled
    plan: Plan
    claims: dict[str, Any]
    """Fields that plans without repeats have as well."""
    stated: dict[str, Any]
    """Fields of the key `recompute`."""


def read_repeats(graph: Graph, document: Mapping[str, Any]) -> Repeats:
    """Return the plan of a parsed document, for the unrolled graph.

    Raise `FormatError` if a field is missing, unknown or malformed. Raise `PlanError` if the order
    names an unknown op, repeats an op that runs once, or breaks a dependency.
    """
    top = Record(document, "plan")
    names = top.texts("order")
    for name in names:
        if name not in graph.op_ids:
            raise PlanError(f"plan names op {name[:200]!r}, which is not in graph {graph.name!r}")
    unrolled = unroll(graph, [graph.op_ids[name] for name in names])
    # The unrolled graph has an op per run, in the order of the file.
    runs = {"order": [op.name for op in unrolled.graph.ops]}
    plain = {key: value for key, value in document.items() if key != "recompute"}
    plan, claims = read_plan_document(unrolled.graph, plain | runs)
    return Repeats(unrolled, plan, claims, _stated(Record(top.mapping("recompute"), "recompute")))


def _stated(record: Record) -> dict[str, Any]:
    record.refuse_unknown(RECOMPUTE_KEYS)
    found: dict[str, Any] = {key: record.count(key) for key in ("peak", "extra")}
    found["bound"] = record.count("bound") if record.has("bound") else None
    return found | {"cost_unit": record.text("cost_unit"), "loss": record.texts("loss", [])}
