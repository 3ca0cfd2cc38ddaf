"""Native JSON formats of modules and their plans, `optsched-module/1` and `optsched-module-plan/1`.

A module has graphs by name, each in the form of `optsched-graph/1`, and the calls between them. Its
plan has a plan of each computation in the form of `optsched-plan/1`; offsets in a called
computation count from the start of its block, which has an offset in each caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from optsched.check.certificate import Certificate
from optsched.errors import FormatError, GraphError, PlanError
from optsched.formats.certificate import certificate_document, read_certificate_document
from optsched.formats.fields import Record, check_format
from optsched.formats.format import Source
from optsched.formats.native import GRAPH_FORMAT, graph_document, read_graph_document
from optsched.formats.native_plan import plan_document, read_plan_document
from optsched.model.graph import Graph
from optsched.model.module import Call, Module, listed_graph
from optsched.model.plan import Plan

MODULE_FORMAT = "optsched-module/1"
MODULE_PLAN_FORMAT = "optsched-module-plan/1"
MODULE_CERTIFICATE_FORMAT = "optsched-module-certificate/1"

_MODULE_KEYS = {"format", "name", "entry", "computations", "calls"}
_CALL_KEYS = {"computation", "op", "calls", "results_inside"}
_PLAN_KEYS = {"format", "module", "computations", "versions"}

_Found = TypeVar("_Found")

Claims = dict[str, dict[str, Any]]
"""Claims of a plan file besides order and offsets, by computation."""


def module_document(module: Module) -> dict[str, Any]:
    """Return a module as a JSON object, which :func:`read_module_document` restores."""
    document: dict[str, Any] = {
        "format": MODULE_FORMAT,
        "name": module.name,
        "entry": module.entry,
        "calls": [
            {
                "computation": call.computation,
                "op": call.op,
                "calls": list(call.callees),
                **({"results_inside": True} if call.results_inside else {}),
            }
            for call in module.calls
        ],
    }
    graphs = {name: graph_document(graph) for name, graph in module.graphs.items()}
    for name, graph in graphs.items():
        del graph["format"]
        # A graph is named after its computation unless it says otherwise.
        if graph["name"] == name:
            del graph["name"]
    return {**document, "computations": graphs}


def read_module_document(document: object, name: str = "module") -> Module:
    """Return the module of a parsed `optsched-module/1` document; `name` is the default name.

    `FormatError` is raised for a missing, unknown or malformed field or an unknown version;
    `GraphError` if a graph or the module breaks a rule, such as a missing computation or a cycle.
    """
    top = Record(document, "module")
    check_format(top, MODULE_FORMAT)
    top.refuse_unknown(_MODULE_KEYS)
    graphs = {}
    for key, value in top.mapping("computations").items():
        row = Record(value, f"computation {key!r}").value
        full = {"format": GRAPH_FORMAT, "name": key, **row}
        graphs[key] = _named(key, read_graph_document, full)
    calls = []
    for number, value in enumerate(top.items("calls", [])):
        record = Record(value, f"call number {number}")
        record.refuse_unknown(_CALL_KEYS)
        callees, inside = tuple(record.texts("calls")), record.flag("results_inside", False)
        calls.append(Call(record.text("computation"), record.text("op"), callees, inside))
    return Module(top.text("name", name), graphs, top.text("entry"), tuple(calls))


def module_plan_document(
    module: Module, plans: Mapping[str, Plan], claims: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Return a plan of a module as a JSON object.

    `claims` are further facts by computation, as for :func:`plan_document`, and `peak` including
    that of callees. Those under the key `""` concern the whole module: `versions`.
    """
    slabs: dict[str, int] = {}
    rows = {}
    # Callees first: a caller's graph has the callee's block in it.
    for name in module.computations:
        graph = module.with_blocks(name, slabs)
        slabs[name] = plans[name].slab(graph)
        known = (claims or {}).get(name, {})
        rows[name] = plan_document(graph, plans[name], {**known, "trace": None, "versions": None})
        # The peak counts a callee's live bytes, not its block.
        rows[name]["peak"] = known.get("peak", rows[name]["peak"])
    document: dict[str, Any] = {"format": MODULE_PLAN_FORMAT, "module": module.name}
    versions = (claims or {}).get("", {}).get("versions")
    return {**document, **({"versions": versions} if versions else {}), "computations": rows}


