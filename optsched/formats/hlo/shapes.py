"""Shapes of HLO: a tensor, or a tuple of shapes; their bytes, and the buffers that lie in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.hlo.layouts import Layout, parse_layout

ELEMENT_BITS: Final[dict[str, int]] = {
    **dict.fromkeys(("s1", "u1"), 1),
    **dict.fromkeys(("s2", "u2"), 2),
    **dict.fromkeys(("s4", "u4", "f4e2m1fn"), 4),
    **dict.fromkeys(("pred", "s8", "u8", "f8e5m2", "f8e4m3", "f8e4m3fn", "f8e3m4"), 8),
    **dict.fromkeys(("f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e8m0fnu"), 8),
    **dict.fromkeys(("s16", "u16", "f16", "bf16"), 16),
    **dict.fromkeys(("s32", "u32", "f32"), 32),
    **dict.fromkeys(("s64", "u64", "f64", "c64", "opaque"), 64),
    "c128": 128,
    "token": 0,
}
"""Bits of an element by the name of its type. An opaque value is a pointer, a token is nothing."""

_SIZE_BYTES: Final = 4
"""Bytes of the size of a dimension that may change, in CpuExecutable::ShapeSizeBytes of XLA."""
_DEEPEST: Final = 50
_TENSOR: Final = re.compile(r"([a-z]\w*)\[([^\]\[(){}]{0,400})\](\{(?:[^{}]|\{[^{}]*\}){0,400}\})?")
_BLANK: Final = re.compile(r"(?:[\s,]|/\*[^*]*\*/)*")

ShapeTree: TypeAlias = "TensorShape | tuple[ShapeTree, ...]"
"""A tensor, or a tuple of such trees."""


Names: TypeAlias = "str | tuple[Names, ...] | None"
"""Buffer name of each tensor of a shape; None for tensors without bytes."""


@dataclass(frozen=True, slots=True)
class TensorShape:
    """A tensor: element type, dimensions, layout.

    The sizes of an array that is `dynamic`, which has a bound in place of one, lie after its
    elements, or before them where the layout says so.
    """

    kind: str
    dims: tuple[int, ...]
    layout: Layout
    dynamic: bool = False

    @property
    def size(self) -> int:
        """Bytes. Elements below 8 bits take a byte each unless the layout says that they do not."""
        bits = ELEMENT_BITS[self.kind]
        if bits:
            bits = self.layout.bits or max(bits, 8)
        # Rounded up: seven elements of 4 bits take 4 bytes.
        elements = -(-bits * self.layout.elements(self.dims) // 8)
        after = _SIZE_BYTES * len(self.dims) if self.dynamic and not self.layout.prefix else 0
        return elements + after + self.layout.prefix

    def size_in(self, space: int) -> int:
        """Bytes in a memory space; 0 if the tensor lies in another one."""
        return self.size if self.layout.space == space else 0


def parse_shape(text: str, start: int, depth: int = 0) -> tuple[ShapeTree, int]:
    """Read a shape that begins in a text at `start`; return it and where it ends.

    A text that is not a shape, is nested too deeply, or is of unknown size is rejected.
    """
    # Recursive in the depth of the text.
    if depth > _DEEPEST:
        raise FormatError("a tuple is nested too deeply")
    at = _skip(text, start)
    if text[at : at + 1] == "(":
        parts: list[ShapeTree] = []
        at = _skip(text, at + 1)
        while text[at : at + 1] != ")":
            # XLA leaves out the separator at times, so it is optional.
            part, at = parse_shape(text, at, depth + 1)
            parts.append(part)
            at = _skip(text, at)
        return tuple(parts), at + 1
    found = _TENSOR.match(text, at)
    if found is None:
        raise FormatError(f"a shape is wanted, not {show(text[at : at + 30])}")
    if found[1] not in ELEMENT_BITS:
        raise FormatError(f"element type {show(found[1])} has no known size")
    dims = _dims(found[2])
    layout = parse_layout(found[3] or "", len(dims))
    return TensorShape(found[1], dims, layout, "<=" in found[2]), found.end()


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _dims(text: str) -> tuple[int, ...]:
    # A dimension may change up to a bound, "<=8": the bound is allocated.
    dims = [part.strip().removeprefix("<=") for part in text.split(",")] if text.strip() else []
    # isdigit accepts digits of other scripts, and int would read them.
    for dim in dims:
        if not dim.isascii() or not dim.isdigit() or len(dim) > 19:
            raise FormatError(f"dimension {show(dim)} has no known size")
    return tuple(map(int, dims))


def leaves(tree: Any) -> Iterator[Any]:
    """Return the values at the tensors of a tree of tuples, from first to last."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from leaves(part)
    else:
        yield tree


def parts_of(
    shape: ShapeTree, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], ShapeTree]]:
    """Yield all parts of a shape with their paths, each tuple before its members."""
    yield path, shape
    if isinstance(shape, tuple):
        for i, part in enumerate(shape):
            yield from parts_of(part, (*path, i))


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
