"""Builds small TFLite files with nothing but `flatbuffers`; weights are drawn from a fixed seed.

Slots are those of `tensorflow/compiler/mlir/lite/schema/schema.fbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOAT32, INT32, INT64, INT16, INT8, RESOURCE, INT4 = 0, 2, 4, 7, 9, 13, 17
_BYTES = {FLOAT32: 4, INT32: 4, INT64: 8, INT16: 2, INT8: 1}

# name: (builtin code, type of its options in the union, slots of the options)
OPS: dict[str, tuple[int, int, dict[str, tuple[int, str]]]] = {
    "ADD": (0, 11, {"activation": (0, "Int8")}),
    "AVERAGE_POOL_2D": (
        1,
        5,
        {
            "padding": (0, "Int8"),
            "stride_w": (1, "Int32"),
            "stride_h": (2, "Int32"),
            "width": (3, "Int32"),
            "height": (4, "Int32"),
            "activation": (5, "Int8"),
        },
    ),
    "CONCATENATION": (2, 10, {"axis": (0, "Int32"), "activation": (1, "Int8")}),
    "CONV_2D": (
        3,
        1,
        {
            "padding": (0, "Int8"),
            "stride_w": (1, "Int32"),
            "stride_h": (2, "Int32"),
            "activation": (3, "Int8"),
            "dilation_w": (4, "Int32"),
            "dilation_h": (5, "Int32"),
        },
    ),
    "DEPTHWISE_CONV_2D": (
        4,
        2,
        {
            "padding": (0, "Int8"),
            "stride_w": (1, "Int32"),
            "stride_h": (2, "Int32"),
            "multiplier": (3, "Int32"),
            "activation": (4, "Int8"),
            "dilation_w": (5, "Int32"),
            "dilation_h": (6, "Int32"),
        },
    ),
    "DEQUANTIZE": (6, 0, {}),
    "FULLY_CONNECTED": (9, 8, {"activation": (0, "Int8")}),
    "MAX_POOL_2D": (17, 5, {}),
    "RELU": (19, 0, {}),
    "RESHAPE": (22, 17, {}),
    "RESIZE_BILINEAR": (23, 15, {"half_pixel": (3, "Bool")}),
    "SOFTMAX": (25, 9, {"beta": (0, "Float32")}),
    "SVDF": (27, 6, {"rank": (0, "Int32"), "activation": (1, "Int8")}),
    "MEAN": (40, 27, {"keep_dims": (0, "Bool")}),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        44,
        71,
        {"activation": (0, "Int8"), "cell_clip": (1, "Float32"), "time_major": (3, "Bool")},
    ),
    "TRANSPOSE_CONV": (
        67,
        49,
        {
            "padding": (0, "Int8"),
            "stride_w": (1, "Int32"),
            "stride_h": (2, "Int32"),
            "activation": (3, "Int8"),
        },
    ),
    "REDUCE_MAX": (82, 27, {"keep_dims": (0, "Bool")}),
    "LESS": (58, 0, {}),
    "MIRROR_PAD": (100, 77, {"mode": (0, "Int8")}),
    "ADD_N": (106, 82, {}),
    "IF": (118, 92, {"then": (0, "Int32"), "otherwise": (1, "Int32")}),
    "WHILE": (119, 93, {"cond": (0, "Int32"), "body": (1, "Int32")}),
    "CALL_ONCE": (129, 103, {"subgraph": (0, "Int32")}),
    "VAR_HANDLE": (142, 111, {}),
    "GELU": (150, 0, {}),
}
OPS["MAX_POOL_2D"] = (17, 5, OPS["AVERAGE_POOL_2D"][2])


@dataclass
class TensorDraft:
    shape: Sequence[int]
    type: int = FLOAT32
    data: bytes = b""
    name: str = ""
    scale: Sequence[float] = ()
    zero: int = 0
    variable: bool = False
    signature: Sequence[int] = ()


@dataclass
class OpDraft:
    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Mapping[str, Any] = field(default_factory=dict)
    old_code: int | None = None
    """Value of the older field of the operator's code, if it is not the usual one."""
    custom: bytes = b""


