"""Bytes of a tensor of known element type and shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

ELEMENT_BITS: Final[dict[str, int]] = {
    **dict.fromkeys(("BOOL", "INT8", "UINT8", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2"), 8),
    **dict.fromkeys(("FLOAT8E5M2FNUZ", "FLOAT8E8M0"), 8),
    **dict.fromkeys(("INT16", "UINT16", "FLOAT16", "BFLOAT16"), 16),
    **dict.fromkeys(("INT32", "UINT32", "FLOAT"), 32),
    **dict.fromkeys(("INT64", "UINT64", "DOUBLE", "COMPLEX64"), 64),
    "COMPLEX128": 128,
    **dict.fromkeys(("INT4", "UINT4", "FLOAT4E2M1"), 4),
    **dict.fromkeys(("INT2", "UINT2"), 2),
}
"""Bits of an element by the name of its type in `TensorProto.DataType`; strings have no size."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element width in bits and shape of a tensor all of whose dimensions are known."""

    bits: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes; elements of less than 8 bits lie side by side, and the last byte is filled up."""
        return -(-self.bits * prod(self.shape) // 8)
