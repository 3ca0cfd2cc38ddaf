"""The format `optsched-certificate/1`: a proof that no order of a graph has a smaller peak.

Ops and buffers are identified by name: `ops` and `buffers` list the names that occur, and all other
fields use positions in these lists, because flows are long. :mod:`optsched.check.certificate`
checks the proof; `optsched/formats/schemas` has the JSON Schema.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, NamedTuple, cast, get_type_hints

from optsched.check.certificate import Certificate, Step
from optsched.check.network import Cases, Flow, Forced
from optsched.check.steps import STEPS, Blocks, Column, OpFlows, OpId, OpIds, OpRows, States
from optsched.errors import FormatError, PlanError
from optsched.formats.fields import Record, check_format, json_bytes, show
from optsched.formats.native_plan import RULE_KEYS, read_rules
from optsched.model.graph import Graph
from optsched.model.order_rules import NO_RULES
from optsched.model.question import rules_of_record, rules_record

CERTIFICATE_FORMAT = "optsched-certificate/1"

MOST_CASES = 200
"""Maximum depth of nested cases; no flow needs more."""

_KEYS = {
    *("format", "graph", "memory_model", "inplace", "order_rules"),
    *("bound", "ops", "buffers", "steps"),
}
_FLOW_KEYS = {"releases", "passes", "input", "free", "held"}
_FORMER_KEYS = {"line"}
"""Key of a step of blocks that older versions wrote in place of `column`."""


class _Tables:
    """Tables of the op and buffer names that occur, in order of first use."""

    def __init__(self) -> None:
        self.ops: dict[int, int] = {}
        self.buffers: dict[int, int] = {}

    def op(self, v: int) -> int:
        return self.ops.setdefault(v, len(self.ops))

    def buffer(self, b: int) -> int:
        return self.buffers.setdefault(b, len(self.buffers))

    def flow(self, flow: Forced) -> dict[str, Any]:
        if isinstance(flow, Cases):
            free, held = self.flow(flow.free), self.flow(flow.held)
            return {"input": self.buffer(flow.input), "free": free, "held": held}
        return {
            "releases": [[self.buffer(b), self.op(v), amount] for b, v, amount in flow.releases],
            "passes": [[self.op(u), self.op(v), amount] for u, v, amount in flow.passes],
        }


def certificate_document(graph: Graph, certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as a JSON object."""
    tables = _Tables()
    steps = [_step_document(step, tables) for step in certificate.steps]
    rules = rules_record(certificate.rules)
    return {
        "format": CERTIFICATE_FORMAT,
        "graph": certificate.graph,
        "memory_model": graph.memory_model,
        "inplace": graph.in_place,
        **({"order_rules": rules} if rules else {}),
        "bound": certificate.bound,
        "ops": [graph.ops[v].name for v in tables.ops],
        "buffers": [graph.buffers[b].name for b in tables.buffers],
        "steps": steps,
    }


def _step_document(step: Step, tables: _Tables) -> dict[str, Any]:
    kind, fields = next(
        (kind, fields)
        for kind, (make, lead, fields) in _STEPS.items()
        if make is type(step) and all(getattr(step, name) == lead[name] for name in lead)
    )
    body: dict[str, Any] = {"kind": kind}
    for key, field in fields.items():
        value = field.write(tables, getattr(step, key))
        if value is not None:
            body |= value if field is _FLOW else {key: value}
    return body


