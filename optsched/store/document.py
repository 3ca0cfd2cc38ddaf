"""A graph in canonical order as JSON, with ops and buffers as numbers: the text that keys digest.

Two graphs that are equal for a solver have the same text, byte for byte. Names, kinds and the
words of the memory model are left out. Three tables list the fields that are written and those
that are left out; a graph with a field in neither of them is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from optsched.errors import FormatError, GraphError, UsageError
from optsched.formats.fields import Record
from optsched.formats.source import decode_text, parse_json
from optsched.model.arrays import IntArray
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.store.canonical import CanonicalGraph, FlatRows, operands_of

MAX_VALUES = 2**22
"""Values that the JSON of a graph may have: each takes some 70 bytes of memory."""

_LIMIT = 2**31
"""Limit of ids, so that they fit a machine word."""


class _Numbers(NamedTuple):
    """Canonical numbers of ops and buffers by id."""

    ops: IntArray
    buffers: IntArray


class _GraphField(NamedTuple):
    """Functions that write the values of a field as JSON, and that read one."""

    write: Callable[[_Numbers, Any], Sequence[Any]]
    read: Callable[[Record, str], Any]


def _read_list(record: Record, key: str) -> tuple[int, ...]:
    return tuple(_id(value, record.where, key) for value in record.items(key))


def _read_triples(record: Record, key: str) -> tuple[tuple[int, ...], ...]:
    rows = record.items(key)
    if not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise FormatError(f"{record.where}: {key} must be rows of three ids")
    return tuple(tuple(_id(value, record.where, key) for value in row) for row in rows)


def _read_rows(record: Record, key: str) -> tuple[tuple[int, ...], ...]:
    rows = record.items(key)
    if not all(isinstance(row, list) for row in rows):
        raise FormatError(f"{record.where}: {key} must be rows of ids")
    return tuple(tuple(_id(value, record.where, key) for value in row) for row in rows)


def _id(value: object, where: str, key: str) -> int:
    if type(value) is not int or not 0 <= value < _LIMIT:
        raise FormatError(f"{where}: {key} must hold ids only")
    return value


def _read_id(record: Record, key: str) -> int:
    return _id(record.count(key), record.where, key)


def _policy(kind: type[StrEnum]) -> _GraphField:
    def read(record: Record, key: str) -> StrEnum:
        if record.text(key) not in list(kind):
            raise FormatError(f"{record.where}: {key} is none of {', '.join(kind)}")
        return kind(record.text(key))

    return _GraphField(_as_they_are, read)


def _as_they_are(_: _Numbers, values: Sequence[Any]) -> Sequence[Any]:
    return values


def _sorted_rows(ops: IntArray, numbers: IntArray, rows: FlatRows) -> list[list[int]]:
    """Write operands, which are a set to every planner: how many each has, then all of them.

    A list per op would be millions of objects, which slow down Python's garbage collector.
    """
    owner, width = ops[rows.owner], max(1, len(numbers))
    found = np.sort(owner * width + numbers[rows.entry]) % width
    # Example: reads of [[5, 3], [], [7]] become [[2, 0, 1], [3, 5, 7]].
    return [np.bincount(owner, minlength=len(ops)).tolist(), found.tolist()]


def _split_rows(column: Sequence[Any], where: str) -> list[list[Any]]:
    """Return the separate rows that :func:`_sorted_rows` joined."""
    counts, ids = column if len(column) == 2 else (None, None)
    if not isinstance(counts, list) or not isinstance(ids, list):
        raise FormatError(f"{where} are not counts and ids")
    if not all(type(x) is int and x >= 0 for x in counts) or sum(counts) != len(ids):
        raise FormatError(f"{where}: {len(ids)} ids are not as many as counted")
    rest = iter(ids)
    return [list(islice(rest, count)) for count in counts]


def _ids(numbers: IntArray, values: Sequence[int | None]) -> list[int | None]:
    # None stands for a buffer that has no base or no birth.
    places: list[int] = numbers.tolist()
    return [None if i is None else places[i] for i in values]


def _sorted_triples(numbers: _Numbers, rows: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    ops, buffers = numbers.ops.tolist(), numbers.buffers.tolist()
    # Sorted, as the sequence of such pairs has no meaning.
    return sorted([ops[v], buffers[a], buffers[b]] for v, a, b in rows)


def _sorted_sets(numbers: IntArray, rows: Sequence[Sequence[int]]) -> list[list[int]]:
    places: list[int] = numbers.tolist()
    return sorted(sorted(places[i] for i in row) for row in rows)


_BUFFERS = _GraphField(lambda n, rows: _sorted_rows(n.ops, n.buffers, rows), _read_list)
_OPS = _GraphField(lambda n, rows: _sorted_rows(n.ops, n.ops, rows), _read_list)
_BUFFER = _GraphField(lambda n, values: _ids(n.buffers, values), _read_id)
_OP = _GraphField(lambda n, values: _ids(n.ops, values), _read_id)
_COUNT = _GraphField(_as_they_are, lambda record, key: record.count(key))
_FLAG = _GraphField(_as_they_are, lambda record, key: record.flag(key))
_TEXT = _GraphField(_as_they_are, lambda record, key: record.text(key))
_TRIPLES = _GraphField(lambda n, values: [_sorted_triples(n, x) for x in values], _read_triples)
_ROWS = _GraphField(lambda n, values: [_sorted_sets(n.buffers, x) for x in values], _read_rows)

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
    Op: {"name", "kind", "cost", "once"},
    Buffer: {"name"},
    Graph: {"name", "memory_model", "ops", "buffers", "cost_unit", "dims", "origin"},
}
"""Fields that no plan depends on, and fields that are written separately."""


def _defaults(kind: type[Any], known: Mapping[str, _GraphField]) -> dict[str, Any]:
    """Return fields that a constructor takes, and their defaults, except those left out."""
    found = {x.name: x for x in fields(kind) if x.init and x.name not in LEFT_OUT[kind]}
    # A field without an entry in a table still gets its default here, so that a graph that sets it
    # can be refused by name.
    return {name: x.default if name in known else _absent(x) for name, x in found.items()}


def _absent(field: Any) -> Any:
    return field.default if field.default is not MISSING else field.default_factory()


_DEFAULTS = {
    kind: _defaults(kind, known)
    for kind, known in ((Op, OP_FIELDS), (Buffer, BUFFER_FIELDS), (Graph, GRAPH_FIELDS))
}


def unknown_fields() -> list[str]:
    """Return the fields of graphs, ops and buffers that no table lists; there should not be any."""
    tables = ((Op, OP_FIELDS), (Buffer, BUFFER_FIELDS), (Graph, GRAPH_FIELDS))
    return [f"{k.__name__}.{x}" for k, known in tables for x in _DEFAULTS[k] if x not in known]


def canonical_document(graph: Graph, form: CanonicalGraph) -> bytes:
    """Return the parts of a graph that do not depend on names and positions, as JSON.

    Ops and buffers are written field by field, which is short, and quick to write and compare.

    Raises
    ------
    UsageError
        If the graph uses a field that a store cannot hold.
    """
    numbers = _Numbers(_places(form.ops), _places(form.buffers))
    own = _columns([graph], (0,), GRAPH_FIELDS, numbers)
    rows = operands_of(graph) if form.operands is None else form.operands
    ops = _columns(graph.ops, form.ops, OP_FIELDS, numbers, rows)
    buffers = _columns(graph.buffers, form.buffers, BUFFER_FIELDS, numbers)
    document = {
        **{key: column[0] for key, column in own.items()},
        "ops": {"count": len(graph.ops), **ops},
        "buffers": {"count": len(graph.buffers), **buffers},
    }
    return _text_of(document).encode()


def _text_of(value: object) -> str:
    """Return JSON, column by column: the texts of all numbers at once would take more memory."""
    if not isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"))
    return "{" + ",".join(f'"{key}":{_text_of(x)}' for key, x in value.items()) + "}"


def _places(order: Sequence[int]) -> IntArray:
    """Return by id the place in an order."""
    places = np.empty(len(order), np.int64)
    places[np.array(order, np.int64)] = np.arange(len(order))
    return places


def _columns(
    things: Sequence[Any],
    order: Sequence[int],
    known: Mapping[str, _GraphField],
    numbers: _Numbers,
    operands: Mapping[str, FlatRows] = MappingProxyType({}),
) -> dict[str, Sequence[Any]]:
    """Return the values of each field that is not the same as in most graphs, in an order."""
    found: dict[str, Sequence[Any]] = {}
    for key, default in _DEFAULTS[type(things[0])].items() if things else ():
        # Most fields have their default in most graphs; left out, they cost no bytes.
        if key in operands:
            if len(operands[key].entry):
                found[key] = known[key].write(numbers, operands[key])
            continue
        values = list(map(attrgetter(key), things))
        # Compared as a column: one value that differs makes the whole column be written.
        if values.count(default) == len(values):
            continue
        # A field added to Graph later must not be dropped in silence: two graphs that differ in it
        # would get one plan.
        if key not in known:
            raise _can_not_keep(key, default, things, values)
        found[key] = known[key].write(numbers, list(map(values.__getitem__, order)))
    return found


def _can_not_keep(
    key: str, default: object, things: Sequence[Any], values: Sequence[Any]
) -> UsageError:
    thing = next(x for x, value in zip(things, values, strict=True) if value != default)
    what = type(thing).__name__.lower()
    return UsageError(f"{what} {thing.name!r}: a store cannot hold its {key}")


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
        If it is not such a document.
    GraphError
        If the graph breaks a rule.
    """
    record = Record(document, "graph")
    record.refuse_unknown({"ops", "buffers", *GRAPH_FIELDS})
    given = {key: x for key, x in record.value.items() if key in GRAPH_FIELDS}
    return Graph(
        name,
        tuple(_make_op(v, x) for v, x in enumerate(_things(record, "ops", OP_FIELDS))),
        tuple(_make_buffer(b, x) for b, x in enumerate(_things(record, "buffers", BUFFER_FIELDS))),
        memory_model=memory_model,
        **_read(given, "graph", GRAPH_FIELDS),
    )


