"""Insertion of a plan into a TFLite file: operator order, and offsets as `OfflineMemoryAllocation`.

Offsets inside a flatbuffer are relative and point forward. The old file, including weights, is
therefore kept byte for byte after a new head: copies of the model's table, of its list of buffers
and of its list of metadata, with one more entry each. Only the list of operators is rewritten in
place.

References
----------
tensorflow/lite/micro/docs/memory_management.md of https://github.com/tensorflow/tflite-micro
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from optsched.errors import FormatError
from optsched.formats.format import Source
from optsched.formats.tflite.graph import TfliteGraph, arena_head, holds_subgraphs, read_tflite
from optsched.formats.tflite.model import IDENTIFIER, damage_named, read_model
from optsched.model.graph import Graph
from optsched.model.plan import Plan

METADATA_NAME = b"OfflineMemoryAllocation"
UNPLANNED = -1
"""Offset of a tensor that the runtime places."""

_VERSION = 1
_MODEL_FIELDS = 8
_BUFFERS, _METADATA = 4, 6
"""Positions in the schema's table `Model`."""
_FILE_ALIGNMENT = 16
"""Data of buffers begins at a multiple of this."""


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
        written = _with_head(_with_order(data, order), offsets)
    _check_written(written, made, order)
    return written


def _require_own_packing(made: TfliteGraph, plan: Plan, order: Sequence[int]) -> None:
    """Refuse a plan that is smaller than TFLite Micro's own packing of its order.

    The interpreter gives the offset of a tensor to the tensors with its number in all subgraphs, so
    offsets cannot be stored in a model whose other subgraphs have tensors in the arena.
    """
    pairs = zip(made.graph.buffers, plan.offsets, strict=True)
    slab = max((at + buffer.size for buffer, at in pairs if at is not None), default=0)
    head = arena_head(made, order)
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


def _with_head(data: bytearray, offsets: Sequence[int]) -> bytes:
    import tflite

    model = tflite.Model.GetRootAs(bytes(data))
    _refuse_absolute_offsets(model)
    fields = [_field(model._tab, i) for i in range(_MODEL_FIELDS)]
    metadata = [
        table
        for i, table in enumerate(_tables(model._tab, _METADATA))
        # An earlier plan in the file is replaced.
        if model.Metadata(i).Name() != METADATA_NAME
    ]
    head = _Head()
    return head.build(bytes(data), fields, _tables(model._tab, _BUFFERS), metadata, offsets)


def _refuse_absolute_offsets(model: Any) -> None:
    """Refuse data at absolute positions in the file, which a new head would shift."""
    for i in range(model.BuffersLength()):
        if model.Buffers(i).Offset() > 1:
            raise FormatError(f"buffer {i} lies after the flatbuffer; such files cannot be written")
    main = model.Subgraphs(0)
    for i in range(main.OperatorsLength()):
        if main.Operators(i).LargeCustomOptionsOffset() > 1:
            raise FormatError(f"op number {i} has options after the flatbuffer")
    table = model._tab
    vtable = table.Pos - struct.unpack_from("<i", table.Bytes, table.Pos)[0]
    # A field past the known ones has content that would be lost.
    known = 4 + 2 * _MODEL_FIELDS
    size = struct.unpack_from("<H", table.Bytes, vtable)[0]
    if any(table.Offset(slot) for slot in range(known, size, 2)):
        raise FormatError("the model has fields that this version of the schema does not know")


def _field(table: Any, number: int) -> tuple[bool, int]:
    """Return whether a field of a model is there, and its value: a number, or where it points."""
    offset = table.Offset(4 + 2 * number)
    if not offset:
        return False, 0
    place = table.Pos + offset
    if number == 0:
        return True, struct.unpack_from("<I", table.Bytes, place)[0]
    return True, table.Indirect(place)


def _tables(table: Any, number: int) -> list[int]:
    """Return where the tables of a list of a model stand."""
    offset = table.Offset(4 + 2 * number)
    if not offset:
        return []
    first = table.Vector(offset)
    return [table.Indirect(first + 4 * i) for i in range(table.VectorLen(offset))]


