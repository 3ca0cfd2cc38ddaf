"""Native JSON format of plans, `optsched-plan/1`, which identifies ops and buffers by name.

Plans are written and read without loss; `docs/reference/file-formats.md` shows an example.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol, runtime_checkable

from optsched.check.plan import check_plan
from optsched.errors import PlanError
from optsched.formats.fields import Record, check_format
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.model.question import contents_digest

PLAN_FORMAT = "optsched-plan/1"

NUMBERS = ("peak", "slab")
BOUNDS = ("peak_bound", "slab_bound")
NOTES = ("objective", "peak_proof", "slab_proof", "memory_model")

_PLAN_KEYS = {
    *("format", "graph", "contents", "inplace", "order", "offsets", "slabs", "pool", "capacities"),
    *("dims", "versions", "trace", "order_rules", "recompute", "tiling"),
    *NUMBERS,
    *BOUNDS,
    *NOTES,
}
RULE_KEYS = ("first", "last", "groups")
_RULE_KEYS = (*RULE_KEYS, "baseline", "max_moved", "moved", "moved_bound")
_EVENT_KEYS = {"microseconds", "incumbent", "bound", "source"}


@runtime_checkable
class Planned(Protocol):
    """The result of a solver: its graph, and a plan if one was found."""

    @property
    def plan(self) -> Plan | None:
        """Plan that was found, or None."""

    @property
    def graph(self) -> Graph | None:
        """Graph of the plan, or None if unknown."""


@runtime_checkable
class Ordered(Protocol):
    """A result with the rules by which its order was chosen."""

    def order_record(self) -> dict[str, Any]:
        """Return the rules and the facts about moved ops."""


def claims_of(result: object) -> dict[str, Any]:
    """Return the claims of a solver's result besides its plan: bounds, proofs, objective."""
    found = {key: getattr(result, key, None) for key in (*BOUNDS, *NOTES)}
    if isinstance(result, Ordered):
        found["order_rules"] = result.order_record() or None
    return {key: value for key, value in found.items() if value is not None}


