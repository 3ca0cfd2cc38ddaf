"""Reading and writing of files: graphs, plans, packings and certificates.

The format of a file is detected from its content. Readers raise :class:`FormatError`,
:class:`GraphError` or :class:`PlanError` with a one-line message that starts with the file's name.
The path "-" is standard input or output, and gzip is supported everywhere. :data:`FORMATS` has one
row per format, and :func:`register_format` adds one.

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

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.errors import UsageError
from optsched.formats.format import (
    FILE_ORDER,
    Content,
    FileFacts,
    Format,
    InputBytes,
    Session,
    Source,
    Stock,
)
from optsched.formats.minimalloc import UNPLACED, PackingTable, packing_of
from optsched.formats.opening import extra_named, opened, read_file, read_module_file, read_orders
from optsched.formats.source import check_call, errors_named, label_of, read_bytes, write_bytes
from optsched.formats.table import FORMATS, find_format, register_format
from optsched.formats.writing import (
    write_certificate,
    write_graph,
    write_module,
    write_module_certificate,
    write_module_plan,
    write_packing,
    write_plan,
)
from optsched.model.graph import Graph
from optsched.model.memory_model import parse_alignment
from optsched.model.module import Module
from optsched.model.plan import Plan
from optsched.runtime.keywords import keywords

if TYPE_CHECKING:
    from optsched.check.certificate import Certificate

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
"""Name for the alignment to which a file's framework rounds sizes and offsets."""


def sniff_file(path: str | Path) -> Format:
    """Return the format of a file, detected from its content alone."""
    data = read_bytes(path)
    with errors_named(label_of(path)):
        return find_format(Source(data))


def describe_file(path: str | Path) -> FileFacts | None:
    """Return facts about a model file that need no sizes; None if its format has none."""
    with opened(path, Content.GRAPH) as (row, source), extra_named(row):
        return None if row.describe is None else row.describe(source)


def stock_of(graph: Graph) -> Stock:
    """Return the way in which the framework of a graph's file plans on its own."""
    row = None if graph.origin is None else FORMATS.get(graph.origin.format)
    return FILE_ORDER if row is None else row.stock


def session_of(graph: Graph) -> Session | None:
    """Return the default session of a graph's file, which begins to run; None without a runtime."""
    row = None if graph.origin is None else FORMATS.get(graph.origin.format)
    return None if row is None or row.session is None else row.session(graph)


def own_order(graph: Graph) -> tuple[str, tuple[int, ...]]:
    """Return the order in which the framework of a graph's file runs it, after its name in words.

    A file that does not record it, and a graph made in Python, have the order of the file.
    """
    stock, ids = stock_of(graph), tuple(range(len(graph.ops)))
    recorded = {} if graph.origin is None else graph.origin.orders
    # The framework's preferred record first: not every file has all of them.
    for name in stock.orders:
        if name in recorded:
            return stock.order_title, recorded[name]
    return FILE_ORDER.order_title if stock.orders else stock.order_title, ids


def alignment_of(path: str | Path, text: str) -> int:
    """Return an alignment given in bytes, or as :data:`FRAMEWORK` for that of the file's framework.

    `UsageError` is raised if it is not a power of two, or the framework's alignment is unknown.
    """
    if text != FRAMEWORK:
        return parse_alignment(text)
    # Standard input can be read only once, so its content is not looked at here.
    row = None if str(path) == "-" else sniff_file(path)
    if row is None or row.alignment is None:
        what = "standard input" if row is None else f"files of the format {row.name}"
        raise UsageError(f"{path}: framework alignment of {what} is unknown; give a number")
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
    """Read a graph from a file of any known format.

    Parameters
    ----------
    path
        Path of the file; "-" is standard input. The format is detected from the content.
    input_bytes
        Size of freed inputs in files that give two sizes; see :class:`InputBytes`.
    dims
        Sizes of dimensions that a model leaves open, by name.
    profile
        Path of a runtime's profile of the model, with shapes that the model leaves open.
    options
        Options of specific readers, such as those of registered formats.

    Returns
    -------
    Graph
        Graph with buffer sizes in bytes.

    Raises
    ------
    FormatError
        If the file cannot be read, has an unknown format or is malformed.
    GraphError
        If the graph breaks a rule of :class:`Graph`.
    UsageError
        If no reader has such an option, or a value is invalid.
    MissingDependencyError
        If a package that the format needs is not installed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     text = '{"format": "optsched-graph/1", "name": "g", "ops": [], "buffers": []}'
    ...     with open(f"{folder}/g.json", "w") as file:
    ...         _ = file.write(text)
    ...     read_graph(f"{folder}/g.json")
    Graph('g', 0 ops, 0 buffers)
    """
    if input_bytes not in list(InputBytes):
        raise UsageError(f"input_bytes must be one of {', '.join(InputBytes)}, got {input_bytes!r}")
    options |= {"input_bytes": InputBytes(input_bytes), "dims": dict(dims or {})}
    options |= {"profile": profile}
    found: Graph = read_file(path, Content.GRAPH, **options)
    return found


