"""What an op with subgraphs (If, Loop, Scan) needs while it runs, beside its own outputs.

As ONNX Runtime 1.32 does it, measured. A branch of If writes its outputs where the If has its own.
A Loop holds the state before an iteration beside the new one, and the parts that it stacks in the
end. A Scan has two places for the state, which iterations use in turns, and stacks at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.onnx.sizes import HOW
from optsched.formats.onnx.tensor_type import TensorType


def body_workspace(
    node: Any, body: Any, peak: int, types: Mapping[str, TensorType], label: str
) -> int:
    """Return the bytes that an op holds beside its outputs because of a subgraph.

    Parameters
    ----------
    node, body
        A NodeProto, and a GraphProto among its attributes.
    peak
        Of the subgraph: without its outputs, but for a Loop with them.
    types
        Of all values, those of subgraphs included.
    label
        What messages call the op.

    Raises
    ------
    FormatError
        If the size of the state, or of what is stacked, is unknown; it names op and value.
    """
    results = [value.name for value in body.output]
    if node.op_type == "Loop":
        count = max(1, len(node.input) - 1)  # the condition, and the inputs after the first two
        state, parts, stacked = (
            _bytes(values, types, label)
            for values in (results[:count], results[count:], node.output[count - 1 :])
        )
        return max(peak - parts, 2 * state + stacked)
    if node.op_type == "Scan":
        scanned = next((int(a.i) for a in node.attribute if a.name == "num_scan_inputs"), 0)
        return peak + 2 * _bytes(results[: max(0, len(node.input) - scanned)], types, label)
    return peak


def _bytes(values: Iterable[str], types: Mapping[str, TensorType], label: str) -> int:
    total = 0
    for value in filter(None, values):
        if value not in types:
            raise FormatError(f"op {show(label)}: the size of {show(value)} is not known; {HOW}")
        total += types[value].size
    return total