def plan_document(
    graph: Graph, plan: Plan, claims: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a plan as a JSON object.

    Only buffers have offsets in the document; views share them. With several pools, the slab of
    each is written too. `claims` are further facts: the keys in :data:`BOUNDS`, :data:`NOTES`,
    `order_rules`, `versions` and `trace` are written if not None, and `capacities` if the plan
    assigns buffers to pools. Peak and slab are those of the plan.

    Raise `PlanError` if the document would be read as another plan, which is not valid.
    """
    slabs = plan.slabs(graph)
    # Measured here; the solver's own figures are not taken over.
    known = {**(claims or {}), "peak": plan.peak(graph), "slab": sum(slabs.values())}
    known["memory_model"] = graph.memory_model
    document: dict[str, Any] = {"format": PLAN_FORMAT, "graph": graph.name}
    # A digest, so that a plan of an older version of the model is noticed.
    document["contents"] = contents_digest(graph)
    if graph.in_place:
        document["inplace"] = True
    if graph.dims:
        document["dims"] = dict(graph.dims)
    for key in (*NUMBERS, *BOUNDS, *NOTES, "order_rules", "versions", "trace"):
        if known.get(key) is not None:
            document[key] = known[key]
    if len(slabs) > 1 or plan.pools:
        document["slabs"] = slabs
    if plan.pools:
        document["capacities"] = dict(known.get("capacities") or {})
    places = places_document(graph, plan)
    read = read_places(graph, Record(places, "plan"))
    # A file has offsets and pools of placed buffers alone: it must be valid as it is read, too.
    if read != plan:
        check_plan(graph, read, peak=known["peak"], slab=known["slab"])
    return document | places


def places_document(graph: Graph, plan: Plan) -> dict[str, Any]:
    """Return order, offsets and pools of a plan by name, as its document states them."""
    buffers, ops, offsets = graph.buffers, graph.ops, plan.offsets
    # Views lie where their roots do.
    placed = [
        b
        for b, (offset, root) in enumerate(zip(offsets, graph.roots, strict=True))
        if offset is not None and root == b
    ]
    document: dict[str, Any] = {}
    if plan.pools:
        document["pool"] = {buffers[b].name: plan.pools[b] for b in placed}
    document["order"] = [ops[v].name for v in plan.order]
    document["offsets"] = {buffers[b].name: offsets[b] for b in placed}
    return document


def read_plan_document(graph: Graph, document: object) -> tuple[Plan, dict[str, Any]]:
    """Return the plan of a parsed `optsched-plan/1` document, and all other fields as claims.

    Only names and types are checked; `optsched.check.plan.check_plan` checks plans. `FormatError`
    is raised for a missing, unknown or malformed field or version, and `PlanError` if the plan
    names an op or buffer that the graph does not have, or gives a view an offset.
    """
    top = Record(document, "plan")
    check_format(top, PLAN_FORMAT)
    top.refuse_unknown(_PLAN_KEYS)
    if "tiling" in top.value:
        raise PlanError("plan is of a model in row bands: give it to check with the model's file")
    claims: dict[str, Any] = {"graph": top.text("graph"), "inplace": top.flag("inplace", False)}
    claims |= {key: top.count(key) for key in NUMBERS}
    claims |= {key: top.count(key) for key in BOUNDS if key in top.value}
    claims |= {key: top.text(key) for key in NOTES if key in top.value}
    if "contents" in top.value:
        claims["contents"] = top.text("contents")
    for key in ("slabs", "capacities", "dims"):
        if key in top.value:
            numbers = Record(top.mapping(key), key)
            claims[key] = {name: numbers.count(name) for name in numbers.value}
    if "order_rules" in top.value:
        claims["order_rules"] = read_rules(top)
    if "versions" in top.value:
        versions = Record(top.mapping("versions"), "versions")
        claims["versions"] = {key: versions.text(key) for key in versions.value}
    if "trace" in top.value:
        claims["trace"] = [_read_event(i, x) for i, x in enumerate(top.items("trace"))]
    if "recompute" in top.value and len(set(names := top.texts("order"))) < len(names):
        raise PlanError("plan runs ops again (recompute): check, report and export take it")
    return read_places(graph, top), claims


def read_places(graph: Graph, top: Record) -> Plan:
    """Return the plan whose order, offsets and pools a document names; only names are checked."""
    names = top.texts("order")
    # All at once; the error about one that is not in the graph names it.
    try:
        order = tuple(map(graph.op_ids.__getitem__, names))
    except KeyError:
        order = tuple(_planned_id(graph, graph.op_ids, name, "op") for name in names)
    offsets = _read_offsets(graph, Record(top.mapping("offsets"), "offsets"))
    pools = _read_pools(graph, Record(top.mapping("pool"), "pool")) if "pool" in top.value else ()
    return Plan(order, offsets, pools)


def read_rules(document: Record, known: Collection[str] = _RULE_KEYS) -> dict[str, Any]:
    """Return the field `order_rules` of a document: rules, and facts about moved ops."""
    record = Record(document.mapping("order_rules"), "order_rules")
    record.refuse_unknown(set(known))
    found: dict[str, Any] = {
        key: record.texts(key) for key in ("first", "last", "baseline") if key in record.value
    }
    groups = enumerate(record.items("groups", []))
    found["groups"] = [
        Record({"ops": x}, f"order_rules: group {i}").texts("ops") for i, x in groups
    ]
    numbers = ("max_moved", "moved", "moved_bound")
    return found | {key: record.count(key) for key in numbers if key in record.value}


def _read_event(number: int, value: object) -> dict[str, Any]:
    record = Record(value, f"trace event number {number}")
    record.refuse_unknown(_EVENT_KEYS)
    found: dict[str, Any] = {key: record.count(key) for key in ("microseconds", "bound")}
    found["incumbent"] = record.count("incumbent") if record.has("incumbent") else None
    return {**found, "source": record.text("source")}


def _read_offsets(graph: Graph, record: Record) -> tuple[int | None, ...]:
    roots, ids = graph.roots, list(map(graph.buffer_ids.get, record.value))
    # All at once; the error about a name says what is wrong with it.
    if None in ids or [roots[b or 0] for b in ids] != ids:
        ids = [_planned_root(graph, name, "an offset") for name in record.value]
    placed: list[int | None] = [None] * len(graph.buffers)
    for b, (name, offset) in zip(ids, record.value.items(), strict=True):
        # A call per buffer takes longer.
        placed[b or 0] = offset if type(offset) is int and offset >= 0 else record.count(name)
    return tuple([placed[root] for root in roots])


def _read_pools(graph: Graph, record: Record) -> tuple[str, ...]:
    placed = [graph.buffers[root].pool for root in graph.roots]
    for name in record.value:
        placed[_planned_root(graph, name, "a pool")] = record.text(name)
    return tuple(placed[root] for root in graph.roots)


def _planned_root(graph: Graph, name: str, place: str) -> int:
    b = _planned_id(graph, graph.buffer_ids, name, "buffer")
    if graph.roots[b] != b:
        root = graph.buffers[graph.roots[b]].name
        raise PlanError(f"plan gives view {name!r} {place}: only its root {root!r} has one")
    return b


def _planned_id(graph: Graph, ids: Mapping[str, int], name: str, what: str) -> int:
    if name not in ids:
        raise PlanError(f"plan names {what} {name[:200]!r}, which is not in graph {graph.name!r}")
    return ids[name]