def read_certificate_document(graph: Graph, document: object) -> Certificate:
    """Return the certificate of a parsed `optsched-certificate/1` document."""
    top = Record(document, "certificate")
    check_format(top, CERTIFICATE_FORMAT)
    top.refuse_unknown(_KEYS)
    # The in-place model has fewer live bytes, so a bound for it holds there alone.
    if top.flag("inplace", False) and not graph.in_place:
        raise PlanError(f"certificate is for the in-place model, but graph {graph.name!r} is not")
    ids = _Ids(_ids(top, "ops", graph.op_ids, graph), _ids(top, "buffers", graph.buffer_ids, graph))
    # Steps are numbered in messages, as a file may have thousands.
    steps = [
        _read_step(Record(value, f"step {number}"), ids)
        for number, value in enumerate(top.items("steps"))
    ]
    rules = rules_of_record(read_rules(top, RULE_KEYS)) if top.has("order_rules") else NO_RULES
    return Certificate(top.text("graph"), top.count("bound"), tuple(steps), rules)


def _ids(top: Record, key: str, known: Mapping[str, int], graph: Graph) -> list[int]:
    names = top.texts(key)
    for name in names:
        if name not in known:
            raise PlanError(
                f"certificate lists {name[:200]!r} in {key}, which is not in graph {graph.name!r}"
            )
    if len(set(names)) != len(names):
        raise FormatError(f"certificate: {key} lists a name twice")
    return [known[name] for name in names]


class _Ids:
    """Ids by position in the two tables of names."""

    def __init__(self, ops: list[int], buffers: list[int]) -> None:
        self.ops, self.buffers = ops, buffers

    def op(self, value: object, where: str) -> int:
        return self.ops[_place(value, len(self.ops), f"{where}: op")]

    def buffer(self, value: object, where: str) -> int:
        return self.buffers[_place(value, len(self.buffers), f"{where}: buffer")]

    def forced(self, record: Record, depth: int = MOST_CASES) -> Forced:
        if not record.has("input"):
            # A record has either a flow, or an input with a flow for each case.
            return self.flow(record)
        if record.has("releases") or record.has("passes"):
            raise FormatError(f"{record.where}: expected a flow or two cases, got both")
        # Cases nest, and the reader is recursive: a crafted file must not exhaust the stack.
        if not depth:
            raise FormatError(f"{record.where}: cases nested more than {MOST_CASES} deep")
        cases = []
        for key in ("free", "held"):
            case = Record(record.mapping(key), record.where)
            case.refuse_unknown(_FLOW_KEYS)
            cases.append(self.forced(case, depth - 1))
        return Cases(self.buffer(record.count("input"), record.where), *cases)

    def flow(self, record: Record) -> Flow:
        return Flow(
            _read_rows(record, "releases", self.buffer, self.op),
            _read_rows(record, "passes", self.op, self.op),
        )


def _read_step(record: Record, ids: _Ids) -> Step:
    kind = record.text("kind")
    if kind not in _STEPS:
        known = ", ".join(_STEPS)
        raise FormatError(f"{record.where}: unknown kind {kind[:60]!r}, expected one of {known}")
    make, lead, fields = _STEPS[kind]
    known_keys = [field.keys or {key} for key, field in fields.items()]
    record.refuse_unknown({"kind"}.union(*known_keys))
    return make(**lead, **{key: field.read(ids, record, key) for key, field in fields.items()})


def _read_flows(ids: _Ids, record: Record, key: str) -> tuple[tuple[int, Forced], ...]:
    flows = []
    for number, value in enumerate(record.items(key)):
        row = Record(value, f"{record.where}, flow {number}")
        row.refuse_unknown({"op", *_FLOW_KEYS})
        flows.append((ids.op(row.count("op"), row.where), ids.forced(row)))
    return tuple(flows)


def _read_lists(ids: _Ids, record: Record, key: str) -> tuple[tuple[int, ...], ...]:
    rows, where = record.items(key), f"{record.where}, {key}"
    if not all(isinstance(row, list) for row in rows):
        raise FormatError(f"{where}: expected lists of ops")
    return tuple(tuple(ids.op(value, where) for value in row) for row in rows)


