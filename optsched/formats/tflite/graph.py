"""From a TFLite model to the graph that TFLite Micro plans, by TFLite Micro's own rules.

Each tensor that its arena holds takes a multiple of 16 bytes at a multiple of 16. Inputs are freed
after their last use, outputs stay to the end, no operator works in place.

References
----------
tensorflow/lite/micro/micro_allocation_info.cc, micro_allocator.cc and memory_helpers.cc of
https://github.com/tensorflow/tflite-micro
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from optsched.errors import FormatError
from optsched.formats.format import CHOSEN, Source
from optsched.formats.tflite.calls import Layout, Part, called, subgraph
from optsched.formats.tflite.model import Model, Operator, Tensor, read_model
from optsched.formats.tflite.scratch import scratch_sizes
from optsched.formats.tflite.shapes import shapes_of
from optsched.model.builder import GraphBuilder
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.model.graph import Graph
from optsched.runtime.bytes import round_up

ALIGNMENT = 16
"""Sizes are rounded up to this, and offsets are multiples of it."""

MEMORY_MODEL = "tflm: sizes and offsets in 16 bytes, inputs freed, scratch of reference kernels"
MOST_TENSORS = 8_000
"""Models with more tensors in the arena are not packed as TFLite Micro does: it takes a minute."""
ALL_INPUTS = "INPUTS"
"""Kind of an op that reads all inputs before all else, added if some input has no reader."""

ELEMENT_BYTES = {
    **dict.fromkeys(("INT4", "INT8", "UINT8", "BOOL"), 1),
    **dict.fromkeys(("FLOAT16", "BFLOAT16", "INT16", "UINT16"), 2),
    **dict.fromkeys(("FLOAT32", "INT32", "UINT32"), 4),
    **dict.fromkeys(("FLOAT64", "INT64", "UINT64", "COMPLEX64"), 8),
    "COMPLEX128": 16,
}
"""Bytes of an element by its type, as TFLite Micro holds it: four-bit elements are unpacked."""

_WITHOUT_BYTES = ("RESOURCE", "VARIANT")
"""Types of handles, which point to what the runtime keeps outside the arena."""

_STATEFUL = (
    *("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"),
    *("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"),
    *("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"),
)
"""Operators that share a state which no tensor shows."""


@dataclass(frozen=True)
class TfliteGraph:
    """A model's graph, and where its ops and buffers stand in the file."""

    model: Model
    """Content of the file."""
    graph: Graph
    operators: list[Operator | None]
    """The operator of each op by op id; None for an op that the file does not have."""
    folded: list[Operator]
    """Operators that make constants of constants: they are in no plan, and run before all
    others."""
    tensors: dict[str, int]
    """Number of the tensor of each buffer by name; scratch has none."""


def read_tflite(data: bytes, name: str, dims: Mapping[str, int] | None = None) -> TfliteGraph:
    """Make the graph of a model file, called `name`.

    `dims` are sizes of open dimensions by `TENSOR:AXIS`, or by `AXIS` for all tensors. Those that
    are not given are as the file has them, which is what TFLite Micro takes. It raises
    `FormatError` if the file is damaged, a size is unknown, the operators do not make these sizes,
    or one runs another subgraph, `GraphError` if the operators make no graph, and `UsageError` if
    `dims` names a dimension that is not open.
    """
    return _TfliteGraphMaker(read_model(data), dict(dims or {})).make(name)


def read(source: Source, dims: Mapping[str, int] | None = None) -> Graph:
    """Make the graph of a file; see :func:`read_tflite`."""
    return read_tflite(source.data, source.name, dims).graph


def read_orders(
    source: Source, dims: Mapping[str, int] | None = None
) -> dict[str, tuple[int, ...]]:
    """Return the order of the file, which TFLite Micro and LiteRT follow."""
    order = tuple(range(len(read(source, dims).ops)))
    return dict.fromkeys((CHOSEN, "tflm", "litert"), order)


