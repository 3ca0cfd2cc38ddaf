"""A TFLite file with other operators and tensors; some are the old file's own.

Tensors that no operator uses any more are left out, as TFLite Micro would give them bytes, and the
others are renumbered; so are inputs, outputs and signatures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optsched.errors import FormatError
from optsched.formats.tflite.apply import (
    MODEL_FIELDS,
    UNPLANNED,
    planned,
    refuse_absolute_offsets,
    refuse_unknown,
)
from optsched.formats.tflite.head import (
    List,
    Node,
    Number,
    Numbers,
    Old,
    OldTable,
    Table,
    with_head,
)
from optsched.formats.tflite.model import Model, read_model

# Letters of the fields of tables of the schema, see `OldTable.fields`.
SUBGRAPH, TENSOR, OPERATOR = "*****i", "*bI**B**B*", "I**B**b**QQB*i"
_SIGNATURE, _TENSOR_MAP = "****I", "*I"

OPCODES, _SUBGRAPHS, _SIGNATURES = 1, 2, 7
"""Positions in the schema's table `Model`."""

_INTERMEDIATES = 8
"""Position in the table `Operator` of tensors that it uses beside inputs and outputs."""


@dataclass
class Row:
    """An operator to write: its kind, its tensors, and its other fields."""

    kind: str
    inputs: list[int]
    outputs: list[int]
    fields: dict[int, Any]


@dataclass
class Rewritten:
    """Content of the new file.

    A tensor that the old file has is known by its number there; new ones follow.
    """

    data: bytes
    old: Model
    """`data` and `old`: the old file."""
    operators: list[Row] = field(default_factory=list)
    """Operators of the main subgraph in their order."""
    tensors: list[Table] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    """`tensors` and `shapes`: new tensors."""
    opcodes: list[Node] = field(default_factory=list)
    buffers: list[Node] = field(default_factory=list)
    """`opcodes` and `buffers`: all kinds of operators, and the buffers after the old ones."""
    offsets: dict[int, int] = field(default_factory=dict)
    """Offsets of tensors by number."""
    notes: dict[bytes, bytes] = field(default_factory=dict)
    """Metadata by name."""

    def __post_init__(self) -> None:
        import tflite

        self.model = tflite.Model.GetRootAs(self.data)
        self.main = self.model.Subgraphs(0)
        self.opcodes += OldTable(self.model).items(OPCODES)
        refuse_absolute_offsets(self.model)
        tables = [(self.main, SUBGRAPH)]
        tables += [(self.main.Operators(i), OPERATOR) for i in range(len(self.old.operators))]
        refuse_unknown([*tables, *((signature, _SIGNATURE) for signature in self._signatures())])

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        count = len(self.old.tensors)
        return self.old.tensors[number].shape if number < count else self.shapes[number - count]

    def file(self) -> bytes:
        """Return the new head and the old file, after reading it back.

        Raise `FormatError` if the written file reads otherwise: tables of the old file share parts.
        """
        kept = self._kept()
        number = {t: i for i, t in enumerate(kept)} | {-1: -1}
        others = OldTable(self.model).items(_SUBGRAPHS)[1:]
        offsets = [self.offsets.get(t, UNPLANNED) for t in kept]
        offsets += [UNPLANNED] * sum(len(x.tensors) for x in self.old.others)
        fields = {
            **OldTable(self.model).fields(MODEL_FIELDS),
            **planned(self.model, offsets, self.buffers, self.notes),
            OPCODES: List(self.opcodes),
            _SUBGRAPHS: List([self._subgraph(kept, number), *others]),
        }
        if _SIGNATURES in fields:
            fields[_SIGNATURES] = List([*self._signature_nodes(number)])
        written = with_head(self.data, Table(fields))
        self._check(written, kept)
        return written

    def _kept(self) -> list[int]:
        """Return the numbers of the tensors that are used, ascending."""
        used = {*self.old.inputs, *self.old.outputs}
        for row in self.operators:
            used.update(row.inputs, row.outputs, self._intermediates(row))
        for signature in self._signatures():
            used.update(t for _, numbers in _sides(signature) for t in numbers)
        return sorted(used - {-1})

    def _intermediates(self, row: Row) -> list[int]:
        node = row.fields.get(_INTERMEDIATES)
        if not isinstance(node, Old):
            return []
        count = int.from_bytes(self.data[node.at : node.at + 4], "little")
        return [*map(int, np.frombuffer(self.data, "<i4", count, node.at + 4))]

    def _signatures(self) -> list[Any]:
        """Return the signatures of the main subgraph."""
        found = [self.model.SignatureDefs(i) for i in range(self.model.SignatureDefsLength())]
        return [signature for signature in found if signature.SubgraphIndex() == 0]

    def _subgraph(self, kept: Sequence[int], number: Mapping[int, int]) -> Table:
        tensors: list[Node] = [*OldTable(self.main).items(0), *self.tensors]
        return Table(
            {
                **OldTable(self.main).fields(SUBGRAPH),
                0: List([tensors[t] for t in kept]),
                1: Numbers("i", [number[t] for t in self.old.inputs]),
                2: Numbers("i", [number[t] for t in self.old.outputs]),
                3: List([self._operator(row, number) for row in self.operators]),
            }
        )

    def _operator(self, row: Row, number: Mapping[int, int]) -> Table:
        fields = {
            **row.fields,
            1: Numbers("i", [number[t] for t in row.inputs]),
            2: Numbers("i", [number[t] for t in row.outputs]),
        }
        if inner := self._intermediates(row):
            fields[_INTERMEDIATES] = Numbers("i", [number[t] for t in inner])
        return Table(fields)

    def _signature_nodes(self, number: Mapping[int, int]) -> Iterator[Node]:
        for i, old in enumerate(OldTable(self.model).items(_SIGNATURES)):
            signature = self.model.SignatureDefs(i)
            if signature.SubgraphIndex():
                yield old
                continue
            fields = OldTable(signature).fields(_SIGNATURE)
            for slot, (tables, numbers) in enumerate(_sides(signature)):
                maps = [OldTable(table).fields(_TENSOR_MAP) for table in tables]
                pairs = zip(maps, numbers, strict=True)
                fields[slot] = List([Table({**x, 1: Number("I", number[t])}) for x, t in pairs])
            yield Table(fields)

    def _check(self, written: bytes, kept: Sequence[int]) -> None:
        """Read the new file, and check that it holds the operators, tensors and names."""
        found, old = read_model(written), self.old
        number = dict(enumerate(kept)) | {-1: -1}
        operators = [(row.kind, row.inputs, row.outputs) for row in self.operators]
        back = [
            (op.kind, [number[t] for t in op.inputs], [number[t] for t in op.outputs])
            for op in found.operators
        ]
        same = [t.shape for t in found.tensors] == [self.shape(t) for t in kept]
        for now, before in ((found.inputs, old.inputs), (found.outputs, old.outputs)):
            same = same and [number[t] for t in now] == [*before]
        if not same or back != operators:
            raise FormatError("cannot rewrite this file: its tables share parts")


def _sides(signature: Any) -> Iterator[tuple[list[Any], list[int]]]:
    """Yield the tables that name inputs, then outputs, and the numbers of their tensors."""
    for count, item in (
        (signature.InputsLength(), signature.Inputs),
        (signature.OutputsLength(), signature.Outputs),
    ):
        tables = [item(i) for i in range(count)]
        yield tables, [table.TensorIndex() for table in tables]
