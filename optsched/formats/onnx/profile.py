"""ONNX Runtime's profile of a run: the shapes of values, and the order of ops.

A session with `SessionOptions.enable_profiling` writes it: a JSON array of events. Ops are found by
the event's name, since a node's number in the profile is not its position in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from optsched.errors import FormatError
from optsched.formats.fields import Record, show
from optsched.formats.onnx.model import node_names, subgraphs
from optsched.formats.onnx.sizes import ELEMENT_BITS, TensorType
from optsched.formats.source import decode_text, errors_named, label_of, parse_json, read_bytes

_SUFFIX: Final = "_kernel_time"


def read_profile(path: str | Path) -> dict[str, Record]:
    """Return, of the first run in a profile, the arguments of each op's event, in time's order."""
    with errors_named(label_of(path)):
        events = parse_json(decode_text(read_bytes(path)))
        if not isinstance(events, list):
            raise FormatError(f"no profile of ONNX Runtime: expected a list, got {show(events)}")
        rows = [Record(event, f"event number {i}") for i, event in enumerate(events)]
        kernels = [row for row in rows if row.text("name", "").endswith(_SUFFIX)]
        if not kernels:
            raise FormatError("no profile of ONNX Runtime: no event is named ..._kernel_time")
        found: dict[str, Record] = {}
        for row in sorted(kernels, key=lambda row: row.count("ts")):
            name = row.text("name").removesuffix(_SUFFIX)
            # Later runs of the session are not looked at.
            found.setdefault(name, Record(row.mapping("args"), f"event of {show(name)}"))
        return found


def profiled_types(events: Mapping[str, Record], graph: Any) -> dict[str, TensorType]:
    """Return the types of the values that the ops of a graph read and wrote in a profiled run."""
    found: dict[str, TensorType] = {}
    # Names are given to nodes of the main graph; inside they are the file's.
    inside = (node for node in graph.node for inner in subgraphs(node) for node in inner.node)
    named = [(node.name, node) for node in inside if node.name]
    for name, node in [*named, *zip(node_names(graph), graph.node, strict=True)]:
        event = events.get(name)
        if event is None:
            continue
        if event.text("op_name") != node.op_type:
            raise FormatError(
                f"the profile is of another model: op {show(name)} is {event.text('op_name')!r} "
                f"there and {node.op_type!r} here"
            )
        for key, values in (("input_type_shape", node.input), ("output_type_shape", node.output)):
            types = [_read_type(entry, event.where) for entry in event.items(key, [])]
            present = [value for value in values if value]
            # The profile leaves out values that are not tensors, so the others cannot be
            # identified.
            if len(types) == len(present):
                found.update({v: t for v, t in zip(present, types, strict=True) if t is not None})
    return found


def profiled_order(events: Mapping[str, Record], ops: Mapping[str, int]) -> tuple[int, ...]:
    """Return the order in which a graph's ops ran, ids by name; each must have its event."""
    for name in ops:
        if name not in events:
            raise FormatError(
                f"the profile has no event of op {show(name)}: it is of another model, "
                "or of one that the session optimized; profile the file itself"
            )
    return tuple(ops[name] for name in events if name in ops)


def _read_type(entry: object, where: str) -> TensorType | None:
    record = Record(entry, where)
    for name in record.value:
        shape = record.items(name)
        if any(type(n) is not int or n < 0 for n in shape):
            raise FormatError(f"{where}: {show(shape)} is no shape")
        # The type is the key, in lower case.
        bits = ELEMENT_BITS.get(name.upper())
        return None if bits is None else TensorType(bits, tuple(shape))
    return None
