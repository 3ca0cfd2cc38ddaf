"""Export of plans to plain forms: JSON, CSV, a C header, a MiniMalloc CSV, a program.

A plan file has names and offsets only. Sizes and live ranges come from its graph, if given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from optsched.errors import UsageError
from optsched.formats.answers import Asked, content_of, open_answer
from optsched.formats.apply import checked_plan, refuse_same_file, with_planned_dims
from optsched.formats.c_header import c_header
from optsched.formats.fields import json_bytes
from optsched.formats.format import Content
from optsched.formats.layout import PlacedBuffer, PlanLayout, layout_of, layout_of_document
from optsched.formats.minimalloc import minimalloc_text, packing_of, with_pools
from optsched.formats.native_plan import Planned
from optsched.formats.opening import check_options, opened, read_file
from optsched.formats.program import program
from optsched.formats.source import write_bytes
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan
from optsched.runtime.keywords import keywords
from optsched.runtime.text import shield


@keywords
def export_plan(
    plan: str | Path | Plan | Planned,
    output: str | Path,
    *,
    to: str,
    graph: str | Path | Graph | None = None,
    computation: str = "",
    prefix: str = "",
    **options: Any,
) -> PlanLayout:
    """Write a plan in a plain form, such as JSON, CSV or a C header.

    Parameters
    ----------
    plan
        Path of a plan file, plan, or result of a solver, which includes its graph.
    output
        Path of the file to write, completely or not at all; "-" is standard output.
    to
        Name of the form, a key of :data:`EXPORTS`.
    graph
        Graph of the plan, or path of its file. Without it, the output has no sizes and live ranges,
        and the plan is not checked.
    computation
        Name of a computation in a plan of a module; its entry by default. Offsets in a called
        computation count from the start of its block, which is a buffer of its callers.
    prefix
        First word of the names in a C header (default: the graph's name).
    options
        Options as for :func:`optsched.formats.read_graph` if `graph` is a path.

    Returns
    -------
    PlanLayout
        The exported layout: order, offsets, sizes in bytes and live ranges in steps.

    Raises
    ------
    UsageError
        If the form is unknown or needs the graph, or the output would overwrite an input.
    PlanError
        If the plan is of another graph, or invalid.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from optsched import GraphBuilder, solve
    >>> build = GraphBuilder("pair")
    >>> build.op("a", writes={"x": 4})
    >>> build.op("b", reads=["x"], writes={"y": 8})
    >>> with TemporaryDirectory() as folder:
    ...     layout = export_plan(solve(build.build()), f"{folder}/plan.csv", to="csv")
    >>> layout.order, layout.slabs
    (('a', 'b'), {'': 12})
    """
    if to not in EXPORTS:
        raise UsageError(f"cannot export a plan to {to!r}; possible forms: {', '.join(EXPORTS)}")
    check_options(Content.GRAPH, options)
    if prefix and to != "c-header":
        raise UsageError("a prefix is for a C header")
    refuse_same_file(output, plan, graph)
    if isinstance(plan, str | Path):
        layout = _layout_of_file(plan, graph, computation, options)
    elif computation:
        raise UsageError(f"computation {computation!r}: not a plan of a module")
    else:
        layout = _layout(plan, graph, options)
    made = c_header(layout, prefix) if prefix else EXPORTS[to](layout)
    write_bytes(output, made)
    return layout


def _layout_of_file(
    plan: str | Path, graph: str | Path | Graph | None, computation: str, options: dict[str, Any]
) -> PlanLayout:
    """Return the layout of a plan file of any kind, of one computation if it has several."""
    holds = content_of(plan)
    if computation and holds is not Content.MODULE_PLAN:
        raise UsageError(f"computation {computation!r}: not a plan of a module")
    if graph is None and holds in (Content.PLAN, Content.REPEATS):
        with opened(plan, holds) as (_, source):
            return layout_of_document(source.document)
    if graph is None:
        files = {Content.MODULE_PLAN: "module's", Content.TILED: "untiled model's"}
        file = files.get(holds, "graph's")
        raise UsageError(f"{plan}: {holds.removeprefix('a ')}; give the {file} file as well")
    if isinstance(graph, str | Path):
        options = with_planned_dims(graph, plan, options)
    answer = open_answer(plan, Asked(graph, options=options, adapts=True))
    if not answer.parts:
        raise UsageError(f"{plan}: {holds} has groups, and no offsets")
    name = computation or next(iter(answer.parts))
    if name not in answer.parts:
        raise UsageError(f"module {answer.record['graph']!r} has no computation {name!r}")
    return answer.layout(name)


def _layout(
    plan: Plan | Planned, graph: str | Path | Graph | None, options: dict[str, Any]
) -> PlanLayout:
    if isinstance(graph, str | Path):
        options = with_planned_dims(graph, plan, options)
        graph = read_file(graph, Content.GRAPH, **options)
    if isinstance(plan, Planned):
        graph = graph or plan.graph
    if not isinstance(graph, Graph):
        raise UsageError("a plan stores positions and no names; give the graph as well")
    graph, found, _ = checked_plan(graph, plan)
    return layout_of(graph, found)


def _json(layout: PlanLayout) -> bytes:
    rows = map(asdict, layout.buffers)
    # Empty cells are left out, so that a plan without a graph has names and offsets only.
    buffers = [{key: x for key, x in row.items() if x not in (None, "")} for row in rows]
    slab = sum(layout.slabs.values())
    document: dict[str, Any] = {"graph": layout.graph, "slab": slab}
    if _pooled(layout):
        document["slabs"] = dict(layout.slabs)
    if layout.operands:
        # Op of the graph by run, whose name alone would be a guess.
        document["ops"] = list(layout.runs)
    return json_bytes({**document, "order": list(layout.order), "buffers": buffers})


def _csv(layout: PlanLayout) -> bytes:
    columns = ["name", "offset"]
    if layout.sized:
        columns += ["size", "start", "end", "alignment", "view_of"]
    if _pooled(layout):
        columns.append("pool")
    texts = ("name", "view_of", "pool")
    rows = [columns]
    # By name, so that files of two plans can be compared line by line.
    for buffer in sorted(layout.buffers, key=lambda x: x.name):
        cells = {c: getattr(buffer, c) for c in columns}
        # Names come from a model file: a spreadsheet must not run one as a formula.
        rows.append([shield(cells[c]) if c in texts else str(cells[c]) for c in columns])
    return "".join(",".join(row) + "\n" for row in rows).encode()


def _minimalloc(layout: PlanLayout) -> bytes:
    if not layout.sized:
        raise UsageError("a MiniMalloc CSV needs sizes and live ranges; give the graph as well")
    # An output written in place owns its bytes from the next step on, so no two rows overlap.
    rows = [x for x in layout.buffers if not x.view_of and x.size and _is_live(x)]
    problem = PackingProblem(
        names=tuple(x.name for x in rows),
        start=_column(x.start for x in rows),
        end=_column(x.end for x in rows),
        size=_column(x.size for x in rows),
        alignment=_column(x.alignment for x in rows),
        name=layout.graph,
        # Rows that were dropped are dropped from the pairs as well.
        keep_apart=[x for x in _kept(layout.keep_apart, rows) if len(x) == 2],
        must_share=[x for x in _kept(layout.must_share, rows) if len(x) > 1],
    )
    table = packing_of(problem, np.array([x.offset for x in rows], np.int64))
    if _pooled(layout):
        table = with_pools(table, [x.pool for x in rows])
    return minimalloc_text(table).encode()


def _kept(named: Iterable[Sequence[str]], rows: Sequence[PlacedBuffer]) -> list[list[str]]:
    """Return lists of buffers without those that have no row."""
    names = {row.name for row in rows}
    return [[name for name in listed if name in names] for listed in named]


def _is_live(buffer: PlacedBuffer) -> bool:
    return buffer.start is not None and buffer.end is not None and buffer.end > buffer.start


def _column(values: Iterable[int | None]) -> Any:
    return np.array(list(values), np.int64)


def _pooled(layout: PlanLayout) -> bool:
    return set(layout.slabs) != {""} and bool(layout.slabs)


EXPORTS: dict[str, Callable[[PlanLayout], bytes]] = {
    "json": _json,
    "csv": _csv,
    "c-header": c_header,
    "minimalloc": _minimalloc,
    "program": program,
}
"""Forms to which a plan can be exported, by name."""
