"""Reader of IREE's `stream.resource.pack`: slices of a slab with lifetimes, as the compiler prints.

    iree-compile MODEL --compile-to=stream --mlir-print-ir-after=iree-stream-schedule-allocation

prints, on standard error, one such op for each slab that IREE lays out:

    %0:3 = stream.resource.pack slices({
      [0, 1] = %c64,
      [1, 2] = %c128
    }) : index

A lifetime includes its last step. Sizes must be constants: a slice whose size is computed at run
time shares bytes only with slices of the same size expression in IREE, and is rejected here.

References
----------
compiler/src/iree/compiler/Dialect/Stream/Transforms/LayoutSlices.cpp of
https://github.com/iree-org/iree: slices are laid out in the order of the text, each where the
smallest gap between those that live at the same time has room.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from optsched.errors import FormatError
from optsched.formats.fields import show
from optsched.formats.format import Source
from optsched.formats.minimalloc import PackingTable, packing_of, with_pools
from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_TOTAL_BYTES
from optsched.model.packing_problem import PackingProblem
from optsched.runtime.bytes import round_up

ALIGNMENT: Final = 64
"""Alignment of offsets and sizes without `#stream.resource_config`: that of IREE's host."""

_OP: Final = "stream.resource.pack"
_RESULT: Final = re.compile(r"\s*(%[\w$.-]+)")
_SLICES: Final = re.compile(r"slices\s*\(\s*\{([^{}]*)\}\s*\)")
_SLICE: Final = re.compile(r"\s*\[\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\]\s*=\s*(%[\w$.-]+)\s*")
_NEXT: Final = re.compile(r",\s*(?=\[)")
_CONSTANT: Final = re.compile(r"(%[\w$.-]+)\s*=\s*arith\.constant\s+(-?\d{1,19})\s*:\s*index\b")
_NAMED: Final = re.compile(r"%c(\d{1,19})(?:_\d+)?")
_FUNCTION: Final = re.compile(r"\bfunc(?:\.func)?\s+(?:public\s+|private\s+)?@([\w$.-]+)")
_COMMENT: Final = re.compile(r"//[^\n]*")
_CONFIG: Final = re.compile(r"#stream\.resource_config<\{([^{}]*)\}>")
_ENTRY: Final = re.compile(r"(\w+)\s*=\s*(\d{1,18})")


@dataclass(frozen=True, slots=True)
class _Pack:
    """A pack op: its name, its position in the text, and its slices as `(first, last, size)`."""

    name: str
    slices: tuple[tuple[int, int, int], ...]


def read_iree(source: Source) -> PackingTable:
    """Read the packs of a printed module; each is a pool if there are several.

    The offsets are those that IREE assigns, and the reserved bytes are its slab. `FormatError`,
    naming pack and slice, is raised if no pack is found, a pack is malformed, or a slice's size is
    computed at run time.
    """
    text = _COMMENT.sub("", source.text)
    offset_step, size_step = _alignments(text)
    packs = list(_packs(text))
    if not packs:
        raise FormatError("no stream.resource.pack in this text")
    rows = [(pack, i, *x) for pack in packs for i, x in enumerate(pack.slices)]
    sizes = [round_up(size, size_step) for *_, size in rows]
    if sum(sizes) > MAX_TOTAL_BYTES:
        raise FormatError(f"sizes add up to {sum(sizes)} bytes, above the limit of 2**62")
    # Lifetimes include their last step; ours end before it.
    problem = PackingProblem(
        names=tuple(f"{pack.name}.{i}" for pack, i, *_ in rows),
        start=np.array([first for *_, first, _, _ in rows], np.int64),
        end=np.array([last + 1 for *_, last, _ in rows], np.int64),
        size=np.array(sizes, np.int64),
        alignment=np.full(len(rows), offset_step, np.int64),
        name=source.name,
        memory_model=f"iree; offsets in {offset_step}, sizes in {size_step} bytes",
    )
    offsets, slabs = np.zeros(len(rows), np.int64), dict[str, int]()
    begin = 0
    for pack in packs:
        part = slice(begin, begin + len(pack.slices))
        # Each pack is a slab of its own.
        offsets[part] = lay_out(
            problem.start[part], problem.end[part], problem.size[part], offset_step
        )
        slabs[pack.name] = int((offsets[part] + problem.size[part]).max(initial=0))
        begin = part.stop
    table = packing_of(problem, offsets)
    if len(packs) > 1:
        table = with_pools(table, [pack.name for pack, *_ in rows])
    return table.recorded_with(slabs)


