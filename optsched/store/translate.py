"""Plans, certificates and states of searches as a store keeps them: packed, by ids, without names.

Data from a store are not trusted: all of them are validated before they are used, and
sizes are limited before anything is decoded.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Any

from optsched.errors import FormatError, UsageError
from optsched.formats.fields import Record
from optsched.formats.source import decode_text, parse_json, unpack
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.solver.resume import Resume
from optsched.store.document import MAX_VALUES

if TYPE_CHECKING:
    from optsched.check.certificate import Certificate

MAX_PACKED = 2**26
"""Most bytes of one stored document, compressed; larger ones are refused."""
MAX_UNPACKED = 2**27
"""Most bytes of one stored document, decompressed."""
MAX_SEARCH = 2**24
"""Most bytes of the state of a search, as JSON."""

COMPRESSION = 1
"""Level of zlib; level 5 takes twice the time, and saves an eighth on captured graphs and plans."""


def pack(value: object) -> bytes:
    """Return JSON, compressed; the same value gives the same bytes."""
    data = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    # mtime=0: a time stamp would make equal documents unequal.
    packed = gzip.compress(data, COMPRESSION, mtime=0)
    # Both limits: a reader enforces both, and what it refuses must not be written.
    if len(packed) > MAX_PACKED or len(data) > MAX_UNPACKED:
        raise UsageError(f"a document of {len(data):,} bytes is too large for a store")
    return packed


def unpack_bytes(packed: object) -> bytes:
    """Return packed bytes after verifying their checksum."""
    # The magic number of gzip, whose trailer has a checksum of the content.
    if not isinstance(packed, bytes) or not packed.startswith(b"\x1f\x8b"):
        raise FormatError("a stored document is damaged")
    if len(packed) > MAX_PACKED:
        raise FormatError(f"a stored document of {len(packed):,} bytes is above the limit")
    return unpack(packed, limit=MAX_UNPACKED)


def unpack_json(packed: object) -> Any:
    """Return the value that was packed."""
    return parse_json(decode_text(unpack_bytes(packed)), limit=MAX_VALUES)


def plan_document(graph: Graph, plan: Plan) -> dict[str, Any]:
    """Return a plan by ids."""
    # Every buffer lies in the pool that it names.
    return {"order": plan.order, "offsets": plan.offsets}


def read_plan_document(graph: Graph, document: object) -> Plan:
    """Return a stored plan of a graph; the checker decides if it is valid."""
    record = Record(document, "plan")
    record.refuse_unknown({"order", "offsets"})
    order, offsets = record.items("order"), _of_all(record, "offsets", graph)
    # Not isinstance: True would pass as an integer.
    if not {int}.issuperset(map(type, order)):
        raise FormatError("plan: order must be ids")
    if not {int, NoneType}.issuperset(map(type, offsets)):
        raise FormatError("plan: offsets must be integers or null")
    return Plan(tuple(order), tuple(offsets))


def _of_all(record: Record, key: str, graph: Graph) -> list[Any]:
    values = record.items(key)
    if len(values) != len(graph.buffers):
        raise FormatError(f"plan: {len(values)} {key} for {len(graph.buffers)} buffers")
    return values


def pack_certificate(graph: Graph, certificate: Certificate) -> bytes:
    """Return a certificate as it is stored."""
    from optsched.formats.certificate import certificate_document

    return pack(certificate_document(_numbered(graph), certificate))


def read_certificate(graph: Graph, document: object) -> Certificate:
    """Return a stored certificate of a graph; the checker decides if it is valid."""
    from optsched.formats.certificate import read_certificate_document

    record = Record(document, "certificate")
    # The graph may have another name than the one that the certificate was made for.
    return read_certificate_document(_numbered(graph), {**record.value, "graph": graph.name})


def _numbered(graph: Graph) -> Graph:
    """Return a graph whose ops and buffers are named by their ids: a record has no names."""
    ops = tuple(replace(op, name=str(v)) for v, op in enumerate(graph.ops))
    buffers = tuple(replace(buffer, name=str(b)) for b, buffer in enumerate(graph.buffers))
    return replace(graph, ops=ops, buffers=buffers)


def pack_search(graph: Graph, state: Resume) -> bytes:
    """Return the state of a search as it is stored.

    Raise `UsageError` if it is larger than :data:`MAX_SEARCH`, or has an order that does not list
    the ops.
    """
    ops = list(range(len(graph.ops)))
    if any(sorted(order) != ops for order in state.orders):
        raise UsageError(f"an order must list the graph's {len(ops)} ops")
    data = json.dumps(state.to_dict(), separators=(",", ":")).encode()
    if len(data) > MAX_SEARCH:
        raise UsageError(
            f"{len(data):,} bytes of a search are above the limit of {MAX_SEARCH:,} bytes"
        )
    return pack(data)


def read_search(graph: Graph, document: object) -> Resume:
    """Return the stored state of a search.

    Raise `FormatError` if it is damaged.
    """
    return Resume.from_dict(Record(document, "search").value, len(graph.ops))