@keywords
def read_module(path: str | Path, **options: Any) -> Module:
    """Read all computations of a file, including those that others call.

    Parameters
    ----------
    path
        Path of a file with XLA's HLO text or `optsched-module/1`, or of any other graph, which
        becomes a module without calls.
    options
        Options as for :func:`read_graph`, for files with a single graph.

    Raises
    ------
    FormatError, GraphError
        If the file is malformed, or a computation breaks a rule.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from optsched import read_module
    >>> text = '''HloModule two
    ... ENTRY main {
    ...   a = f32[4] parameter(0)
    ...   ROOT b = f32[4] negate(a)
    ... }'''
    >>> with TemporaryDirectory() as folder:
    ...     with open(f"{folder}/two.txt", "w") as file:
    ...         _ = file.write(text)
    ...     read_module(f"{folder}/two.txt").computations
    ('main',)
    """
    return read_module_file(path, {"input_bytes": InputBytes.RECORDED, **options})


def read_module_plan(
    path: str | Path, module: Module
) -> tuple[dict[str, Plan], dict[str, dict[str, Any]]]:
    """Read a plan of a module: plans by computation, and the file's claims about each."""
    check_call("read_module_plan(path, module)", path, module, Module)
    found: tuple[dict[str, Plan], dict[str, dict[str, Any]]]
    found = read_file(path, Content.MODULE_PLAN, module=module)
    return found


def read_module_certificate(path: str | Path, module: Module) -> dict[str, Certificate]:
    """Read certificates of a module by computation, without checking them."""
    check_call("read_module_certificate(path, module)", path, module, Module)
    found: dict[str, Certificate] = read_file(path, Content.MODULE_CERTIFICATE, module=module)
    return found


def read_recorded(
    path: str | Path,
    *,
    profile: str | Path | None = None,
    dims: Mapping[str, int] | None = None,
) -> dict[str, tuple[int, ...]]:
    """Read the orders, by name, that a graph's file or a profile of its run records.

    `profile` and `dims` are those that the graph was read with.
    """
    with opened(path, Content.GRAPH) as (row, source), extra_named(row):
        return read_orders(row, source, {"profile": profile, "dims": dict(dims or {})})


@keywords
def read_plan(path: str | Path, graph: Graph) -> Plan:
    """Read a plan of a graph, without checking that it is valid.

    Use :func:`optsched.check_plan` to check the plan.

    Parameters
    ----------
    path
        Path of an `optsched-plan/1` file or of a framework's plan.
    graph
        Graph that the plan belongs to; op and buffer names are looked up in it.

    Raises
    ------
    FormatError
        If the file is malformed.
    PlanError
        If the plan names an op or buffer that the graph does not have.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from optsched import GraphBuilder, read_plan, solve, write_plan
    >>> build = GraphBuilder("one op")
    >>> build.op("op", writes={"x": 8})
    >>> graph = build.build()
    >>> with TemporaryDirectory() as folder:
    ...     write_plan(solve(graph), f"{folder}/plan.json")
    ...     read_plan(f"{folder}/plan.json", graph).order
    (0,)
    """
    return read_plan_claims(path, graph)[0]


def read_plan_claims(path: str | Path, graph: Graph) -> tuple[Plan, dict[str, Any]]:
    """Read a plan and its file's claims: peak, slab, and bounds and proofs if present."""
    check_call("read_plan(path, graph)", path, graph, Graph)
    found: tuple[Plan, dict[str, Any]] = read_file(path, Content.PLAN, graph=graph)
    return found


def read_certificate(path: str | Path, graph: Graph) -> Certificate:
    """Read a certificate without checking it; :mod:`optsched.check.certificate` does."""
    check_call("read_certificate(path, graph)", path, graph, Graph)
    found: Certificate = read_file(path, Content.CERTIFICATE, graph=graph)
    return found


@keywords
def read_packing(path: str | Path, *, pins: bool = False) -> PackingTable:
    r"""Read a packing problem, and offsets if the file has any.

    Parameters
    ----------
    path
        Path of a MiniMalloc CSV file, or of another file with live ranges and sizes.
    pins
        True if offsets in the file are required positions.

    Returns
    -------
    PackingTable
        Problem, given offsets in bytes, and the table as it was read.

    Raises
    ------
    FormatError
        If the file is malformed.
    GraphError
        If the buffers break a rule.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from optsched import pack, read_packing
    >>> with TemporaryDirectory() as folder:
    ...     with open(f"{folder}/two.csv", "w") as file:
    ...         _ = file.write("id,lower,upper,size\na,0,2,8\nb,1,3,4\n")
    ...     table = read_packing(f"{folder}/two.csv")
    >>> table.problem.names
    ('a', 'b')
    >>> pack(table.problem).slab
    12
    """
    found: PackingTable = read_file(path, Content.PACKING, pins=pins)
    return found
