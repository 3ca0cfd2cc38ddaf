"""Content of a TFLite flatbuffer as plain data: tensors, operators, inputs and outputs.

The schema package follows offsets without checks. Here, every vector is measured before it is read,
and the total read is counted, so that a malicious file costs no more than its size.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optsched.errors import FormatError
from optsched.formats.format import FileFacts, Source

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of every file."""

METADATA_NAME = b"OfflineMemoryAllocation"
"""Name of the metadata with the offsets of a plan."""

MAX_TABLES = 2**20
"""More tensors, operators, buffers or subgraphs than this are refused."""

MAX_RANK = 64


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the main subgraph.

    Its `number` is its position in the file; its `name` the file's, made unique with the number
    where it is empty or used twice. The `shape` is what a runtime takes that resizes nothing, the
    `signature` has -1 where it is open, and is empty if it is not. A `constant` has its data in the
    file, in the buffer of this number, and a `variable` keeps its data from run to run. `scales`
    counts its scales of quantization.
    """

    number: int
    name: str
    type: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    constant: bool
    variable: bool
    buffer: int = 0
    scales: int = 0


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the main subgraph.

    Its `number` is its position in the file, its `kind` the name of the builtin or custom operator.
    Of the numbers of tensors, -1 stands for an optional one that is left out. `options` is the
    table of builtin options, if any, `custom` those of a custom operator, a FlexBuffer as a rule.
    """

    number: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any = None
    custom: bytes = b""

    @property
    def name(self) -> str:
        """Its kind and position, as operators have no names."""
        return f"{self.kind}_{self.number}"


@dataclass(frozen=True, slots=True)
class Model:
    """The main subgraph of a model, or another one; the main one has all `others` in order.

    `planned` are the offsets that the file gives to tensors by number, -1 for the runtime's choice;
    empty if the file has none.
    """

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    others: tuple[Model, ...] = ()
    planned: tuple[int, ...] = ()


def options_of(op: Operator, schema: type) -> Any:
    """Return the options of an operator, read with a class of the schema; None without options."""
    if op.options is None:
        return None
    options = schema()
    options.Init(op.options.Bytes, op.options.Pos)
    return options


