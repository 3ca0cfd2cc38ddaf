"""Files that can be tiled in rows: row maps and tail in, tiled model or tiled plan out.

A tiled plan is an `optsched-plan/1` of the tiled graph, whose key `tiling` lists the stages, so
that a reader can make the tiled graph of the untiled file again::

    "tiling": {"rows": 1, "stages": [{"ops": ["CONV_2D_3", "ADD_5"], "bands": 4, "upwards": true}]}

`rows` is the alignment of views in bytes. A certificate is the format
`optsched-tiling-certificate/1`: the op that keeps the head of all tilings large
(:mod:`optsched.check.tiling_bound`), with the digest of the untiled file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optsched.check.tiling_bound import TilingCertificate
from optsched.errors import FormatError, GraphError, PlanError, UsageError
from optsched.formats.fields import Record, check_format
from optsched.formats.format import Content, Source
from optsched.formats.native_plan import plan_document, read_plan_document
from optsched.formats.opening import extra_named, opened
from optsched.model.plan import Plan
from optsched.model.question import contents_digest
from optsched.model.rows import Rows, Tail
from optsched.model.tiled import Stage, TiledGraph, Tiling
from optsched.model.tiling import tiled_graph

if TYPE_CHECKING:
    from optsched.formats.tflite.graph import TfliteGraph

TILING_FORMAT = "optsched-tiling-certificate/1"

TAILS = {"32": 4, "64": 8, "none": 0}
"""Bytes of a pointer by the name of a tail; 0 for no tail."""


@dataclass(frozen=True)
class Tilable:
    """A model file that can be tiled."""

    source: Source
    """The file."""
    rows: Rows
    """Its row maps."""
    made: TfliteGraph
    """Its graph, as read."""
    own_head: int
    """Bytes of the slab as planned by the file's runtime."""

    def tail(self, name: str) -> Tail:
        """Return the tail, by its name in :data:`TAILS`."""
        from optsched.formats.tflite.tiled_tail import tail_of

        if name not in TAILS:
            known = ", ".join(TAILS)
            raise UsageError(f"tail must be one of {known}, got {name!r}")
        pointer = TAILS[name]
        return (
            tail_of(self.made, self.source.data, pointer) if pointer else Tail.none(self.rows.graph)
        )

    def write(self, tiled: TiledGraph, plan: Plan) -> bytes:
        """Return the tiled model as a file."""
        from optsched.formats.tflite.tiled import write_tiled

        return write_tiled(self.source.data, self.made, tiled, plan)

    def restricted(self, keep_whole: Iterable[str] = (), align_rows: int = 1) -> Tilable:
        """Return the file with ops left whole, by name, and views at multiples of some bytes."""
        return replace(self, rows=self.rows.keep_whole(keep_whole).aligned_to(align_rows))


def read_tilable(path: str | PathLike[str]) -> Tilable:
    """Read a model file that can be tiled.

    Raise `FormatError` if no runtime is known that plans offsets for tiled models of this format,
    the file is tiled already, or has open sizes or several subgraphs.
    """
    given = path if isinstance(path, str) else Path(path)
    with opened(given, Content.GRAPH) as (row, source), extra_named(row):
        if row.name != "tflite":
            raise FormatError(
                f"{row.title} ({row.name}) cannot be tiled: only TFLite Micro takes offsets of rows"
            )
        from optsched.formats.tflite.graph import arena_head, read_tflite
        from optsched.formats.tflite.rows import rows_of
        from optsched.formats.tflite.tiled import tiled_before

        if tiled_before(source.data):
            raise FormatError("the file is tiled already: plan it as it is, or tile its original")
        made = read_tflite(source.data, source.name)
        rows = rows_of(made, source.data)
        return Tilable(source, rows, made, arena_head(made.model))


def tiling_document(tiled: TiledGraph, plan: Plan) -> dict[str, Any]:
    """Return a plan of a tiled graph as a JSON object."""
    document = plan_document(tiled.graph, plan)
    # The digest is that of the untiled file, from which the tiled graph is made again.
    document["contents"] = contents_digest(tiled.source.graph)
    document["tiling"] = {"rows": tiled.source.view_alignment, "stages": tiled.stage_rows()}
    return document


def read_tiled(rows: Rows, document: Mapping[str, Any]) -> tuple[TiledGraph, Plan, dict[str, Any]]:
    """Read a plan of a tiled graph: the graph, the plan, and what the document claims.

    Raise `FormatError` if a field is missing or malformed. Raise `PlanError` if the plan is of
    another model, or its ops cannot run in these stages.
    """
    graph, ids = rows.graph, rows.graph.op_ids
    record = Record(Record(document, "plan").mapping("tiling"), "tiling")
    record.refuse_unknown(("rows", "stages"))
    if document.get("contents") not in (None, contents_digest(graph)):
        raise PlanError(f"plan is not of graph {graph.name!r}: its contents differ")
    stages = []
    for number, value in enumerate(record.items("stages")):
        each = Record(value, f"stage {number}")
        each.refuse_unknown(("ops", "bands", "upwards"))
        ops = tuple(_op(ids, name) for name in each.texts("ops"))
        stages.append(Stage(ops, each.count("bands"), each.flag("upwards")))
    try:
        tiled = tiled_graph(rows.aligned_to(record.count("rows")), Tiling(tuple(stages)))
    except (GraphError, UsageError) as error:
        raise PlanError(str(error)) from None
    rest = {key: x for key, x in document.items() if key not in ("tiling", "contents")}
    plan, claims = read_plan_document(tiled.graph, rest)
    return tiled, plan, claims


def certificate_document(rows: Rows, certificate: TilingCertificate) -> dict[str, Any]:
    """Return a certificate as a JSON object (`optsched-tiling-certificate/1`)."""
    return {
        "format": TILING_FORMAT,
        "graph": rows.graph.name,
        "contents": contents_digest(rows.graph),
        "bound": certificate.bound,
        "bands": certificate.bands,
        "op": rows.graph.ops[certificate.op].name,
    }


def read_certificate(source: Source, rows: Rows) -> TilingCertificate:
    """Read a certificate; `PlanError` is raised if it is of another model."""
    record = Record(source.document, "certificate")
    check_format(record, TILING_FORMAT)
    record.refuse_unknown(("format", "graph", "contents", "bound", "bands", "op"))
    if record.text("contents") != contents_digest(rows.graph):
        raise PlanError(f"certificate is not of graph {rows.graph.name!r}")
    op = _op(rows.graph.op_ids, record.text("op"))
    return TilingCertificate(record.count("bound"), record.count("bands"), op)


def _op(ids: Mapping[str, int], name: str) -> int:
    if name not in ids:
        raise PlanError(f"file names op {name[:200]!r}, which is not in the graph")
    return ids[name]