def _things(record: Record, key: str, known: Mapping[str, _GraphField]) -> list[Any]:
    """Return the attributes of each op or buffer; version 3 stored them one by one."""
    if isinstance(record.value.get(key), list):
        return record.items(key)
    columns = Record(record.mapping(key), key)
    columns.refuse_unknown({"count", *known})
    count = columns.count("count")
    # Checked before lists of this length are made: the number comes from the file.
    if count > MAX_VALUES:
        raise FormatError(f"{count:,} {key} are above the limit of {MAX_VALUES:,}")
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for name in columns.value.keys() - {"count"}:
        column = columns.items(name)
        if known[name] in (_BUFFERS, _OPS):
            column = _split_rows(column, f"{key}: {name}")
        if len(column) != count:
            raise FormatError(f"{key}: {len(column)} values of {name} for {count} {key}")
        for thing, value in zip(found, column, strict=True):
            # Absent values are as in the tables of defaults; no empty list is passed on.
            if value is not None and value != []:
                thing[name] = value
    return found


def _make_op(v: int, value: object) -> Op:
    return Op(f"{v}", **_read(value, f"op {v}", OP_FIELDS))


def _make_buffer(b: int, value: object) -> Buffer:
    found = _read(value, f"buffer {b}", BUFFER_FIELDS)
    # Every other field has a default.
    if "size" not in found:
        raise GraphError(f"buffer {b}: its size is missing")
    return Buffer(f"{b}", **found)


def _read(value: object, where: str, known: Mapping[str, _GraphField]) -> dict[str, Any]:
    record = Record(value, where)
    record.refuse_unknown(known)
    return {key: known[key].read(record, key) for key in record.value}
