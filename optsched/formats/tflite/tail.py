"""Tail of TFLite Micro's arena: what the interpreter keeps beside the memory that a plan decides.

The arena is one array. Its *head* holds tensors and scratch, as planned; its *tail*, which grows
downwards from the end, holds the interpreter's own objects, an entry per tensor and operator, the
data of kernels, variable tensors, and descriptions of inputs and outputs. The sizes below are those
of the runtime's structs with the reference kernels: for pointers of 4 bytes as compilers for Arm
and RISC-V lay them out, at commit 90b983c of August 2026; for pointers of 8 bytes those of the
interpreter of the Python package, which records allocations and reads compressed weights, and
takes some hundred bytes more for that.

For example, a convolution of 16 channels takes 64 bytes of the tail for its node, 28 for its
options, 80 for its kernel's data, and twice 64 for its multipliers and shifts, with pointers of 8
bytes.

References
----------
tensorflow/lite/micro/micro_allocator.cc, micro_interpreter.cc and kernels of
https://github.com/tensorflow/tflite-micro
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from optsched.formats.format import Source
from optsched.formats.tflite.graph import ALIGNMENT, ELEMENT_BYTES
from optsched.formats.tflite.model import Model, Operator, Tensor, options_of, read_model
from optsched.formats.tflite.scratch import Operands, scratch_sizes
from optsched.model.origin import ArenaTail
from optsched.runtime.bytes import round_up

POINTERS = (4, 8)
"""Bytes of a pointer: of a microcontroller, and of the Python package's interpreter."""

Sizes = tuple[int, int]
"""Bytes with pointers of 4 and of 8 bytes."""

_ALLOCATOR, _PLANNER, _INTERPRETER, _BUILDER = (36, 104), (44, 72), (36, 272), (8, 16)
"""The interpreter's own objects, in the sequence in which it makes them."""

_SUBGRAPH, _ENTRY, _NODE = (8, 24), (12, 24), (32, 64)
"""A subgraph, the entry of a tensor, and the node of an operator."""

_TENSOR, _QUANTIZATION, _HANDLE = (40, 64), (12, 24), (4, 8)
"""Description of an input or output, its quantization, and the handle of scratch."""

_VARIABLES, _VARIABLE = (12, 16), (20, 40)
"""The list of resource variables, and an entry of it."""

_REQUEST, _REQUESTS, _LIFETIME, _PLANNED = (12, 16), 12, (24, 32), 40
"""A request of scratch, how many are kept free, and what the planner needs per tensor."""


def tails(source: Source, dims: Mapping[str, int] | None = None) -> tuple[ArenaTail, ...]:
    """Return the tails of a file for pointers of 4 and of 8 bytes; none with other sizes."""
    # With other sizes the file is not what the runtime reads.
    return () if dims else tails_of(read_model(source.data))


def tails_of(model: Model) -> tuple[ArenaTail, ...]:
    """Return the tails of a model for pointers of 4 and of 8 bytes."""
    return tuple(arena_tail(model, pointer) for pointer in POINTERS)


def arena_tail(model: Model, pointer: int) -> ArenaTail:
    """Return the tail of a model for pointers of this many bytes."""
    found = _Tail(model, pointer)
    return ArenaTail(pointer, found.used, found.prepared, unknown_kinds(model), ALIGNMENT)


def alignment_bytes(model: Model, pointer: int) -> int:
    """Return the most bytes by which a sum over ops exceeds the tail of a file with more ops.

    Only the data of the first kernel moves with what is before it; all else is aligned already.
    """
    return _Tail(model, pointer).aligned + ALIGNMENT - 1


def unknown_kinds(model: Model) -> tuple[str, ...]:
    """Return the kinds of operators whose bytes in the tail are not known."""
    found = {op.kind for part in (model, *model.others) for op in part.operators}
    return tuple(sorted(kind for kind in found if kind not in KERNELS))


def operator_bytes(op: Operator, tensors: Sequence[Tensor], pointer: int) -> int:
    """Return the bytes of one more run of an operator: its node, options and kernel data."""
    wide, part = POINTERS.index(pointer), _Part(op, tensors)
    kernel = KERNELS.get(op.kind, Kernel())
    handles = _HANDLE[wide] * len(part.scratch())
    kept = [kernel.data[wide], *kernel.kept(part, wide)]
    return (
        _NODE[wide]
        + kernel.options[wide]
        + handles
        + sum(round_up(size, ALIGNMENT) for size in kept)
    )


def tensor_bytes(pointer: int) -> int:
    """Return the bytes of a tensor's entry."""
    return _ENTRY[POINTERS.index(pointer)]


