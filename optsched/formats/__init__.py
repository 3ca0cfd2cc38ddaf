"""Files in and out: graphs, plans, packings and certificates, told apart by what they hold.

Reading raises :class:`FormatError`, :class:`GraphError` or :class:`PlanError` in one line that
starts with the file's name. "-" is standard input or output; gzip is understood everywhere. What
is known of each format stands in its row of :data:`FORMATS`; :func:`register_format` adds one.

>>> from tempfile import TemporaryDirectory
>>> from optsched import GraphBuilder
>>> from optsched.formats import read_graph, write_graph
>>> build = GraphBuilder("one op")
>>> build.op("op", writes={"x": 8})
>>> with TemporaryDirectory() as folder:
...     write_graph(build.build(), f"{folder}/graph.json.gz")
...     read_graph(f"{folder}/graph.json.gz")
Graph('one op', 1 op, 1 buffer)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.errors import UsageError
from optsched.formats.fields import json_bytes
from optsched.formats.format import Content, Format, InputBytes, Source
from optsched.formats.minimalloc import UNPLACED, PackingTable, packing_of
from optsched.formats.native_plan import Planned, claims_of
from optsched.formats.opening import (
    extra_named,
    opened,
    read_file,
    read_module_file,
)
from optsched.formats.source import errors_named, label_of, read_bytes, write_bytes
from optsched.formats.table import FORMATS, find_format, register_format
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.memory_model import parse_alignment
from optsched.model.module import Module
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan
from optsched.runtime.keywords import keywords

if TYPE_CHECKING:
    from optsched.check.steps import Certificate

__all__ = [
    "FORMATS",
    "FRAMEWORK",
    "UNPLACED",
    "Content",
    "Format",
    "InputBytes",
    "PackingTable",
    "Source",
    "alignment_of",
    "packing_of",
    "read_certificate",
    "read_graph",
    "read_module",
    "read_module_certificate",
    "read_module_plan",
    "read_packing",
    "read_plan",
    "read_plan_claims",
    "read_recorded",
    "register_format",
    "sniff_file",
    "write_bytes",
    "write_certificate",
    "write_graph",
    "write_module",
    "write_module_certificate",
    "write_module_plan",
    "write_packing",
    "write_plan",
]


FRAMEWORK = "framework"
"""Stands for the alignment that a file's framework rounds sizes and offsets to."""


def sniff_file(path: str | Path) -> Format:
    """Return the row of a file's format, by content alone."""
    data = read_bytes(path)
    with errors_named(label_of(path)):
        return find_format(Source(data))


def alignment_of(path: str | Path, text: str) -> int:
    """Return an alignment that is given in bytes, or as :data:`FRAMEWORK`: that of the file's own.

    It raises `UsageError` if it is no power of two, or nothing is known of the framework.
    """
    if text != FRAMEWORK:
        return parse_alignment(text)
    row = None if str(path) == "-" else sniff_file(path)
    if row is None or row.alignment is None:
        what = "standard input" if row is None else f"files of the format {row.name}"
        raise UsageError(f"{path}: no framework's alignment is known of {what}: give a number")
    return row.alignment


@keywords
def read_graph(
    path: str | Path,
    *,
    input_bytes: InputBytes | str = InputBytes.RECORDED,
    dims: Mapping[str, int] | None = None,
    profile: str | Path | None = None,
    **options: Any,
) -> Graph:
    """Read a graph of any known format.

    Parameters
    ----------
    path
        The file.
    input_bytes
        Which size freed inputs have where a file gives two: see :class:`InputBytes`.
    dims
        Sizes of dimensions that a model leaves open, by name.
    profile
        File that a runtime wrote when it ran the model: shapes that the model leaves open.
    options
        For readers that know them; those of registered formats, say.
    """
    if input_bytes not in list(InputBytes):
        raise UsageError(f"input bytes {input_bytes!r} are none of {', '.join(InputBytes)}")
    options |= {"input_bytes": InputBytes(input_bytes), "dims": dict(dims or {})}
    options |= {"profile": profile}
    found: Graph = read_file(path, Content.GRAPH, **options)
    return found


@keywords
def read_module(path: str | Path, **options: Any) -> Module:
    """Read all computations of a file, those that others call among them.

    Parameters
    ----------
    path
        The file: XLA's HLO text, `optsched-module/1`, or any other graph, which calls nothing.
    options
        As for :func:`read_graph`; for files that hold a single graph.
    """
    return read_module_file(path, {"input_bytes": InputBytes.RECORDED, **options})


def read_module_plan(
    path: str | Path, module: Module
) -> tuple[dict[str, Plan], dict[str, dict[str, Any]]]:
    """Read a plan of a module: plans by computation, and what the file claims of each."""
    _check_call("read_module_plan(path, module)", path, module, Module)
    found: tuple[dict[str, Plan], dict[str, dict[str, Any]]]
    found = read_file(path, Content.MODULE_PLAN, module=module)
    return found


def read_module_certificate(path: str | Path, module: Module) -> dict[str, Certificate]:
    """Read certificates of a module by computation; whether they hold is for the checker to say."""
    _check_call("read_module_certificate(path, module)", path, module, Module)
    found: dict[str, Certificate] = read_file(path, Content.MODULE_CERTIFICATE, module=module)
    return found


def read_recorded(
    path: str | Path, *, profile: str | Path | None = None
) -> dict[str, tuple[int, ...]]:
    """Read the orders that a graph's file, or the profile of a run, records, by name."""
    with opened(path, Content.GRAPH) as (row, source), extra_named(row):
        if row.orders is None:
            return {}
        profiled = profile is not None and "profile" in row.options
        return row.orders(source, profile=profile) if profiled else row.orders(source)


