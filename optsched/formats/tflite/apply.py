"""Insertion of a plan into a TFLite file: operator order, and offsets as `OfflineMemoryAllocation`.

The old file, including weights, is kept byte for byte after a new head: copies of the model's
table, of its list of buffers and of its list of metadata, with one more entry each. Only the list
of operators is rewritten in place.

References
----------
tensorflow/lite/micro/docs/memory_management.md of https://github.com/tensorflow/tflite-micro
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optsched.errors import FormatError
from optsched.formats.format import Source
from optsched.formats.tflite.graph import TfliteGraph, arena_head, holds_subgraphs, read_tflite
from optsched.formats.tflite.head import (
    FILE_ALIGNMENT,
    List,
    Node,
    Number,
    Numbers,
    OldTable,
    Table,
    Text,
    with_head,
)
from optsched.formats.tflite.model import METADATA_NAME, damage_named, read_model
from optsched.model.graph import Graph
from optsched.model.plan import Plan

TILED_NAME = b"optsched tiling"
"""Name of the note that lists the stages of a tiled model."""
UNPLANNED = -1
"""Offset of a tensor that the runtime places."""

_VERSION = 1
MODEL_FIELDS = "I*******"
"""Letters of the fields of the schema's table `Model`, see `OldTable.fields`."""
_BUFFERS, _METADATA = 4, 6


def apply(source: Source, graph: Graph, plan: Plan) -> bytes:
    """Return a copy of a file whose runtime follows a plan; see :func:`apply_tflite`."""
    for tensor in read_model(source.data).tensors:
        if any(size < 0 for size in tensor.shape):
            raise FormatError(
                f"tensor {tensor.name!r} has no known shape in the file: nothing runs it so"
            )
    made = read_tflite(source.data, source.name)
    # Without dims the graph is the file's own.
    resized = read_tflite(source.data, source.name, dict(graph.dims)).graph if graph.dims else graph
    if [x.size for x in resized.buffers] != [x.size for x in made.graph.buffers]:
        sizes = ", ".join(f"{name}={size}" for name, size in graph.dims)
        raise FormatError(
            f"the plan is for {sizes}, but TFLite Micro runs the file with the shapes stored in "
            "it; resize the model, or plan it without --dim"
        )
    return apply_tflite(source.data, made, plan)


def apply_tflite(data: bytes, made: TfliteGraph, plan: Plan) -> bytes:
    """Return a copy of a model file whose runtime follows a valid plan of the model's graph.

    `FormatError` is raised if the plan has several pools, an offset does not fit in 32 bits, other
    subgraphs hold tensors and TFLite Micro's own packing is larger than the plan, the file keeps
    data after the flatbuffer, has fields that the schema does not have, or stores its operators so
    that they cannot be reordered.
    """
    if len(set(plan.pools)) > 1:
        names = ", ".join(map(repr, sorted(set(plan.pools))))
        raise FormatError(f"the plan has the pools {names}; TFLite Micro has one arena")
    # Operators that make constants stay at the front, where the runtime has them.
    order = [op.number for op in made.folded]
    order += [op.number for v in plan.order if (op := made.operators[v]) is not None]
    offsets = plan_offsets(made, plan)
    if holds_subgraphs(made.model):
        _require_own_packing(made, plan, order)
        # Order alone: the runtime then packs all subgraphs itself, into at most the plan's bytes.
        offsets = [UNPLANNED] * len(offsets)
    if max(offsets, default=0) >= 2**31:
        raise FormatError(f"offset {max(offsets)} does not fit the format's 32 bits")
    with damage_named():
        # In this sequence: the new head is put before the reordered file.
        written = _with_head(bytes(_with_order(data, order)), offsets)
    _check_written(written, made, order)
    return written


def _require_own_packing(made: TfliteGraph, plan: Plan, order: Sequence[int]) -> None:
    """Refuse a plan that is smaller than TFLite Micro's own packing of its order.

    The interpreter gives the offset of a tensor to the tensors with its number in all subgraphs, so
    offsets cannot be stored in a model whose other subgraphs have tensors in the arena.
    """
    pairs = zip(made.graph.buffers, plan.offsets, strict=True)
    slab = max((at + buffer.size for buffer, at in pairs if at is not None), default=0)
    head = arena_head(made.model, order)
    if head > slab:
        raise FormatError(
            f"TFLite Micro takes no offsets for models with several subgraphs, and packs this "
            f"order into {head:,} bytes, more than the plan's {slab:,}"
        )


