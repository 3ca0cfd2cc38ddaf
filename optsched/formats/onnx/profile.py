"""ONNX Runtime's profile of a run: the shapes of values, and the order of ops.

A session with `SessionOptions.enable_profiling` writes it: a JSON array of events. Ops are found by
the event's name, since a node's number in the profile is not its position in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from optsched.errors import FormatError
from optsched.formats.fields import Record, show
from optsched.formats.onnx.model import node_names, subgraphs
from optsched.formats.onnx.sizes import ELEMENT_BITS, TensorType
from optsched.formats.source import decode_text, errors_named, label_of, parse_json, read_bytes

_SUFFIX: Final = "_kernel_time"
WITH_BODIES: Final = ("If", "Loop", "Scan")


def read_profile(path: str | Path, *, bodies: bool | None = None) -> dict[str, Record]:
    """Return, of the first run in a profile, the arguments of each op's event, in time's order.

    `bodies` asks for the ops in bodies alone, or for those outside alone. Without it, of two ops
    with the same name the one outside counts.
    """
    with errors_named(label_of(path)):
        events = parse_json(decode_text(read_bytes(path)))
        if not isinstance(events, list):
            raise FormatError(f"no profile of ONNX Runtime: expected a list, got {show(events)}")
        rows = [Record(event, f"event number {i}") for i, event in enumerate(events)]
        kernels = [row for row in rows if row.text("name", "").endswith(_SUFFIX)]
        if not kernels:
            raise FormatError("no profile of ONNX Runtime: no event is named ..._kernel_time")
        inner = _inside_others(kernels)
        first: dict[str, int] = {}
        # Later runs of the session are not looked at.
        times = [row.count("ts") for row in kernels]
        wanted = (i for i in range(len(kernels)) if bodies is None or (i in inner) == bodies)
        for i in sorted(wanted, key=lambda i: (i in inner, times[i])):
            first.setdefault(kernels[i].text("name").removesuffix(_SUFFIX), i)
        return {
            name: Record(kernels[i].mapping("args"), f"event of {show(name)}")
            for name, i in sorted(first.items(), key=lambda pair: times[pair[1]])
        }


def _inside_others(kernels: Sequence[Record]) -> set[int]:
    """Return the numbers of the events of ops in bodies, which end before that of the body's op."""
    found: set[int] = set()
    for i, row in enumerate(kernels):
        if Record(row.mapping("args"), "event").text("op_name", "") in WITH_BODIES:
            start, j = row.count("ts"), i - 1
            while j >= 0 and kernels[j].count("ts") >= start:
                found.add(j)
                j -= 1
    return found


def profiled_types(path: str | Path, graph: Any) -> dict[str, TensorType]:
    """Return the types of the values that the ops of a graph read and wrote in a profiled run."""
    found: dict[str, TensorType] = {}
    bodies = [inner for node in graph.node for inner in subgraphs(node)]
    events = read_profile(path, bodies=True) if bodies else {}
    # Nodes inside have the file's names, which several bodies may use.
    for node in (node for inner in bodies for node in inner.node if node.name in events):
        if events[node.name].text("op_name") == node.op_type:
            found.update(_types_of(events[node.name], node))
    events = read_profile(path)
    for name, node in zip(node_names(graph), graph.node, strict=True):
        if name in events and events[name].text("op_name") != node.op_type:
            raise FormatError(
                f"the profile is of another model: op {show(name)} is "
                f"{events[name].text('op_name')!r} there and {node.op_type!r} here"
            )
        found.update(_types_of(events[name], node) if name in events else {})
    return found


def _types_of(event: Record, node: Any) -> Iterator[tuple[str, TensorType]]:
    for key, values in (("input_type_shape", node.input), ("output_type_shape", node.output)):
        types = [_read_type(entry, event.where) for entry in event.items(key, [])]
        present = [value for value in values if value]
        # The profile leaves out values that are not tensors, so the others cannot be identified.
        if len(types) == len(present):
            yield from ((v, t) for v, t in zip(present, types, strict=True) if t is not None)


def profiled_order(events: Mapping[str, Record], ops: Mapping[str, int]) -> tuple[int, ...]:
    """Return the order in which a graph's ops ran, ids by name; each must have its event."""
    for name in ops:
        if name not in events:
            raise FormatError(
                f"the profile has no event of op {show(name)}: it is of another model, "
                "or the session replaced the op; profile the file itself"
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
