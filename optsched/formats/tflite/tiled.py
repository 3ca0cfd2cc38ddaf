"""A tiled model as an ordinary `.tflite`: right in any interpreter, planned in TFLite Micro.

A slice of rows becomes a SLICE, which takes less of the tail than a STRIDED_SLICE, a join a
CONCATENATION over rows, and an operator of a band is the file's own operator with the same weights
on tensors of fewer rows. TFLite Micro takes the offset of each tensor from the metadata
`OfflineMemoryAllocation`; those of views lie inside the tensor that they are rows of, so that
slices and joins copy bytes onto themselves. Another interpreter gives each tensor its own bytes and
computes the same. As in :mod:`optsched.formats.tflite.apply`, the old file stays byte for byte
after a new head: weights are not copied.

References
----------
tensorflow/compiler/mlir/lite/schema/schema.fbs of https://github.com/tensorflow/tensorflow
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from optsched.errors import FormatError
from optsched.formats.tflite.apply import TILED_NAME, buffer_of
from optsched.formats.tflite.graph import TfliteGraph
from optsched.formats.tflite.head import Number, Numbers, OldTable, Table, Text
from optsched.formats.tflite.model import Operator, damage_named, integers_of
from optsched.formats.tflite.rewritten import OPERATOR, TENSOR, Rewritten, Row
from optsched.formats.tflite.rows import RESHAPED
from optsched.model.plan import Plan
from optsched.model.rows import RowOp
from optsched.model.tiled import TiledGraph, TiledKind, TiledOp, TiledTensor

_ROWS = 1
"""Axis of rows."""

_UNIONS = {"CONCATENATION": "ConcatenationOptions", "SLICE": "SliceOptions"}


def tiled_before(data: bytes) -> bool:
    """Return True if a file was written by :func:`write_tiled`."""
    import tflite

    model = tflite.Model.GetRootAs(data)
    return any(model.Metadata(i).Name() == TILED_NAME for i in range(model.MetadataLength()))


def write_tiled(data: bytes, made: TfliteGraph, tiled: TiledGraph, plan: Plan) -> bytes:
    """Return a model file that runs in bands, with the offsets of a valid plan.

    Raise `FormatError` if the file is tiled already, an offset does not fit in 32 bits, the file
    keeps data after the flatbuffer, or has fields that the schema does not have.

    `data`: the untiled file. `made`: its graph, from `data`. `tiled`: the tiled graph of
    `made.graph`. `plan`: plan of the tiled graph in one pool.
    """
    if tiled_before(data):
        raise FormatError("the file is tiled already: tile the model that it was made of")
    with damage_named():
        return _Writer(data, made, tiled, plan).new.file()


class _Writer:
    """Tensors and operators of one tiled file, in the making."""

    def __init__(self, data: bytes, made: TfliteGraph, tiled: TiledGraph, plan: Plan) -> None:
        import tflite

        self.schema, self.made, self.tiled = tflite, made, tiled
        self.new = Rewritten(data, made.model)
        self.opcodes: dict[int, int] = {}
        offsets = tiled.offsets(plan)
        self.known = [self._tensor(tensor) for tensor in tiled.tensors]
        """Numbers of the tiled graph's tensors."""
        pairs = zip(self.known, offsets, strict=True)
        self.new.offsets = {number: at for number, at in pairs if at is not None}
        if max(self.new.offsets.values(), default=0) >= 2**31:
            raise FormatError("an offset does not fit the format's 32 bits")
        self.new.notes[TILED_NAME] = json.dumps(tiled.stage_rows()).encode()
        for op in made.folded:
            self._add_row(op.kind, op.inputs, op.outputs, self._fields(op))
        for v in plan.order:
            self._add_op(tiled.ops[v])

    def _tensor(self, tensor: TiledTensor) -> int:
        """Return the number of a tensor of the tiled graph."""
        name = self.made.graph.buffers[tensor.buffer].name
        number = self.made.tensors[name]
        if tensor.name == name:
            return number
        old = OldTable(self.new.main.Tensors(number)).fields(TENSOR)
        shape = list(self.made.model.tensors[number].shape)
        shape[_ROWS] = tensor.rows
        # Type and quantization are those of the tensor whose rows these are.
        return self._add(tensor.name, shape, {slot: old[slot] for slot in (1, 4) if slot in old})

    def _add(self, name: str, shape: Sequence[int], fields: dict[int, Any]) -> int:
        self.new.shapes.append(tuple(shape))
        self.new.tensors.append(Table({**fields, 0: Numbers("i", shape), 3: Text(name.encode())}))
        return len(self.made.model.tensors) + len(self.new.tensors) - 1

    def _constant(self, values: Sequence[int], shape: Sequence[int], kind: str = "INT32") -> int:
        """Return the number of a new constant.

        Equal ones are not shared, so that the tail of the arena is a sum over ops, and bounds on
        it are those of the file.
        """
        number = self.new.model.BuffersLength() + len(self.new.buffers)
        self.new.buffers.append(
            buffer_of(np.array(values, "<i8" if kind == "INT64" else "<i4").tobytes())
        )
        code = getattr(self.schema.TensorType, kind)
        fields = {1: Number("b", code), 2: Number("I", number)}
        return self._add(f"rows/{number}", shape, fields)

    def _add_row(
        self, kind: str, inputs: Sequence[int], outputs: Sequence[int], fields: dict[int, Any]
    ) -> None:
        self.new.operators.append(Row(kind, [*inputs], [*outputs], fields))

    def _fields(self, op: Operator) -> dict[int, Any]:
        return {**OldTable(self.new.main.Operators(op.number)).fields(OPERATOR)}

    def _add_op(self, op: TiledOp) -> None:
        match op.kind:
            case TiledKind.SLICE:
                self._add_slice(op)
            case TiledKind.JOIN:
                self._add_join(op)
            case _:
                self._add_own(op)

    def _add_own(self, op: TiledOp) -> None:
        """Add an operator of the untiled file, on a band or as it is."""
        assert op.op is not None
        old = self.made.operators[op.op]
        if old is None:
            return
        graph, tensors = self.made.graph, self.made.model.tensors
        pairs = (*op.reads, *((self.tiled.tensors[t].buffer, t) for t in op.writes))
        # Operands that are not in the arena stay as they are.
        found = {graph.buffers[b].name: self.known[t] for b, t in pairs}

        def number(t: int) -> int:
            return found.get(tensors[t].name, t) if t >= 0 else t

        inputs = [*map(number, old.inputs)]
        if op.kind is TiledKind.BAND and old.kind in RESHAPED:
            operand = RESHAPED[old.kind]
            inputs[operand] = self._rows_operand(op, old, old.inputs[operand])
        self._add_row(old.kind, inputs, [*map(number, old.outputs)], self._fields(old))

    def _rows_operand(self, op: TiledOp, old: Operator, number: int) -> int:
        """Return the constant by which an operator makes the rows of a band."""
        constant = self.made.model.tensors[number]
        values = integers_of(self.new.data, constant)
        assert values is not None
        values, out = values.copy(), self.tiled.tensors[op.writes[0]]
        match old.kind:
            case "PAD" | "PADV2":
                given = self.tiled.tensors[op.reads[0][1]]
                row_op = self.tiled.source.ops[op.op or 0]
                assert isinstance(row_op, RowOp)
                begin = out.first - row_op.maps[0].pad
                values[2 * _ROWS] = given.first - begin
                values[2 * _ROWS + 1] = begin + out.rows - given.first - given.rows
            case "TRANSPOSE_CONV":
                values[_ROWS] = out.rows
            case _:
                values[0] = out.rows
        return self._constant(values.tolist(), constant.shape, constant.type)

    def _add_slice(self, op: TiledOp) -> None:
        ((_, source),), (result,) = op.reads, op.writes
        outer, part = self.tiled.tensors[source], self.tiled.tensors[result]
        rank = len(self.new.shape(self.known[source]))
        # Of the other axes, all from 0 on: -1 stands for as many as there are.
        begin, size = [0] * rank, [-1] * rank
        begin[_ROWS], size[_ROWS] = part.first - outer.first, part.rows
        inputs = [self.known[source], self._constant(begin, [rank]), self._constant(size, [rank])]
        version = 4 if self._type(source) == "INT16" else 2
        self._add_made("SLICE", version, inputs, self.known[result], Table({}))

    def _add_join(self, op: TiledOp) -> None:
        inputs = [self.known[t] for _, t in op.reads]
        version = 3 if self._type(op.reads[0][1]) == "INT16" else 2
        options = Table({0: Number("i", _ROWS)})
        self._add_made("CONCATENATION", version, inputs, self.known[op.writes[0]], options)

    def _add_made(
        self, kind: str, version: int, inputs: Sequence[int], output: int, options: Table
    ) -> None:
        """Add an operator that the untiled file does not have."""
        fields = {
            0: Number("I", self._opcode(getattr(self.schema.BuiltinOperator, kind), version)),
            3: Number("B", getattr(self.schema.BuiltinOptions, _UNIONS[kind])),
            4: options,
        }
        self._add_row(kind, inputs, [output], fields)

    def _opcode(self, builtin: int, version: int) -> int:
        model = self.new.model
        for i in range(model.OperatorCodesLength()):
            row = model.OperatorCodes(i)
            if max(row.BuiltinCode(), row.DeprecatedBuiltinCode()) == builtin:
                return i
        if builtin not in self.opcodes:
            self.opcodes[builtin] = len(self.new.opcodes)
            # Both codes are below 127, from which on the older field is too narrow.
            fields = {0: Number("b", builtin), 2: Number("i", version), 3: Number("i", builtin)}
            self.new.opcodes.append(Table(fields))
        return self.opcodes[builtin]

    def _type(self, t: int) -> str:
        name = self.made.graph.buffers[self.tiled.tensors[t].buffer].name
        return self.made.model.tensors[self.made.tensors[name]].type
