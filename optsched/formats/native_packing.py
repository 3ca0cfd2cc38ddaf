"""Native JSON format of packings, `optsched-packing/1`.

It has the fields of the CSV columns by name, and the capacity, which a CSV file cannot express.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from optsched.errors import FormatError
from optsched.formats.fields import Record, check_format, show
from optsched.formats.format import Source
from optsched.formats.minimalloc import (
    UNPLACED,
    PackingTable,
    packing_of,
    table_of,
    with_offsets,
    with_pools,
)
from optsched.model.arrays import IntArray
from optsched.model.elements import MAX_ADDRESS, MAX_TOTAL_BYTES
from optsched.model.packing_buffers import COLUMNS, DEFAULTS
from optsched.model.packing_problem import Gap, PackingProblem

PACKING_FORMAT = "optsched-packing/1"

_KEYS = {"format", "name", "capacity", "buffers", "keep_apart", "must_share"}
_BUFFER_KEYS = {"name", "gaps", "pool", "offset", *COLUMNS}


def packing_document(
    packing: PackingTable | PackingProblem, offsets: IntArray | None = None
) -> dict[str, Any]:
    """Return a packing as a JSON object, which :func:`read_packing_document` restores."""
    table = table_of(packing, offsets)
    problem, names = table.problem, table.problem.names
    document: dict[str, Any] = {"format": PACKING_FORMAT, "name": problem.name}
    if problem.capacity is not None:
        document["capacity"] = problem.capacity
    document["buffers"] = [_buffer_document(table, i) for i in range(len(problem))]
    if len(problem.keep_apart):
        document["keep_apart"] = [[names[a], names[b]] for a, b in problem.keep_apart.tolist()]
    if problem.must_share:
        document["must_share"] = [[names[i] for i in group] for group in problem.must_share]
    return document


def _buffer_document(table: PackingTable, i: int) -> dict[str, Any]:
    problem = table.problem
    row: dict[str, Any] = {"name": problem.names[i]}
    row |= {key: int(getattr(problem, key)[i]) for key in ("start", "end", "size")}
    optional = {
        **{what: (int(getattr(problem, what)[i]), usual) for what, usual in DEFAULTS.items()},
        "pool": (table.pools[i] if table.pools else "", ""),
        "offset": (UNPLACED if table.offsets is None else int(table.offsets[i]), UNPLACED),
    }
    # Values equal to the default are left out of the file.
    row |= {key: value for key, (value, default) in optional.items() if value != default}
    if problem.gaps and problem.gaps[i]:
        row["gaps"] = [[gap.start, gap.end, *(gap.window or ())] for gap in problem.gaps[i]]
    return row


def read_packing_document(document: object, *, pins: bool = False) -> PackingTable:
    """Return the packing of a parsed document; with `pins`, given offsets are required.

    `FormatError` is raised for a missing, unknown or malformed field or version, and `GraphError`
    if the buffers are not a valid problem.
    """
    top = Record(document, "packing")
    check_format(top, PACKING_FORMAT)
    top.refuse_unknown(_KEYS)
    rows = [_record(value, number) for number, value in enumerate(top.items("buffers"))]
    offsets = _column(rows, "offset", UNPLACED)
    columns: dict[str, Any] = {what: _column(rows, what, DEFAULTS.get(what)) for what in COLUMNS}
    if pins:
        # An offset of the file takes the place of a pin.
        columns["pin"] = np.where(offsets == UNPLACED, columns["pin"], offsets)
    gaps = tuple(_gaps(row) for row in rows)
    problem = PackingProblem(
        names=tuple(row.text("name") for row in rows),
        **columns,
        gaps=gaps if any(gaps) else (),
        capacity=top.count("capacity") if "capacity" in top.value else None,
        name=top.text("name", "packing"),
        keep_apart=_lists(top, "keep_apart"),
        must_share=_lists(top, "must_share"),
    )
    # A pin is not a given offset.
    table = replace(packing_of(problem), offsets=None)
    pools = [row.text("pool", "") for row in rows]
    if any(pools):
        table = with_pools(table, pools)
    return with_offsets(table, offsets) if (offsets != UNPLACED).any() else table


def _record(value: object, number: int) -> Record:
    name = Record(value, f"buffer number {number}").text("name")
    if not name:
        raise FormatError(f"buffer number {number}: name is empty")
    record = Record(value, f"buffer {name!r}")
    record.refuse_unknown(_BUFFER_KEYS)
    return record


def _bytes(record: Record, key: str) -> int:
    value = record.count(key)
    limit, text = (MAX_ADDRESS, "2**63 - 1") if key == "offset" else (MAX_TOTAL_BYTES, "2**62")
    if value > limit:
        raise FormatError(f"{record.where}: {key} {show(value)} exceeds {text}")
    return value


def _column(rows: list[Record], key: str, default: int | None = None) -> IntArray:
    found = [_bytes(row, key) if default is None or key in row.value else default for row in rows]
    return np.array(found, np.int64)


def _gaps(row: Record) -> tuple[Gap, ...]:
    gaps = []
    for item in row.items("gaps", []):
        is_list = isinstance(item, list) and len(item) in (2, 4)
        # Not isinstance, which accepts True.
        if not is_list or not all(type(x) is int and 0 <= x <= MAX_TOTAL_BYTES for x in item):
            raise FormatError(
                f"{row.where}: expected a gap [start, end] or [start, end, low, high]: {show(item)}"
            )
        gaps.append(Gap(item[0], item[1], (item[2], item[3]) if item[2:] else None))
    return tuple(gaps)


def _lists(top: Record, key: str) -> Any:
    """Return lists of names; the problem checks them."""
    rows = top.items(key, [])
    for row in rows:
        if not isinstance(row, list) or not all(isinstance(name, str) for name in row):
            raise FormatError(f"packing: {key} holds {show(row)}, expected lists of names")
    return rows


def read_native_packing(source: Source, pins: bool = False) -> PackingTable:
    """Return the packing of a file, named after the file if it has no name."""
    return read_packing_document({"name": source.name, **source.document}, pins=pins)
