"""A program of PyTorch as its readers hand it on: values with their bytes, and nodes in order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from optsched.model.elements import InputPolicy


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor: where its elements lie in its storage.

    Parameters
    ----------
    sizes, strides
        Of each axis, in elements.
    offset
        Elements of the storage before the first one.
    dtype, item_bytes
        The name of an element's type, and its bytes.
    device
        `cpu`, `cuda:0` ...
    storage
        Key that all tensors of one storage share; None if the storage is unknown.
    storage_bytes
        Bytes of the storage, where they are known.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: str
    item_bytes: int
    device: str = "cpu"
    storage: Hashable | None = None
    storage_bytes: int | None = None

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
    """A node that runs an operator.

    Parameters
    ----------
    name, operator
        Name of the node; name of the operator, such as `aten.view.default`.
    arguments
        Tensors among its arguments, by the argument's name, or by position without a name.
    settings
        Arguments that are numbers, strings, flags or element types, by name.
    outputs
        Tensors that it returns, including unused ones.
    takes, gives
        Values without bytes, such as sizes or a random state, that it needs and produces.
    overwrites
        Tensors among its arguments that it writes to.
    view_of
        Tensor that all its outputs are certainly views of; None if there is none.
    bodies
        Programs that it runs.
    draws
        True if its operator is marked as drawing from the random state.
    """

    name: str
    operator: str
    arguments: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, object]
    outputs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    overwrites: tuple[str, ...] = ()
    view_of: str | None = None
    bodies: tuple[FxProgram, ...] = ()
    draws: bool = False

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
    """Nodes in the order of the file, and the tensors that they read and make.

    Parameters
    ----------
    inputs
        Policy for the bytes of each tensor that the caller provides.
    nodes, outputs
        In order; outputs are names of tensors.
    values
        All tensors by name.
    """

    inputs: Mapping[str, InputPolicy]
    nodes: tuple[FxNode, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, TensorValue] = field(repr=False)