class _Part(Operands):
    """An operator with its tensors as the file has them, and names of resource variables."""

    def __init__(
        self, op: Operator, tensors: Sequence[Tensor], variables: Mapping[int, bytes] | None = None
    ) -> None:
        super().__init__(op, tensors, [x.shape for x in tensors])
        self.variables = variables or {}

    def scales(self, i: int) -> int:
        return tensor.scales if (tensor := self.operand(i)) else 0

    @property
    def rank(self) -> int:
        return len(self.output.shape) if self.output else 0

    def scratch(self) -> list[int]:
        return scratch_sizes(self.op, self.tensors, self.shapes)


def _nothing(_: _Part, __: int) -> Iterator[int]:
    return iter(())


@dataclass(frozen=True, slots=True)
class Kernel:
    """Bytes that the interpreter keeps for an operator beside its node.

    `options` are those of the parsed options, with their alignment; `data` those of the kernel, and
    `kept` gives what it allocates when it sees its tensors.
    """

    data: Sizes = (0, 0)
    options: Sizes = (0, 0)
    alignment: Sizes = (4, 4)
    kept: Callable[[_Part, int], Iterator[int]] = _nothing


class _Tail:
    """The allocations of the interpreter, one after another."""

    def __init__(self, model: Model, pointer: int) -> None:
        self.wide, self.pointer = POINTERS.index(pointer), pointer
        self.used, self.prepared = 0, 0
        self.parts = (model, *model.others)
        made = [_Part(op, part.tensors) for part in self.parts for op in part.operators]
        self.scratch = sum(len(part.scratch()) for part in made)
        self.kept: set[bytes] = set()
        """Names of the resource variables that have their bytes."""
        self._objects()
        # Each step is for all operators before the next one.
        self._each(self._parse)
        parsed, kernels = self.used, [KERNELS.get(part.op.kind, Kernel()) for part in made]
        self._each(lambda part, kernel: self._add(kernel.data[self.wide]))
        data = sum(round_up(kernel.data[self.wide], ALIGNMENT) for kernel in kernels)
        self.aligned = self.used - parsed - data
        """Bytes that the alignment of the first kernel's data takes, or saves."""
        self._each(self._prepare)
        self._plan()
        self._describe(model, model.inputs)
        self._describe(model, model.outputs)

    def _add(self, size: int, alignment: int = ALIGNMENT) -> None:
        if size:
            self.used = round_up(self.used + size, alignment)

    def _objects(self) -> None:
        for sizes in (_ALLOCATOR, _PLANNER, _INTERPRETER):
            self._add(sizes[self.wide], self.pointer)
        if names := {name for part in self.parts for name in _variables(part).values()}:
            self._add(_VARIABLES[self.wide])
            self._add(_VARIABLE[self.wide] * len(names))
        self._add(_BUILDER[self.wide], self.pointer)
        self._add(_SUBGRAPH[self.wide] * len(self.parts), self.pointer)
        for part in self.parts:
            self._add(_ENTRY[self.wide] * len(part.tensors), self.pointer)
        for part in self.parts:
            self._add(_NODE[self.wide] * len(part.operators), self.pointer)

    def _each(self, step: Callable[[_Part, Kernel], None]) -> None:
        for part in self.parts:
            variables = _variables(part)
            for op in part.operators:
                step(_Part(op, part.tensors, variables), KERNELS.get(op.kind, Kernel()))

    def _parse(self, _: _Part, kernel: Kernel) -> None:
        self._add(kernel.options[self.wide], kernel.alignment[self.wide])

    def _prepare(self, part: _Part, kernel: Kernel) -> None:
        for size in kernel.kept(part, self.wide):
            self._add(size)
        self._keep_variable(part)
        # While a kernel prepares, its tensors are described in the head, by some kernels twice.
        numbers = [t for t in (*part.op.inputs, *part.op.outputs) if t >= 0]
        described = 2 * sum(self._description(part.tensors[t]) for t in numbers)
        self._temporarily(described)

    def _keep_variable(self, part: _Part) -> None:
        """Keep the bytes of a resource variable when an operator first assigns to it."""
        name = part.variables.get(part.op.inputs[0]) if part.op.inputs else None
        if part.op.kind == "ASSIGN_VARIABLE" and name is not None and name not in self.kept:
            self.kept.add(name)
            self._add(math.prod(part.shape(1)) * ELEMENT_BYTES.get(part.type(1), 0))

    def _temporarily(self, size: int) -> None:
        """Take bytes of the head until the plan is made."""
        requests = _REQUEST[self.wide] * (self.scratch + _REQUESTS)
        self.prepared = max(self.prepared, self.used + requests + size + 2 * ALIGNMENT)

    def _plan(self) -> None:
        """Keep handles of scratch and variable tensors; what the planner needs is temporary."""
        self._add(_HANDLE[self.wide] * self.scratch, self.pointer)
        tensors = [tensor for part in self.parts for tensor in part.tensors]
        for tensor in tensors:
            if tensor.variable:
                self._add(ELEMENT_BYTES.get(tensor.type, 0) * math.prod(tensor.shape))
        held = sum(not (x.constant or x.variable) for x in tensors) + self.scratch
        lifetimes = _LIFETIME[self.wide] * (len(tensors) + self.scratch)
        self._temporarily(self.pointer * len(self.parts) + lifetimes + _PLANNED * held)

    def _describe(self, model: Model, numbers: Sequence[int]) -> None:
        """Keep descriptions of inputs or outputs, and a list of pointers to them."""
        self._add(self.pointer * len(numbers))
        for number in numbers:
            self._add(_TENSOR[self.wide], self.pointer)
            if scales := model.tensors[number].scales:
                self._add(_QUANTIZATION[self.wide], self.pointer)
                self._add(4 + 4 * scales, 4)

    def _description(self, tensor: Tensor) -> int:
        """Return the bytes of a temporary description, with its zero points."""
        scales = _QUANTIZATION[self.wide] + 8 + 4 * tensor.scales if tensor.scales else 0
        return _TENSOR[self.wide] + scales


