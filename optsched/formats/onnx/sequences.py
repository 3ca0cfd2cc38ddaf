"""Bytes of sequences, into which ONNX Runtime copies tensors, or their numbers (ZipMap).

A sequence of unknown tensors, such as a graph input, has no known size, and what is made of it has
none either. One from which a tensor is erased keeps its size here, since any tensor may go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from optsched.formats.onnx.fold import run_graphs

MADE_OF: Final[dict[str, tuple[int, ...] | None]] = {
    "SequenceEmpty": (),
    "SequenceConstruct": None,
    "SequenceInsert": (0, 1),
    "SequenceErase": (0,),
    "SplitToSequence": (0,),
    "Identity": (0,),
    "Optional": (0,),
    "ZipMap": (0,),
}
"""Numbers of the inputs whose bytes a sequence holds, by the op that makes it; None for all."""


def sequence_bytes(graph: Any, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes of sequences by name; `sizes` are the bytes of tensors of known shape."""
    found: dict[str, int] = {}
    for name, node in _makers(graph):
        numbers = MADE_OF[node.op_type]
        # A sequence copies the tensors that are put into it.
        count = range(len(node.input)) if numbers is None else numbers
        read = [node.input[i] for i in count if i < len(node.input)]
        parts = [sizes.get(x, found.get(x)) for x in read]
        if name not in sizes and all(part is not None for part in parts):
            found[name] = sum(part for part in parts if part is not None)
    return found


def _makers(graph: Any) -> Iterator[tuple[str, Any]]:
    for each in run_graphs(graph):
        for node in each.node:
            is_known = node.op_type in MADE_OF and node.domain in ("", "ai.onnx.ml")
            if is_known and node.output and node.output[0]:
                yield node.output[0], node
