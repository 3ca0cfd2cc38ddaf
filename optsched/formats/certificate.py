"""The format `optsched-certificate/1`: why no order of a graph has a smaller peak.

Ops and buffers go by name, but for the flows, which are long: `ops` and `buffers` list the names
that occur, and all else names them by their position there. What must hold of the numbers is for
:mod:`optsched.check.certificate` to say; `optsched/formats/schemas` holds the JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from optsched.check.steps import (
    BlocksStep,
    Cases,
    Certificate,
    End,
    EndStep,
    Flow,
    Forced,
    OpStep,
    OrderStep,
    RegionStep,
    SetStep,
    StatesStep,
    Step,
    SupposeStep,
)
from optsched.errors import FormatError, PlanError
from optsched.formats.fields import Record, check_format, json_bytes, show
from optsched.formats.format import Content, Format
from optsched.model.graph import Graph

CERTIFICATE_FORMAT = "optsched-certificate/1"

MOST_CASES = 200
"""Cases within cases; no flow needs more."""

_KEYS = {"format", "graph", "memory_model", "inplace", "bound", "ops", "buffers", "steps"}
_FLOW = {"releases", "passes", "input", "free", "held"}
_STEP_KEYS: dict[str, set[str]] = {
    "start": set(),
    "end": set(),
    "op": {"op", *_FLOW},
    "precedence": {"first", "second", "at", *_FLOW},
    "suppose": {"first", "second"},
    "last": {"ops", "flows"},
    "first": {"ops", "flows"},
    "states": {"backward", "states"},
    "blocks": {"rows", "line"},
    "region": {"parts"},
}


class _Table:
    """Names in the order in which they are first met."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}

    def __call__(self, number: int) -> int:
        return self.places.setdefault(number, len(self.places))


