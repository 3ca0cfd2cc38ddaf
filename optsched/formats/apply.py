"""Insertion of a plan into a copy of its model file, so that a runtime follows it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optsched.check.plan import Checked, check_plan
from optsched.errors import FormatError, UsageError
from optsched.formats.answers import Asked, open_plain
from optsched.formats.companions import copy_companions
from optsched.formats.format import Content, Format, Source
from optsched.formats.native_plan import Planned
from optsched.formats.opening import check_options, extra_named, opened, read_as
from optsched.formats.pipes import STANDARD_STREAM
from optsched.formats.plan_options import planned_dims
from optsched.formats.source import errors_named, label_of, write_bytes
from optsched.formats.table import FORMATS
from optsched.model.graph import Graph
from optsched.model.origin import ArenaTail
from optsched.model.plan import Plan
from optsched.runtime.keywords import keywords


@dataclass(frozen=True, slots=True)
class Applied:
    """The plan that was written into a model file."""

    graph: Graph
    """Graph of the model, in the plan's memory model."""
    format: str
    """Name of the model's format."""
    moved: int
    """Number of ops that run at another step than in the model file."""
    checked: Checked
    """Peak and slabs in bytes, as replayed by the checker."""
    load: str = ""
    """Instruction for loading the file so that its runtime follows the plan."""
    tails: tuple[ArenaTail, ...] = ()
    """Bytes that the runtime keeps after the slab for the written file."""
    order: tuple[int, ...] = ()
    """Op ids of the plan, first to run first."""


@keywords
def apply_plan(
    model: str | Path, plan: str | Path | Plan | Planned, output: str | Path, **options: Any
) -> Applied:
    """Write a copy of a model file whose runtime follows a plan.

    The model itself is not changed. Files that it refers to, such as external data of ONNX, are
    copied next to the output.

    Parameters
    ----------
    model
        Path of a model file of a format that can store plans.
    plan
        Path of a plan file, result of a solver, or plan of the model's graph.
    output
        Path of the file to write; it is written completely or not at all.
    options
        Options of :func:`optsched.formats.read_graph` with which the graph was read. A plan file
        keeps `dims`, and so does a result's graph, so these need not be given again.

    Returns
    -------
    Applied
        Graph, format, number of moved ops, and the checked peak and slabs in bytes.

    Raises
    ------
    UsageError
        If the output would overwrite the model, the plan or the model's data, or would not find
        that data.
    FormatError
        If the model's format cannot store plans, or the file cannot be read.
    PlanError
        If the plan is of another graph, or invalid.
    MissingDependencyError
        If a package that the format needs is not installed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import onnx
    >>> from optsched import apply_plan, read_graph, solve
    >>> model = onnx.parser.parse_model(
    ...     '''<ir_version: 8, opset_import: ["" : 17]>
    ...     wide (float[64] x) => (float y, float z) {
    ...         a = Exp(x)
    ...         b = Sin(x)
    ...         y = ReduceSum<keepdims = 0>(a)
    ...         z = ReduceSum<keepdims = 0>(b)
    ...     }'''
    ... )
    >>> with TemporaryDirectory() as folder:
    ...     onnx.save(model, f"{folder}/wide.onnx")
    ...     plan = solve(read_graph(f"{folder}/wide.onnx"))
    ...     applied = apply_plan(f"{folder}/wide.onnx", plan, f"{folder}/planned.onnx")
    ...     [node.op_type for node in onnx.load(f"{folder}/planned.onnx").graph.node]
    ['Exp', 'ReduceSum', 'Sin', 'ReduceSum']
    >>> applied.moved
    2
    """
    check_options(Content.GRAPH, options)
    # Tested first: the output may be a link to the model.
    refuse_same_file(output, model, plan)
    options = with_planned_dims(model, plan, options)
    with opened(model, Content.GRAPH) as (row, source):
        graph: Graph = read_as(_applicable(row), source, options)
    graph, chosen, checked = checked_plan(graph, plan)
    with errors_named(label_of(model)), extra_named(row):
        assert row.apply is not None
        data = row.apply(source, graph, chosen)
        companions = row.companions(source) if row.companions is not None else ()
    copy_companions(source.folder, companions, output)
    write_bytes(output, data)
    moved = sum(step != v for step, v in enumerate(chosen.order))
    load = row.load.format(slab=checked.slab, output=str(output))
    tails = () if row.tails is None else row.tails(Source(data))
    return Applied(graph, row.name, moved, checked, load, tails, tuple(chosen.order))


def _applicable(row: Format) -> Format:
    if row.apply is None:
        known = ", ".join(x.name for x in FORMATS.values() if x.apply is not None) or "none"
        raise FormatError(f"{row.name} files take no plan; formats that do: {known}")
    return row


def checked_plan(graph: Graph, plan: str | Path | Plan | Planned) -> tuple[Graph, Plan, Checked]:
    """Return the graph in the plan's memory model, the plan, and the checker's figures.

    `PlanError` is raised if the plan is of another graph or invalid, or its file makes a false
    claim.
    """
    if isinstance(plan, Planned):
        if plan.plan is None:
            raise UsageError("the result has no plan")
        if plan.graph is not None:
            # The plan may use writes in place, which the file's graph only lists as possible.
            graph = _in_place(graph, plan.graph.in_place)
        plan = plan.plan
    if isinstance(plan, Plan):
        return graph, plan, check_plan(graph, plan)
    answer = open_plain(plan, Asked(graph, adapts=True))
    return answer.planned, answer.plan, answer.checked


def with_planned_dims(
    model: str | Path, plan: str | Path | Plan | Planned, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the options of a model's reader with the dimensions that the plan was made for."""
    # Sizes that the model leaves open are fixed in the plan's file.
    given = options.get("dims")
    if isinstance(plan, str | Path):
        return {**options, "dims": planned_dims(model, plan, given)}
    if isinstance(plan, Planned) and plan.graph is not None and not given:
        return {**options, "dims": dict(plan.graph.dims)}
    return options


def _in_place(graph: Graph, is_asked: bool) -> Graph:
    return graph.with_inplace() if is_asked else graph.without_inplace()


def refuse_same_file(output: str | Path, *given: object) -> None:
    """Raise `UsageError` if the output is one of the input files, under any name."""
    for path in given:
        if isinstance(path, str | Path) and _same_file(path, output):
            raise UsageError(f"{label_of(output)}: output would overwrite {label_of(path)}")


def _same_file(one: str | Path, other: str | Path) -> bool:
    if STANDARD_STREAM in (str(one), str(other)):
        return False
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    # A file that does not exist yet is compared by its path, with all links resolved.
    return os.path.realpath(one) == os.path.realpath(other)
