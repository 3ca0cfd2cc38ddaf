"""The format `optsched-tiling-certificate/1`: the op that keeps the head of all tilings large.

Example: `{"format": "optsched-tiling-certificate/1", "graph": "net", "contents": "...",
"bound": 79360, "bands": 48, "op": "CONV_2D_3"}`. :mod:`optsched.check.tiling_bound` checks it.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

from optsched.check.tiling_bound import TilingCertificate
from optsched.errors import PlanError
from optsched.formats.fields import Record, check_format
from optsched.formats.opening import open_source
from optsched.formats.source import errors_named, label_of
from optsched.model.question import contents_digest
from optsched.model.rows import Rows

TILING_FORMAT = "optsched-tiling-certificate/1"


def certificate_document(rows: Rows, certificate: TilingCertificate) -> dict[str, Any]:
    """Return a certificate as a JSON object."""
    return {
        "format": TILING_FORMAT,
        "graph": rows.graph.name,
        "contents": contents_digest(rows.graph),
        "bound": certificate.bound,
        "bands": certificate.bands,
        "op": rows.graph.ops[certificate.op].name,
    }


def read_certificate(path: str | PathLike[str], rows: Rows) -> TilingCertificate:
    """Read a certificate; `PlanError` is raised if it is of another model."""
    source = open_source(str(path))
    with errors_named(label_of(str(path))):
        record = Record(source.document, "certificate")
        check_format(record, TILING_FORMAT)
        record.refuse_unknown(("format", "graph", "contents", "bound", "bands", "op"))
        if record.text("contents") != contents_digest(rows.graph):
            raise PlanError(f"certificate is not of graph {rows.graph.name!r}")
        name = record.text("op")
        if name not in rows.graph.op_ids:
            raise PlanError(f"certificate names op {name[:200]!r}, which is not in the graph")
        return TilingCertificate(
            record.count("bound"), record.count("bands"), rows.graph.op_ids[name]
        )
