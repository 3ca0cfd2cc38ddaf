"""Memory behavior of ONNX Runtime's CPU kernels, by op type."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.onnx.model import attribute_of
from optsched.formats.onnx.sizes import HOW, TensorType
from optsched.runtime.bytes import round_up

VIEWS: Final = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Ops whose first output is another name for their first input. (ONNX Runtime takes `Dropout` out
of the graph at every optimization level above none, where its kernel copies.)"""

_FIRST: Final = (0,)
_IN_PLACE: Final[dict[tuple[str, str], tuple[int, ...]]] = {
    **{
        ("", kind): _FIRST
        for kind in (
            *("Cast", "CastLike", "Celu", "Clip", "Elu", "HardSigmoid", "LeakyRelu", "LogSoftmax"),
            *("Relu", "Scatter", "ScatterElements", "Selu", "Shrink", "Sigmoid", "Softmax"),
            *("Softplus", "Softsign", "Tanh", "TensorScatter", "ThresholdedRelu", "Trilu"),
        )
    },
    ("com.microsoft", "FusedConv"): (3,),
    ("com.microsoft", "Trilu"): _FIRST,
    ("com.microsoft.nchwc", "Conv"): (3,),
}
"""Inputs that the kernel may overwrite with its first output, by domain and op type: all that
`python -m experiments.runtimes.onnxruntime inplace` finds by measuring each op. Arithmetic (`Add`,
`Mul`, `Exp`, ...), `Gemm`, `Concat` and normalizations are not among them."""


BLOCK: Final = 64
"""Bytes of the smallest block of ONNX Runtime's allocator, which rounds up to multiples of it."""
_ANY_AXIS: Final = 13
"""Operator set since which softmax goes along one axis, not all from one on."""


_HALVES: Final = frozenset(
    {
        *("Attention", "Cast", "Celu", "Clip", "Compress", "Concat", "ConstantOfShape"),
        *("DequantizeLinear", "Dropout", "Expand", "Flatten", "Gather", "GatherElements"),
        *("GatherND", "Identity", "If", "IsInf", "IsNaN", "LayerNormalization", "Loop"),
        *("Max", "Min", "Mod", "Optional", "OptionalGetElement", "OptionalHasElement"),
        *("QuantizeLinear", "RMSNormalization", "RandomNormalLike", "RandomUniformLike"),
        *("Reshape", "ReverseSequence", "RotaryEmbedding", "Round", "Scan", "Scatter"),
        *("ScatterElements", "ScatterND", "SequenceAt", "SequenceConstruct", "Shape"),
        *("Shrink", "Sign", "Size", "Slice", "Split", "SplitToSequence", "Squeeze"),
        *("TensorScatter", "Transpose", "Unsqueeze"),
    }
)
"""Ops that ONNX Runtime's CPU kernels compute in half floats; it computes others in floats."""


IN_FLOATS: Final = "in floats, not halves: see convert --to onnx-fused"
"""Words in the memory model of a graph with such other ops, whose bytes are not those that run."""


def runs_as_floats(node: Any, halves: Collection[str]) -> bool:
    """Return True if ONNX Runtime casts the half floats of an op to floats on the CPU."""
    is_half = any(name in halves for name in (*node.input, *node.output))
    return is_half and not domain_of(node) and node.op_type not in _HALVES


def domain_of(node: Any) -> str:
    """Return a node's domain, the standard one as an empty text."""
    return "" if node.domain == "ai.onnx" else str(node.domain)


def overwritten_inputs(node: Any) -> tuple[int, ...]:
    """Return the numbers of the inputs that a node's kernel may write its first output into."""
    return _IN_PLACE.get((domain_of(node), node.op_type), ())


def in_blocks(size: int) -> int:
    """Return the bytes that ONNX Runtime's allocator takes for some."""
    return round_up(size, BLOCK)