def certificate_document(graph: Graph, certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as a JSON object."""
    ops, buffers = _Table(), _Table()
    steps = [_step_document(step, ops, buffers) for step in certificate.steps]
    return {
        "format": CERTIFICATE_FORMAT,
        "graph": certificate.graph,
        "memory_model": graph.memory_model,
        "inplace": graph.in_place,
        "bound": certificate.bound,
        "ops": [graph.ops[v].name for v in ops.places],
        "buffers": [graph.buffers[b].name for b in buffers.places],
        "steps": steps,
    }


def _step_document(step: Step, op: _Table, buffer: _Table) -> dict[str, Any]:
    def flow_rows(flow: Forced) -> dict[str, Any]:
        if isinstance(flow, Cases):
            free, held = flow_rows(flow.free), flow_rows(flow.held)
            return {"input": buffer(flow.input), "free": free, "held": held}
        return {
            "releases": [[buffer(b), op(v), amount] for b, v, amount in flow.releases],
            "passes": [[op(u), op(v), amount] for u, v, amount in flow.passes],
        }

    match step:
        case EndStep():
            body: dict[str, Any] = {"kind": str(step.at)}
        case OpStep():
            body = {"kind": "op", "op": op(step.op), **flow_rows(step.flow)}
        case OrderStep():
            first, second, at = op(step.first), op(step.second), op(step.at)
            head = {"kind": "precedence", "first": first, "second": second, "at": at}
            body = {**head, **flow_rows(step.flow)}
        case SupposeStep():
            body = {"kind": "suppose", "first": op(step.first), "second": op(step.second)}
        case SetStep():
            ops = [op(v) for v in step.ops]
            flows = [{"op": op(v), **flow_rows(flow)} for v, flow in step.flows]
            body = {"kind": "last" if step.last else "first", "ops": ops, "flows": flows}
        case StatesStep():
            states = [[k, op(v)] for k, v in step.states]
            body = {"kind": "states", "backward": step.backward, "states": states}
        case BlocksStep():
            body = {"kind": "blocks", "rows": [[op(v) for v in row] for row in step.rows]}
            body |= {} if step.line is None else {"line": step.line}
        case RegionStep():
            body = {"kind": "region", "parts": [[op(v) for v in part] for part in step.parts]}
    return body


def read_certificate_document(graph: Graph, document: object) -> Certificate:
    """Make a certificate of a parsed `optsched-certificate/1` document."""
    top = Record(document, "certificate")
    check_format(top, CERTIFICATE_FORMAT)
    top.refuse_unknown(_KEYS)
    if top.flag("inplace", False) and not graph.in_place:
        raise PlanError(f"certificate of the in-place model, graph {graph.name!r} is in another")
    ids = _Ids(_ids(top, "ops", graph.op_ids, graph), _ids(top, "buffers", graph.buffer_ids, graph))
    steps = [
        _read_step(Record(value, f"step {number}"), ids)
        for number, value in enumerate(top.items("steps"))
    ]
    return Certificate(top.text("graph"), top.count("bound"), tuple(steps))


def _ids(top: Record, key: str, known: Mapping[str, int], graph: Graph) -> list[int]:
    names = top.texts(key)
    for name in names:
        if name not in known:
            raise PlanError(
                f"certificate names {name[:200]!r} among {key}, which graph {graph.name!r} has not"
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
            return self.flow(record)
        if record.has("releases") or record.has("passes"):
            raise FormatError(f"{record.where}: a flow or two cases, not both")
        if not depth:
            raise FormatError(f"{record.where}: more than {MOST_CASES} cases within each other")
        cases = []
        for key in ("free", "held"):
            case = Record(record.mapping(key), record.where)
            case.refuse_unknown(_FLOW)
            cases.append(self.forced(case, depth - 1))
        return Cases(self.buffer(record.count("input"), record.where), *cases)

    def flow(self, record: Record) -> Flow:
        return Flow(
            _read_rows(record, "releases", self.buffer, self.op),
            _read_rows(record, "passes", self.op, self.op),
        )


def _read_step(record: Record, ids: _Ids) -> Step:
    kind, where = record.text("kind"), record.where
    if kind not in _STEP_KEYS:
        known = ", ".join(_STEP_KEYS)
        raise FormatError(f"{where}: kind {kind[:60]!r} is none of {known}")
    record.refuse_unknown({"kind", *_STEP_KEYS[kind]})

    def op(key: str) -> int:
        return ids.op(record.count(key), where)

    match kind:
        case "op":
            step: Step = OpStep(op("op"), ids.forced(record))
        case "precedence":
            step = OrderStep(op("first"), op("second"), op("at"), ids.forced(record))
        case "suppose":
            step = SupposeStep(op("first"), op("second"))
        case "states":
            step = _read_states(record, ids)
        case "blocks":
            line = record.count("line") if record.has("line") else None
            step = BlocksStep(_read_lists(record, "rows", ids), line)
        case "region":
            step = RegionStep(_read_lists(record, "parts", ids))
        case "last" | "first":
            step = _read_set(record, ids, last=kind == "last")
        case _:
            step = EndStep(End(kind))
    return step


def _read_set(record: Record, ids: _Ids, *, last: bool) -> SetStep:
    flows = []
    for number, value in enumerate(record.items("flows")):
        row = Record(value, f"{record.where}, flow {number}")
        row.refuse_unknown({"op", *_FLOW})
        flows.append((ids.op(row.count("op"), row.where), ids.forced(row)))
    ops = tuple(ids.op(value, record.where) for value in record.items("ops"))
    return SetStep(last, ops, tuple(flows))


def _read_lists(record: Record, key: str, ids: _Ids) -> tuple[tuple[int, ...], ...]:
    rows, where = record.items(key), f"{record.where}, {key}"
    if not all(isinstance(row, list) for row in rows):
        raise FormatError(f"{where}: expected lists of ops")
    return tuple(tuple(ids.op(value, where) for value in row) for row in rows)


def _read_states(record: Record, ids: _Ids) -> StatesStep:
    where = f"{record.where}, states"
    states = tuple(
        (_place(parent, number + 1, f"{where}: parent"), ids.op(op, where))
        for number, (parent, op) in enumerate(_row(row, 2, where) for row in record.items("states"))
    )
    return StatesStep(record.flag("backward"), states)


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


def _write(graph: Graph, certificate: Certificate) -> bytes:
    document = certificate_document(graph, certificate)
    return json_bytes(document, rows=("steps",), separators=(",", ":"))


FORMAT = Format(
    "optsched-certificate",
    Content.CERTIFICATE,
    sniff=lambda source: source.is_tagged("optsched-certificate"),
    read=lambda source, graph: read_certificate_document(graph, source.document),
    options=("graph",),
    write=_write,
)
