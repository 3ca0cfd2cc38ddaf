"""Native JSON format of graphs, `optsched-graph/1`.

Ops and buffers are identified by name, and fields with default values are left out. Graphs are
written and read without loss. `docs/reference/file-formats.md` shows an example, and `schemas` has
the JSON Schemas of all native formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from optsched.errors import FormatError, expect
from optsched.formats.fields import Record, check_format
from optsched.formats.format import Source
from optsched.model.elements import Buffer, InputPolicy, Op, OutputPolicy
from optsched.model.graph import Graph
from optsched.model.streams import in_levels, in_streams

GRAPH_FORMAT = "optsched-graph/1"

_GRAPH_KEYS = {"format", "name", "memory_model", "ops", "buffers", "inplace", "streams", "levels"}
_GRAPH_KEYS |= {"keep_apart", "must_share", "cost_unit"}
_INPLACE_KEYS = {"op", "output", "input"}
_LEVEL_KEYS = {"ops", "at_most"}
_DEFAULTS = [(field.name, field.default) for field in fields(Buffer)]
_Policy = TypeVar("_Policy", bound=StrEnum)


def graph_document(graph: Graph, *, ids_as_names: bool = False) -> dict[str, Any]:
    """Return a graph as a JSON object, which :func:`read_graph_document` restores.

    With ids as names, ops and buffers are named by their positions.
    """
    expect("a document of a graph", graph, Graph)
    # Written as candidates: in-place pairs are a choice of the planner, not of the file.
    graph = graph.without_inplace()
    document: dict[str, Any] = {"format": GRAPH_FORMAT, "name": graph.name}
    if graph.memory_model != "default":
        document["memory_model"] = graph.memory_model
    if graph.cost_unit:
        document["cost_unit"] = graph.cost_unit
    ops = [str(v) if ids_as_names else op.name for v, op in enumerate(graph.ops)]
    buffers = [str(b) if ids_as_names else x.name for b, x in enumerate(graph.buffers)]
    document["ops"] = [_op_document(v, op, ops, buffers) for v, op in enumerate(graph.ops)]
    document["buffers"] = [
        _buffer_document(b, buffer, ops, buffers) for b, buffer in enumerate(graph.buffers)
    ]
    if graph.inplace_candidates:
        document["inplace"] = [
            {"op": ops[v], "output": buffers[output], "input": buffers[source]}
            for v, output, source in graph.inplace_candidates
        ]
    for key, rows in (("keep_apart", graph.keep_apart), ("must_share", graph.must_share)):
        if rows:
            document[key] = [[buffers[b] for b in row] for row in rows]
    return document


def _op_document(v: int, op: Op, ops: Sequence[str], buffers: Sequence[str]) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": ops[v],
        "kind": op.kind,
        "reads": [buffers[b] for b in op.reads],
        "uses": [buffers[b] for b in op.uses],
        "writes": [buffers[b] for b in op.writes],
        "control": [ops[u] for u in op.control],
        "workspace": "" if op.workspace is None else buffers[op.workspace],
        "stream": op.stream,
        "cost": op.cost,
        "once": op.once,
    }
    # Empty values are the defaults.
    return {key: value for key, value in written.items() if value}


def _buffer_document(
    b: int, buffer: Buffer, ops: Sequence[str], buffers: Sequence[str]
) -> dict[str, Any]:
    # Fields without a default are always written: MISSING is equal to no value.
    written = {k: value for k, default in _DEFAULTS if (value := getattr(buffer, k)) != default}
    written["name"] = buffers[b]
    if buffer.alias_of is not None:
        # A view has the size of its root.
        del written["size"]
        written["alias_of"] = buffers[buffer.alias_of]
    if buffer.birth is not None:
        written["birth"] = ops[buffer.birth]
    return written


def read_graph_document(document: object) -> Graph:
    """Return the graph of a parsed `optsched-graph/1` document.

    `FormatError` is raised for a missing, unknown or malformed field and for an unknown name,
    version or size; `GraphError` if the graph breaks a rule.
    """
    top = Record(document, "graph")
    check_format(top, GRAPH_FORMAT)
    top.refuse_unknown(_GRAPH_KEYS)
    ops = _named_records(top, "ops", "op")
    # Names first, since ops and buffers refer to each other.
    buffers = _named_records(top, "buffers", "buffer")
    names = _Names(ops, buffers)
    of_buffer, of_op = _buffer_fields(names), _op_fields(names)
    made = [_read_buffer(record, of_buffer) for record in buffers]
    made_ops = tuple([_read_op(record, of_op, made) for record in ops])
    graph = Graph(
        top.text("name", "graph"),
        made_ops,
        tuple(made),
        tuple(
            _read_inplace(Record(x, f"in-place candidate number {i}"), names)
            for i, x in enumerate(top.items("inplace", []))
        ),
        top.text("memory_model", "default"),
        keep_apart=_read_rows(top, "keep_apart", names),
        must_share=_read_rows(top, "must_share", names),
        cost_unit=top.text("cost_unit", ""),
    )
    # Streams and levels are shorter ways to write control edges.
    if "streams" in top.value:
        rows = Record(top.mapping("streams"), "streams")
        graph = in_streams(graph, {name: names.row("op", rows, name) for name in rows.value})
    if "levels" in top.value:
        graph = _read_levels(graph, Record(top.mapping("levels"), "levels"), names)
    return graph


def _read_levels(graph: Graph, record: Record, names: _Names) -> Graph:
    record.refuse_unknown(_LEVEL_KEYS)
    rows = [
        names.row("op", Record({"ops": row}, f"level {number}"), "ops")
        for number, row in enumerate(record.items("ops"))
    ]
    return in_levels(graph, rows, record.count("at_most") if record.has("at_most") else None)


def _named_records(top: Record, key: str, what: str) -> list[Record]:
    records = []
    for number, value in enumerate(top.items(key)):
        record = Record(value, f"{what} number {number}")
        record.where = f"{what} {record.text('name')!r}"
        records.append(record)
    return records


class _Names:
    """Ids by name, with errors for unknown names."""

    def __init__(self, ops: list[Record], buffers: list[Record]) -> None:
        rows = {"op": ops, "buffer": buffers}
        self.ids = {what: {x.value["name"]: i for i, x in enumerate(rows[what])} for what in rows}

    def one(self, what: str, record: Record, key: str) -> int:
        name = record.text(key)
        if name not in self.ids[what]:
            raise FormatError(f"{record.where}: {key} names unknown {what} {name!r}")
        return self.ids[what][name]

    def row(self, what: str, record: Record, key: str) -> tuple[int, ...]:
        known = self.ids[what]
        try:
            return tuple([known[name] for name in record.texts(key, [])])
        except KeyError as error:
            (name,) = error.args
            raise FormatError(f"{record.where}: {key} names unknown {what} {name!r}") from None


_Fields = dict[str, Callable[[Record, str], Any]]
"""Function that reads the value of each key."""


def _read_fields(record: Record, known: _Fields) -> dict[str, Any]:
    """Return the values of the fields that a record has."""
    try:
        return {key: known[key](record, key) for key in record.value}
    # A field of the wrong name is reported with all of them.
    except KeyError:
        record.refuse_unknown(known)
        raise


def _op_fields(names: _Names) -> _Fields:
    return {
        **dict.fromkeys(("name", "kind", "stream"), Record.text),
        **dict.fromkeys(("reads", "uses", "writes"), partial(names.row, "buffer")),
        "control": partial(names.row, "op"),
        "cost": Record.count,
        "once": Record.flag,
        "workspace": partial(_read_workspace, names),
    }


def _read_workspace(names: _Names, record: Record, key: str) -> Buffer | int | None:
    """Return the buffer's id, or a new buffer if the file gives only its bytes."""
    if isinstance(record.value[key], str):
        return names.one("buffer", record, key)
    size = record.count(key)
    return Buffer(f"{record.text('name')}.workspace", size) if size else None


