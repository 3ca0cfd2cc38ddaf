"""Files in and out: graphs, plans and packings, told apart by what they hold, not by name.

Reading raises :class:`FormatError`, :class:`GraphError` or :class:`PlanError` in one line that
starts with the file's name. "-" is standard input or output; gzip is understood everywhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from optsched.errors import FormatError, UsageError
from optsched.formats import inductor, minimalloc, native, native_plan
from optsched.formats.fields import show
from optsched.formats.inductor import InputBytes
from optsched.formats.minimalloc import UNPLACED, PackingTable, packing_of
from optsched.formats.recorded import recorded_orders
from optsched.formats.source import (
    decode_text,
    errors_named,
    label_of,
    parse_json,
    read_bytes,
    unpack,
    write_bytes,
)
from optsched.model.arrays import IntArray
from optsched.model.graph import Graph
from optsched.model.packing_problem import PackingProblem
from optsched.model.plan import Plan


@runtime_checkable
class Planned(Protocol):
    """The result of a solver: a plan, if there is one, and the graph it is of."""

    @property
    def plan(self) -> Plan | None:
        """The plan."""

    @property
    def graph(self) -> Graph | None:
        """What was planned, if it is known."""


__all__ = [
    "FORMATS",
    "UNPLACED",
    "InputBytes",
    "PackingTable",
    "packing_of",
    "read_graph",
    "read_packing",
    "read_plan",
    "read_plan_claims",
    "read_recorded",
    "sniff",
    "sniff_file",
    "write_bytes",
    "write_graph",
    "write_packing",
    "write_plan",
]

FORMATS = {
    "optsched-graph": "a graph",
    "optsched-plan": "a plan",
    "optsched-certificate": "a certificate",
    "inductor": "a graph",
    "minimalloc": "a packing",
}
"""What a file of each format holds."""


def sniff(data: bytes) -> str:
    """Return the name of the format, one of :data:`FORMATS`, by content alone.

    Raises
    ------
    FormatError
        If it is none of them, or malformed JSON or text.
    """
    text = decode_text(unpack(data))
    return _sniff_document(parse_json(text)) if _is_json(text) else _sniff_text(text)


def sniff_file(path: str | Path) -> str:
    """Return the name of a file's format."""
    data = read_bytes(path)
    with errors_named(label_of(path)):
        return sniff(data)


def read_graph(path: str | Path, *, input_bytes: InputBytes | str = InputBytes.RECORDED) -> Graph:
    """Read a graph of any known format.

    Parameters
    ----------
    path
        The file.
    input_bytes
        Which size freed inputs have where a file gives two: see :class:`InputBytes`.
    """
    if input_bytes not in list(InputBytes):
        raise UsageError(f"input bytes {input_bytes!r} are none of {', '.join(InputBytes)}")
    text = _read_text(path)
    with errors_named(label_of(path)):
        name, document = _expect(text, "a graph")
        if name == "inductor":
            return inductor.read_inductor(
                document, name=_stem_of(path), input_bytes=InputBytes(input_bytes)
            )
        return native.read_graph_document({"name": _stem_of(path), **document})


