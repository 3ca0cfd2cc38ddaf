"""MiniMalloc's CSV: one buffer per row, with its live range, size and optional offset.

The header names the columns, in any order: `id,lower,upper,size[,alignment][,gaps][,offset]`, with
live ranges `[lower, upper)`. Older files use `buffer` or `buffer_id`, `start` or `begin`, and
`end`, which is *inclusive*, also in gaps. A gap is `a-b`, or `a-b@low:high` if those bytes of the
buffer stay occupied; gaps are separated by spaces. Names are not quoted: a name that contains a
comma or an escape byte, or that a spreadsheet would run as a formula, is escaped by
:func:`optsched.runtime.text.shield` and restored when read.

Other columns, such as MiniMalloc's `hint`, are kept and ignored. Three columns are extensions.
`pool` names the slab of a buffer. `apart` lists buffers, separated by spaces, that never share a
byte with this one, even when not live together; one of the two buffers needs to list the other.
Rows with equal text in `share` start at one offset.

References
----------
https://github.com/google/minimalloc
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType

import numpy as np

from optsched.errors import FormatError
from optsched.formats.format import Source
from optsched.model.arrays import IntArray
from optsched.model.caching_allocator import AllocatorTrace
from optsched.model.elements import MAX_ADDRESS, MAX_TOTAL_BYTES
from optsched.model.packing_problem import Gap, PackingProblem
from optsched.runtime.text import shield, unshield

UNPLACED = -1
"""Value in offsets for a buffer without an offset."""

_COLUMNS = {
    **dict.fromkeys(("id", "buffer", "buffer_id"), "id"),
    **dict.fromkeys(("lower", "start", "begin"), "lower"),
    **dict.fromkeys(("upper", "end"), "upper"),
    **{name: name for name in ("size", "alignment", "gaps", "offset", "pool", "apart", "share")},
}
"""Meaning of each column name."""
_REQUIRED = ("id", "lower", "upper", "size")
_INTEGER = re.compile(r"([+-]?)([0-9]+)")
_LISTED = '," '
"""Characters that must be escaped in a listed name, so that spaces and commas end it."""
_GAP = re.compile(r"([0-9]{1,19})-([0-9]{1,19})(?:@([0-9]{1,19}):([0-9]{1,19}))?")


@dataclass(frozen=True)
class PackingTable:
    """A packing problem and the table that it was read from."""

    problem: PackingProblem
    """Packing problem, with buffers in the order of the rows."""
    offsets: IntArray | None
    """Given offsets in bytes, shape `(k,)`, `UNPLACED` where missing; None if the table has
    none."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """`columns` and `rows`: header and fields as read, so that writing loses nothing."""
    pools: tuple[str, ...] | None = None
    """Pool of each buffer, "" if a row names none; None if the table has no such column."""
    reserved: Mapping[str, int] = field(default_factory=dict)
    """Maximum bytes that the recorded allocator reserved on each device; empty if not recorded."""
    traces: Mapping[str, AllocatorTrace] = field(default_factory=dict)
    """Events of the recorded allocator of each device; empty if not recorded."""

    def recorded_with(
        self,
        reserved: Mapping[str, int],
        traces: Mapping[str, AllocatorTrace] = MappingProxyType({}),
    ) -> PackingTable:
        """Return the table with the bytes that the recorded allocator reserved, and its events."""
        return replace(self, reserved=reserved, traces=traces)


def looks_like(text: str) -> bool:
    """Return True if the first line is the header of such a table."""
    # Only the beginning of the first line, as any file is tested.
    first = text.lstrip("\ufeff\r\n").split("\n", 1)[0][:1000]
    found = {_COLUMNS.get(column.strip()) for column in first.split(",")}
    # Two columns that no other format has together.
    return {"lower", "size"} <= found or {"upper", "size"} <= found


def describe_table(text: str) -> str:
    """Return advice on the header of a text that is a table of buffers of another form, or ""."""
    first = text.lstrip("\ufeff\r\n").split("\n", 1)[0][:1000].strip()
    for separator in (",", ";", "\t", "|"):
        words = {word.strip("# '\"").lower() for word in first.split(separator)}
        if len(words & {*_COLUMNS, "name", "bytes", "first", "last"}) >= 2:
            return (
                f"a table with the header {first[:80]!r}, expected {','.join(_REQUIRED)} and "
                "optionally alignment, gaps, offset, separated by commas"
            )
    return ""


def read_minimalloc(text: str, *, name: str = "packing", pins: bool = False) -> PackingTable:
    """Read a table; with `pins`, the column `offset` has required offsets.

    `FormatError`, naming line, buffer and value, is raised for a malformed table, and `GraphError`
    if the buffers are not a valid problem.
    """
    columns, lines = _split(text)
    place = _find_columns(columns)
    # The name of the column decides: `upper` is exclusive, `end` is not.
    inclusive = "end" in columns
    rows = [_TableRow(number, fields, place, inclusive) for number, fields in lines]
    _check_ids(rows)
    bounds = [row.live_range() for row in rows]
    offsets = _column([row.offset() for row in rows]) if "offset" in place else None
    gaps = tuple(row.gaps() for row in rows)
    problem = PackingProblem(
        names=tuple(row.id for row in rows),
        start=_column([start for start, _ in bounds]),
        end=_column([end for _, end in bounds]),
        size=_column([row.integer("size") for row in rows]),
        alignment=_column([row.alignment() for row in rows]),
        pin=np.full(len(rows), -1, np.int64) if offsets is None or not pins else offsets,
        gaps=gaps if any(gaps) else (),
        name=name,
        keep_apart=_pairs(rows) if "apart" in place else np.zeros((0, 2), np.int64),
        must_share=_groups(rows) if "share" in place else (),
    )
    # A column of blanks does not assign offsets.
    placed = offsets is not None and bool((offsets != UNPLACED).any())
    return PackingTable(
        problem,
        offsets if placed else None,
        columns,
        tuple(fields for _, fields in lines),
        tuple(unshield(row.fields["pool"].strip()) for row in rows) if "pool" in place else None,
    )


def packing_of(problem: PackingProblem, offsets: IntArray | None = None) -> PackingTable:
    """Return the table of a problem; pins are written as offsets if no offsets are given."""
    columns = ["id", "lower", "upper", "size"]
    if (problem.alignment != 1).any():
        columns.append("alignment")
    if problem.gaps:
        columns.append("gaps")
    if len(problem.keep_apart):
        columns.append("apart")
    if problem.must_share:
        columns.append("share")
    apart: list[list[str]] = [[] for _ in problem.names]
    for a, b in problem.keep_apart.tolist():
        apart[a].append(shield(problem.names[b], _LISTED))
    share = {i: str(number) for number, group in enumerate(problem.must_share) for i in group}
    # Pins are required offsets, and a table has only one column for both.
    given = problem.pin if offsets is None and (problem.pin >= 0).any() else offsets
    rows = []
    for i, name in enumerate(problem.names):
        # An empty field would be read as a missing id.
        if not name:
            raise FormatError(f"buffer number {i}: cannot write an empty name as CSV")
        fields = {
            "id": shield(name),
            "lower": str(problem.start[i]),
            "upper": str(problem.end[i]),
            "size": str(problem.size[i]),
            "alignment": str(problem.alignment[i]),
            "gaps": " ".join(map(_gap_text, problem.gaps[i] if problem.gaps else ())),
            "apart": " ".join(apart[i]),
            "share": share.get(i, ""),
        }
        rows.append(tuple(fields[column] for column in columns))
    packing = PackingTable(problem, None, tuple(columns), tuple(rows))
    return packing if given is None else with_offsets(packing, given)


def with_offsets(packing: PackingTable, offsets: IntArray) -> PackingTable:
    """Return the table with new offsets, in its column `offset` or a new last column."""
    if len(offsets) != len(packing.rows):
        raise FormatError(f"{len(offsets)} offsets for {len(packing.rows)} buffers")
    written = ["" if x == UNPLACED else str(int(x)) for x in offsets]
    return replace(_with_column(packing, "offset", written), offsets=offsets)


def with_pools(packing: PackingTable, pools: Sequence[str]) -> PackingTable:
    """Return the table with new pools, in its column `pool` or a new last column."""
    return replace(_with_column(packing, "pool", list(map(shield, pools))), pools=tuple(pools))


def _with_column(packing: PackingTable, column: str, values: Sequence[str]) -> PackingTable:
    names = [name.strip() for name in packing.columns]
    at = names.index(column) if column in names else len(names)
    rows = [
        (*row[:at], value, *row[at + 1 :]) for row, value in zip(packing.rows, values, strict=True)
    ]
    columns = (*packing.columns[:at], column, *packing.columns[at + 1 :])
    return replace(packing, columns=columns, rows=tuple(rows))


def minimalloc_text(packing: PackingTable) -> str:
    """Return the text of a table's file."""
    return "".join(",".join(row) + "\n" for row in (packing.columns, *packing.rows))


