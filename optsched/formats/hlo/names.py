"""Names of buffers in the shape of what an instruction returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.hlo.shapes import ShapeTree, TensorShape, leaves
from optsched.formats.hlo.text import Instruction

Names: TypeAlias = "str | tuple[Names, ...] | None"
"""A buffer's name at each tensor of a shape; None where there are no bytes."""

SAME: Final = ("bitcast", "domain", "opt-barrier", "optimization-barrier", "add-dependency")
"""Instructions whose result is their first operand."""


def map_leaves(
    shape: ShapeTree, name: str, make: Callable[[str, TensorShape], str | None]
) -> Names:
    """Return what `make` returns for each tensor of a shape and its name, as XLA writes it."""

    def visit(part: ShapeTree, path: tuple[int, ...]) -> Names:
        if isinstance(part, tuple):
            return tuple(visit(x, (*path, i)) for i, x in enumerate(part))
        return make(f"{name}{{{','.join(map(str, path))}}}" if path else name, part)

    return visit(shape, ())


def names_in(trees: Iterable[Names]) -> list[str]:
    """Return the buffers of several trees, in order."""
    return [x for tree in trees for x in leaves(tree) if x is not None]


def leaf_at(names: Names, path: tuple[int, ...]) -> str | None:
    """Return the buffer at a path into a tuple; None if there is none."""
    for index in path:
        if not isinstance(names, tuple) or index >= len(names):
            return None
        names = names[index]
    return None if isinstance(names, tuple) else names


def passed_on(made: Instruction, read: list[Names]) -> Names | None:
    """Return the buffers of an instruction that owns none itself; None of one that does."""
    if made.opcode == "tuple":
        return tuple(read)
    if made.opcode == "after-all":
        return ()
    if made.opcode not in (*SAME, "get-tuple-element"):
        return None
    if not read:
        raise FormatError(f"{show(made.name)}: {made.opcode} has no operand")
    if made.opcode != "get-tuple-element":
        return read[0]
    whole = read[0]
    if not isinstance(whole, tuple) or made.index >= len(whole):
        raise FormatError(
            f"{show(made.name)}: there is no part number {made.index} of {show(made.operands[0])}"
        )
    return whole[made.index]