def _read_op(record: Record, known: _Fields, buffers: list[Buffer]) -> Op:
    found = _read_fields(record, known)
    if isinstance(workspace := found.get("workspace"), Buffer):
        # The new buffer is added after the buffers in the file.
        found["workspace"] = len(buffers)
        found["writes"] = (*found.get("writes", ()), len(buffers))
        buffers.append(workspace)
    return Op(**found)


def _buffer_fields(names: _Names) -> _Fields:
    return {
        **dict.fromkeys(("name", "pool"), Record.text),
        **dict.fromkeys(("size", "alignment", "pin"), Record.count),
        "input": partial(_read_policy, {x.value: x for x in InputPolicy}),
        "output": partial(_read_policy, {x.value: x for x in OutputPolicy}),
        "alias_of": partial(names.one, "buffer"),
        "birth": partial(names.one, "op"),
        "mutates": Record.flag,
    }


def _read_buffer(record: Record, known: _Fields) -> Buffer:
    if "alias_of" not in record.value and not record.has("size"):
        record.refuse_unknown(known)
        raise FormatError(f"{record.where}: size is missing; every buffer needs its size in bytes")
    found = _read_fields(record, known)
    found.setdefault("size", 0)
    return Buffer(**found)


def _read_policy(known: Mapping[str, _Policy], record: Record, key: str) -> _Policy:
    given = record.text(key)
    if given not in known:
        names = ", ".join(known)
        raise FormatError(f"{record.where}: {key} must be one of {names}, got {given[:60]!r}")
    return known[given]


def _read_inplace(record: Record, names: _Names) -> tuple[int, int, int]:
    record.refuse_unknown(_INPLACE_KEYS)
    return (
        names.one("op", record, "op"),
        names.one("buffer", record, "output"),
        names.one("buffer", record, "input"),
    )


def _read_rows(top: Record, key: str, names: _Names) -> tuple[tuple[Any, ...], ...]:
    """Return lists of buffer ids; the graph checks them."""
    rows = []
    for number, value in enumerate(top.items(key, [])):
        row = Record({"buffers": value}, f"{key} number {number}")
        rows.append(names.row("buffer", row, "buffers"))
    return tuple(rows)


def read_native(source: Source) -> Graph:
    """Return the graph of a file, named after the file if it has no name."""
    return read_graph_document({"name": source.name, **source.document})