def _split(text: str) -> tuple[tuple[str, ...], list[tuple[int, tuple[str, ...]]]]:
    """Return the header, and the line number and fields of every other nonempty line."""
    lines = [
        (number, tuple(line.rstrip("\r").split(",")))
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1)
        if line.strip()
    ]
    if not lines:
        raise FormatError("file is empty, expected a CSV header")
    (_, header), *rows = lines
    # Names are not quoted, so that a comma always separates.
    for number, fields in rows:
        if len(fields) != len(header):
            raise FormatError(
                f"line {number}: {len(fields)} fields, the header has {len(header)} columns"
            )
    return tuple(column.strip() for column in header), rows


def _find_columns(columns: Sequence[str]) -> dict[str, int]:
    place: dict[str, int] = {}
    for position, column in enumerate(columns):
        if column not in _COLUMNS:
            _refuse_misspelled(column)
            continue
        meaning = _COLUMNS[column]
        if meaning in place:
            raise FormatError(
                f"line 1: columns {columns[place[meaning]]!r} and {column!r} mean the same"
            )
        place[meaning] = position
    for wanted in _REQUIRED:
        if wanted not in place:
            raise FormatError(f"line 1: column {wanted!r} is missing")
    return place


def _refuse_misspelled(column: str) -> None:
    """Refuse a column that is ignored by mistake, since it resembles one with a meaning."""
    near = get_close_matches(column.strip("# ").lower()[:60], list(_COLUMNS), n=1, cutoff=0.8)
    if near:
        raise FormatError(f"line 1: unknown column {column[:60]!r}: did you mean {near[0]!r}?")