def integers_of(data: bytes, tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """Return the integers of a constant in a file; None for another tensor."""
    import tflite

    width = {"INT32": "<i4", "INT64": "<i8"}.get(tensor.type)
    if not tensor.constant or width is None:
        return None
    found = tflite.Model.GetRootAs(data).Buffers(tensor.buffer).DataAsNumpy()
    # A buffer after the flatbuffer has no data in it.
    return None if isinstance(found, int) else np.frombuffer(found.tobytes(), width)


@contextmanager
def damage_named() -> Iterator[None]:
    """Turn the schema package's errors about invalid offsets into a one-line error."""
    try:
        yield
    except (struct.error, IndexError, TypeError, ValueError, OverflowError, AssertionError):
        raise FormatError("a damaged TFLite flatbuffer: an offset leads out of the file") from None


def read_model(data: bytes) -> Model:
    """Read the main subgraph of a file.

    It raises `FormatError` if the file is damaged, names a tensor that is not there, or has an
    operator that this version does not know.
    """
    with damage_named():
        return _Reader(data).read()


class _Reader:
    """Walks the tables of one file, and counts what it reads."""

    def __init__(self, data: bytes) -> None:
        import tflite

        self.schema = tflite
        self.data = data
        # Each byte may be read a few times, as tables may share parts; an attack would read more.
        self.left = 4 * len(data) + 4096
        self.root = tflite.Model.GetRootAs(data)
        self.types = _names_by_value(tflite.TensorType)
        self.builtins = _names_by_value(tflite.BuiltinOperator)

    def read(self) -> Model:
        root = self.root
        subgraphs = self._count(root.SubgraphsLength(), "subgraphs")
        if not subgraphs:
            raise FormatError("the model has no subgraph")
        # The first one is the main subgraph, others run inside operators.
        others = tuple(self._subgraph(root.Subgraphs(i)) for i in range(1, subgraphs))
        main = self._subgraph(root.Subgraphs(0))
        return replace(main, others=others, planned=self._planned())

    def _planned(self) -> tuple[int, ...]:
        """Read the offsets of the metadata: a version, a subgraph, a count, and an entry each."""
        for i in range(self._count(self.root.MetadataLength(), "metadata")):
            entry = self.root.Metadata(i)
            if entry.Name() == METADATA_NAME and entry.Buffer() < self.root.BuffersLength():
                buffer = self.root.Buffers(entry.Buffer())
                self._spend(buffer.DataLength())
                data = bytes(buffer.DataAsNumpy()) if buffer.DataLength() else b""
                values = struct.unpack(f"<{len(data) // 4}i", data[: len(data) // 4 * 4])
                return values[3 : 3 + max(0, values[2])] if len(values) > 3 else ()
        return ()

    def _subgraph(self, main: Any) -> Model:
        count = self._count(main.TensorsLength(), "tensors")
        drafts = [self._tensor(i, main.Tensors(i)) for i in range(count)]
        tensors = tuple(_with_unique_names(drafts))
        operators = self._count(main.OperatorsLength(), "operators")
        return Model(
            tensors,
            tuple(self._operator(i, main.Operators(i), count) for i in range(operators)),
            self._tensor_numbers(main, "Inputs", count, "the inputs name", optional=False),
            self._tensor_numbers(main, "Outputs", count, "the outputs name", optional=False),
        )

    def _count(self, length: int, what: str) -> int:
        """Check the length of a vector of tables: each takes four bytes of the file at least."""
        if length > min(MAX_TABLES, len(self.data) // 4):
            raise FormatError(f"{length:,} {what}, more than the limit or than the file has room")
        self._spend(4 * length)
        return int(length)

    def _spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise FormatError("its tables hold more than the file has bytes: they overlap")

    def _numbers(self, table: Any, field: str) -> tuple[int, ...]:
        """Read a vector of 32-bit integers."""
        length = getattr(table, f"{field}Length")()
        self._spend(4 * length)
        if not length:
            return ()
        return tuple(map(int, getattr(table, f"{field}AsNumpy")().tolist()))

    def _text(self, text: bytes | None) -> str:
        self._spend(len(text or b""))
        # A name of megabytes is cut, and stays unique by its number.
        return (text or b"")[:4096].decode("utf-8", "backslashreplace")

    def _tensor(self, number: int, table: Any) -> Tensor:
        name = self._text(table.Name())
        where = f"tensor {name!r} (number {number})"
        code = table.Type()
        if code not in self.types:
            raise FormatError(f"{where}: element type {code} is unknown")
        shape, signature = self._numbers(table, "Shape"), self._numbers(table, "ShapeSignature")
        if len(shape) > MAX_RANK or (signature and len(signature) != len(shape)):
            raise FormatError(
                f"{where}: {len(shape)} dimensions, {len(signature)} in its signature"
            )
        return Tensor(
            number,
            name,
            self.types[code],
            shape,
            signature if -1 in signature else (),
            self._has_data(table.Buffer(), where),
            bool(table.IsVariable()),
            int(table.Buffer()),
            self._scales(table.Quantization()),
        )

    def _scales(self, table: Any) -> int:
        """Return the number of scales; 0 if scales or zero points are missing."""
        if table is None or not table.ZeroPointLength():
            return 0
        self._spend(4 * table.ScaleLength())
        return int(table.ScaleLength())

    def _has_data(self, number: int, where: str) -> bool:
        """Return True if a buffer has data, inside the flatbuffer or after it."""
        if not number:
            return False
        if number >= self.root.BuffersLength():
            raise FormatError(f"{where}: buffer {number} of {self.root.BuffersLength()}")
        buffer = self.root.Buffers(number)
        # Offset 0 and 1 mean that the data is inside.
        return bool(buffer.DataLength() or buffer.Offset() > 1)

    def _operator(self, number: int, table: Any, tensors: int) -> Operator:
        kind = self._kind(number, table.OpcodeIndex())
        where = f"op {kind}_{number} names"
        inputs = self._tensor_numbers(table, "Inputs", tensors, where, optional=True)
        outputs = self._tensor_numbers(table, "Outputs", tensors, where, optional=True)
        length = table.CustomOptionsLength()
        self._spend(length)
        custom = bytes(table.CustomOptionsAsNumpy()) if length else b""
        return Operator(number, kind, inputs, outputs, table.BuiltinOptions(), custom)

    def _kind(self, number: int, code: int) -> str:
        if code >= self.root.OperatorCodesLength():
            raise FormatError(f"op number {number}: operator code {code} is not in the file")
        row = self.root.OperatorCodes(code)
        # Codes above 127 stand in the newer field, and the older one then says 127.
        builtin = max(row.BuiltinCode(), row.DeprecatedBuiltinCode())
        if builtin not in self.builtins:
            raise FormatError(f"op number {number}: builtin operator {builtin} is unknown")
        if self.builtins[builtin] == "CUSTOM":
            return self._text(row.CustomCode()) or "CUSTOM"
        return self.builtins[builtin]

    def _tensor_numbers(
        self, table: Any, field: str, count: int, where: str, *, optional: bool
    ) -> tuple[int, ...]:
        numbers = self._numbers(table, field)
        for number in numbers:
            if not (-1 if optional else 0) <= number < count:
                raise FormatError(f"{where} tensor number {number}, but there are only {count}")
        return numbers


def _names_by_value(enumeration: type) -> dict[int, str]:
    """Return the names of a generated enumeration, a class with integers as attributes."""
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


def _with_unique_names(tensors: list[Tensor]) -> Iterator[Tensor]:
    uses = Counter(tensor.name for tensor in tensors)
    taken = set(uses)
    for tensor in tensors:
        name = tensor.name
        if not name or uses[name] > 1:
            name = f"{name}#{tensor.number}"
            # A made-up name may be that of another tensor.
            while name in taken:
                name += "'"
            taken.add(name)
        yield tensor if name == tensor.name else replace(tensor, name=name)


def describe(source: Source) -> FileFacts:
    """Return inputs, outputs and operators of a model's first subgraph."""
    model = read_model(source.data)
    return FileFacts(
        inputs=tuple(_tensor(model.tensors[t]) for t in model.inputs),
        outputs=tuple(_tensor(model.tensors[t]) for t in model.outputs),
        ops=Counter(op.kind for op in model.operators),
    )


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.name} [{', '.join(map(str, tensor.signature or tensor.shape))}]"
