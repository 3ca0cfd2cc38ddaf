"""MLIR text with explicit allocations: `memref.alloc` and `memref.dealloc` as live ranges.

    %a = memref.alloc() {alignment = 64 : i64} : memref<4x1024xf32>
    ...
    memref.dealloc %a : memref<4x1024xf32>

Each allocation and each free is a step, in the order of the text. A buffer lives from its
allocation to its last `dealloc`, or without one to the end of its function. Regions of loops and
branches are in place: a buffer of an outer region lives throughout those inside it. Functions and
memory spaces are pools if there are several.

References
----------
https://mlir.llvm.org/docs/Dialects/MemRef
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import Final

import numpy as np

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.format import Source
from optsched.formats.minimalloc import PackingTable, packing_of, with_pools
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.model.packing_problem import PackingProblem

ALLOC: Final = re.compile(r"(%[\w$.#-]+)\s*=\s*\"?memref\.alloc\"?\s*\(")
"""The begin of an allocation."""

_FREE: Final = re.compile(r"\"?memref\.dealloc\"?\s*\(?\s*(%[\w$.#-]+)")
_FUNCTION: Final = re.compile(r"\bfunc(?:\.func)?\s+(?:public\s+|private\s+)?@([\w$.-]+)")
_COMMENT: Final = re.compile(r"//[^\n]*")
_BLOCK: Final = re.compile(r"^\s*\^\w+|\bcf\.(?:br|cond_br|switch)\b")
_REFUSED: Final = re.compile(r"\b(memref\.realloc|bufferization\.dealloc|gpu\.alloc)\b")
_TYPE: Final = re.compile(r"memref<((?:[^<>]|<[^<>]*>)*)>")
_ALIGNMENT: Final = re.compile(r"\balignment\s*=\s*(\d{1,18})\b")
_DIMS: Final = re.compile(r"((?:[\d?]+x)*)([a-zA-Z]\w*(?:<\w+>)?)")
_NUMBER: Final = re.compile(r"(?:[su]?i|f|bf|tf)(\d{1,3})")


@dataclass
class _Buffer:
    """An allocation; `end` is None while no `dealloc` was seen."""

    name: str
    function: str
    space: str
    size: int
    alignment: int
    start: int
    end: int | None = None


@dataclass
class _Reader:
    """The allocations in the order of the text.

    `ended` counts those of functions that ended; `names` are the latest buffers of this function by
    value, as regions beside each other may use a value's name again.
    """

    step: int = 0
    function: str = ""
    buffers: list[_Buffer] = field(default_factory=list)
    ended: int = 0
    names: dict[str, _Buffer] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)

    def add(self, line: str) -> None:
        if found := _FUNCTION.search(line):
            self.close()
            self.function = found[1]
        if refused := _REFUSED.search(line):
            raise FormatError(f"{refused[1]} is not read: its bytes depend on the run")
        if self.names and _BLOCK.search(line):
            raise FormatError("its function has blocks: live ranges depend on the branches taken")
        if found := ALLOC.search(line):
            self._allocate(found[1], line)
        elif (found := _FREE.search(line)) and found[1] in self.names:
            # Both branches of an op may free a buffer: the last free counts.
            self.names[found[1]].end = self.step = self.step + 1

    def close(self) -> None:
        """End a function, and what lives in it."""
        self.step += 1
        for buffer in self.buffers[self.ended :]:
            buffer.end = buffer.end or self.step
        self.ended, self.names = len(self.buffers), {}

    def _allocate(self, value: str, line: str) -> None:
        where = f"{self.function}.{value}" if self.function else value
        types = _TYPE.findall(line)
        if not types:
            raise FormatError(f"{show(where)}: an allocation without a type; is the text cut off?")
        size, space = _bytes_of(types[-1], where)
        alignment = _ALIGNMENT.search(line)
        count = int(alignment[1]) if alignment else 1
        if count < 1 or count & (count - 1):
            raise FormatError(f"{show(where)}: alignment must be a power of two, got {count}")
        name = f"{where}@{self.uses[where]}" if self.uses[where] else where
        self.uses[where] += 1
        self.step += 1
        self.names[value] = _Buffer(name, self.function, space, size, count, self.step)
        self.buffers.append(self.names[value])


def _bytes_of(text: str, where: str) -> tuple[int, str]:
    """Return the bytes of a memref type and its memory space."""
    kind, *more = (part.strip() for part in text.split(","))
    found = _DIMS.fullmatch(kind)
    if found is None or any("[" in part or "map" in part for part in more):
        raise FormatError(f"{show(where)}: the bytes of memref<{text[:80]}> are not known")
    if "?" in found[1]:
        raise FormatError(f"{show(where)}: a dimension of memref<{text[:80]}> is open")
    dims = [int(x) for x in found[1].split("x") if x]
    size = prod(dims) * _element_bytes(found[2], where)
    if size > MAX_TOTAL_BYTES:
        raise FormatError(f"{show(where)}: {size} bytes, above the limit of 2**62")
    return size, more[-1] if more and more[-1] != "0" else ""


def _element_bytes(kind: str, where: str) -> int:
    """Return the bytes of an element, as MLIR's lowering to LLVM has them."""
    inner = re.fullmatch(r"complex<(\w+)>", kind)
    number = _NUMBER.match(inner[1] if inner else kind)
    bits = 64 if kind == "index" else int(number[1]) if number else 0
    if not bits:
        raise FormatError(f"{show(where)}: element type {show(kind)} has no known size")
    # An integer of 24 bits takes four bytes.
    return max(8, 1 << (bits - 1).bit_length()) // 8 * (2 if inner else 1)


def _rows(text: str) -> list[_Buffer]:
    reader = _Reader()
    for line in _COMMENT.sub("", text).splitlines():
        reader.add(line)
    reader.close()
    return reader.buffers


def read_memref(source: Source) -> PackingTable:
    """Read the allocations of a module; each function and memory space is a pool if several.

    `FormatError`, naming the value, is raised if a size is open or depends on the run, or if a
    function has blocks instead of regions.
    """
    rows = _rows(source.text)
    problem = PackingProblem(
        names=tuple(x.name for x in rows),
        start=np.array([x.start for x in rows], np.int64),
        end=np.array([x.end or x.start + 1 for x in rows], np.int64),
        size=np.array([x.size for x in rows], np.int64),
        alignment=np.array([x.alignment for x in rows], np.int64),
        name=source.name,
        memory_model="mlir; from alloc to dealloc, the stack not counted",
    )
    table = packing_of(problem)
    pools = [" ".join(filter(None, (x.function, x.space))) for x in rows]
    return with_pools(table, pools) if len(set(pools)) > 1 else table