def lay_out(start: IntArray, end: IntArray, size: IntArray, alignment: int) -> IntArray:
    """Return the offsets that IREE assigns to slices, shape `(k,)`.

    `start`, `end` (half-open) and `size` have the same shape; `alignment` is that of offsets.
    """
    found = np.zeros(len(size), np.int64)
    placed = np.zeros(0, np.int64)  # by offset
    for i in range(len(size)):
        # Sorted by offset, as the gaps between them are wanted.
        beside = placed[(start[placed] < end[i]) & (start[i] < end[placed])]
        found[i] = _smallest_gap(found[beside].tolist(), size[beside].tolist(), size[i], alignment)
        at = int(np.searchsorted(found[placed], found[i]))
        placed = np.insert(placed, at, i)
    return found


def _smallest_gap(taken: list[int], sizes: list[int], wanted: int, alignment: int) -> int:
    """Return the offset of a slice among those live at the same time, sorted by offset."""
    at, fit, free = None, MAX_TOTAL_BYTES, 0
    for offset, size in zip(taken, sizes, strict=True):
        begin = round_up(free, alignment)
        if begin + wanted <= offset and offset - begin < fit:
            # IREE compares the gap from the slice's aligned start, but keeps the gap from its own
            # start.
            at, fit = begin, offset - free
        free = max(free, offset + size)
    return round_up(free, alignment) if at is None else at


def _packs(text: str) -> Iterator[_Pack]:
    """Yield the packs; equal names are made unique by the function's name or a number."""
    constants = _Constants(text)
    functions = [(found.start(), found[1]) for found in _FUNCTION.finditer(text)]
    names: dict[str, int] = {}
    places = [found.start() for found in re.finditer(re.escape(_OP), text)]
    # A pack's text reaches to the next one.
    for at, following in pairwise([*places, len(text)]):
        before = bisect(functions, (at, "")) - 1
        # Functions of other dialects have no names in this text.
        function = f"{functions[before][1]}." if before >= 0 else ""
        name = function + _result(text, at)
        names[name] = names.get(name, 0) + 1
        name = name if names[name] == 1 else f"{name}#{names[name]}"
        yield _Pack(name, tuple(_slices(text[at:following], name, at, constants)))


def _result(text: str, at: int) -> str:
    """Return the name of the first result of the op at a position of the text."""
    # The result may be on the line before.
    end = at - 1
    while end >= 0 and text[end].isspace():
        end -= 1
    read = _RESULT.match(text, text.rfind("\n", 0, max(end, 0)) + 1) if text[end] == "=" else None
    if read is None:
        raise FormatError(f"{_OP} has no results; the text may be truncated")
    return read[1].removeprefix("%")


def _slices(tail: str, name: str, at: int, constants: _Constants) -> Iterator[tuple[int, int, int]]:
    found = _SLICES.search(tail)
    if found is None:
        raise FormatError(f"pack {show(name)} has no list of slices; the text may be truncated")
    listed = found[1].strip(" \n\t\r,")
    for number, entry in enumerate(_NEXT.split(listed) if listed else ()):
        read = _SLICE.fullmatch(entry)
        if read is None:
            raise FormatError(f"pack {show(name)}, slice {number}: {show(entry.strip())} is none")
        first, last = int(read[1]), int(read[2])
        if first > last:
            raise FormatError(f"pack {show(name)}, slice {number} ends at {last}, before {first}")
        size = constants.value(read[3], at)
        if size is None:
            raise FormatError(
                f"pack {show(name)}, slice {number}: its size {read[3]} is computed at run time"
            )
        if size < 0:
            raise FormatError(f"pack {show(name)}, slice {number} has {size} bytes")
        yield first, last, size


class _Constants:
    """Constants by name; a name may have different values in different functions."""

    def __init__(self, text: str) -> None:
        self._known: dict[str, list[tuple[int, int]]] = {}
        for found in _CONSTANT.finditer(text):
            self._known.setdefault(found[1], []).append((found.start(), int(found[2])))

    def value(self, name: str, at: int) -> int | None:
        """Return the value of a name at a position of the text; None if it is not a constant."""
        known = self._known.get(name, [])
        # The last constant of this name before the op: names are reused between functions.
        before = bisect(known, (at, 0)) - 1
        if before >= 0:
            return known[before][1]
        named = _NAMED.fullmatch(name)  # MLIR calls a constant by its value
        return int(named[1]) if named else None


def _alignments(text: str) -> tuple[int, int]:
    """Return the alignments of offsets and sizes; refuse devices that differ."""
    keys = ("min_buffer_offset_alignment", "min_buffer_range_alignment")
    configs = [dict(_ENTRY.findall(config[1])) for config in _CONFIG.finditer(text)]
    found = {tuple(int(entries.get(key, ALIGNMENT)) for key in keys) for entries in configs}
    if len(found) > 1:
        raise FormatError("the devices of this file align slices in several ways")
    offset, size = found.pop() if found else (ALIGNMENT, ALIGNMENT)
    if not (1 <= offset <= 2**32 and 1 <= size <= 2**32):
        raise FormatError(f"alignments must be from 1 to 2**32, got {offset} and {size}")
    return offset, size