def _check_ids(rows: Sequence[_TableRow]) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        if not row.id:
            raise FormatError(f"line {row.number}: id is empty")
        if row.id in seen:
            raise FormatError(f"line {row.number}: id {row.id!r} was used in line {seen[row.id]}")
        seen[row.id] = row.number


def _pairs(rows: Sequence[_TableRow]) -> IntArray:
    """Return the pairs of rows kept apart."""
    place = {row.id: number for number, row in enumerate(rows)}
    found = []
    for number, row in enumerate(rows):
        for token in row.fields["apart"].split():
            name = unshield(token, _LISTED)
            if name not in place:
                raise FormatError(f"{row.where}: apart names {name[:60]!r}, which is not an id")
            if place[name] == number:
                raise FormatError(f"{row.where}: apart names the buffer itself")
            found.append((number, place[name]))
    return np.array(found, np.int64).reshape(-1, 2)


def _groups(rows: Sequence[_TableRow]) -> tuple[tuple[int, ...], ...]:
    """Return the rows that share an offset."""
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if label := row.fields["share"].strip():
            groups.setdefault(label, []).append(number)
    for label, group in groups.items():
        if len(group) < 2:
            raise FormatError(f"{rows[group[0]].where}: share {label[:60]!r} appears only once")
    return tuple(map(tuple, groups.values()))


