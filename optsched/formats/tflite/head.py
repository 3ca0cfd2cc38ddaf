"""New tables in front of a flatbuffer, which they point into: the old file stays byte for byte.

Offsets inside a flatbuffer are relative and point forward. A new head with a copy of the model's
table, and of each table and list on the way to what changes, therefore changes a file without
touching its weights. For example, `Table({0: Number("I", 3), 1: Old(64)})` is a table whose field 1
is the table at position 64 of the old file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optsched.formats.tflite.model import IDENTIFIER

FILE_ALIGNMENT = 16
"""Data of buffers begins at a multiple of this."""


@dataclass(frozen=True)
class Old:
    """A table, list or text of the old file, by its position."""

    at: int


@dataclass(frozen=True)
class Number:
    """A number in a table, with its letter for `struct`."""

    letter: str
    value: int


@dataclass(frozen=True, eq=False)
class Table:
    """A table by field number; fields with the value None are left out."""

    fields: Mapping[int, Node | Number | None]


@dataclass(frozen=True, eq=False)
class List:
    """A list of tables."""

    items: Sequence[Node]


@dataclass(frozen=True, eq=False)
class Numbers:
    """A list of numbers, or bytes, with the letter for `struct` of an element."""

    letter: str
    values: Sequence[int]
    alignment: int = 4


@dataclass(frozen=True, eq=False)
class Text:
    """A text, which ends with a zero byte."""

    value: bytes


Node = Old | Table | List | Numbers | Text


def with_head(data: bytes, root: Table) -> bytes:
    """Return the new tables of a model, followed by the old file."""
    writer = _Writer()
    writer.put(0, root)
    for place, node in writer.waiting:
        writer.put(place, node)
    return writer.finished() + data


class _Writer:
    """The head, written from its first byte on: a table comes before what it points to."""

    def __init__(self) -> None:
        # The offset of the model's table, and the identifier.
        self.bytes = bytearray(8)
        self.waiting: list[tuple[int, Node]] = []
        """Places of pointers, and what they point to; grows while it is walked."""
        self.written: dict[int, int] = {}
        """Positions by identity: what several tables share is written once."""
        self.vtables: dict[bytes, int] = {}
        self.old: list[tuple[int, int]] = []

    def put(self, place: int, node: Node) -> None:
        """Write what a pointer points to, unless it is there, and the pointer itself."""
        if isinstance(node, Old):
            self.old.append((place, node.at))
            return
        # Offsets point forward: a node before this pointer is written again.
        if self.written.get(id(node), -1) <= place:
            self.written[id(node)] = self._write(node)
        struct.pack_into("<I", self.bytes, place, self.written[id(node)] - place)

    def _write(self, node: Table | List | Numbers | Text) -> int:
        match node:
            case Table():
                return self._table(node)
            case List():
                self._align(4)
                at = len(self.bytes)
                self.bytes += struct.pack("<I", len(node.items)) + bytes(4 * len(node.items))
                self.waiting += [(at + 4 + 4 * i, item) for i, item in enumerate(node.items)]
                return at
            case Numbers():
                # The length comes before the elements, which are aligned.
                self._align(max(4, node.alignment), 4)
                packed = struct.pack(f"<{len(node.values)}{node.letter}", *node.values)
                return self._append(struct.pack("<I", len(node.values)) + packed)
            case Text():
                self._align(4)
                return self._append(struct.pack("<I", len(node.value)) + node.value + b"\0")

    def _append(self, data: bytes) -> int:
        at = len(self.bytes)
        self.bytes += data
        return at

    def _align(self, to: int, ahead: int = 0) -> None:
        """Add padding so that the position `ahead` bytes further on is a multiple of `to`."""
        # Padding counts from the start of the file, which is where the head begins.
        self.bytes += bytes(-(len(self.bytes) + ahead) % to)

    def _table(self, node: Table) -> int:
        fields = {slot: field for slot, field in node.fields.items() if field is not None}
        letters = {
            slot: field.letter if isinstance(field, Number) else "I"
            for slot, field in fields.items()
        }
        # Wide fields come first, so that each is aligned; the offset of the vtable has four bytes.
        at, places = 4, {}
        for slot in sorted(fields, key=lambda slot: -struct.calcsize(letters[slot])):
            places[slot] = at
            at += struct.calcsize(letters[slot])
        vtable = self._vtable(places, at)
        # The first field after the offset of the vtable may have eight bytes.
        self._align(8 if "Q" in letters.values() else 4, 4)
        table = self._append(bytes(at))
        struct.pack_into("<i", self.bytes, table, table - vtable)
        for slot, field in fields.items():
            if isinstance(field, Number):
                struct.pack_into(f"<{field.letter}", self.bytes, table + places[slot], field.value)
            else:
                self.waiting.append((table + places[slot], field))
        return table

    def _vtable(self, places: Mapping[int, int], size: int) -> int:
        """Return the position of a vtable; equal ones are written once."""
        slots = [places.get(slot, 0) for slot in range(max(places, default=-1) + 1)]
        packed = struct.pack(f"<HH{len(slots)}H", 4 + 2 * len(slots), size, *slots)
        if packed not in self.vtables:
            self._align(4)
            self.vtables[packed] = self._append(packed)
        return self.vtables[packed]

    def finished(self) -> bytes:
        """Return the head, with the pointers into the old file, which begins after it."""
        self._align(FILE_ALIGNMENT)
        for place, target in self.old:
            struct.pack_into("<I", self.bytes, place, target + len(self.bytes) - place)
        self.bytes[4:8] = IDENTIFIER
        return bytes(self.bytes)


class OldTable:
    """A table of the old file, whose fields are kept in a new one."""

    def __init__(self, table: Any) -> None:
        # The schema's classes wrap a table of the flatbuffers package.
        self._table = getattr(table, "_tab", table)

    def node(self) -> Old:
        """Return a pointer to the whole table."""
        return Old(self._table.Pos)

    def fields(self, letters: str) -> dict[int, Node | Number]:
        """Return the fields that are there, by number.

        `letters` has one for each field of the schema: that of a number for `struct`, or `*` for
        what is pointed to.
        """
        found: dict[int, Node | Number] = {}
        for slot, letter in enumerate(letters):
            if offset := self._table.Offset(4 + 2 * slot):
                place = self._table.Pos + offset
                if letter == "*":
                    found[slot] = Old(self._table.Indirect(place))
                else:
                    value = struct.unpack_from(f"<{letter}", self._table.Bytes, place)[0]
                    found[slot] = Number(letter, value)
        return found

    def unknown(self, letters: str) -> bool:
        """Return True if a field is there that is not in the schema: it would be lost."""
        table = self._table
        vtable = table.Pos - struct.unpack_from("<i", table.Bytes, table.Pos)[0]
        size = struct.unpack_from("<H", table.Bytes, vtable)[0]
        return any(table.Offset(slot) for slot in range(4 + 2 * len(letters), size, 2))

    def items(self, slot: int) -> list[Old]:
        """Return the tables of a list."""
        offset = self._table.Offset(4 + 2 * slot)
        if not offset:
            return []
        first = self._table.Vector(offset)
        return [
            Old(self._table.Indirect(first + 4 * i)) for i in range(self._table.VectorLen(offset))
        ]