def scratch_bytes(node: Any, types: Mapping[str, TensorType], opset: int) -> int:
    """Return the workspace of a kernel, where ONNX Runtime's is known to depend on shapes alone.

    It is the sum of the blocks that are taken.

    `HardSwish` and `Mish` have no kernel: ONNX Runtime runs them as `x * HardSigmoid(x)` and
    `x * Tanh(Softplus(x))`, so the second factor lies beside operand and result.
    `LRN` holds the squares of its input, widened by its window along the channels, and their sums.
    `Where` makes each side apart, widened to the condition, and softmax along another axis than
    the last one turns operand and result. (`Conv` with a window takes 64 KiB a thread more, which
    no file tells: it is not counted.)
    """
    read = [types[name] for name in node.input if name in types]
    if domain_of(node) or not read or len(read) < len(node.input):
        return 0
    kind, found = read[0], 0
    match node.op_type:
        case "HardSwish" | "Mish":
            found = in_blocks(kind.size)
        case "Where":
            found = sum(_widened(kind, side) for side in read[1:])
        case "Max" | "Mean" | "Min" | "Sum":
            found = _partial_results(read)
        case "Hardmax" | "LogSoftmax" | "Softmax" if opset >= _ANY_AXIS:
            axis = attribute_of(node, "axis", "i", -1)
            found = 0 if axis in (-1, len(kind.shape) - 1) else 2 * in_blocks(kind.size)
        case "LRN" if len(kind.shape) > 1:
            window = attribute_of(node, "size", "i", 1)
            # Half of the window on each side of the channels.
            channels = kind.shape[1] + max(0, window - 1)
            widened = TensorType(kind.bits, (channels, *kind.shape[2:]))
            found = in_blocks(kind.size) + in_blocks(widened.size)
    return found


def _widened(one: TensorType, other: TensorType) -> int:
    """Return the bytes of a result of the second type with the broadcast shape of two."""
    shape = np.broadcast_shapes(one.shape, other.shape)
    return in_blocks(TensorType(other.bits, shape).size)


def _partial_results(read: Sequence[TensorType]) -> int:
    """Return the bytes beside the result of an op that joins two operands, then the next one."""
    sizes, made = [], read[0]
    for other in read[1:]:
        made = TensorType(made.bits, np.broadcast_shapes(made.shape, other.shape))
        sizes.append(in_blocks(made.size))
    # A partial result lies beside the next one; the last of these is the op's.
    pairs = [a + b for a, b in pairwise(sizes)]
    return max(pairs, default=0) - sizes[-1] if pairs else 0


def is_view(node: Any, constants: set[str], optimized: bool = True) -> bool:
    """Return True if a node only renames its first input.

    Without optimizations `Dropout` stays in the graph, and copies.
    """
    if domain_of(node) or node.op_type not in VIEWS or not node.input or not node.input[0]:
        # Ops of other domains may copy.
        return False
    if node.op_type == "Dropout" and not optimized:
        return False
    if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
        # Its third input, where there is one, says whether this is training.
        return node.input[2] in constants
    return True


def body_workspace(
    node: Any, body: Any, peak: int, types: Mapping[str, TensorType], label: str
) -> int:
    """Return the bytes that an op (If, Loop, Scan) holds beside its outputs because of a subgraph.

    As ONNX Runtime 1.32 does it, measured. A branch of If writes its outputs where the If has its
    own. A Loop holds the state before an iteration beside the new one, the parts that it stacks in
    the end, and blocks for the number of the iteration and the condition. A Scan has two places for
    the state, which iterations use in turns, and stacks at once. `peak` is that of the subgraph:
    without its outputs, except for a Loop. The types of the state, and of what is stacked, must be
    known.
    """
    results = [value.name for value in body.output]
    if node.op_type == "Loop":
        count = max(1, len(node.input) - 1)  # the condition, and the inputs after the first two
        state, parts, stacked = (
            _bytes(values, types, label)
            for values in (results[1:count], results[count:], node.output[count - 1 :])
        )
        # Parts exist during the run, and their stack at its end, so that not both count.
        return max(peak - parts, 2 * state + stacked) + 2 * BLOCK
    if node.op_type == "Scan":
        scanned = attribute_of(node, "num_scan_inputs", "i", 0)
        # Two places for the state: iterations read one and write the other.
        return peak + 2 * _bytes(results[: max(0, len(node.input) - scanned)], types, label)
    return peak


def _bytes(values: Iterable[str], types: Mapping[str, TensorType], label: str) -> int:
    total = 0
    for value in filter(None, values):
        if value not in types:
            raise FormatError(f"op {show(label)}: the size of {show(value)} is not known; {HOW}")
        total += in_blocks(types[value].size)
    return total