class _TfliteGraphMaker:
    """Results of the rules for one model: shapes, and the tensors in the arena."""

    def __init__(self, model: Model, dims: dict[str, int]) -> None:
        self.model = model
        self.shapes = shapes_of(model, dims)
        self.folded = _constant_operators(model)
        skipped = {op.number for op in self.folded}
        computed = {t for op in self.folded for t in op.outputs}
        self.ops = [op for op in model.operators if op.number not in skipped]
        # A constant that an operator writes takes no bytes of the arena, but has readers that wait.
        written = {t for op in self.ops for t in op.outputs}
        self.state = {
            x.number
            for x in model.tensors
            if x.variable or x.type in _WITHOUT_BYTES or (x.constant and x.number in written)
        }
        # A constant without elements, such as the shape of a scalar, has no data in the file.
        made = {*written, *model.inputs}
        empty = {x.number for x in model.tensors if 0 in x.shape and x.number not in made}
        apart = computed | self.state | empty
        self.held = [not (x.constant or x.number in apart) for x in model.tensors]

    def make(self, name: str) -> TfliteGraph:
        build = GraphBuilder(name, MEMORY_MODEL + self._floor(), alignment=ALIGNMENT)
        operators = self._add(build)
        numbers = {x.name: x.number for x in self.model.tensors if self.held[x.number]}
        return TfliteGraph(self.model, build.build(), operators, self.folded, numbers)

    def _floor(self) -> str:
        """Return words for the bytes that no plan has, though the arena does; empty if none."""
        # A subgraph that nothing runs may hold what has no size.
        with suppress(FormatError):
            if unused := unused_bytes(self.model):
                return f"; at least {unused:,} bytes, for tensors that nothing uses"
        return ""

    def _add(self, build: GraphBuilder) -> list[Operator | None]:
        model, held = self.model, self.held
        # Named once, although a model may list an input twice.
        inputs = [t for t in dict.fromkeys(model.inputs) if held[t]]
        for t in inputs:
            build.input(model.tensors[t].name, self._bytes(model.tensors[t]))
        control = self._control()
        operators: list[Operator | None] = []
        read = {t for op in self.ops for t in op.inputs} | set(model.outputs)
        if not read.issuperset(inputs):
            # All inputs are there at once before the first operator, those that none reads as well.
            names = [model.tensors[t].name for t in inputs]
            build.op(ALL_INPUTS, reads=names, kind=ALL_INPUTS)
            control = {op.number: [*control[op.number], ALL_INPUTS] for op in self.ops}
            operators.append(None)
        for op in self.ops:
            self._add_op(build, op, control[op.number])
            operators.append(op)
        build.output(*(model.tensors[t].name for t in dict.fromkeys(model.outputs) if held[t]))
        return operators

    def _add_op(self, build: GraphBuilder, op: Operator, control: Sequence[str]) -> None:
        tensors, held = self.model.tensors, self.held
        outputs = [tensors[t] for t in op.outputs if t >= 0 and held[t]]
        if len({x.number for x in outputs}) < len(outputs):
            raise FormatError(f"op {op.name!r} writes a tensor twice")
        build.op(
            op.name,
            reads=[tensors[t].name for t in op.inputs if t >= 0 and held[t]],
            writes={x.name: self._bytes(x) for x in outputs},
            control=control,
            # Scratch and subgraphs exist while the operator runs, and are packed together there.
            workspace=sum(self._scratch(op)) + self._called_bytes(op),
            kind=op.kind,
        )

    def part(self) -> Part:
        """Return the bytes of tensors and scratch, for the layout of all subgraphs."""
        sizes = [self._bytes(x) if self.held[x.number] else 0 for x in self.model.tensors]
        scratch = [self._scratch(op) for op in self.model.operators]
        return Part(self.model, sizes, scratch, frozenset(op.number for op in self.folded))

    def _scratch(self, op: Operator) -> list[int]:
        return [
            round_up(size, ALIGNMENT) for size in scratch_sizes(op, self.model.tensors, self.shapes)
        ]

    def _called_bytes(self, op: Operator) -> int:
        """Return the bytes that the subgraphs of an operator take while it runs."""
        found = 0
        for number in called(self.model, op):
            layout = Layout(part_of)
            layout.walk(number, subgraph(self.model, number))
            # Branches come one after the other, so the largest counts.
            found = max(found, layout.head())
        return found

    def _control(self) -> dict[int, list[str]]:
        """Return, by number, the operators that each one waits for as they share a state."""
        found: dict[int, list[str]] = {}
        last: dict[object, Operator] = {}
        for op in self.ops:
            shared: set[object] = {t for t in (*op.inputs, *op.outputs) if t in self.state}
            if op.kind in _STATEFUL:
                shared.add("state")
            # Who shares a state keeps the order of the file.
            found[op.number] = sorted({last[x].name for x in shared if x in last})
            last.update(dict.fromkeys(shared, op))
        return found

    def _bytes(self, tensor: Tensor) -> int:
        """Return the bytes that a tensor takes in the arena."""
        if tensor.type not in ELEMENT_BYTES:
            raise FormatError(
                f"tensor {tensor.name!r}: elements of type {tensor.type} have no known size"
            )
        size = ELEMENT_BYTES[tensor.type] * math.prod(self.shapes[tensor.number])
        if size > MAX_TOTAL_BYTES:
            raise FormatError(f"tensor {tensor.name!r}: {size} bytes, above the limit of 2**62")
        return round_up(size, ALIGNMENT)


