"""The reason why the size of a value of an ONNX model is unknown, and the remedy."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.onnx.dims import integer_inputs, open_dimensions
from optsched.formats.onnx.model import initializers, subgraphs
from optsched.formats.onnx.sequences import MADE_OF
from optsched.formats.onnx.sizes import PROFILE, Types

_BY_DATA: Final = frozenset(
    {
        *("Compress", "ImageDecoder", "NonMaxSuppression", "NonZero", "StringNormalizer"),
        *("StringSplit", "Unique"),
    }
)
"""Ops whose number of results depends on all that they read."""
_SECOND: Final = (
    *("AffineGrid", "CenterCropPad", "Expand", "OneHot", "Reshape", "Split", "SplitToSequence"),
    *("Squeeze", "Tile", "TopK", "Unsqueeze", "Upsample"),
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)
_BY_VALUE: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(_SECOND, (1,)),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "ConstantOfShape"), (0,)),
    **dict.fromkeys(("Col2Im", "DFT"), (1, 2)),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Resize": (2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
}
"""Numbers of the inputs whose values decide the size of an op's results."""
_OF_SEQUENCES: Final = frozenset(
    {
        *("ConcatFromSequence", "OptionalGetElement", "SequenceAt", "SequenceMap"),
        *(name for name in MADE_OF if name != "Identity"),
    }
)


def unknown_size(op: str, node: Any, value: str, types: Types, whole: Any) -> FormatError:
    """Return the error for a value of unknown size that an op makes.

    `types` is known of the values of the model, and `whole` its outermost GraphProto.
    """
    size = f"op {show(op)} ({show(node.op_type)[1:-1]}): the size of its output {show(value)}"
    reason, remedy = _by_op(node, types, whole) or _by_operands(node, types, whole)
    return FormatError(f"{size} {reason}; {remedy}")


def _by_op(node: Any, types: Types, whole: Any) -> tuple[str, str] | None:
    """Return reason and remedy where they follow from the kind of an op."""
    if node.op_type in _BY_DATA:
        return "depends on the data that it reads", PROFILE
    decisive = _decisive(node, types.values)
    if decisive:
        names = " and ".join(map(show, decisive))
        return f"depends on the values of {names}", _values(decisive, whole)
    if node.op_type in _OF_SEQUENCES:
        return "depends on the tensors of a sequence", PROFILE
    if node.domain not in ("", "ai.onnx"):
        return f"is unknown, since no rule is known for ops of domain {show(node.domain)}", PROFILE
    return None


def _by_operands(node: Any, types: Types, whole: Any) -> tuple[str, str]:
    """Return reason and remedy where they follow from an op's operands."""
    results = [b.output[0].name for b in subgraphs(node) if node.op_type == "If" and b.output]
    # Weights and known values are never the reason.
    weights = {*types.values, *initializers(whole)}
    read = [x for x in (*node.input, *results) if x and x not in weights]
    unknown = [x for x in read if x not in types.by_name]
    if unknown:
        # Ops that ONNX Runtime replaces have no event in a profile, and so their inputs.
        given = [x for x in open_dimensions(whole, ()) if x.input == unknown[0]]
        sizes = " ".join(f"--dim {show(x.name)[1:-1]}=N" for x in given)
        remedy = f"give {sizes}" if given else PROFILE
        return f"follows from that of {show(unknown[0])}, unknown too", remedy
    # All operands are known, so it is the state that may change.
    if node.op_type in ("Loop", "Scan"):
        return "may change from one iteration to the next", PROFILE
    operands = " and ".join(_shown(x, types) for x in read) or "its operands"
    return f"does not follow from {operands}", "give other sizes with --dim"


def _values(names: Collection[str], whole: Any) -> str:
    """Return the remedy for values of unknown numbers: those of inputs that they are made of."""
    makers = {x: node for node in whole.node for x in node.output if x}
    # Backwards from the values to the inputs that decide them.
    known, stack = set(names), list(names)
    while stack:
        node = makers.get(stack.pop())
        new = {x for x in node.input if x} - known if node is not None else set()
        known |= new
        stack.extend(new)
    inputs = " ".join(f"--dim {show(x)[1:-1]}=N" for x in integer_inputs(whole) if x in known)
    return f"give {inputs}, or {PROFILE.removeprefix('give ')}" if inputs else PROFILE


def _decisive(node: Any, known: Collection[str]) -> list[str]:
    """Return the inputs whose unknown numbers decide the size of a node's results."""
    asked = _BY_VALUE.get(node.op_type, ())
    read = [node.input[i] for i in asked if i < len(node.input)]
    return [name for name in read if name and name not in known]


def _shown(name: str, types: Types) -> str:
    """Return name and shape of a value for a message."""
    return f"{show(name)} [{', '.join(map(str, types.by_name[name].shape))}]"