def _read_states(ids: _Ids, record: Record, key: str) -> tuple[tuple[int, int], ...]:
    where = f"{record.where}, {key}"
    return tuple(
        # A state refers to an earlier one, 0 stands for the empty one: hence number + 1 possible
        # parents.
        (_place(parent, number + 1, f"{where}: parent"), ids.op(op, where))
        for number, (parent, op) in enumerate(_row(row, 2, where) for row in record.items(key))
    )


def _read_column(_: _Ids, record: Record, key: str) -> int | None:
    held = [name for name in (key, *_FORMER_KEYS) if record.has(name)]
    if len(held) > 1:
        raise FormatError(f"{record.where}: expected one of {' and '.join(held)}, got both")
    return record.count(held[0]) if held else None


class _Field(NamedTuple):
    """A field of a step, with functions to write and read it, and its keys if they are others."""

    write: Callable[[_Tables, Any], Any]
    read: Callable[[_Ids, Record, str], Any]
    keys: Set[str] = frozenset()


_FLOW = _Field(_Tables.flow, lambda ids, record, _: ids.forced(record), _FLOW_KEYS)
_ROWS = _Field(lambda tables, rows: [[tables.op(v) for v in row] for row in rows], _read_lists)
_FIELDS: dict[object, _Field] = {
    bool: _Field(lambda _, flag: flag, lambda _, record, key: record.flag(key)),
    Column: _Field(lambda _, column: column, _read_column, {"column", *_FORMER_KEYS}),
    OpId: _Field(_Tables.op, lambda ids, record, key: ids.op(record.count(key), record.where)),
    OpIds: _Field(
        lambda tables, ops: [tables.op(v) for v in ops],
        lambda ids, record, key: tuple(ids.op(value, record.where) for value in record.items(key)),
    ),
    OpRows: _ROWS,
    Blocks: _ROWS,
    States: _Field(lambda tables, rows: [[k, tables.op(v)] for k, v in rows], _read_states),
    Forced: _FLOW,
    OpFlows: _Field(
        lambda tables, rows: [{"op": tables.op(v), **tables.flow(flow)} for v, flow in rows],
        _read_flows,
    ),
}
"""Writing and reading of a field of a step, by its type; a flow is part of its step."""


def _kinds() -> Iterator[tuple[str, tuple[Callable[..., Step], dict[str, Any], dict[str, _Field]]]]:
    """Yield each kind of step: class, values of the fields that its name tells, other fields."""
    for make in STEPS:
        types = get_type_hints(make, include_extras=True)
        names = [field.name for field in dataclasses.fields(cast(Any, make))]
        for kind, *values in make.kinds:
            lead, rest = dict(zip(names, values, strict=False)), names[len(values) :]
            yield kind, (make, lead, {name: _FIELDS[types[name]] for name in rest})


_STEPS = dict(_kinds())


def _read_rows(
    record: Record,
    key: str,
    tail: Callable[[object, str], int],
    head: Callable[[object, str], int],
) -> tuple[tuple[int, int, int], ...]:
    where = f"{record.where}, {key}"
    rows = [_row(row, 3, where) for row in record.items(key)]
    return tuple((tail(a, where), head(b, where), _bytes(amount, where)) for a, b, amount in rows)


def _row(value: object, length: int, where: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != length:
        raise FormatError(f"{where}: expected {length} integers in a row, got {show(value)}")
    return value


def _bytes(value: object, where: str) -> int:
    if type(value) is not int or value < 1:
        raise FormatError(f"{where}: bytes must be an integer of at least 1, got {show(value)}")
    return value


def _place(value: object, count: int, where: str) -> int:
    if type(value) is not int or not 0 <= value < count:
        raise FormatError(f"{where} must be a number from 0 to {count - 1}, got {show(value)}")
    return value


def write_certificate(graph: Graph, certificate: Certificate) -> bytes:
    """Return a certificate's file content, one step per line."""
    document = certificate_document(graph, certificate)
    # No blanks: a certificate of a large graph has megabytes of numbers.
    return json_bytes(document, rows=("steps",), separators=(",", ":"))
