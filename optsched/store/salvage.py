"""Rescue of records from a damaged store: through SQLite, then from the pages of the file.

SQLite gives up on a table if a page on the path to its rows is damaged. Rows are in leaf pages,
which can be read without that path, and each row is useful alone: the checker verifies its plan. As
a page may be an old one, what a row says of a bound without a certificate is then only a claim.

References
----------
https://www.sqlite.org/fileformat2.html, sections 1.6 (pages), 1.6.1 (overflow), 2.1 (records).
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from optsched.errors import FormatError, OptschedError
from optsched.store.database import PlanStore
from optsched.store.exchange import Taken, assemble, dump_all, take_all
from optsched.store.translate import MAX_PACKED

_LEAF = 0x0D
"""First byte of a page that holds rows of a table."""
_PAGE = 4096
"""Bytes of a page where the file no longer says."""
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Bytes of an integer by the number that says its type."""

_TEXT, _BLOB, _COUNT, _NULL = (str,), (bytes,), (int,), (type(None),)
_SHAPES: dict[str, tuple[tuple[type, ...], ...]] = {
    "graphs": (_NULL, _TEXT, _BLOB, _TEXT, _TEXT, _COUNT, _COUNT, _COUNT),
    "records": (
        *(_NULL, _COUNT, _TEXT, _BLOB + _NULL, _COUNT + _NULL, _COUNT + _NULL, _TEXT, _COUNT),
    ),
    "bounds": (*(_NULL, _COUNT, _TEXT, _COUNT, _TEXT, _BLOB + _NULL, _TEXT, _TEXT, _TEXT),),
}
"""Types of columns by which rows of a table are known; the row's number comes first, as NULL."""

Rows = dict[str, dict[int, list[tuple[Any, ...]]]]
"""Rows by table and number; of one number there may be old ones too."""


def salvage(store: PlanStore, target: PlanStore) -> Taken:
    """Copy the undamaged records of a store to another one; the damaged store is only read.

    Returns
    -------
    Taken
        Counts of the records by outcome; records that could not be read count as refused.
    """
    taken, opened = Taken(), False
    with suppress(OptschedError):
        taken = take_all(target, dump_all(store), trust=True)
        opened = True
    if opened and not taken.refused:
        return taken
    saved = 0
    if opened:
        saved = take_all(target, dump_all(store, leave=("search", "bounds")), trust=True).new
        # Proved bounds are kept even if their plan is lost.
        take_all(target, dump_all(store, leave=("search", "bounds", "plan")), trust=True)
    saved += take_all(target, _assembled(_scan(store))).new
    taken.new += saved
    taken.refused = max(0, taken.refused - saved)
    if not taken.refused:
        taken.troubles = []
    return taken


def _assembled(found: Rows) -> Iterator[dict[str, Any]]:
    """Put rows of the tables together again, in all ways that their numbers allow."""
    bounds: dict[int, list[tuple[Any, ...]]] = {}
    for row in itertools.chain.from_iterable(found["bounds"].values()):
        bounds.setdefault(row[1], []).append(row[1:])
    for number, candidates in found["records"].items():
        for record in candidates:
            for graph in found["graphs"].get(record[1], ()):
                # An old page may hold an earlier row of the same number, so that all pairs are
                # tried; the checker refuses the wrong ones.
                row = (graph[2], *record[2:7])
                with suppress(FormatError):
                    yield assemble(row, bounds.get(number, ()), None)


def _scan(store: PlanStore) -> Rows:
    """Return the rows of all leaf pages that can be read."""
    found: Rows = {name: {} for name in _SHAPES}
    with open(store.path, "rb") as file:
        if not file.seek(0, 2):
            return found
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            pages = _Pages(data)
            for page in range(1, pages.count + 1):
                for number, row in pages.rows(page):
                    # A leaf does not say which table it is of, so its rows are told apart by the
                    # number and the types of their columns.
                    for name, shape in _SHAPES.items():
                        if _has_shape(row, shape):
                            found[name].setdefault(number, []).append(row)
    return found


def _has_shape(row: tuple[Any, ...], shape: tuple[tuple[type, ...], ...]) -> bool:
    return len(row) == len(shape) and all(
        type(value) in kinds for value, kinds in zip(row, shape, strict=True)
    )


class _Pages:
    """The pages of a file, whose first page may no longer state their size."""

    def __init__(self, data: mmap.mmap) -> None:
        size = int.from_bytes(data[16:18])
        size = 65536 if size == 1 else size
        sound = size >= 512 and size.bit_count() == 1
        self.data, self.size = data, size if sound else _PAGE
        # Sliced, not indexed: the file may end before.
        reserved = int.from_bytes(data[20:21])
        self.usable = self.size - (reserved if sound and reserved < 32 else 0)
        self.count = len(data) // self.size

    def page(self, number: int) -> bytes:
        """Return a page; the first one has the number 1."""
        if not 0 < number <= self.count:
            raise FormatError("no such page")
        return self.data[(number - 1) * self.size : number * self.size]

    def rows(self, number: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield the rows of a page, if it is a leaf, and their numbers; not the damaged ones."""
        page, head = self.page(number), 100 if number == 1 else 0
        # Inner pages only lead to leaves, and pages of indexes repeat what rows say.
        if page[head] != _LEAF:
            return
        count = int.from_bytes(page[head + 3 : head + 5])
        for i in range(min(count, self.size // 4)):
            at = int.from_bytes(page[head + 8 + 2 * i : head + 10 + 2 * i])
            with suppress(FormatError, IndexError, UnicodeDecodeError):
                length, at = _varint(page, at)
                row, at = _varint(page, at)
                yield row, _decode(self.payload(page, at, length))

    def payload(self, page: bytes, at: int, length: int) -> bytes:
        """Return the bytes of a row: those in its page, and those in a chain of others."""
        if length > MAX_PACKED:
            raise FormatError("a row is too long")
        # The constants of this function are those of the file format, section 1.6: a row of at
        # most usable - 35 bytes lies in its page, a longer one goes on in a chain of overflow
        # pages.
        if length <= self.usable - 35:
            return page[at : at + length]
        least = (self.usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (self.usable - 4)
        local = local if local <= self.usable - 35 else least
        parts, left = [page[at : at + local]], length - local
        following = int.from_bytes(page[at + local : at + local + 4])
        # A chain in a circle ends too, since `left` falls with each page.
        while left > 0:
            more = self.page(following)
            parts.append(more[4 : min(self.usable, 4 + left)])
            left -= self.usable - 4
            following = int.from_bytes(more[:4])
        return b"".join(parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    value = 0
    for i in range(9):
        byte = data[at + i]
        # The ninth byte counts in full: eight times 7 bits and 8 bits are the 64.
        if i == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 127
        if byte < 128:
            break
    return value, at + i + 1


def _decode(payload: bytes) -> tuple[Any, ...]:
    """Return the columns of a row."""
    end, at = _varint(payload, 0)
    values: list[Any] = []
    body = end
    while at < end:
        kind, at = _varint(payload, at)
        value, body = _value(payload, body, kind)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    # Kinds 8 and 9 are the constants 0 and 1, which take no bytes.
    if kind in (0, 8, 9):
        return (None if kind == 0 else kind - 8), at
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        return int.from_bytes(payload[at:end], signed=True), end
    # A float: times in histories, which are not rescued.
    if kind == 7:
        return 0.0, at + 8
    if kind < 12:
        raise FormatError("no such type")
    end = at + (kind - 12) // 2
    if end > len(payload):
        raise FormatError("a row is cut off")
    data = payload[at:end]
    return (data.decode() if kind % 2 else data), end
