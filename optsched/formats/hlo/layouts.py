"""Layouts of HLO's arrays: what they add to the bytes of an array, and where it lies.

A layout is written after a shape, as in `bf16[1024,2]{1,0:T(8,128)(2,1)S(5)}`: dimensions from
minor to major, then attributes, here two tiles and a memory space. Each dimension that a tile
covers is padded to a multiple of it; a `*` joins a dimension to the next minor one first. Tiles
after the first lie within it and add nothing.

References
----------
xla/layout.cc, Layout::Print, and xla/shape_util.cc, ShapeUtil::ArraySize, of
https://github.com/openxla/xla.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Final

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.runtime.bytes import round_up

JOINED: Final = 0
"""Entry of a tile, written `*`, for a dimension that is joined to the next minor one."""

_INTEGERS: Final = r"\s*(?:\d{1,18}\s*(?:,\s*\d{1,18}\s*)*)?"
_LAYOUT: Final = re.compile(rf"\{{({_INTEGERS})(?::(.*))?\}}", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r"\s*([^\s()]{1,20})((?:\([^()]*\))+)\s*")
_GROUP: Final = re.compile(r"\(([^()]*)\)")
_ENTRY: Final = re.compile(r"\s*(\d{1,18}|\*)\s*")
_NUMBERS: Final = {"L": "tail", "E": "bits", "S": "space", "M": "prefix"}


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout of an array."""

    order: tuple[int, ...] = ()
    """Dimensions, from minor to major; empty if none are written."""
    tiles: tuple[tuple[int, ...], ...] = ()
    """Tiles, from the outermost on, each with sizes from major to minor."""
    tail: int = 1
    """Elements are padded to a multiple of this, if there are tiles."""
    bits: int = 0
    """Bits of an element; 0 for the usual ones of its type."""
    space: int = 0
    """Memory space; 0 is the device's own."""
    prefix: int = 0
    """Bytes in front of the array that hold its sizes."""
    splits: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Dimension, counted from the major one, and the indices at which it is split between
    memories."""

    def elements(self, dims: Sequence[int]) -> int:
        """Return the number of elements that an array takes, with those that pad it."""
        if not self.tiles:
            return prod(dims)
        major = [self._largest_part(rank, dims[d]) for rank, d in enumerate(reversed(self.order))]
        tile = self.tiles[0]
        # A tile of more dimensions than the array has, as in f32[]{:T(128)}, pads single elements.
        covered = [1] * (len(tile) - len(major)) + major[max(0, len(major) - len(tile)) :]
        count, joined = prod(major[: max(0, len(major) - len(tile))]), 1
        for size, step in zip(covered, tile, strict=True):
            joined *= size
            if step != JOINED:
                count, joined = count * round_up(joined, step), 1
        return round_up(count * joined, self.tail)

    def _largest_part(self, rank: int, size: int) -> int:
        for dimension, at in self.splits:
            if dimension == rank:
                return max(b - a for a, b in pairwise((0, *at, size)))
        return size


@lru_cache(maxsize=4096)
def parse_layout(text: str, rank: int) -> Layout:
    """Read the layout of an array of this rank, with its braces; an empty text is the default one.

    It raises `FormatError` if the text is malformed, or has an attribute that this module does not
    know, since the bytes of the array could depend on it.
    """
    if not text:
        return Layout()
    found = _LAYOUT.fullmatch(text)
    if found is None:
        raise FormatError(f"layout {show(text)} is malformed")
    order = tuple(int(x) for x in found[1].split(",") if x.strip())
    if sorted(order) != list(range(rank)):
        raise FormatError(f"layout {show(text)} does not name each of {rank} dimensions once")
    fields: dict[str, int] = {}
    tiles: tuple[tuple[int, ...], ...] = ()
    splits: tuple[tuple[int, tuple[int, ...]], ...] = ()
    rest = found[2] or ""
    while rest.strip():
        attribute = _ATTRIBUTE.match(rest)
        name = "" if attribute is None else attribute[1]
        if attribute is None or name not in ("T", "SC", *_NUMBERS):
            raise FormatError(f"layout {show(text)}: unknown attribute {show(rest.strip())}")
        rest = rest[attribute.end() :]
        groups = [_integers(text, name, group) for group in _GROUP.findall(attribute[2])]
        if name == "T":
            tiles = tuple(groups)
        elif name == "SC":
            splits = tuple(_split(text, group) for group in groups)
        elif len(groups) != 1 or len(groups[0]) != 1:
            raise FormatError(f"layout {show(text)}: {name} takes one number")
        else:
            fields[_NUMBERS[name]] = groups[0][0]
    if fields.get("tail") == 0:
        raise FormatError(f"layout {show(text)}: L must be at least 1")
    return Layout(order, tiles, splits=splits, **fields)


def _integers(layout: str, name: str, text: str) -> tuple[int, ...]:
    """Return the numbers in a pair of parentheses."""
    # A split is written DIMENSION:INDEX,INDEX.
    parts = re.split(r"[,:]", text) if name == "SC" else text.split(",")
    found = []
    for part in parts:
        entry = _ENTRY.fullmatch(part)
        is_joined = entry is not None and entry[1] == "*"
        if entry is None or (name == "T" and entry[1] == "0") or (is_joined and name != "T"):
            raise FormatError(f"layout {show(layout)}: {name} has no number in {show(part)}")
        found.append(JOINED if is_joined else int(entry[1]))
    return tuple(found)


def _split(layout: str, group: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    if len(group) < 2 or list(group[1:]) != sorted(group[1:]):
        raise FormatError(f"layout {show(layout)}: SC needs a dimension and rising indices")
    return group[0], group[1:]