def part_of(model: Model) -> Part:
    """Return a subgraph as TFLite Micro plans it."""
    return _TfliteGraphMaker(model, {}).part()


def arena_head(model: Model, order: Sequence[int] | None = None) -> int:
    """Return the head of the arena as TFLite Micro plans all subgraphs of a model itself.

    `order` are the numbers of the main subgraph's operators (default: the order of the file).
    """
    return _layout(model, order).head()


def _layout(
    model: Model, order: Sequence[int] | None = None, planned: Sequence[int] = ()
) -> Layout:
    layout = Layout(part_of, planned)
    layout.walk(0, model, order)
    for number in range(1 + len(model.others)):
        layout.add_unused(number, subgraph(model, number) if number else model)
    return layout


def unused_bytes(model: Model) -> int:
    """Return the bytes of tensors that nothing uses: the arena's head has at least as many."""
    return _layout(model).unused


def held(source: Source, dims: Mapping[str, int] | None = None) -> int | None:
    """Return the head of the arena that TFLite Micro takes for a file; None if it is not known.

    It is not known of other sizes than the file's, and of more tensors than can be packed soon.
    """
    model = read_model(source.data)
    layout = None if dims else _layout(model, planned=model.planned)
    return None if layout is None or len(layout.sizes) > MOST_TENSORS else layout.head()


def holds_subgraphs(model: Model) -> bool:
    """Return True if other subgraphs have tensors in the arena, also those that nothing runs."""
    return any(any(part_of(other).sizes) for other in model.others)


def _constant_operators(model: Model) -> list[Operator]:
    """Return the operators that only unpack constants, which LiteRT runs once and for all.

    TFLite Micro has no kernels for these; its DEQUANTIZE of eight or sixteen bits runs each time.
    """
    constant = {tensor.number for tensor in model.tensors if tensor.constant}
    found = []
    for op in model.operators:
        unpacks = op.kind == "DENSIFY" or (
            op.kind == "DEQUANTIZE"
            and bool(op.inputs)
            and (op.inputs[0] >= 0 and model.tensors[op.inputs[0]].type == "FLOAT16")
        )
        if unpacks and constant.issuperset(op.inputs):
            constant.update(op.outputs)
            found.append(op)
    return found