@keywords
def read_plan(path: str | Path, graph: Graph) -> Plan:
    """Read a plan of a graph; whether it is valid is for `optsched.check.plan` to say."""
    return read_plan_claims(path, graph)[0]


def read_plan_claims(path: str | Path, graph: Graph) -> tuple[Plan, dict[str, Any]]:
    """Read a plan and what its file claims: peak, slab, and bounds and proofs if it has any."""
    _check_call("read_plan(path, graph)", path, graph, Graph)
    found: tuple[Plan, dict[str, Any]] = read_file(path, Content.PLAN, graph=graph)
    return found


def read_certificate(path: str | Path, graph: Graph) -> Certificate:
    """Read a certificate; whether it holds is for `optsched.check.certificate` to say."""
    _check_call("read_certificate(path, graph)", path, graph, Graph)
    found: Certificate = read_file(path, Content.CERTIFICATE, graph=graph)
    return found


@keywords
def read_packing(path: str | Path, *, pins: bool = False) -> PackingTable:
    """Read a packing problem and the offsets that its file gives, if it does.

    With `pins` given offsets are required ones.
    """
    found: PackingTable = read_file(path, Content.PACKING, pins=pins)
    return found


@keywords
def write_graph(graph: Graph, path: str | Path, *, format: str = "optsched-graph") -> None:
    """Write a graph, as `optsched-graph/1` or in another format that can be written."""
    _check_call("write_graph(graph, path)", path, graph, Graph)
    _write(path, format, Content.GRAPH, graph)


@keywords
def write_module(module: Module, path: str | Path) -> None:
    """Write a module as `optsched-module/1`."""
    _check_call("write_module(module, path)", path, module, Module)
    from optsched.formats.native_module import module_document

    write_bytes(path, json_bytes(module_document(module)))


def write_module_plan(
    plans: Mapping[str, Plan],
    path: str | Path,
    module: Module,
    claims: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write plans by computation, as :func:`optsched.solve_module` returns them.

    `claims` is what else is known, as for
    :func:`optsched.formats.native_module.module_plan_document`.
    """
    _check_call("write_module_plan(plans, path, module)", path, module, Module)
    _write(path, "optsched-module-plan", Content.MODULE_PLAN, module, plans, claims)


def write_module_certificate(
    certificates: Mapping[str, Certificate], path: str | Path, module: Module
) -> None:
    """Write certificates by computation as `optsched-module-certificate/1`."""
    call = "write_module_certificate(certificates, path, module)"
    _check_call(call, path, module, Module)
    _write(path, "optsched-module-certificate", Content.MODULE_CERTIFICATE, module, certificates)


@keywords
def write_plan(
    plan: Plan | Planned,
    path: str | Path,
    graph: Graph | None = None,
    claims: Mapping[str, Any] | None = None,
) -> None:
    """Write a plan as `optsched-plan/1`.

    Parameters
    ----------
    plan
        A plan, or the result of `solve`, which knows its graph, bounds and proofs.
    path
        The file; as gzip if its name ends in .gz, "-" is standard output.
    graph
        What was planned; a plan by itself holds only positions, the file holds names.
    claims
        What else is known of the plan; see :func:`optsched.formats.native_plan.plan_document`.

    Raises
    ------
    UsageError
        If the arguments are in another order, there is no graph, or the result has no plan.
    """
    call = "write_plan(plan, path, graph)"
    _check_call(call, path, plan, (Plan, Planned))
    if isinstance(plan, Plan):
        chosen: Plan | None = plan
    else:
        chosen, graph = plan.plan, graph or plan.graph
        claims = claims_of(plan) if claims is None else claims
    if chosen is None:
        raise UsageError("the result has no plan that could be written")
    if not isinstance(graph, Graph):
        raise UsageError(f"{call} needs the graph: a plan by itself holds positions, no names")
    _write(path, "optsched-plan", Content.PLAN, graph, chosen, claims)


def write_packing(
    packing: PackingTable | PackingProblem, path: str | Path, offsets: IntArray | None = None
) -> None:
    """Write a packing with these offsets, if given: as JSON if the name says so, else as CSV.

    A CSV that was read keeps its columns.
    """
    _check_call("write_packing(packing, path)", path, packing, (PackingTable, PackingProblem))
    is_json = str(path).removesuffix(".gz").endswith(".json")
    name = "optsched-packing" if is_json else "minimalloc"
    _write(path, name, Content.PACKING, packing, offsets)


def write_certificate(certificate: Certificate, path: str | Path, graph: Graph) -> None:
    """Write a certificate; as gzip if the name ends in .gz, "-" is standard output."""
    from optsched.check.steps import Certificate

    call = "write_certificate(certificate, path, graph)"
    _check_call(call, path, certificate, Certificate)
    _write(path, "optsched-certificate", Content.CERTIFICATE, graph, certificate)


def _check_call(call: str, path: object, thing: object, kinds: type | tuple[type, ...]) -> None:
    """Refuse arguments in another order; `call` is how it is to be written."""
    if not isinstance(path, str | os.PathLike) or not isinstance(thing, kinds):
        raise UsageError(
            f"the call is {call}; here the path is a {type(path).__name__} "
            f"and what goes with it a {type(thing).__name__}"
        )


def _write(path: str | Path, name: str, kind: Content, *things: Any) -> None:
    row = FORMATS.get(name)
    if row is None or row.write is None or row.holds is not kind:
        known = [x.name for x in FORMATS.values() if x.write is not None and x.holds is kind]
        raise UsageError(f"{kind} can not be written as {name!r}, only as {', '.join(known)}")
    write_bytes(path, row.write(*things))
