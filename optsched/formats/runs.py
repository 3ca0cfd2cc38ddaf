"""Plan files with repeats: `optsched-plan/1` whose order names an op more than once.

Offsets are those of the unrolled graph, in which the second copy of buffer `x` is `x@2`
(:mod:`optsched.model.runs`). The key `recompute` states the budget and what the repeats cost.
:func:`planned_graph` returns the graph to check such a plan with.

Example: `"order": ["a", "b", "c", "a", "d"]` with `"offsets": {"x": 0, "y": 5, "x@2": 1, ..}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from optsched.errors import PlanError
from optsched.formats.fields import Record
from optsched.formats.format import Content
from optsched.formats.native_plan import plan_document
from optsched.formats.opening import opened
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import contents_digest
from optsched.model.runs import Unrolled, unroll

RECOMPUTE_KEYS = ("peak", "extra", "bound", "cost_unit", "loss")


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


def planned_graph(path: str | PathLike[str], graph: Graph) -> Graph:
    """Return the graph that a plan file plans: unrolled if its order has repeats.

    Raises
    ------
    PlanError
        If the order names an unknown op, repeats an op that runs once, or breaks a dependency.
    """
    with opened(str(path), Content.PLAN) as (_, source):
        document = source.document
    return unrolled_for(graph, document)


def unrolled_for(graph: Graph, document: Mapping[str, Any]) -> Graph:
    """Return the graph of a parsed plan file."""
    order = document.get("order")
    if "recompute" not in document or not isinstance(order, list):
        return graph
    names = Record(document, "plan").texts("order")
    missing = [name for name in names if name not in graph.op_ids]
    if missing:
        raise PlanError(f"plan names op {missing[0][:200]!r}, which is not in graph {graph.name!r}")
    # Another version of the model may have the same names.
    if document.get("contents") not in (None, contents_digest(graph)):
        raise PlanError(f"plan is not of graph {graph.name!r}: its contents differ")
    return unroll(graph, [graph.op_ids[name] for name in names]).graph


def recompute_claims(path: str | PathLike[str]) -> dict[str, Any] | None:
    """Return what a plan file states under `recompute`, or None."""
    with opened(str(path), Content.PLAN) as (_, source):
        document = source.document
    if "recompute" not in document:
        return None
    record = Record(Record(document, "plan").mapping("recompute"), "recompute")
    record.refuse_unknown(RECOMPUTE_KEYS)
    found: dict[str, Any] = {key: record.count(key) for key in ("peak", "extra")}
    found["bound"] = record.count("bound") if record.has("bound") else None
    return found | {"cost_unit": record.text("cost_unit"), "loss": record.texts("loss", [])}