def read_recorded(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Read the orders that a graph's file records, by name; empty if it records none."""
    text = _read_text(path)
    with errors_named(label_of(path)):
        name, document = _expect(text, "a graph")
        return recorded_orders(document) if name == "inductor" else {}


def read_plan(path: str | Path, graph: Graph) -> Plan:
    """Read a plan of a graph; whether it is valid is for `optsched.check.plan` to say."""
    return read_plan_claims(path, graph)[0]


def read_plan_claims(path: str | Path, graph: Graph) -> tuple[Plan, dict[str, Any]]:
    """Read a plan and what its file claims: peak, slab, and bounds and proofs if it has any."""
    _check_call("read_plan(path, graph)", path, graph, Graph)
    text = _read_text(path)
    with errors_named(label_of(path)):
        _, document = _expect(text, "a plan")
        return native_plan.read_plan_document(graph, document)


def read_packing(path: str | Path, *, pins: bool = False) -> PackingTable:
    """Read a packing problem and the offsets that its file gives, if it does.

    Parameters
    ----------
    path
        The file.
    pins
        Take given offsets as required ones.
    """
    text = _read_text(path)
    with errors_named(label_of(path)):
        _expect(text, "a packing")
        return minimalloc.read_minimalloc(text, name=_stem_of(path), pins=pins)


def write_graph(graph: Graph, path: str | Path) -> None:
    """Write a graph as `optsched-graph/1`."""
    _check_call("write_graph(graph, path)", path, graph, Graph)
    write_bytes(path, _json_bytes(native.graph_document(graph)))


def write_plan(
    plan: Plan | Planned,
    path: str | Path,
    graph: Graph | None = None,
    claims: Mapping[str, Any] | None = None,
) -> None:
    """Write a plan as `optsched-plan/1`.

    Parameters
    ----------
    plan
        A plan, or the result of `solve`, which knows its graph, bounds and proofs.
    path
        The file; as gzip if its name ends in .gz, "-" is standard output.
    graph
        What was planned; a plan by itself holds only positions, the file holds names.
    claims
        What else is known of the plan; see :func:`native_plan.plan_document`.

    Raises
    ------
    UsageError
        If the arguments are in another order, there is no graph, or the result has no plan.
    """
    call = "write_plan(plan, path, graph)"
    _check_call(call, path, plan, (Plan, Planned))
    if isinstance(plan, Plan):
        chosen: Plan | None = plan
    else:
        chosen, graph = plan.plan, graph or plan.graph
        claims = native_plan.claims_of(plan) if claims is None else claims
    if chosen is None:
        raise UsageError("the result has no plan that could be written")
    if not isinstance(graph, Graph):
        raise UsageError(f"{call} needs the graph: a plan by itself holds positions, no names")
    write_bytes(path, _json_bytes(native_plan.plan_document(graph, chosen, claims)))


def write_packing(
    packing: PackingTable | PackingProblem, path: str | Path, offsets: IntArray | None = None
) -> None:
    """Write a packing with these offsets, if given; one that was read keeps its columns."""
    _check_call("write_packing(packing, path)", path, packing, (PackingTable, PackingProblem))
    table = packing_of(packing) if isinstance(packing, PackingProblem) else packing
    if offsets is not None:
        table = minimalloc.with_offsets(table, offsets)
    write_bytes(path, minimalloc.minimalloc_text(table).encode())


def _check_call(call: str, path: object, thing: object, kinds: type | tuple[type, ...]) -> None:
    """Refuse arguments in another order; `call` is how it is to be written."""
    if not isinstance(path, str | os.PathLike) or not isinstance(thing, kinds):
        raise UsageError(
            f"the call is {call}; here the path is a {type(path).__name__} "
            f"and what goes with it a {type(thing).__name__}"
        )


def _stem_of(path: str | Path) -> str:
    """Return the name of a file without its folder and what its suffixes say about it."""
    name = "stdin" if str(path) == "-" else Path(path).name
    stem = name.removesuffix(".gz")
    for suffix in (".json", ".csv"):
        stem = stem.removesuffix(suffix)
    return stem or name


def _read_text(path: str | Path) -> str:
    """Return a file's text; errors start with its name."""
    data = read_bytes(path)
    with errors_named(label_of(path)):
        return decode_text(data)


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _expect(text: str, wanted: str) -> tuple[str, Any]:
    """Return the format's name and the parsed JSON, if any, of a file that is what is wanted."""
    document = parse_json(text) if _is_json(text) else None
    name = _sniff_text(text) if document is None else _sniff_document(document)
    if FORMATS[name] != wanted:
        raise FormatError(f"this is {FORMATS[name]} ({name}), {wanted} is wanted")
    return name, document


def _sniff_document(document: object) -> str:
    if not isinstance(document, dict):
        raise FormatError(f"expected a JSON object, got {show(document)}")
    tag = document.get("format")
    if tag is None and inductor.looks_like(document):
        return "inductor"
    for name in ("optsched-graph", "optsched-plan", "optsched-certificate"):
        if isinstance(tag, str) and tag.startswith(f"{name}/"):
            return name
    keys = ", ".join(show(key) for key in list(document)[:5])
    raise FormatError(f"JSON of no known format; its keys are {keys or 'none'}")


def _sniff_text(text: str) -> str:
    if minimalloc.looks_like(text):
        return "minimalloc"
    if not text.strip():
        raise FormatError("the file is empty")
    start = show(text.strip()[:40])
    raise FormatError(f"no known format: neither JSON nor a MiniMalloc CSV, it starts with {start}")


def _json_bytes(document: Mapping[str, Any]) -> bytes:
    """One op, buffer or key a line: small, and readable in a diff."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            text = f"[\n{rows}\n ]"
        else:
            text = json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()
