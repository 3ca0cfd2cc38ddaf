"""A value of a module, and a group of values that lie in one memory.

Example: a loop has one value for its input, one for its result and one for the body's parameter.
XLA gives them one memory, so they are one group.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from optsched.formats.hlo.inplace import SAME
from optsched.formats.hlo.shapes import ShapeTree

POINTER_BYTES = 8
"""Bytes of a row in the table of a tuple."""

HANDED_ON = (*SAME, "get-tuple-element")
"""Instructions that define no value."""

Path = tuple[int, ...]
Tree = dict[Path, int]
"""The values of an instruction by their place in its shape, the table of a tuple at its own."""


@dataclass(slots=True)
class Value:
    """A value: its defining instruction, its bytes, and the instructions that keep it alive."""

    definer: str
    """Name of the instruction."""
    shape: ShapeTree
    """Shape of the value."""
    ends: list[str] = field(default_factory=list)
    """Instructions that keep it alive."""
    spans: list[str] = field(default_factory=list)
    """Computations that keep it alive until their end."""
    positions: list[str] = field(default_factory=list)
    """Instructions that pass it on, its definer first."""
    begins: str = ""
    """Computation at whose start it exists; empty if it exists from its definer on."""
    operands: tuple[int, ...] = ()
    """Values that its definer reads, if it makes one tensor of tensors."""
    place: tuple[int, int] = (0, 0)
    number: tuple[int, int] = (0, 0)
    """`place` and `number`: break ties: position of its definer in a walk through the module, and
    XLA's number of the value."""

    @property
    def is_table(self) -> bool:
        """True if it is the table of a tuple."""
        return isinstance(self.shape, tuple)

    @property
    def size(self) -> int:
        """Bytes."""
        if isinstance(self.shape, tuple):
            return len(self.shape) * POINTER_BYTES
        return self.shape.size


@dataclass(frozen=True, slots=True)
class Group:
    """Values that lie in one memory."""

    values: tuple[int, ...]
    """Numbers of the values."""
    size: int
    """Bytes of the largest."""
    place: tuple[int, int]
    """Breaks ties."""
    live_out: bool
    """True if the module returns it."""
    is_table: bool
    """True if it is the table of a tuple."""
    is_donated: bool
    """True if the memory belongs to an argument that the caller donates."""
    operands: tuple[int, ...]
    """Groups that are read to make tensors of this one."""
