"""A graph in canonical order as JSON, in which ops and buffers are numbers: what keys stand for.

Two graphs that a solver can not tell apart have the same text, byte for byte. Names, kinds and the
words of the memory model are left out. What is left out on purpose and what is written stands in
three tables; a field that is in neither can not be kept without saying what becomes of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from optsched.errors import FormatError, GraphError, UsageError
from optsched.formats.fields import Record
from optsched.formats.source import decode_text, parse_json
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.store.canonical import CanonicalGraph

MAX_VALUES = 2**22
"""Values that the JSON of a graph may have: each takes some 70 bytes of memory."""

_LIMIT = 2**31
"""Ids are below this; what does not fit a machine word is no id."""


class _Numbers(NamedTuple):
    """Canonical numbers of ops and buffers by id."""

    ops: Sequence[int]
    buffers: Sequence[int]


class _GraphField(NamedTuple):
    """How the value of a field is written as JSON, and read again."""

    write: Callable[[_Numbers, Any], str]
    read: Callable[[Record, str], Any]


def _read_list(record: Record, key: str) -> tuple[int, ...]:
    return tuple(_id(value, record.where, key) for value in record.items(key))


def _read_triples(record: Record, key: str) -> tuple[tuple[int, ...], ...]:
    rows = record.items(key)
    if not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise FormatError(f"{record.where}: {key} are no rows of three ids")
    return tuple(tuple(_id(value, record.where, key) for value in row) for row in rows)


def _read_rows(record: Record, key: str) -> tuple[tuple[int, ...], ...]:
    rows = record.items(key)
    if not all(isinstance(row, list) for row in rows):
        raise FormatError(f"{record.where}: {key} are no rows of ids")
    return tuple(tuple(_id(value, record.where, key) for value in row) for row in rows)


def _id(value: object, where: str, key: str) -> int:
    if type(value) is not int or not 0 <= value < _LIMIT:
        raise FormatError(f"{where}: {key} holds what is no id")
    return value


def _read_id(record: Record, key: str) -> int:
    return _id(record.count(key), record.where, key)


def _policy(kind: type[StrEnum]) -> _GraphField:
    def read(record: Record, key: str) -> StrEnum:
        if record.text(key) not in list(kind):
            raise FormatError(f"{record.where}: {key} is none of {', '.join(kind)}")
        return kind(record.text(key))

    return _GraphField(lambda _, policy: f'"{policy.value}"', read)


def _sorted_list(numbers: Sequence[int], ids: Sequence[int]) -> str:
    """Write operands; they are a set to every planner."""
    return f"[{','.join(map(str, sorted(map(numbers.__getitem__, ids))))}]"


def _sorted_triples(numbers: _Numbers, rows: Sequence[tuple[int, int, int]]) -> str:
    found = sorted([numbers.ops[v], numbers.buffers[a], numbers.buffers[b]] for v, a, b in rows)
    return json.dumps(found, separators=(",", ":"))


def _sorted_rows(numbers: _Numbers, rows: Sequence[Sequence[int]]) -> str:
    found = sorted(sorted(numbers.buffers[b] for b in row) for row in rows)
    return json.dumps(found, separators=(",", ":"))


_BUFFERS = _GraphField(lambda n, ids: _sorted_list(n.buffers, ids), _read_list)
_OPS = _GraphField(lambda n, ids: _sorted_list(n.ops, ids), _read_list)
_BUFFER = _GraphField(lambda n, b: str(n.buffers[b]), _read_id)
_OP = _GraphField(lambda n, v: str(n.ops[v]), _read_id)
_COUNT = _GraphField(lambda _, value: str(value), lambda record, key: record.count(key))
_FLAG = _GraphField(lambda _, value: json.dumps(value), lambda record, key: record.flag(key))
_TEXT = _GraphField(lambda _, value: json.dumps(value), lambda record, key: record.text(key))
_TRIPLES = _GraphField(_sorted_triples, _read_triples)
_ROWS = _GraphField(_sorted_rows, _read_rows)

OP_FIELDS: dict[str, _GraphField] = {
    "reads": _BUFFERS,
    "uses": _BUFFERS,
    "writes": _BUFFERS,
    "control": _OPS,
    "workspace": _BUFFER,
    "stream": _TEXT,
}
BUFFER_FIELDS: dict[str, _GraphField] = {
    "size": _COUNT,
    "input": _policy(InputPolicy),
    "output": _policy(OutputPolicy),
    "alias_of": _BUFFER,
    "mutates": _FLAG,
    "birth": _OP,
    "alignment": _COUNT,
    "pool": _TEXT,
    "pin": _COUNT,
}
GRAPH_FIELDS: dict[str, _GraphField] = {
    "inplace_candidates": _TRIPLES,
    "inplace": _TRIPLES,
    "keep_apart": _ROWS,
    "must_share": _ROWS,
}
LEFT_OUT = {
    Op: {"name", "kind"},
    Buffer: {"name"},
    Graph: {"name", "memory_model", "ops", "buffers"},
}
"""What no plan depends on, and what is written by itself."""


def _defaults(kind: type[Any], known: Mapping[str, _GraphField]) -> dict[str, Any]:
    """Return fields that a constructor takes, and their defaults, but for those left out."""
    found = {x.name: x for x in fields(kind) if x.init and x.name not in LEFT_OUT[kind]}
    return {name: x.default if name in known else _absent(x) for name, x in found.items()}


def _absent(field: Any) -> Any:
    return field.default if field.default is not MISSING else field.default_factory()


_DEFAULTS = {
    kind: _defaults(kind, known)
    for kind, known in ((Op, OP_FIELDS), (Buffer, BUFFER_FIELDS), (Graph, GRAPH_FIELDS))
}


def unknown_fields() -> list[str]:
    """Return fields of graphs, ops and buffers of which nothing is said here: there are none."""
    tables = ((Op, OP_FIELDS), (Buffer, BUFFER_FIELDS), (Graph, GRAPH_FIELDS))
    return [f"{k.__name__}.{x}" for k, known in tables for x in _DEFAULTS[k] if x not in known]


def canonical_document(graph: Graph, form: CanonicalGraph) -> bytes:
    """Return what stays of a graph when names and positions go, as JSON.

    Raises
    ------
    UsageError
        If the graph makes use of something that a store can not keep.
    """
    ops, buffers = [0] * len(form.ops), [0] * len(form.buffers)
    for i, v in enumerate(form.ops):
        ops[v] = i
    for i, b in enumerate(form.buffers):
        buffers[b] = i
    numbers = _Numbers(ops, buffers)
    write_op = _FieldWriter(Op, OP_FIELDS, numbers).write
    write_buffer = _FieldWriter(Buffer, BUFFER_FIELDS, numbers).write
    parts = _FieldWriter(Graph, GRAPH_FIELDS, numbers).parts(graph)
    parts.append(f'"ops":[{",".join([write_op(graph.ops[v]) for v in form.ops])}]')
    parts.append(f'"buffers":[{",".join([write_buffer(graph.buffers[b]) for b in form.buffers])}]')
    return f"{{{','.join(parts)}}}".encode()


class _FieldWriter:
    """Writes the fields of things of one kind that are not as they mostly are.

    As text at once: a large graph would make more objects than the interpreter likes to look after.
    """

    def __init__(
        self, kind: type[Any], known: Mapping[str, _GraphField], numbers: _Numbers
    ) -> None:
        self.kind, self.numbers = kind.__name__.lower(), numbers
        self.take = attrgetter(*_DEFAULTS[kind])
        self.fields = [(key, x, known.get(key)) for key, x in _DEFAULTS[kind].items()]

    def parts(self, thing: Any) -> list[str]:
        found = []
        for value, (key, default, field) in zip(self.take(thing), self.fields, strict=True):
            if value is not default and value != default:
                if field is None:
                    raise UsageError(f"{self.kind} {thing.name!r}: a store can not keep its {key}")
                found.append(f'"{key}":{field.write(self.numbers, value)}')
        return found

    def write(self, thing: Any) -> str:
        return f"{{{','.join(self.parts(thing))}}}"


def read_canonical(data: bytes, name: str = "graph") -> Graph:
    """Make the graph of a canonical document as it is stored."""
    return read_canonical_document(parse_json(decode_text(data), limit=MAX_VALUES), name)


def read_canonical_document(
    document: object, name: str = "graph", memory_model: str = "default"
) -> Graph:
    """Make the graph of a canonical document; its ops and buffers are named by their numbers.

    Raises
    ------
    FormatError
        If it is no such document.
    GraphError
        If the graph breaks a rule.
    """
    record = Record(document, "graph")
    record.refuse_unknown({"ops", "buffers", *GRAPH_FIELDS})
    given = {key: x for key, x in record.value.items() if key in GRAPH_FIELDS}
    return Graph(
        name,
        tuple(_make_op(v, x) for v, x in enumerate(record.items("ops"))),
        tuple(_make_buffer(b, x) for b, x in enumerate(record.items("buffers"))),
        memory_model=memory_model,
        **_read(given, "graph", GRAPH_FIELDS),
    )


def _make_op(v: int, value: object) -> Op:
    return Op(f"{v}", **_read(value, f"op {v}", OP_FIELDS))


def _make_buffer(b: int, value: object) -> Buffer:
    found = _read(value, f"buffer {b}", BUFFER_FIELDS)
    if "size" not in found:
        raise GraphError(f"buffer {b}: its size is missing")
    return Buffer(f"{b}", **found)


def _read(value: object, where: str, known: Mapping[str, _GraphField]) -> dict[str, Any]:
    record = Record(value, where)
    record.refuse_unknown(known)
    return {key: known[key].read(record, key) for key in record.value}
