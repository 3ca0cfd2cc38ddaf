"""How parts of kernels are given their arguments: an array is an address and a shape.

Numba hands over an array as seven values, and a named tuple of twenty arrays as a hundred and
forty, taken out one by one before each call and put together again after it. LLVM finds out in the
end that two of the seven are used, but all of it has to be made, written, read and looked at first.
The others say who holds the array, which a function that returns none need not know, and what
follows from its type.

This module imports numba: only what compiles should import it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import llvmlite.ir as llvm
from numba.core import types
from numba.core.datamodel.models import DataModel
from numba.core.types.containers import BaseTuple
from numba.core.types.misc import Omitted
from numba.extending import register_model


class Lent(types.Type):
    """An argument that the caller holds.

    Parameters
    ----------
    kind
        The type of the argument.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(name=f"lent({kind})")


class Passed(NamedTuple):
    """A lent argument, taken apart: in place of a value where one is called for."""

    tree: Any


@register_model(Lent)
class _LentModel(DataModel):  # type: ignore[misc]
    """What numba asks about a type: here what is handed over, and how that becomes a value.

    An array of numbers without gaps is `(address, *shape)`, a tuple the tuple of what its fields
    are, a boolean one bit, anything else what numba makes of it.
    """

    def __init__(self, manager: Any, lent: Any) -> None:
        super().__init__(manager, lent)
        self.kind = lent.kind
        self.plain = manager.lookup(lent.kind)
        self.is_bit = isinstance(lent.kind, types.Boolean)
        self.fields: list[Any] | None = None
        if isinstance(lent.kind, BaseTuple):
            self.fields = [manager.lookup(Lent(kind)) for kind in lent.kind]

    def get_value_type(self) -> Any:
        return self.plain.get_value_type()

    def get_argument_type(self) -> Any:
        if self.fields is not None:
            return tuple(field.get_argument_type() for field in self.fields)
        if self.is_bit:
            return self.get_value_type()
        tree = self.plain.get_argument_type()
        return only_lent(self.plain, tree) if is_dense(self.kind) else tree

    def as_argument(self, builder: Any, value: Any) -> Any:
        if isinstance(value, Passed):
            return value.tree
        if self.fields is not None:
            return tuple(
                field.as_argument(builder, builder.extract_value(value, i))
                for i, field in enumerate(self.fields)
            )
        if is_dense(self.kind):
            return address_and_shape(builder, self.kind, self.plain, value)
        return value if self.is_bit else self.plain.as_argument(builder, value)

    def from_argument(self, builder: Any, tree: Any) -> Any:
        if self.fields is not None:
            value = llvm.Constant(self.get_value_type(), llvm.Undefined)
            for i, (field, part) in enumerate(zip(self.fields, tree, strict=True)):
                value = builder.insert_value(value, field.from_argument(builder, part), i)
            return value
        if is_dense(self.kind):
            return self._array(builder, *tree)
        return tree if self.is_bit else self.plain.from_argument(builder, tree)

    def _array(self, builder: Any, data: Any, *shape: Any) -> Any:
        """Return an array that nobody holds, which numba need not count the users of."""
        place = self.plain.get_field_position
        value = llvm.Constant(self.get_value_type(), None)
        items = step = llvm.Constant(shape[0].type, 1)
        size = llvm.Constant(shape[0].type, _item_bytes(self.kind.dtype))
        value = builder.insert_value(value, size, place("itemsize"))
        value = builder.insert_value(value, data, place("data"))
        for i, length in reversed(tuple(enumerate(shape))):
            step = size if items is step else builder.mul(items, size)
            value = builder.insert_value(value, length, (place("shape"), i))
            value = builder.insert_value(value, step, (place("strides"), i))
            items = length if step is size else builder.mul(items, length)
        return builder.insert_value(value, items, place("nitems"))


def lent(context: Any, described: Any) -> tuple[Any, ...]:
    """Return the types of a function's arguments; lent, unless it returns an array.

    Parameters
    ----------
    context
        Of numba, for compiling.
    described
        Numba's description of the function, with the types of its arguments.
    """
    kinds: tuple[Any, ...] = described.argtypes
    if is_counted(context, described.restype):
        return kinds
    return tuple(kind if isinstance(kind, Omitted) else Lent(kind) for kind in kinds)


def lend(builder: Any, manager: Any, kind: Any, tree: Any) -> Any:
    """Return what an argument is where it is lent, given what it is where it is not."""
    if isinstance(kind, BaseTuple):
        return tuple(lend(builder, manager, x, part) for x, part in zip(kind, tree, strict=True))
    if isinstance(kind, types.Boolean):
        return builder.icmp_unsigned("!=", tree, tree.type(0))
    return only_lent(manager.lookup(kind), tree) if is_dense(kind) else tree


def only_lent(model: Any, tree: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return address and shape of what numba hands over for an array."""
    place = model.get_field_position
    return tree[place("data")], *tree[place("shape")]


def address_and_shape(builder: Any, kind: Any, model: Any, value: Any) -> tuple[Any, ...]:
    """Return address and shape of an array that is held as numba does."""
    place = model.get_field_position
    data = builder.extract_value(value, place("data"))
    return data, *(builder.extract_value(value, (place("shape"), i)) for i in range(kind.ndim))


def is_counted(context: Any, kind: Any) -> bool:
    """Whether numba counts who uses a value of this type: an array, or a tuple with one."""
    return bool(context.data_model_manager[kind].contains_nrt_meminfo())


def is_dense(kind: Any) -> bool:
    """Whether a type is that of an array of numbers without gaps."""
    return (
        isinstance(kind, types.Array)
        and kind.layout == "C"
        and kind.aligned
        and kind.ndim > 0
        and is_number(kind.dtype)
    )


def is_number(kind: Any) -> bool:
    """Whether a type is that of a number."""
    return isinstance(kind, types.Integer | types.Boolean | types.Float)


def _item_bytes(kind: Any) -> int:
    return 1 if isinstance(kind, types.Boolean) else int(kind.bitwidth) // 8
