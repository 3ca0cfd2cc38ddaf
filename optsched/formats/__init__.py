"""Files in and out: graphs, plans, packings and certificates, told apart by what they hold.

Reading raises :class:`FormatError`, :class:`GraphError` or :class:`PlanError` in one line that
starts with the file's name. "-" is standard input or output; gzip is understood everywhere. What
is known of each format stands in its row of :data:`FORMATS`; :func:`register_format` adds one.

>>> from optsched.formats import read_graph, write_graph
>>> write_graph(read_graph("net.fwd.json.gz"), "net.graph.json")  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from optsched.check.steps import Certificate
from optsched.errors import FormatError, UsageError
from optsched.formats.format import Content, Format, Source
from optsched.formats.inductor import InputBytes
from optsched.formats.minimalloc import UNPLACED, PackingTable, packing_of
from optsched.formats.native_plan import claims_of
from optsched.formats.source import errors_named, label_of, read_bytes, write_bytes
from optsched.formats.table import FORMATS, find_format, register_format
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan

__all__ = [
    "FORMATS",
    "UNPLACED",
    "Content",
    "Format",
    "InputBytes",
    "PackingTable",
    "Source",
    "packing_of",
    "read_certificate",
    "read_graph",
    "read_packing",
    "read_plan",
    "read_plan_claims",
    "read_recorded",
    "register_format",
    "sniff_file",
    "write_bytes",
    "write_certificate",
    "write_graph",
    "write_packing",
    "write_plan",
]


@runtime_checkable
class Planned(Protocol):
    """The result of a solver: a plan, if there is one, and the graph it is of."""

    @property
    def plan(self) -> Plan | None:
        """The plan."""

    @property
    def graph(self) -> Graph | None:
        """What was planned, if it is known."""


def sniff_file(path: str | Path) -> Format:
    """Return the row of a file's format, by content alone."""
    data = read_bytes(path)
    with errors_named(label_of(path)):
        return find_format(Source(data))


def read_graph(
    path: str | Path, *, input_bytes: InputBytes | str = InputBytes.RECORDED, **options: Any
) -> Graph:
    """Read a graph of any known format.

    Parameters
    ----------
    path
        The file.
    input_bytes
        Which size freed inputs have where a file gives two: see :class:`InputBytes`.
    options
        For readers that know them; those of registered formats, say.
    """
    if input_bytes not in list(InputBytes):
        raise UsageError(f"input bytes {input_bytes!r} are none of {', '.join(InputBytes)}")
    found: Graph = _read(path, Content.GRAPH, input_bytes=InputBytes(input_bytes), **options)
    return found


def read_recorded(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Read the orders that a graph's file records, by name; empty if it records none."""
    source = _source(path)
    with errors_named(label_of(path)):
        row = _expect(source, Content.GRAPH)
        return {} if row.orders is None else row.orders(source)


def read_plan(path: str | Path, graph: Graph) -> Plan:
    """Read a plan of a graph; whether it is valid is for `optsched.check.plan` to say."""
    return read_plan_claims(path, graph)[0]


def read_plan_claims(path: str | Path, graph: Graph) -> tuple[Plan, dict[str, Any]]:
    """Read a plan and what its file claims: peak, slab, and bounds and proofs if it has any."""
    _check_call("read_plan(path, graph)", path, graph, Graph)
    found: tuple[Plan, dict[str, Any]] = _read(path, Content.PLAN, graph=graph)
    return found


def read_certificate(path: str | Path, graph: Graph) -> Certificate:
    """Read a certificate of a graph; whether it holds is for `optsched.check.certificate` to say.

    Raises
    ------
    FormatError
        On a malformed file or field, or an unknown version.
    PlanError
        If it names an op or buffer that the graph does not have.
    """
    _check_call("read_certificate(path, graph)", path, graph, Graph)
    found: Certificate = _read(path, Content.CERTIFICATE, graph=graph)
    return found


def read_packing(path: str | Path, *, pins: bool = False) -> PackingTable:
    """Read a packing problem and the offsets that its file gives, if it does.

    Parameters
    ----------
    path
        The file.
    pins
        Take given offsets as required ones.
    """
    found: PackingTable = _read(path, Content.PACKING, pins=pins)
    return found


def write_graph(graph: Graph, path: str | Path, *, format: str = "optsched-graph") -> None:
    """Write a graph, as `optsched-graph/1` or in another format that can be written."""
    _check_call("write_graph(graph, path)", path, graph, Graph)
    _write(path, format, Content.GRAPH, graph)


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
    """Write a packing with these offsets, if given; one that was read keeps its columns."""
    _check_call("write_packing(packing, path)", path, packing, (PackingTable, PackingProblem))
    _write(path, "minimalloc", Content.PACKING, packing, offsets)


def write_certificate(certificate: Certificate, path: str | Path, graph: Graph) -> None:
    """Write a certificate; as gzip if the name ends in .gz, "-" is standard output."""
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


def _stem_of(path: str | Path) -> str:
    """Return the name of a file without its folder and what its suffixes say about it."""
    name = "stdin" if str(path) == "-" else Path(path).name
    stem = name.removesuffix(".gz")
    for suffix in (".json", ".csv"):
        stem = stem.removesuffix(suffix)
    return stem or name


def _source(path: str | Path) -> Source:
    return Source(read_bytes(path), _stem_of(path))


def _read(path: str | Path, wanted: Content, **options: Any) -> Any:
    """Read a file of whatever format holds what is wanted, with the options that its row knows."""
    _check_options(wanted, options)
    source = _source(path)
    with errors_named(label_of(path)):
        row = _expect(source, wanted)
        assert row.read is not None
        return row.read(source, **{key: x for key, x in options.items() if key in row.options})


def _expect(source: Source, wanted: Content) -> Format:
    """Return the row of a file that can be read and is what is wanted."""
    row = find_format(source)
    if row.read is None:
        raise FormatError(f"this is {row.title} ({row.name}), which has no reader: {row.advice}")
    if row.holds is not wanted:
        raise FormatError(f"this is {row.holds} ({row.name}), {wanted} is wanted")
    return row


def _check_options(wanted: Content, options: Mapping[str, Any]) -> None:
    known = {"input_bytes", "pins", "graph"}
    known.update(*(row.options for row in FORMATS.values() if row.holds is wanted))
    for key in options:
        if key not in known:
            raise UsageError(f"no format that holds {wanted} has the option {key!r}")


def _write(path: str | Path, name: str, kind: Content, *things: Any) -> None:
    row = FORMATS.get(name)
    if row is None or row.write is None or row.holds is not kind:
        known = [x.name for x in FORMATS.values() if x.write is not None and x.holds is kind]
        raise UsageError(f"{kind} can not be written as {name!r}, only as {', '.join(known)}")
    write_bytes(path, row.write(*things))
