"""Cells of a TensorFlow Lite file, by the prefix of their tensors' names; only what is needed.

The SwiftNet network of SERENITY's authors is published as such a file and is not part of this
repository: `vwwc-224/submission-uint8.lite` of github.com/newwhitecheng/vwwc19-submission.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from optsched.errors import FormatError
from optsched.model.builder import GraphBuilder
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph

ITEM_BYTES = {0: 4, 1: 2, 2: 4, 3: 1, 4: 8, 6: 1, 7: 2, 9: 1}
"""Bytes of an item by the number of its type in the TFLite schema."""


@dataclass(frozen=True)
class Table:
    """A table of a FlatBuffers file: fields by number, found through its vtable."""

    data: bytes
    at: int

    def _field(self, number: int) -> int:
        vtable = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        if 4 + 2 * number >= struct.unpack_from("<H", self.data, vtable)[0]:
            return 0
        offset = int(struct.unpack_from("<H", self.data, vtable + 4 + 2 * number)[0])
        return self.at + offset if offset else 0

    def number(self, field: int, form: str = "<i") -> int:
        """Return a number; 0 where the field is absent."""
        at = self._field(field)
        return int(struct.unpack_from(form, self.data, at)[0]) if at else 0

    def _vector(self, field: int) -> tuple[int, int]:
        at = self._field(field)
        if not at:
            return 0, 0
        at += struct.unpack_from("<I", self.data, at)[0]
        return at + 4, struct.unpack_from("<I", self.data, at)[0]

    def numbers(self, field: int) -> list[int]:
        """Return a vector of 32-bit numbers."""
        start, count = self._vector(field)
        return list(struct.unpack_from(f"<{count}i", self.data, start))

    def text(self, field: int) -> str:
        """Return a string."""
        start, count = self._vector(field)
        return self.data[start : start + count].decode("utf-8")

    def length(self, field: int) -> int:
        """Return how many items a vector has."""
        return self._vector(field)[1]

    def tables(self, field: int) -> list[Table]:
        """Return a vector of tables."""
        start, count = self._vector(field)
        places = (start + 4 * i for i in range(count))
        return [Table(self.data, p + struct.unpack_from("<I", self.data, p)[0]) for p in places]


@dataclass(frozen=True)
class Operator:
    """An operator of the file: activations it reads and writes, by number."""

    name: str
    reads: list[int]
    writes: list[int]


def read_cells(path: Path, prefix: str = "swiftnet_") -> Iterator[tuple[str, Graph]]:
    """Yield the name and graph of each cell: the operators whose first output is named so.

    The whole network comes first, under that name.
    """
    data = path.read_bytes()
    if data[4:8] != b"TFL3":
        raise FormatError(f"{path}: not a TensorFlow Lite file")
    try:
        model = Table(data, struct.unpack_from("<I", data)[0])
        [subgraph, *_] = model.tables(2)
        tensors = subgraph.tables(0)
        constant = [model.tables(4)[t.number(2, "<I")].length(0) > 0 for t in tensors]
        operators = []
        for op in subgraph.tables(3):
            writes = op.numbers(2)
            reads = [t for t in dict.fromkeys(op.numbers(1)) if t >= 0 and not constant[t]]
            operators.append(Operator(tensors[writes[0]].text(3), reads, writes))
        sizes = [prod(t.numbers(0)) * ITEM_BYTES[t.number(1, "<b")] for t in tensors]
    except (struct.error, IndexError, KeyError, ValueError) as error:
        raise FormatError(f"{path}: a damaged TensorFlow Lite file") from error
    yield "whole network", _graph("whole network", operators, operators, sizes)
    names = [op.name.split("/")[0] for op in operators if op.name.startswith(prefix)]
    for name in dict.fromkeys(names):
        chosen = [op for op in operators if op.name.split("/")[0] == name]
        yield name, _graph(name, chosen, operators, sizes)


def _graph(name: str, chosen: list[Operator], everyone: list[Operator], sizes: list[int]) -> Graph:
    """Plan some operators: what they read from others is freed after its last use."""
    build = GraphBuilder(name)
    made = {t for op in chosen for t in op.writes}
    for t in dict.fromkeys(t for op in chosen for t in op.reads if t not in made):
        build.input(f"t{t}", sizes[t], InputPolicy.FREED)
    for i, op in enumerate(chosen):
        reads, writes = [f"t{t}" for t in op.reads], {f"t{t}": sizes[t] for t in op.writes}
        build.op(f"{i}.{op.name}", reads=reads, writes=writes)
    inside = {t for op in chosen for t in op.reads}
    outside = {t for op in everyone if op not in chosen for t in op.reads}
    build.output(*(f"t{t}" for t in sorted(made) if t in outside or t not in inside))
    return build.build()