def _variables(part: Model) -> dict[int, bytes]:
    """Return the names of resource variables by the number of the tensor that is their handle."""
    import tflite

    handles = [op for op in part.operators if op.kind == "VAR_HANDLE" and op.outputs]
    found = [(op.outputs[0], options_of(op, tflite.VarHandleOptions)) for op in handles]
    return {t: b"" if options is None else options.SharedName() or b"" for t, options in found}


def _per_channel(axis: int) -> Callable[[_Part, int], Iterator[int]]:
    """Multipliers and shifts of each channel of the filter, for all types."""

    def kept(part: _Part, _: int) -> Iterator[int]:
        shape = part.shape(1)
        yield from [4 * shape[axis]] * 2 if len(shape) == 4 else []

    return kept


def _dense(part: _Part, _: int) -> Iterator[int]:
    if part.scales(1) > 1:
        yield from [4 * part.scales(1)] * 2


def _softmax(part: _Part, _: int) -> Iterator[int]:
    # Two tables of 513 values.
    if part.type(0) == "INT16":
        yield from [2 * 513] * 2


def _quantized(size: Sizes) -> Callable[[_Part, int], Iterator[int]]:
    """Data that only a kernel of eight bits keeps."""

    def kept(part: _Part, wide: int) -> Iterator[int]:
        if part.type(0) == "INT8":
            yield size[wide]

    return kept


def _own_shape(part: _Part, _: int) -> Iterator[int]:
    """A copy of the shape of the result, which the kernel writes."""
    yield 4 + 4 * part.rank


def _reshape(part: _Part, _: int) -> Iterator[int]:
    if part.output and -1 in part.output.shape:
        yield 4 + 4 * part.rank


def _batch_matmul(part: _Part, wide: int) -> Iterator[int]:
    import tflite

    options = options_of(part.op, tflite.BatchMatMulOptions)
    if part.type(0) in ("INT8", "INT16"):
        yield 28
    turned = (options is not None and options.AdjX(), options is None or not options.AdjY())
    for i in (0, 1):
        if turned[i]:
            # A tensor of its own holds the transposed operand.
            yield _ENTRY[wide]
            yield 4 + 4 * len(part.shape(i))
            yield math.prod(part.shape(i)) * ELEMENT_BYTES.get(part.type(i), 0)
    yield from _own_shape(part, wide)


def _embedding(part: _Part, wide: int) -> Iterator[int]:
    yield (8, 16)[wide]
    yield from _own_shape(part, wide)


def _same(size: int) -> Sizes:
    return size, size


_BYTES = (1, 1)
"""Alignment of options that are bytes."""

_REDUCE = Kernel(_same(44), _same(1), _BYTES)
_COMPARE = Kernel(_same(32))
_POOL = Kernel(_same(32), _same(40))
_ABS = Kernel(_same(28))
_TENSORS_ONLY = Kernel()