def read_module_plan(module: Module, document: object) -> tuple[dict[str, Plan], Claims]:
    """Return plans and claims by computation from a parsed `optsched-module-plan/1` document.

    Names and types are checked as by :func:`read_plan_document`, and that the plan is of this
    module. :func:`optsched.check.module.check_module` checks the rest.
    """
    rows = _rows_of(module, document, MODULE_PLAN_FORMAT, "plan")
    slabs: dict[str, int] = {}
    plans: dict[str, Plan] = {}
    claims: Claims = {}
    for name in module.computations:
        graph = module.with_blocks(name, slabs)
        plans[name], claims[name] = _named(name, _read_plan, graph, rows[name])
        # The block of a callee lies in its caller's slab, in one piece.
        if plans[name].pools and name != module.entry:
            raise PlanError(f"computation {name!r}: a called computation has one block, no pools")
        slabs[name] = plans[name].slab(graph)
    return plans, claims


def _read_plan(graph: Graph, document: object) -> tuple[Plan, dict[str, Any]]:
    if "recompute" in Record(document, "plan").value:
        raise FormatError("plan: a computation of a module has no repeats (recompute)")
    return read_plan_document(graph, document)


def module_certificate_document(
    module: Module, certificates: Mapping[str, Certificate]
) -> dict[str, Any]:
    """Return certificates of all computations as a JSON object."""
    shown = {name: certificate.bound for name, certificate in certificates.items()}
    rows = {
        name: certificate_document(module.with_blocks(name, shown), certificates[name])
        for name in module.computations
    }
    return {"format": MODULE_CERTIFICATE_FORMAT, "module": module.name, "computations": rows}


def read_module_certificate(module: Module, document: object) -> dict[str, Certificate]:
    """Return certificates by computation from a parsed document; errors are as for plans."""
    rows = _rows_of(module, document, MODULE_CERTIFICATE_FORMAT, "certificate")
    shown: dict[str, int] = {}
    found: dict[str, Certificate] = {}
    for name in module.computations:
        # The bound of a callee is the least block that it can have.
        graph = module.with_blocks(name, shown)
        found[name] = _named(name, read_certificate_document, graph, rows[name])
        shown[name] = found[name].bound
    return found


def _rows_of(module: Module, document: object, wanted: str, what: str) -> dict[str, Any]:
    """Return a document's entries by computation of its module."""
    top = Record(document, f"module {what}")
    check_format(top, wanted)
    top.refuse_unknown(_PLAN_KEYS)
    if top.text("module") != module.name:
        raise PlanError(f"{what} is of module {top.text('module')!r}, this is {module.name!r}")
    rows = top.mapping("computations")
    for name in rows:
        if name not in module.graphs:
            raise PlanError(
                f"{what} of computation {name!r}, which is not in module {module.name!r}"
            )
    # Both ways: nothing unknown, nothing missing.
    for name in module.graphs:
        if name not in rows:
            raise PlanError(f"computation {name!r} has no {what}")
    return rows


def _named(name: str, read: Callable[..., _Found], *things: object) -> _Found:
    """Call a reader for a computation, whose name is added to errors."""
    try:
        return read(*things)
    except (FormatError, GraphError, PlanError) as error:
        raise type(error)(f"computation {name!r}: {error}") from None


def read_native_entry(source: Source) -> Graph:
    """Return the graph of a module file's entry, with callees as workspace."""
    return listed_graph(read_native_module(source))


def read_native_module(source: Source) -> Module:
    """Return the module of a file."""
    return read_module_document(source.document, source.name)
