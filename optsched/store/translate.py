"""Plans, certificates and orders, from the ids and names of a graph to canonical numbers and back.

Data from a store are not trusted: all of them are validated before they are used, and
sizes are limited before anything is decoded.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from optsched.errors import FormatError, UsageError
from optsched.formats.fields import Record
from optsched.formats.source import decode_text, parse_json, unpack
from optsched.model.graph import Graph
from optsched.model.plan import Plan
from optsched.solver.resume import Resume
from optsched.store.canonical import CanonicalGraph
from optsched.store.document import MAX_VALUES

if TYPE_CHECKING:
    from optsched.check.steps import Certificate

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


def globalise_plan(form: CanonicalGraph, graph: Graph, plan: Plan) -> dict[str, Any]:
    """Return a plan in canonical numbers."""
    found: dict[str, Any] = {"order": globalise_order(form, plan.order)}
    found["offsets"] = [plan.offsets[b] for b in form.buffers]
    # Left out if they are those of the graph, as in every answer without pools.
    if plan.pools and plan.pools != tuple(buffer.pool for buffer in graph.buffers):
        found["pools"] = [plan.pools[b] for b in form.buffers]
    return found


def localise_plan(form: CanonicalGraph, document: object) -> Plan:
    """Return a stored plan in the numbers of this graph; the checker decides if it is valid."""
    record = Record(document, "plan")
    record.refuse_unknown({"order", "offsets", "pools"})
    order = localise_order(form, record.items("order"))
    offsets: list[int | None] = [None] * len(form.buffers)
    values = _of_all(record, "offsets", form)
    if not {int, NoneType}.issuperset(map(type, values)):
        raise FormatError("plan: offsets must be integers or null")
    for value, place in zip(values, form.buffers, strict=True):
        offsets[place] = value
    pools = [""] * len(form.buffers) if "pools" in record.value else []
    if pools:
        record.texts("pools")
        for value, place in zip(_of_all(record, "pools", form), form.buffers, strict=True):
            pools[place] = value
    return Plan(order, tuple(offsets), tuple(pools))


def _of_all(record: Record, key: str, form: CanonicalGraph) -> list[Any]:
    values = record.items(key)
    if len(values) != len(form.buffers):
        raise FormatError(f"plan: {len(values)} {key} for {len(form.buffers)} buffers")
    return values


def globalise_order(form: CanonicalGraph, order: Sequence[int]) -> list[int]:
    """Return an order in canonical numbers.

    Raises
    ------
    UsageError
        If it does not list the ops of the graph.
    """
    number = {v: i for i, v in enumerate(form.ops)}
    if len(order) != len(number) or set(order) != number.keys():
        raise UsageError(f"an order must list the graph's {len(number)} ops")
    return [number[v] for v in order]


def localise_order(form: CanonicalGraph, order: object) -> tuple[int, ...]:
    """Return a stored order in the numbers of this graph."""
    if not isinstance(order, list) or len(order) != len(form.ops):
        raise FormatError(f"an order must list the graph's {len(form.ops)} ops")
    # Not isinstance: True would pass as an integer.
    if order and (set(map(type, order)) != {int} or min(order) < 0 or max(order) >= len(order)):
        raise FormatError("an order contains an unknown op id")
    return tuple(map(form.ops.__getitem__, order))


def globalise_certificate(
    form: CanonicalGraph, graph: Graph, certificate: Certificate
) -> dict[str, Any]:
    """Return a certificate's document, in which the names of ops and buffers are numbers."""
    from optsched.formats.certificate import certificate_document

    document = certificate_document(graph, certificate)
    ops = {graph.ops[v].name: f"{i}" for i, v in enumerate(form.ops)}
    buffers = {graph.buffers[b].name: f"{i}" for i, b in enumerate(form.buffers)}
    # A certificate names ops and buffers, so a store numbers them: names are not part of a record.
    document["ops"] = [ops[name] for name in document["ops"]]
    document["buffers"] = [buffers[name] for name in document["buffers"]]
    return {**document, "graph": "graph", "memory_model": ""}


def localise_certificate(form: CanonicalGraph, graph: Graph, document: object) -> Certificate:
    """Return a stored certificate in this graph's numbers; the checker decides if it is valid."""
    from optsched.formats.certificate import read_certificate_document

    record = Record(document, "certificate")
    ops = {f"{i}": graph.ops[v].name for i, v in enumerate(form.ops)}
    buffers = {f"{i}": graph.buffers[b].name for i, b in enumerate(form.buffers)}
    named = {
        "graph": graph.name,
        # An unknown name stays as it is; the reader reports it.
        "ops": [ops.get(name, name) for name in record.texts("ops")],
        "buffers": [buffers.get(name, name) for name in record.texts("buffers")],
    }
    return read_certificate_document(graph, {**record.value, **named})


def globalise_search(form: CanonicalGraph, state: Resume) -> bytes:
    """Return the state of a search as it is stored, its orders in canonical numbers.

    Raises
    ------
    UsageError
        If it is larger than :data:`MAX_SEARCH`.
    """
    notes = state.to_dict()
    del notes["orders"]
    orders = [globalise_order(form, order) for order in state.orders]
    data = json.dumps({"orders": orders, "notes": notes}, separators=(",", ":")).encode()
    if len(data) > MAX_SEARCH:
        raise UsageError(
            f"{len(data):,} bytes of a search are above the limit of {MAX_SEARCH:,} bytes"
        )
    return pack(data)


def localise_search(form: CanonicalGraph, document: object) -> Resume:
    """Return a stored state of a search, its orders as ids of the graph at hand.

    Raises
    ------
    FormatError
        If it is damaged.
    """
    record = Record(document, "search")
    record.refuse_unknown({"orders", "notes"})
    orders = [localise_order(form, order) for order in record.items("orders")]
    notes = {**record.mapping("notes"), "orders": orders}
    return Resume.from_dict(notes, len(form.ops))