KERNELS: dict[str, Kernel] = {
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "BROADCAST_ARGS", "BROADCAST_TO"), _TENSORS_ONLY),
    **dict.fromkeys(("CEIL", "COS", "DYNAMIC_UPDATE_SLICE", "EXP"), _TENSORS_ONLY),
    **dict.fromkeys(("EXPAND_DIMS", "FILL", "FLOOR", "FLOOR_DIV", "FLOOR_MOD"), _TENSORS_ONLY),
    **dict.fromkeys(
        ("LOG", "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "READ_VARIABLE"), _TENSORS_ONLY
    ),
    **dict.fromkeys(("MAXIMUM", "MINIMUM", "NEG", "REVERSE_V2", "ROUND"), _TENSORS_ONLY),
    **dict.fromkeys(("SIN", "SLICE", "SQRT", "SQUARE", "TRANSPOSE", "ZEROS_LIKE"), _TENSORS_ONLY),
    **dict.fromkeys(("ABS", "RSQRT"), _ABS),
    **dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL"), _COMPARE),
    **dict.fromkeys(("LESS", "LESS_EQUAL", "NOT_EQUAL"), _COMPARE),
    **dict.fromkeys(("DEQUANTIZE", "QUANTIZE"), Kernel(_same(32))),
    **dict.fromkeys(("MEAN", "REDUCE_ALL", "REDUCE_MAX", "REDUCE_MIN", "SUM"), _REDUCE),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _POOL),
    **dict.fromkeys(("PAD", "PADV2"), Kernel(_same(56))),
    **dict.fromkeys(("LOGISTIC", "TANH"), Kernel(_same(16))),
    **dict.fromkeys(("IF", "WHILE"), Kernel(_same(8), _same(8))),
    **dict.fromkeys(("CAST", "PACK", "UNPACK"), Kernel(options=_same(8))),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "SHAPE", "SPLIT", "SPLIT_V"), Kernel(options=_same(4))),
    **dict.fromkeys(
        ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), Kernel(options=_same(4), kept=_own_shape)
    ),
    **dict.fromkeys(
        ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), Kernel(options=_same(2), alignment=_BYTES)
    ),
    "ADD": Kernel(_same(60), _same(8)),
    "ADD_N": Kernel(kept=_quantized(_same(40))),
    "BATCH_MATMUL": Kernel((16, 32), _same(3), _BYTES, _batch_matmul),
    "ASSIGN_VARIABLE": Kernel((0, 4)),
    "CALL_ONCE": Kernel(_same(8), _same(4)),
    "CONCATENATION": Kernel((24, 80), _same(8)),
    "CONV_2D": Kernel((56, 80), _same(28), kept=_per_channel(0)),
    "CUMSUM": Kernel((0, 0), _same(2), _BYTES, _quantized(_same(36))),
    "DEPTHWISE_CONV_2D": Kernel((56, 80), _same(28), kept=_per_channel(3)),
    "DIV": Kernel(_same(28), _same(4)),
    "ELU": Kernel(_same(256)),
    "EMBEDDING_LOOKUP": Kernel(kept=_embedding),
    "FULLY_CONNECTED": Kernel((48, 72), (24, 32), POINTERS, _dense),
    "GATHER": Kernel(options=_same(8), kept=_own_shape),
    "GATHER_ND": Kernel(kept=_own_shape),
    "HARD_SWISH": Kernel(_same(20)),
    "L2_NORMALIZATION": Kernel(_same(4), _same(4)),
    "L2_POOL_2D": Kernel(options=_same(40), kept=_own_shape),
    "LEAKY_RELU": Kernel(_same(24), _same(4)),
    "LOG_SOFTMAX": Kernel(kept=_quantized((28, 40))),
    "MIRROR_PAD": Kernel(_same(20), _same(4)),
    "MUL": Kernel(_same(36), _same(4)),
    "PRELU": Kernel(_same(28)),
    "RELU": Kernel(_same(28)),
    "RELU6": Kernel(_same(8)),
    "RESHAPE": Kernel(options=_same(36), kept=_reshape),
    "SELECT_V2": Kernel(_same(1)),
    "SOFTMAX": Kernel((56, 80), _same(4), kept=_softmax),
    "SPACE_TO_BATCH_ND": Kernel(_same(4)),
    "SQUARED_DIFFERENCE": Kernel(_same(112)),
    "SQUEEZE": Kernel(options=_same(36)),
    "STRIDED_SLICE": Kernel(_same(84), _same(24)),
    "SUB": Kernel(_same(52), _same(8)),
    "SVDF": Kernel(_same(36), _same(12)),
    "TFLite_Detection_PostProcess": Kernel(_same(112)),
    "TRANSPOSE_CONV": Kernel((72, 88), _same(20), kept=_per_channel(0)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Kernel(_same(688), _same(16)),
    "VAR_HANDLE": Kernel(_same(4), (8, 16), POINTERS),
}
"""Kernels of TFLite Micro by the kind of operator."""