def plan_offsets(made: TfliteGraph, plan: Plan) -> list[int]:
    """Return what the metadata says of each tensor of all subgraphs: its offset, or -1."""
    count = len(made.model.tensors) + sum(len(x.tensors) for x in made.model.others)
    offsets = [UNPLANNED] * count
    for buffer, offset in zip(made.graph.buffers, plan.offsets, strict=True):
        if buffer.name in made.tensors and offset is not None:
            offsets[made.tensors[buffer.name]] = offset
    return offsets


def _with_order(data: bytes, order: Sequence[int]) -> bytearray:
    """Return the file with the operators of its main subgraph in this order."""
    import tflite

    main = tflite.Model.GetRootAs(data).Subgraphs(0)._tab
    changed = bytearray(data)
    field = main.Offset(4 + 2 * 3)
    if not field:
        return changed
    first = main.Vector(field)
    tables = [main.Indirect(first + 4 * i) for i in range(main.VectorLen(field))]
    for i, v in enumerate(order):
        # A relative offset from its own place; forward only, by the format.
        place = first + 4 * i
        if tables[v] <= place:
            raise FormatError("operators are stored before their list and cannot be reordered")
        struct.pack_into("<I", changed, place, tables[v] - place)
    return changed


def _with_head(data: bytes, offsets: Sequence[int]) -> bytes:
    import tflite

    model = tflite.Model.GetRootAs(data)
    refuse_absolute_offsets(model)
    return with_head(
        data, Table({**OldTable(model).fields(MODEL_FIELDS), **planned(model, offsets)})
    )


def planned(
    model: Any,
    offsets: Sequence[int],
    buffers: Sequence[Node] = (),
    notes: Mapping[bytes, bytes] | None = None,
) -> dict[int, Node]:
    """Return the fields of a model that hold offsets of tensors, and notes, after new buffers.

    What an earlier plan in the file says under these names is replaced.
    """
    values = struct.pack(f"<3I{len(offsets)}i", _VERSION, 0, len(offsets), *offsets)
    said = {METADATA_NAME: values, **(notes or {})}
    old = OldTable(model)
    metadata: list[Node] = [
        table
        for i, table in enumerate(old.items(_METADATA))
        if model.Metadata(i).Name() not in (METADATA_NAME, TILED_NAME)
    ]
    found = [*old.items(_BUFFERS), *buffers]
    for name, data in said.items():
        metadata.append(Table({0: Text(name), 1: Number("I", len(found))}))
        found.append(buffer_of(data))
    return {_BUFFERS: List(found), _METADATA: List(metadata)}


def buffer_of(data: bytes) -> Table:
    """Return a new buffer with this data."""
    return Table({0: Numbers("B", data, FILE_ALIGNMENT)})


def refuse_absolute_offsets(model: Any) -> None:
    """Refuse data at absolute positions in the file, which a new head would shift."""
    for i in range(model.BuffersLength()):
        if model.Buffers(i).Offset() > 1:
            raise FormatError(f"buffer {i} lies after the flatbuffer; such files cannot be written")
    main = model.Subgraphs(0)
    for i in range(main.OperatorsLength()):
        if main.Operators(i).LargeCustomOptionsOffset() > 1:
            raise FormatError(f"op number {i} has options after the flatbuffer")
    refuse_unknown([(model, MODEL_FIELDS)])


def refuse_unknown(tables: Iterable[tuple[Any, str]]) -> None:
    """Refuse tables with fields that the schema does not have, which a new head would lose."""
    if any(OldTable(table).unknown(letters) for table, letters in tables):
        raise FormatError("the model has fields that this version of the schema does not know")


def _check_written(written: bytes, made: TfliteGraph, order: Sequence[int]) -> None:
    """Read the new file and check that nothing else changed, even if the old file was unusual."""
    # Read back: a file whose tables overlap would have been changed in two places.
    found, model = read_model(written), made.model
    operators = [(op.kind, op.inputs, op.outputs) for op in found.operators]
    wanted = [model.operators[v] for v in order]
    same = operators == [(op.kind, op.inputs, op.outputs) for op in wanted]
    if not same or found.tensors != model.tensors or found.inputs != model.inputs:
        raise FormatError("cannot insert the plan into this file: its tables share parts")