class TfliteNet:
    """Collects tensors and operators; each layer returns the number of its output."""

    def __init__(self, seed: int = 0, type: int = FLOAT32) -> None:
        self.rng = np.random.default_rng(seed)
        self.type = type
        self.tensors: list[TensorDraft] = []
        self.ops: list[OpDraft] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.metadata: dict[str, bytes] = {}
        self.more_subgraphs: list[TfliteNet] = []

    def tensor(self, *shape: int, type: int | None = None, **fields: Any) -> int:
        kind = self.type if type is None else type
        fields.setdefault("name", f"t{len(self.tensors)}")
        if kind in (INT8, INT4, INT16):
            fields.setdefault("scale", (0.05,))
        self.tensors.append(TensorDraft(shape, kind, **fields))
        return len(self.tensors) - 1

    def input(self, *shape: int, **fields: Any) -> int:
        self.inputs.append(self.tensor(*shape, **fields))
        return self.inputs[-1]

    def weights(self, *shape: int, type: int | None = None) -> int:
        kind = self.type if type is None else type
        if kind == FLOAT32:
            values = self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))
            return self.tensor(*shape, type=kind, data=values.astype("<f4").tobytes())
        count = int(np.prod(shape))
        # Two values of four bits share a byte.
        values = self.rng.integers(-7, 8, -(-count // 2) if kind == INT4 else count)
        return self.tensor(*shape, type=kind, data=values.astype("i1").tobytes(), scale=(0.01,))

    def bias(self, size: int) -> int:
        if self.type == FLOAT32:
            return self.weights(size)
        values = self.rng.integers(-50, 50, size).astype("<i4")
        return self.tensor(size, type=INT32, data=values.tobytes(), scale=(0.0005,))

    def integers(self, *values: int) -> int:
        return self.tensor(len(values), type=INT32, data=np.array(values, "<i4").tobytes())

    def op(self, kind: str, inputs: Sequence[int], *shape: int, **options: Any) -> int:
        out = self.tensor(*shape)
        self.ops.append(OpDraft(kind, inputs, [out], options))
        return out

    def shape(self, x: int) -> Sequence[int]:
        return self.tensors[x].shape

    def conv(
        self,
        x: int,
        channels: int,
        size: int = 3,
        stride: int = 1,
        weights: int | None = None,
        relu: bool = True,
    ) -> int:
        n, h, w, c = self.shape(x)
        filters = self.weights(channels, size, size, c, type=weights)
        options = {"stride_w": stride, "stride_h": stride, "activation": int(relu)}
        options |= {"dilation_w": 1, "dilation_h": 1}
        # Padding "same", the options' default 0: the result is the operand over the stride,
        # rounded up.
        to = (n, -(-h // stride), -(-w // stride), channels)
        return self.op("CONV_2D", [x, filters, self.bias(channels)], *to, **options)

    def depthwise(self, x: int, size: int = 3) -> int:
        n, h, w, c = self.shape(x)
        options = {"stride_w": 1, "stride_h": 1, "activation": 1, "multiplier": 1}
        options |= {"dilation_w": 1, "dilation_h": 1}
        inputs = [x, self.weights(1, size, size, c), self.bias(c)]
        return self.op("DEPTHWISE_CONV_2D", inputs, n, h, w, c, **options)

    def pool(self, x: int, size: int = 2, kind: str = "MAX_POOL_2D") -> int:
        n, h, w, c = self.shape(x)
        options = {"stride_w": size, "stride_h": size, "width": size, "height": size}
        return self.op(kind, [x], n, -(-h // size), -(-w // size), c, **options)

    def concat(self, xs: Sequence[int]) -> int:
        *lead, _ = self.shape(xs[0])
        channels = sum(self.shape(x)[-1] for x in xs)
        return self.op("CONCATENATION", xs, *lead, channels, axis=len(lead))

    def add(self, x: int, y: int) -> int:
        return self.op("ADD", [x, y], *self.shape(x))

    def dense(self, x: int, size: int, weights: int | None = None) -> int:
        n, c = self.shape(x)
        inputs = [x, self.weights(size, c, type=weights), self.bias(size)]
        return self.op("FULLY_CONNECTED", inputs, n, size)

    def bytes(self) -> bytes:
        """Return the file."""
        import flatbuffers

        return _Writer(flatbuffers.Builder(1024)).file([self, *self.more_subgraphs])


class _Writer:
    def __init__(self, builder: Any) -> None:
        self.b = builder
        # Buffer 0 is empty in every TFLite file: tensors without data refer to it.
        self.buffers: list[bytes] = [b""]
        self.codes: list[tuple[str, int | None]] = []

    def file(self, nets: Sequence[TfliteNet]) -> bytes:
        # Subgraphs first: writing them fills the lists of buffers and codes that are written
        # below.
        subgraphs = [self._subgraph(net) for net in nets]
        metadata = []
        for name, data in nets[0].metadata.items():
            self.buffers.append(data)
            text = self.b.CreateString(name)
            slots = {0: ("UOffsetTRelative", text), 1: ("Uint32", len(self.buffers) - 1)}
            metadata.append(self._table(2, slots))
        codes = [self._code(*code) for code in self.codes]
        buffers = [self._buffer(data) for data in self.buffers]
        lists = {1: codes, 2: subgraphs, 4: buffers, 6: metadata}
        made = {slot: self._offsets(tables) for slot, tables in lists.items() if tables}
        description = self.b.CreateString("made by tests/support/tflite_builder.py")
        slots = {slot: ("UOffsetTRelative", x) for slot, x in made.items()}
        slots |= {0: ("Uint32", 3), 3: ("UOffsetTRelative", description)}
        self.b.Finish(self._table(8, slots), file_identifier=b"TFL3")
        return bytes(self.b.Output())

    def _table(self, count: int, slots: Mapping[int, tuple[str, Any]]) -> int:
        self.b.StartObject(count)
        for slot, (kind, value) in slots.items():
            if value is not None:
                # A slot of the default 0 is left out of the file, as TensorFlow's own converter
                # does.
                getattr(self.b, f"Prepend{kind}Slot")(slot, value, 0)
        return int(self.b.EndObject())

    def _offsets(self, tables: Sequence[int]) -> int:
        return self._vector(4, tables, self.b.PrependUOffsetTRelative)

    def _vector(self, size: int, values: Sequence[Any], prepend: Callable[[Any], None]) -> int:
        self.b.StartVector(size, len(values), size)
        # A FlatBuffer is written from its end to its start.
        for value in reversed(values):
            prepend(value)
        return int(self.b.EndVector())

    def _integers(self, values: Sequence[int]) -> int:
        return self._vector(4, list(values), self.b.PrependInt32)

    def _buffer(self, data: bytes) -> int:
        if not data:
            return self._table(1, {})
        # Weights lie at multiples of 16 in the file, as readers that map it into memory expect.
        # The bytes are copied at once: byte by byte, a model of some MB would take seconds.
        self.b.StartVector(1, len(data), 16)
        self.b.head = self.b.head - len(data)
        self.b.Bytes[self.b.head : self.b.head + len(data)] = data
        return self._table(1, {0: ("UOffsetTRelative", int(self.b.EndVector()))})

    def _code(self, kind: str, old: int | None) -> int:
        # 32 is CUSTOM; its name is in slot 1.
        code = OPS[kind][0] if kind in OPS else 32
        slots: dict[int, tuple[str, Any]] = {
            # The old field has one signed byte; codes above 127 stand only in the new field, slot
            # 3.
            0: ("Int8", min(code, 127) if old is None else old),
            2: ("Int32", 1),
            3: ("Int32", code),
        }
        if kind not in OPS:
            slots[1] = ("UOffsetTRelative", self.b.CreateString(kind))
        return self._table(4, slots)

    def _subgraph(self, net: TfliteNet) -> int:
        tensors = [self._tensor(x) for x in net.tensors]
        ops = [self._op(x) for x in net.ops]
        lists = {
            0: self._offsets(tensors),
            1: self._integers(net.inputs),
            2: self._integers(net.outputs),
            3: self._offsets(ops),
        }
        return self._table(5, {slot: ("UOffsetTRelative", x) for slot, x in lists.items()})

    def _tensor(self, x: TensorDraft) -> int:
        slots: dict[int, tuple[str, Any]] = {
            0: ("UOffsetTRelative", self._integers(x.shape)),
            1: ("Int8", x.type),
            3: ("UOffsetTRelative", self.b.CreateString(x.name)),
            5: ("Bool", x.variable),
        }
        if x.data:
            self.buffers.append(x.data)
            slots[2] = ("Uint32", len(self.buffers) - 1)
        if x.scale:
            scale = self._vector(4, list(x.scale), self.b.PrependFloat32)
            zeros = self._vector(8, [x.zero] * len(x.scale), self.b.PrependInt64)
            slots[4] = (
                "UOffsetTRelative",
                self._table(7, {2: ("UOffsetTRelative", scale), 3: ("UOffsetTRelative", zeros)}),
            )
        if x.signature:
            slots[7] = ("UOffsetTRelative", self._integers(x.signature))
        return self._table(10, slots)

    def _op(self, x: OpDraft) -> int:
        code = (x.kind, x.old_code)
        if code not in self.codes:
            self.codes.append(code)
        slots: dict[int, tuple[str, Any]] = {
            1: ("UOffsetTRelative", self._integers(x.inputs)),
            2: ("UOffsetTRelative", self._integers(x.outputs)),
        }
        if x.kind in OPS and OPS[x.kind][1]:
            _, union, fields = OPS[x.kind]
            given = {fields[name][0]: (fields[name][1], x.options[name]) for name in x.options}
            slots[4] = ("UOffsetTRelative", self._table(8, given))
            slots[3] = ("Uint8", union)
        if x.custom:
            self.b.StartVector(1, len(x.custom), 1)
            self.b.head = self.b.head - len(x.custom)
            self.b.Bytes[self.b.head : self.b.head + len(x.custom)] = x.custom
            slots[5] = ("UOffsetTRelative", int(self.b.EndVector()))
        slots[0] = ("Uint32", self.codes.index(code))
        return self._table(11, slots)


def corrupted(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut a file, or change a few bytes of it: to anything, or words to sizes that tempt."""
    changed = bytearray(data)
    way = int(rng.integers(4))
    if way == 0:
        return bytes(changed[: int(rng.integers(8, len(changed)))])
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(changed) - 4))
        if way == 1:
            changed[at] = int(rng.integers(256))
        else:
            value = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - at, len(data), at][
                int(rng.integers(8))
            ]
            at -= at % 4 if way == 2 else 0
            changed[at : at + 4] = (value % 2**32).to_bytes(4, "little")
    # The identifier stays, or most of the files would be refused before anything is read.
    changed[4:8] = b"TFL3"
    return bytes(changed)