class _Head:
    """The new head of a file, written from its first byte on."""

    def __init__(self) -> None:
        self.bytes = bytearray(8)
        self.pointers: list[tuple[int, int, bool]] = []
        """Place, target, and whether the target is in the old file."""

    def build(
        self,
        data: bytes,
        fields: Sequence[tuple[bool, int]],
        buffers: Sequence[int],
        metadata: Sequence[int],
        offsets: Sequence[int],
    ) -> bytes:
        """Return the head followed by the old file.

        `fields` are the fields of the old model, `buffers` and `metadata` the positions of the
        tables in these lists, and `offsets` the new metadata's entry for each tensor.
        """
        root = self._table([4] * _MODEL_FIELDS)
        places = [root + 4 + 4 * i for i in range(_MODEL_FIELDS)]
        struct.pack_into("<I", self.bytes, places[0], fields[0][1])
        for i, (there, value) in enumerate(fields):
            if i not in (0, _BUFFERS, _METADATA):
                if there:
                    self.pointers.append((places[i], value, True))
                else:
                    self._forget(root, i)
        new_buffer = self._list(places[_BUFFERS], buffers)
        new_metadata = self._list(places[_METADATA], metadata)
        self._add_buffer(new_buffer, offsets)
        self._add_metadata(new_metadata, len(buffers))
        self._align(_FILE_ALIGNMENT)
        for place, target, old in self.pointers:
            # Old targets have moved by the length of the head.
            moved = len(self.bytes) if old else 0
            struct.pack_into("<I", self.bytes, place, target + moved - place)
        struct.pack_into("<I4s", self.bytes, 0, root, IDENTIFIER)
        return bytes(self.bytes) + data

    def _align(self, to: int, ahead: int = 0) -> None:
        """Add padding so that the position `ahead` bytes further on is a multiple of `to`."""
        # Padding counts from the start of the file, which is where the head begins.
        self.bytes += bytes(-(len(self.bytes) + ahead) % to)

    def _table(self, sizes: Sequence[int]) -> int:
        """Add a table with fields of these bytes, all there, and return where it begins."""
        vtable_size = 4 + 2 * len(sizes)
        self._align(4, vtable_size)
        at = 4
        vtable = struct.pack("<HH", vtable_size, 4 + sum(sizes))
        for size in sizes:
            vtable += struct.pack("<H", at)
            at += size
        self.bytes += vtable
        table = len(self.bytes)
        # The vtable lies before its table: a distance upwards.
        self.bytes += struct.pack("<i", vtable_size) + bytes(sum(sizes))
        return table

    def _forget(self, table: int, field: int) -> None:
        """Mark a field as absent in the vtable in front of a table."""
        vtable = table - struct.unpack_from("<i", self.bytes, table)[0]
        struct.pack_into("<H", self.bytes, vtable + 4 + 2 * field, 0)

    def _list(self, field: int, tables: Sequence[int]) -> int:
        """Add a list: tables of the old file, then a new one; return the place of its pointer."""
        self._align(4)
        self.pointers.append((field, len(self.bytes), False))
        self.bytes += struct.pack("<I", len(tables) + 1)
        for table in tables:
            self.pointers.append((len(self.bytes), table, True))
            self.bytes += bytes(4)
        self.bytes += bytes(4)
        return len(self.bytes) - 4

    def _add_buffer(self, name: int, offsets: Sequence[int]) -> None:
        table = self._table([4])
        self.pointers.append((name, table, False))
        values = (_VERSION, 0, len(offsets), *offsets)
        # Four bytes of length come before the data.
        self._align(_FILE_ALIGNMENT, 4)
        self.pointers.append((table + 4, len(self.bytes), False))
        self.bytes += struct.pack(f"<I{len(values)}i", 4 * len(values), *values)

    def _add_metadata(self, name: int, buffer: int) -> None:
        table = self._table([4, 4])
        self.pointers.append((name, table, False))
        struct.pack_into("<I", self.bytes, table + 8, buffer)
        self._align(4)
        self.pointers.append((table + 4, len(self.bytes), False))
        self.bytes += struct.pack("<I", len(METADATA_NAME)) + METADATA_NAME + b"\0"


def _check_written(written: bytes, made: TfliteGraph, order: Sequence[int]) -> None:
    """Read the new file and check that nothing else changed, even if the old file was unusual."""
    # Read back: a file whose tables overlap would have been changed in two places.
    found, model = read_model(written), made.model
    operators = [(op.kind, op.inputs, op.outputs) for op in found.operators]
    wanted = [model.operators[v] for v in order]
    same = operators == [(op.kind, op.inputs, op.outputs) for op in wanted]
    if not same or found.tensors != model.tensors or found.inputs != model.inputs:
        raise FormatError("cannot insert the plan into this file: its tables share parts")
