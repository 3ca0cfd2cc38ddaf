"""Writing of files: graphs, modules, plans, packings and certificates.

The path "-" is standard output, and a path that ends in .gz is compressed.

>>> from tempfile import TemporaryDirectory
>>> from optsched import GraphBuilder
>>> from optsched.formats.writing import write_graph
>>> with TemporaryDirectory() as folder:
...     write_graph(GraphBuilder("empty").build(), f"{folder}/graph.json.gz")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.errors import FormatError, UsageError
from optsched.formats.fields import json_bytes
from optsched.formats.format import Content
from optsched.formats.minimalloc import PackingTable
from optsched.formats.native_plan import Planned, claims_of
from optsched.formats.runs import WithRepeats, result_document
from optsched.formats.source import check_call, write_bytes
from optsched.formats.table import FORMATS
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.module import Module
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan
from optsched.runtime.collector import paused_collector
from optsched.runtime.keywords import keywords

if TYPE_CHECKING:
    from optsched.check.certificate import Certificate


@keywords
def write_graph(graph: Graph, path: str | Path, *, format: str = "optsched-graph") -> None:
    """Write a graph as `optsched-graph/1`, or in another format that can be written.

    Parameters
    ----------
    graph
        Graph to write.
    path
        Path of the file; compressed if it ends in .gz, "-" is standard output.
    format
        Name of the format.

    Raises
    ------
    UsageError
        If the arguments are in another order, or the format cannot be written.
    FormatError
        If the file cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from optsched import GraphBuilder, read_graph, write_graph
    >>> build = GraphBuilder("one op")
    >>> build.op("op", writes={"x": 8})
    >>> with TemporaryDirectory() as folder:
    ...     write_graph(build.build(), f"{folder}/graph.json")
    ...     read_graph(f"{folder}/graph.json")
    Graph('one op', 1 op, 1 buffer)
    """
    check_call("write_graph(graph, path)", path, graph, Graph)
    _write(path, format, Content.GRAPH, graph)


@keywords
def write_module(module: Module, path: str | Path) -> None:
    """Write a module as `optsched-module/1`.

    Parameters
    ----------
    module
        Module to write.
    path
        Path of the file; compressed if it ends in .gz, "-" is standard output.

    Raises
    ------
    UsageError
        If the arguments are in another order.
    FormatError
        If the file cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from optsched import GraphBuilder, Module, read_module, write_module
    >>> build = GraphBuilder("main")
    >>> build.op("op", writes={"x": 8})
    >>> module = Module("alone", {"main": build.build()}, "main")
    >>> with TemporaryDirectory() as folder:
    ...     write_module(module, f"{folder}/module.json")
    ...     read_module(f"{folder}/module.json") == module
    True
    """
    check_call("write_module(module, path)", path, module, Module)
    # Imported late: the module's format imports this package.
    from optsched.formats.native_module import module_document

    write_bytes(path, json_bytes(module_document(module)))


def write_module_plan(
    plans: Mapping[str, Plan],
    path: str | Path,
    module: Module,
    claims: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write plans by computation, as :func:`optsched.solve_module` returns them.

    `claims` are further facts, as for :func:`optsched.formats.native_module.module_plan_document`.
    """
    check_call("write_module_plan(plans, path, module)", path, module, Module)
    _write(path, "optsched-module-plan", Content.MODULE_PLAN, module, plans, claims)


def write_module_certificate(
    certificates: Mapping[str, Certificate], path: str | Path, module: Module
) -> None:
    """Write certificates by computation as `optsched-module-certificate/1`."""
    call = "write_module_certificate(certificates, path, module)"
    check_call(call, path, module, Module)
    _write(path, "optsched-module-certificate", Content.MODULE_CERTIFICATE, module, certificates)


@keywords
def write_plan(
    plan: Plan | Planned | WithRepeats,
    path: str | Path,
    graph: Graph | None = None,
    claims: Mapping[str, Any] | None = None,
) -> None:
    """Write a plan as `optsched-plan/1`, also one with repeats.

    Parameters
    ----------
    plan
        Plan, or result of `solve` or `recompute`, which includes its graph, bounds and proofs.
    path
        Path of the file; compressed if it ends in .gz, "-" is standard output.
    graph
        Graph of the plan; required for a plan without a result, because the file stores names and
        the plan stores only positions.
    claims
        Further facts about the plan; see :func:`optsched.formats.native_plan.plan_document`.

    Raises
    ------
    UsageError
        If the arguments are in another order, the graph is missing, or the result has no plan.
    FormatError
        If the file cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from optsched import GraphBuilder, Plan, read_plan, write_plan
    >>> build = GraphBuilder("one op")
    >>> build.op("op", writes={"x": 8})
    >>> graph = build.build()
    >>> with TemporaryDirectory() as folder:
    ...     write_plan(Plan(order=(0,), offsets=(0,)), f"{folder}/plan.json", graph)
    ...     read_plan(f"{folder}/plan.json", graph)
    Plan(1 op, 1 of 1 buffer placed)
    """
    call = "write_plan(plan, path, graph)"
    check_call(call, path, plan, (Plan, Planned, WithRepeats))
    if isinstance(plan, WithRepeats):
        write_bytes(path, json_bytes(result_document(plan, graph)))
        return
    # A result has its graph and its bounds; a bare plan has neither.
    if isinstance(plan, Plan):
        chosen: Plan | None = plan
    else:
        chosen, graph = plan.plan, graph or plan.graph
        claims = claims_of(plan) if claims is None else claims
    if chosen is None:
        raise UsageError("cannot write the result: it has no plan")
    if not isinstance(graph, Graph):
        raise UsageError(f"{call} needs the graph, because a plan stores positions and no names")
    _write(path, "optsched-plan", Content.PLAN, graph, chosen, claims)


def write_packing(
    packing: PackingTable | PackingProblem, path: str | Path, offsets: IntArray | None = None
) -> None:
    """Write a packing, with offsets if given: as JSON if the path ends in .json, else as CSV.

    A packing read from a CSV file keeps its columns.
    """
    check_call("write_packing(packing, path)", path, packing, (PackingTable, PackingProblem))
    name = packing_format(packing, path)
    _write(path, name, Content.PACKING, packing, offsets)


def packing_format(packing: PackingTable | PackingProblem, path: str | Path) -> str:
    """Return the name of the format in which a path has a packing.

    Raise `FormatError` if it cannot hold the packing.
    """
    if str(path).removesuffix(".gz").endswith(".json"):
        return "optsched-packing"
    problem = packing if isinstance(packing, PackingProblem) else packing.problem
    if problem.has_limits:
        raise FormatError(f"{path}: CSV has no column for upper limits: write a .json file")
    return "minimalloc"


def write_certificate(certificate: Certificate, path: str | Path, graph: Graph) -> None:
    """Write a certificate, compressed if the path ends in .gz; "-" is standard output."""
    from optsched.check.certificate import Certificate

    call = "write_certificate(certificate, path, graph)"
    check_call(call, path, certificate, Certificate)
    _write(path, "optsched-certificate", Content.CERTIFICATE, graph, certificate)


@paused_collector()
def _write(path: str | Path, name: str, kind: Content, *things: Any) -> None:
    row = FORMATS.get(name)
    if row is None or row.write is None or row.holds is not kind:
        known = [x.name for x in FORMATS.values() if x.write is not None and x.holds is kind]
        raise UsageError(f"cannot write {kind} as {name!r}; possible formats: {', '.join(known)}")
    write_bytes(path, row.write(*things))