def _column(values: Sequence[int]) -> IntArray:
    return np.array(values, np.int64)


def _gap_text(gap: Gap) -> str:
    window = "" if gap.window is None else f"@{gap.window[0]}:{gap.window[1]}"
    return f"{gap.start}-{gap.end}{window}"


class _TableRow:
    """The fields of a line, checked when they are read."""

    def __init__(
        self, number: int, fields: Sequence[str], place: dict[str, int], inclusive: bool
    ) -> None:
        self.number, self.inclusive = number, inclusive
        self.fields = {column: fields[position] for column, position in place.items()}
        self.id = unshield(self.fields["id"].strip())
        self.where = f"line {number}: buffer {self.id[:200]!r}"

    def integer(self, column: str, minimum: int = 0) -> int:
        """Return an integer from `minimum` to 2**62, or to 2**63 - 1 for an offset."""
        text = self.fields[column].strip()
        match = _INTEGER.fullmatch(text)
        if match is None:
            raise FormatError(f"{self.where}: {column} must be an integer, got {text[:60]!r}")
        sign, digits = match[1], match[2].lstrip("0") or "0"
        limit, said = MAX_TOTAL_BYTES, "2**62"
        if column == "offset":
            limit, said = MAX_ADDRESS, "2**63 - 1"
        # Compared by length first: Python takes long to read a long number.
        if len(digits) > 19 or int(digits) > limit:
            raise FormatError(f"{self.where}: {column} {text[:60]} exceeds {said}")
        value = -int(digits) if sign == "-" else int(digits)
        if value < minimum:
            raise FormatError(f"{self.where}: {column} must be at least {minimum}, got {value}")
        return value

    def live_range(self) -> tuple[int, int]:
        """Return the half-open live range."""
        start, end = self.integer("lower"), self.integer("upper") + self.inclusive
        if end < start:
            raise FormatError(f"{self.where}: live range [{start}, {end}) is reversed")
        return start, end

    def alignment(self) -> int:
        """Return the alignment; 1 if the table has none."""
        return self.integer("alignment", minimum=1) if "alignment" in self.fields else 1

    def offset(self) -> int:
        """Return the given offset, or `UNPLACED` if the field is blank."""
        return self.integer("offset") if self.fields["offset"].strip() else UNPLACED

    def gaps(self) -> tuple[Gap, ...]:
        """Return the gaps; empty if there are none."""
        found = []
        for token in self.fields.get("gaps", "").split():
            match = _GAP.fullmatch(token)
            if match is None:
                raise FormatError(
                    f"{self.where}: gap must be a-b or a-b@low:high, got {token[:60]!r}"
                )
            start, end, low, high = match.groups()
            window = None if low is None else (int(low), int(high))
            found.append(Gap(int(start), int(end) + self.inclusive, window))
        return tuple(found)


def table_of(packing: PackingTable | PackingProblem, offsets: IntArray | None) -> PackingTable:
    """Return a table, or that of a problem, with new offsets if given."""
    table = packing_of(packing) if isinstance(packing, PackingProblem) else packing
    return table if offsets is None else with_offsets(table, offsets)


def read_csv(source: Source, pins: bool = False) -> PackingTable:
    """Read a file; see :func:`read_minimalloc`."""
    return read_minimalloc(source.text, name=source.name, pins=pins)


def write_csv(packing: PackingTable | PackingProblem, offsets: IntArray | None = None) -> bytes:
    """Return the content of a packing's file."""
    return minimalloc_text(table_of(packing, offsets)).encode()
