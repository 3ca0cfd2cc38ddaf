"""A program of PyTorch as its readers hand it on: values with their bytes, and nodes in order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from optsched.model.elements import InputPolicy


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor: where its elements lie in its storage."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """`sizes` and `strides`: of each axis, in elements."""
    offset: int
    """Elements of the storage before the first one."""
    dtype: str
    item_bytes: int
    """`dtype` and `item_bytes`: the name of an element's type, and its bytes."""
    device: str = "cpu"
    """`cpu`, `cuda:0` ..."""
    storage: Hashable | None = None
    """Key that all tensors of one storage share; None if the storage is unknown."""
    storage_bytes: int | None = None
    """Bytes of the storage, where they are known."""

    @property
    def nbytes(self) -> int:
        """Bytes of the storage: those it is known to have, or up to the last element."""
        return self.span if self.storage_bytes is None else self.storage_bytes

    @property
    def span(self) -> int:
        """Bytes from the start of the storage to the end of the last element."""
        # Without elements the sum below would be that of a last element.
        if 0 in self.sizes:
            return 0
        last = sum((n - 1) * step for n, step in zip(self.sizes, self.strides, strict=True))
        return (self.offset + last + 1) * self.item_bytes

    def is_like(self, other: TensorValue) -> bool:
        """Return True if both have the same element type, axes and device."""
        return (self.sizes, self.strides, self.dtype, self.device) == (
            other.sizes,
            other.strides,
            other.dtype,
            other.device,
        )


@dataclass(frozen=True, slots=True)
class FxNode:
    """A node that runs an operator."""

    name: str
    operator: str
    """`name` and `operator`: name of the node; name of the operator, such as
    `aten.view.default`."""
    arguments: Mapping[str, tuple[str, ...]]
    """Tensors among its arguments, by the argument's name, or by position without a name."""
    settings: Mapping[str, object]
    """Arguments that are numbers, strings, flags or element types, by name."""
    outputs: tuple[str, ...]
    """Tensors that it returns, including unused ones."""
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    """`takes` and `gives`: values without bytes, such as sizes or a random state, that it needs and
    produces."""
    overwrites: tuple[str, ...] = ()
    """Tensors among its arguments that it writes to."""
    view_of: str | None = None
    """Tensor that all its outputs are certainly views of; None if there is none."""
    bodies: tuple[FxProgram, ...] = ()
    """Programs that it runs."""
    draws: bool = False
    """True if its operator is marked as drawing from the random state."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The tensors among the arguments, in operand order."""
        return tuple(name for names in self.arguments.values() for name in names)

    @property
    def first(self) -> str | None:
        """The first tensor among the arguments."""
        return next(iter(self.reads), None)

    @property
    def base(self) -> str:
        """The operator without its namespace and overload: `view`."""
        parts = self.operator.split(".")
        return parts[1] if len(parts) > 1 else parts[0]


@dataclass(frozen=True, slots=True)
class FxProgram:
    """Nodes in the order of the file, and the tensors that they read and make."""

    inputs: Mapping[str, InputPolicy]
    """Policy for the bytes of each tensor that the caller provides."""
    nodes: tuple[FxNode, ...]
    outputs: tuple[str, ...]
    """`nodes` and `outputs`: in order; outputs are names of tensors."""
    values: Mapping[str, TensorValue] = field(repr=False)
    """All tensors by name."""
